"""What a TRUNCATE TABLE does to a table that is no mirror: its rows end, and stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.table_modes import (
    COMMIT_TS,
    DELETED_AT,
    IS_CURRENT,
    OP,
    TABLE,
    VALID_TO,
    VERSION,
    FormedDdl,
    ModeKind,
)
from consumer.model.times import tso_to_text

_LAST = "__storage_consumer_last"

Text = Callable[[str], str]


def closing(
    formed: FormedDdl,
    there: str,
    table: TableName,
    version: int,
    quote: Text,
    literal: Text,
    own: Callable[[Column], str],
    stays: Sequence[str] = (),
) -> str:
    """The statement that ends the rows of `there`, a table's name in SQL, at `version`; `table` is upstream's name. It
    can run again. `own` writes a column of the key so that the target tells its values apart as they are;
    `stays` are the assignments that keep columns as they are which the target would change by itself."""
    mode = formed.mode
    names = {usual: quote(mode.name(usual)) for usual in mode.usual}
    also = f"{''.join(f', {assigned}' for assigned in stays)} WHERE"
    if mode.kind is ModeKind.SOFT_DELETE:
        deleted = names[DELETED_AT]
        return f"UPDATE {there} SET {deleted} = {literal(tso_to_text(version))}{also} {deleted} IS NULL"
    if mode.kind is ModeKind.HISTORY:
        ended, current = names[VALID_TO], names[IS_CURRENT]
        return f"UPDATE {there} SET {ended} = {literal(tso_to_text(version))}, {current} = 0{also} {ended} IS NULL"
    upstream = [quote(column.name) for column in formed.after[: -len(mode.added)]]
    key = ", ".join(own(column) for column in formed.after if column.name in formed.key)
    gone = f"{names[OP]} = 'D'"
    # At one commit-ts a row comes behind the one that gave it its key.
    ranked = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {names[COMMIT_TS]} DESC, {gone}) AS {_LAST}"
    return (
        f"INSERT INTO {there} ({', '.join([*upstream, *(names[each] for each in (OP, COMMIT_TS, TABLE, VERSION))])})"
        f" SELECT {', '.join(upstream)}, 'D', {version}, {literal(str(table))}, {version}"
        f" FROM (SELECT t.*, {ranked} FROM {there} t) l WHERE {_LAST} = 1 AND NOT {gone}"
    )
