"""Whether rows of one more of upstream's tables can be in a table that has those of others."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.model.columns import Column
from consumer.model.names import same_name
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.columnar.types import duckdb_type, widened


def misfit(columns: Sequence[Column], table: ReplicaTable) -> str | None:
    """Why rows with `columns` cannot be in `table`; None: they can. It may lack some of the columns. The table's own
    types count, as somebody can have changed them by hand."""
    if table.upstream is None:
        return f"{table.name} was made by hand, so what its columns mean is not known"
    known = {same_name(column.name): column for column in table.upstream.columns}
    for column in columns:
        spelled, other = table.spelled(column.name), known.get(same_name(column.name))
        if spelled is None:
            continue
        there = table.types[spelled]
        if there != duckdb_type(column) and not widened(column, there):
            return f"its column {column.name} would be {duckdb_type(column)}, and there it is {there}"
        if other is None:
            return f"nothing tells what the column {column.name} there means"
        if other.family is not column.family or other.elements != column.elements:
            return f"its column {column.name} would be {_said(column)}, and there it is {_said(other)}"
    return _other_key(columns, table.upstream)


def _other_key(columns: Sequence[Column], there: Upstream) -> str | None:
    keys = [{same_name(column.name) for column in each if column.is_pk} for each in (columns, there.columns)]
    if keys[0] == keys[1]:
        return None
    own, others = (", ".join(sorted(key)) or "none" for key in keys)
    return f"its key would be {own}, and there it is {others}"


def _said(column: Column) -> str:
    return f"{column.type}{column.elements or ''}"
