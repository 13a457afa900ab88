"""The replica tables: what the file's catalog says of them, and what upstream said, which the catalog does not hold."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict

import duckdb

from consumer.model.columns import Column
from consumer.model.names import TableName, same_name
from consumer.sink.columnar.sql import quote
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.duckdb.connection import catalog, qualified, schema
from consumer.sink.duckdb.progress.schema import exists

_COLUMN_OR_TEXT = re.compile(
    r"""(?P<name>"(?:[^"]|"")*"|[^\s(,"']+)\ VARCHAR\ COLLATE\ (?P<collation>[\w.]+)
    |'(?:[^']|'')*'|"(?:[^"]|"")*\"""",
    re.VERBOSE,
)
_OF_BYTES = ("BINARY", "C", "POSIX")


def missing(connection: duckdb.DuckDBPyConnection, names: Collection[TableName]) -> set[TableName]:
    """Those of `names` that the file does not have."""
    listed = "SELECT lower(table_schema), lower(table_name) FROM information_schema.tables "
    there = set(connection.execute(f"{listed} WHERE table_catalog = current_database()").fetchall())
    return {name for name in names if name.folded not in there}


def describe(connection: duckdb.DuckDBPyConnection, names: Collection[TableName]) -> dict[TableName, ReplicaTable]:
    """Those of `names` that exist; case does not tell two names apart, neither upstream nor here."""
    wanted = {name: name.folded for name in names}
    listed = {"databases": [name.database for name in names], "tables": [name.table for name in names]}
    is_wanted = (
        "(lower({0}), lower(table_name)) IN "
        "(SELECT lower(unnest($databases::VARCHAR[])), lower(unnest($tables::VARCHAR[])))"
    )
    told = (
        "SELECT database_name, table_name, columns FROM storage_consumer.table_columns "
        f"WHERE {is_wanted.format('database_name')}"
    )
    remembered = {
        TableName(database, table).folded: _parsed(text)
        for database, table, text in (connection.execute(told, listed).fetchall() if exists(connection) else ())
    }
    found: dict[TableName, list[tuple[str, str, bool, bool]]] = {}
    for database, table, *column in connection.execute(
        "SELECT schema_name, table_name, column_name, data_type, is_generated, "
        "NOT is_nullable AND column_default IS NULL FROM duckdb_columns() "
        f"WHERE database_name = current_database() AND {is_wanted.format('schema_name')} "
        "ORDER BY schema_name, table_name, column_index",
        listed,
    ).fetchall():
        found.setdefault(TableName(database, table), []).append(tuple(column))
    # The catalog tells collations in the text of its statement alone.
    made = connection.execute(
        "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = current_database() "
        f"AND contains(upper(sql), 'COLLATE') AND {is_wanted.format('schema_name')}",
        listed,
    ).fetchall()
    collated = {TableName(database, table): _collated(sql) for database, table, sql in made}
    spelled = {name.folded: name for name in found}
    return {
        name: ReplicaTable(
            spelled[key],
            {column: kind for column, kind, _, _ in found[spelled[key]]},
            remembered.get(key),
            frozenset(column for column, _, generated, _ in found[spelled[key]] if generated),
            frozenset(column for column, _, _, required in found[spelled[key]] if required),
            collated.get(spelled[key], frozenset()),
        )
        for name, key in wanted.items()
        if key in spelled
    }


def drop_table(connection: duckdb.DuckDBPyConnection, name: TableName) -> None:
    """Drop the table, if it is there, and what is remembered of it."""
    connection.execute(f"DROP TABLE IF EXISTS {qualified(connection, name)}")
    forget(connection, name)


def tables_of(connection: duckdb.DuckDBPyConnection, database: str) -> list[TableName]:
    """The tables of a schema, by name."""
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?) ORDER BY table_name",
        (database,),
    )
    return [TableName(*row) for row in rows.fetchall()]


def drop_schema(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """Drop a schema with all its tables. One named `main` or like the file stays, empty: DuckDB cannot drop it."""
    for name in tables_of(connection, database):
        drop_table(connection, name)
    if same_name(database) not in ("main", same_name(catalog(connection))):
        # Beside a schema that is named like the file, DuckDB does not take the file's name here.
        there = connection.execute(
            "SELECT 1 FROM duckdb_schemas() "
            "WHERE database_name = current_database() AND lower(schema_name) = lower(current_database())"
        ).fetchall()
        written = quote(database) if there else schema(connection, database)
        connection.execute(f"DROP SCHEMA IF EXISTS {written} CASCADE")


def has_rows(connection: duckdb.DuckDBPyConnection, name: TableName) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM {qualified(connection, name)} LIMIT 1").fetchall())


def remember(connection: duckdb.DuckDBPyConnection, name: TableName, upstream: Upstream) -> None:
    forget(connection, name)
    text = json.dumps({"columns": [asdict(column) for column in upstream.columns], "virtual": sorted(upstream.virtual)})
    connection.execute("INSERT INTO storage_consumer.table_columns VALUES (?, ?, ?)", (name.database, name.table, text))


def forget(connection: duckdb.DuckDBPyConnection, name: TableName) -> None:
    connection.execute(
        "DELETE FROM storage_consumer.table_columns "
        "WHERE lower(database_name) = lower(?) AND lower(table_name) = lower(?)",
        (name.database, name.table),
    )


def visible(columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(column for column in columns if not column.hidden)


def _collated(sql: str) -> frozenset[str]:
    """The columns whose collation does not compare bytes, by the CREATE TABLE that the catalog shows."""
    found = ((match["name"], match["collation"]) for match in _COLUMN_OR_TEXT.finditer(sql) if match["name"])
    names = (name for name, collation in found if collation.upper() not in _OF_BYTES)
    return frozenset(name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names)


def _parsed(text: str) -> Upstream:
    body = json.loads(text)
    columns = (Column(**{**column, "elements": tuple(column["elements"])}) for column in body["columns"])
    return Upstream(tuple(columns), frozenset(body["virtual"]))
