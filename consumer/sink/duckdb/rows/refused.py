"""Which staged row it is that a table of the file refuses."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from consumer.model.names import TableName
from consumer.sink.columnar.sql import quote


def refused_row(
    connection: duckdb.DuckDBPyConnection,
    name: TableName,
    source: str,
    values: Mapping[str, tuple[str, str]],
    written: str,
) -> int | None:
    """The identity of the first row of `source` that `name` cannot hold, None if none is found.

    `values` are, by the table's columns, what is staged and the type that it must become; rows are `written` where that
    holds. The transaction at hand is broken: another connection looks.
    """
    with connection.cursor() as other:
        required = {
            column
            for (column,) in other.execute(
                "SELECT column_name FROM information_schema.columns WHERE is_nullable = 'NO' "
                "AND table_catalog = current_database() AND table_schema = ? AND table_name = ?",
                [name.database, name.table],
            ).fetchall()
        }
        wrong = (
            f"TRY_CAST({value} AS {kind}) IS NULL{'' if column in required else f' AND {value} IS NOT NULL'}"
            for column, (value, kind) in values.items()
        )
        looked = f"SELECT {quote('row')} FROM {source} WHERE ({written}) AND ({' OR '.join(wrong)}) LIMIT 1"
        try:
            found = other.execute(looked).fetchall()
        except duckdb.Error:
            return None
    return int(found[0][0]) if found else None
