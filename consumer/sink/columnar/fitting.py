"""How rows fit a table of typed columns."""

from __future__ import annotations

from dataclasses import replace

from consumer.errors import SchemaDrift
from consumer.model.columns import Column, mislabelled
from consumer.model.hints import resync_command
from consumer.model.names import same_name
from consumer.sink.columnar.table import Upstream, quote, visible
from consumer.target import LoadRequest


def sent_columns(request: LoadRequest, upstream: Upstream | None) -> dict[str, Column]:
    """The rows' columns by lower-case name. An ENUM or SET has the labels that its table was created with, and those
    that upstream has behind them. `upstream`: what is known of the table."""
    columns = {
        same_name(column.name): column for column in visible(request.columns) if column.name not in request.load.absent
    }
    if upstream is None:
        return columns
    for known in upstream.columns:
        name = same_name(known.name)
        if known.name in upstream.virtual:
            columns.pop(name, None)
        elif name in columns:
            labels = request.labels.get(name, ())
            more = known.elements and not mislabelled(known.elements, labels)
            columns[name] = replace(columns[name], elements=labels if more else known.elements)
    return columns


def check_labels(request: LoadRequest, column: Column) -> None:
    """`column` has the labels by which the table's rows were written so far. Raises SchemaDrift."""
    known = request.labels.get(same_name(column.name), ())
    if column.elements and (wrong := mislabelled(known, column.elements)):
        raise drift(
            request,
            f"column {quote(column.name)}: {wrong}, and the rows carry the labels' numbers",
            "where the statement about its labels did not reach the storage, load the table from an export with"
            " `load-export`; else ",
        )


def drift(request: LoadRequest, text: str, first: str = "") -> SchemaDrift:
    """The rows do not fit the table; `first` is what can be done in place of a reload."""
    hint = f"{first}empty and reload the table: " + resync_command(request.table)
    return SchemaDrift(text, hint=hint, table=str(request.table))
