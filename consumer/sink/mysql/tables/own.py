"""Columns of a target table that the rows do not have: which they are, and where their values cannot be kept."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.errors import SchemaDrift
from consumer.model.names import quote, same_name, same_names
from consumer.sink.mysql.tables.describe import TargetTable, UniqueKey
from consumer.sink.mysql.target import TargetColumn
from consumer.target import LoadRequest

_IN_LINE = "bring the target table's columns in line, or empty and reload it: resync"


def own_columns(
    request: LoadRequest, table: TargetTable, written: Sequence[str], key: Sequence[int]
) -> Sequence[TargetColumn]:
    """The columns of `table` beside those `written` and those that it computes; `key` are positions in `written`.

    Raises SchemaDrift where a row of the target cannot be found again, or could be removed without anybody asking.
    """
    there = same_names(written)
    own = [column for column in table.columns if not column.generated and same_name(column.name) not in there]
    if not own:
        return own
    names = [column.name for column in own]
    if not key:
        raise drift(request, f"{_lack(names)}, and without a key no row can keep them")
    for unique in _others(table, written, key):
        if not _is_written(unique, there) and not _stays_apart(unique, own):
            raise drift(request, f"{_lack(names)}, and its unique key {quote(unique.name)} needs their values")
    return own


def unique_values_move(
    table: TargetTable, own: Sequence[TargetColumn], written: Sequence[str], key: Sequence[int]
) -> bool:
    """Whether all rows of a load must be completed by their `own` columns before the first of them is written, as
    unique values may move between them."""
    there = same_names(written)
    return bool(own) and any(_is_written(unique, there) for unique in _others(table, written, key))


def _others(table: TargetTable, written: Sequence[str], key: Sequence[int]) -> list[UniqueKey]:
    """The unique keys beside the handle key."""
    handle = same_names(written[position] for position in key)
    return [unique for unique in table.unique_keys if unique.folded != handle]


def _is_written(unique: UniqueKey, written: frozenset[str]) -> bool:
    return all(same_name(name) in written for name in unique.columns)


def _stays_apart(unique: UniqueKey, own: Sequence[TargetColumn]) -> bool:
    """Whether rows that keep their values, and new rows with defaults, can never be equal in `unique`."""
    columns = [next((column for column in own if column.name == name), None) for name in unique.columns]
    found = [column for column in columns if column is not None]
    fresh = any(column.counts or (column.nullable and column.default in (None, "NULL")) for column in found)
    return len(found) == len(columns) and fresh


def _lack(names: Sequence[str]) -> str:
    return f"the rows lack the target table's columns {', '.join(map(quote, names))}"


def drift(request: LoadRequest, text: str) -> SchemaDrift:
    return SchemaDrift(text, hint=_IN_LINE, table=str(request.table))
