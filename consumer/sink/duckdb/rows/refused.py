"""Which staged rows it is that a table of the file refuses."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import duckdb

from consumer.model.names import TableName
from consumer.sink.columnar.sql import literal, quote

_SHOWN = 100


def refused_rows(
    connection: duckdb.DuckDBPyConnection,
    name: TableName,
    source: str,
    values: Mapping[str, tuple[str, str]],
    key: Collection[str],
    put: str,
    most: int,
) -> list[tuple[int, bool, str]]:
    """The first `most` rows of `source` that `name` cannot hold, as far as that is found: identity, put, reason.

    `values` are, by the table's columns, what is staged and the type that it must become. Rows are to be there where
    `put` holds; of the others only the values of `key` count, if there is one. The transaction at hand is broken:
    another connection looks.
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
        wrong = []
        for column, (value, kind) in values.items():
            unfit = f"TRY_CAST({value} AS {kind}) IS NULL{'' if column in required else f' AND {value} IS NOT NULL'}"
            told = literal(f"column {column} ({kind}) cannot hold ")
            shown = f"left(coalesce(CAST({value} AS VARCHAR), 'NULL'), {_SHOWN})"
            where = unfit if not key or column in key else f"{put} AND {unfit}"
            wrong.append(f"WHEN {where} THEN {told} || {shown}")
        looked = (
            f"SELECT {quote('row')}, {put}, CASE {' '.join(wrong)} END AS why FROM {source} "
            f"WHERE why IS NOT NULL LIMIT {most}"
        )
        try:
            return [(int(row), bool(put), why) for row, put, why in other.execute(looked).fetchall()]
        except duckdb.Error:
            return []
