"""The progress schema comes to be, or is brought forward to this release's format: in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import duckdb

from consumer import __version__
from consumer.model.progress import FORMAT_VERSION
from consumer.sink.duckdb.progress.schema import TABLES, create_missing, create_view, exists, layout
from consumer.sink.progress_formats import ADDED, check_format
from consumer.sink.progress_layout import SCHEMA


def ensure_schema(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the progress schema, or bring an older one forward. The caller owns the transaction.

    Raises BadConfig for a later format.
    """
    if not exists(connection):
        create_missing(connection)
        create_view(connection)
        return
    oldest, newest = connection.execute(f"SELECT min(format), max(format) FROM {SCHEMA}.consumer").fetchall()[0]
    if newest is not None and newest > FORMAT_VERSION:
        query = f"SELECT format, written_by FROM {SCHEMA}.consumer WHERE format = ?"
        check_format(*connection.execute(query, (newest,)).fetchall()[0])
    if oldest is None or oldest < FORMAT_VERSION:  # without a consumer the layout may be of any age
        _bring_forward(connection, oldest or 1)


def _bring_forward(connection: duckdb.DuckDBPyConnection, oldest: int) -> None:
    create_missing(connection)
    for version in range(oldest + 1, FORMAT_VERSION + 1):
        _STEPS[version](connection)
    create_view(connection)
    connection.execute(
        f"UPDATE {SCHEMA}.consumer SET format = $format, written_by = $release WHERE format < $format",
        {"format": FORMAT_VERSION, "release": __version__},
    )


def _to_2(connection: duckdb.DuckDBPyConnection) -> None:
    _add_columns(connection, 2)


_STEPS: Mapping[int, Callable[[duckdb.DuckDBPyConnection], None]] = {2: _to_2}


def _add_columns(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    there = layout(connection)
    for (table, column), before in ADDED[version].items():
        if (table, column) not in there:
            altered = f"ALTER TABLE {SCHEMA}.{table}"
            connection.execute(f"{altered} ADD COLUMN {column} {TABLES[table][column]} DEFAULT {before}")
            connection.execute(f"{altered} ALTER {column} DROP DEFAULT")
