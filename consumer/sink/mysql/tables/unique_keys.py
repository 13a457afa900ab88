"""Which unique keys of the target are surely as fine as upstream's, so that REPLACE removes nothing but old images.

A key is proven where upstream is known to have it (its statements or schema files say so) and the server compares its
columns by their bytes. Where a row's handle key is in it, two rows can only be equal in it by being one row. All others
are not proven: rows of their table are written so that a row which is not the put's own stops the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from consumer.errors import CannotBeExact
from consumer.model.names import qualified, quote, same_name, same_names
from consumer.sink.mysql.tables.describe import TargetTable, UniqueKey
from consumer.sink.mysql.target import TargetColumn
from consumer.target import LoadRequest


@dataclass(frozen=True, slots=True)
class Trust:
    """`unproven` are unique keys by name. `padded` are text columns of the others, as positions among those written,
    whose collations pass over trailing blanks: upstream's may not (TiDB without its new collations)."""

    unproven: tuple[str, ...] = ()
    padded: tuple[int, ...] = ()


def trust_in(request: LoadRequest, table: TargetTable, names: Sequence[str], key: Sequence[int]) -> Trust:
    """`names` are the columns that rows have a value for, `key` the handle key's positions among them.

    Raises CannotBeExact for a key that upstream surely does not have; one with columns that the rows lack is
    `own_columns`' to judge."""
    handle = {same_name(names[position]) for position in key}
    own = [unique for unique in table.unique_keys if unique.folded != handle]
    kept = same_names(names) | same_names(column.name for column in table.columns if column.generated)
    _refuse_extra(request, [unique for unique in own if unique.folded <= kept])
    if not key:
        return Trust()
    others = [unique for unique in own if unique.prefix or unique.folded <= kept]
    known = {frozenset(columns) for columns in request.known_unique}
    handles = [unique for unique in table.unique_keys if unique.folded == handle]
    proven = [unique for unique in handles if _is_fine(table, unique, names)]
    unproven = [unique for unique in handles if unique not in proven]
    fine = bool(proven)
    for unique in others:
        if fine and not unique.prefix and handle <= unique.folded:
            continue
        is_known = unique.folded in known or unique.folded == _primary(request)
        (proven if is_known and _is_fine(table, unique, names) else unproven).append(unique)
    return Trust(tuple(unique.name for unique in unproven), _padded(table, proven, names))


def _refuse_extra(request: LoadRequest, keys: Sequence[UniqueKey]) -> None:
    known = request.indexes
    if known is None:
        return
    for unique in keys:
        columns = unique.folded
        if same_name(unique.name) not in known and columns not in known and columns != _primary(request):
            raise CannotBeExact(
                f"the target table has a unique key {quote(unique.name)} on {', '.join(map(quote, unique.columns))},"
                " which upstream does not have: rows that are equal there would be lost",
                hint=f"ALTER TABLE {qualified(*request.name)} DROP INDEX "
                f"{quote(unique.name)}; then run again, or resync the table where its rows are not upstream's",
                table=str(request.table),
            )


def _is_fine(table: TargetTable, unique: UniqueKey, names: Sequence[str]) -> bool:
    """Whether the server tells apart in this key what differs in its columns' values, but for trailing blanks."""
    if unique.prefix or not unique.folded <= same_names(names):
        return False
    columns = [table.column(name) for name in unique.columns]
    return not any(column is None or _is_coarse(column) for column in columns)


def _is_coarse(column: TargetColumn) -> bool:
    """ENUM and SET are compared by their numbers."""
    compared = column.collation if column.data_type not in ("enum", "set") else ""
    return bool(compared) and not compared.endswith(("_bin", "binary"))


def _padded(table: TargetTable, keys: Sequence[UniqueKey], names: Sequence[str]) -> tuple[int, ...]:
    parts = {same_name(name) for unique in keys for name in unique.columns}
    found = ((position, table.column(name)) for position, name in enumerate(names) if same_name(name) in parts)
    return tuple(position for position, column in found if column is not None and _pads(column))


def _pads(column: TargetColumn) -> bool:
    """A CHAR has no trailing blanks, upstream neither."""
    if column.data_type in ("enum", "set", "char") or not column.collation:
        return False
    return column.collation != "binary" and "nopad" not in column.collation and "_0900_" not in column.collation


def _primary(request: LoadRequest) -> frozenset[str]:
    return same_names(column.name for column in request.columns if column.is_pk)
