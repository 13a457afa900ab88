"""How a column of upstream is declared on a server."""

from __future__ import annotations

from consumer.model.columns import Column, Family
from consumer.model.names import literal

_LENGTH_TYPES = {"CHAR", "VARCHAR", "BINARY", "VARBINARY", "BIT"}


def column_type(column: Column) -> str:
    """Its type, as far as a schema file tells it."""
    text = "VARCHAR" if column.type == "VAR_STRING" else column.type
    if column.type == "DECIMAL" or (column.family in (Family.FLOAT, Family.DOUBLE) and column.scale):
        text += f"({column.length}, {column.scale or 0})"
    elif text in _LENGTH_TYPES and column.length is not None:
        text += f"({column.length})"
    elif column.family in (Family.DATETIME, Family.TIMESTAMP, Family.TIME) and column.scale:
        text += f"({column.scale})"
    elif column.labelled:
        text += f"({', '.join(map(literal, column.elements))})"
    if column.unsigned and column.family in (Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.DOUBLE):
        text += " UNSIGNED"
    return text
