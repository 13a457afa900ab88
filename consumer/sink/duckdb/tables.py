"""The replica tables of the file: what they are like now, and how rows fit them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence

import duckdb

from consumer.errors import ConsumerError, TableError
from consumer.model.columns import Column
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.sink.columnar.fitting import check_labels, drift, sent_columns
from consumer.sink.columnar.progress import exists
from consumer.sink.columnar.table import (
    TEXT,
    ColumnarTarget,
    ReplicaTable,
    Upstream,
    column_misfit,
    duckdb_type,
    handle_key,
    held_as,
    merge_misfit,
    quote,
    visible,
)
from consumer.sink.common import own_database, table_missing
from consumer.sink.duckdb.connection import Database, catalog, qualified, schema
from consumer.sink.progress_layout import SCHEMA
from consumer.target import LoadRequest

_COLUMN_OR_TEXT = re.compile(
    r"""(?P<name>"(?:[^"]|"")*"|[^\s(,"']+)\ VARCHAR\ COLLATE\ (?P<collation>[\w.]+)
    |'(?:[^']|'')*'|"(?:[^"]|"")*\"""",
    re.VERBOSE,
)
_OF_BYTES = ("BINARY", "C", "POSIX")


class OpenTables:
    """The replica tables of the file while it is open for writing, when nobody else can change them. To describe one
    table, DuckDB goes through the columns of all tables, so each is described once."""

    _MOST = 8
    """How many times some are described before all are, and none again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at = -1
        self._times = 0
        self._tables: dict[TableName, ReplicaTable | None] = {}

    def describe(
        self, connection: duckdb.DuckDBPyConnection | None, names: Collection[TableName]
    ) -> dict[TableName, ReplicaTable]:
        """As `describe`, none where there is no file. A transaction for writing has changed no table yet."""
        if connection is None:
            return {}
        if not self._database.is_open:
            return describe(connection, names)
        if self._read_at != self._database.forgotten:
            self._read_at, self._times, self._tables = self._database.forgotten, 0, {}
        new = {name for name in names if name.folded not in self._tables}
        if new and self._times < self._MOST:
            self.follow(dict.fromkeys(new) | describe(connection, new))
        elif new and self._times == self._MOST:
            self.follow(describe(connection, every_table(connection)))
        self._times += bool(new)
        described = ((name, self._tables.get(name.folded)) for name in names)
        return {name: table for name, table in described if table is not None}

    def follow(self, there: Mapping[TableName, ReplicaTable | None]) -> None:
        """Behind a transaction: what it made of tables, None for one that is gone."""
        self._tables |= {name.folded: table for name, table in there.items()}


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
        TableName(database, table).folded: Upstream.of(json.loads(text))
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


def every_table(connection: duckdb.DuckDBPyConnection) -> list[TableName]:
    """The tables of all schemas but the replica's own."""
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name <> ?",
        (SCHEMA,),
    )
    return [TableName(*row) for row in rows.fetchall()]


def drop_schema(connection: duckdb.DuckDBPyConnection, database: str) -> list[TableName]:
    """Drop a schema with all its tables, which are still to be forgotten: their names. A schema named `main` or like
    the file stays, empty: DuckDB cannot drop it."""
    dropped = tables_of(connection, database)
    for name in dropped:
        connection.execute(f"DROP TABLE {qualified(connection, name)}")
    if same_name(database) not in ("main", same_name(catalog(connection))):
        # Beside a schema that is named like the file, DuckDB does not take the file's name here.
        there = connection.execute(
            "SELECT 1 FROM duckdb_schemas() "
            "WHERE database_name = current_database() AND lower(schema_name) = lower(current_database())"
        ).fetchall()
        written = quote(database) if there else schema(connection, database)
        connection.execute(f"DROP SCHEMA IF EXISTS {written} CASCADE")
    return dropped


def count_rows(connection: duckdb.DuckDBPyConnection, name: TableName) -> int:
    ((count,),) = connection.execute(f"SELECT count(*) FROM {qualified(connection, name)}").fetchall()
    return int(count)


def has_rows(connection: duckdb.DuckDBPyConnection, name: TableName) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM {qualified(connection, name)} LIMIT 1").fetchall())


def remember(connection: duckdb.DuckDBPyConnection, changed: Mapping[TableName, ReplicaTable | None]) -> None:
    """What upstream says of tables that are others now; None for one that is gone."""
    for name, table in changed.items():
        forget(connection, name)
        if table is not None and table.upstream is not None:
            row = (name.database, name.table, json.dumps(table.upstream.as_dict()))
            connection.execute("INSERT INTO storage_consumer.table_columns VALUES (?, ?, ?)", row)


def forget(connection: duckdb.DuckDBPyConnection, name: TableName) -> None:
    connection.execute(
        "DELETE FROM storage_consumer.table_columns "
        "WHERE lower(database_name) = lower(?) AND lower(table_name) = lower(?)",
        (name.database, name.table),
    )


def _collated(sql: str) -> frozenset[str]:
    """The columns whose collation does not compare bytes, by the CREATE TABLE that the catalog shows."""
    found = ((match["name"], match["collation"]) for match in _COLUMN_OR_TEXT.finditer(sql) if match["name"])
    names = (name for name, collation in found if collation.upper() not in _OF_BYTES)
    return frozenset(name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names)


_ADD = "add them to the replica by hand, or let [consumer.ddl] execute the statement that does and "


def prepare(
    requests: Sequence[LoadRequest], tables: Mapping[TableName, ReplicaTable]
) -> Sequence[LoadTarget | ConsumerError]:
    """Answers in the order of `requests`, where the file has `tables`."""
    return [_answer(request, tables.get(request.name)) for request in requests]


def _answer(request: LoadRequest, table: ReplicaTable | None) -> LoadTarget | ConsumerError:
    try:
        if same_name(request.name.database) == SCHEMA:
            raise own_database(request, SCHEMA)
        if table is None:
            raise table_missing(request, _create_statement(request))
        return _target(request, table)
    except TableError as error:
        return error


def _create_statement(request: LoadRequest) -> str:
    columns = ", ".join(f"{quote(column.name)} {duckdb_type(column)}" for column in visible(request.columns))
    made = f"CREATE SCHEMA IF NOT EXISTS {quote(request.name.database)};\n"
    return f"{made}CREATE TABLE {quote(request.name.database)}.{quote(request.name.table)} ({columns})"


def _target(request: LoadRequest, table: ReplicaTable) -> LoadTarget:
    """Rows are written whole: columns that only the table has are completed from it, by the handle key."""
    sent = sent_columns(request, table.upstream)
    missing = [column.name for column in sent.values() if table.spelled(column.name) is None]
    if missing:
        raise drift(request, f"the replica lacks the rows' columns {', '.join(missing)}", _ADD)
    mode = request.load.mode
    present = [column for column in request.columns if column.name not in request.load.absent]
    if mode is not None and mode.merges and (why := merge_misfit(present, table)):
        raise drift(request, f"its rows cannot be in {request.name} with those of others: {why}")
    names = tuple(name for name in table.types if same_name(name) in sent)
    for name in names:
        _check_type(request, sent[same_name(name)], name, table)
        check_labels(request, sent[same_name(name)])
    _check_key(request, table, sent)
    own = tuple(name for name in table.types if same_name(name) not in sent and name not in table.generated)
    columns = tuple(sent[same_name(name)] for name in names)
    key = handle_key(columns, request.unique_keys)
    _check_collations(request, table, [names[position] for position in key] or names)
    if own and not key:
        raise drift(
            request,
            f"the rows lack the replica's columns {', '.join(own)}, and without a key no row can keep them",
        )
    return LoadTarget(
        request.load,
        columns,
        names,
        key,
        settings=ColumnarTarget(tuple(held_as(table.types[name]) for name in names)),
        own=own,
        virtual=tuple(sorted(table.upstream.virtual)) if table.upstream is not None else (),
    )


def _check_type(request: LoadRequest, column: Column, name: str, table: ReplicaTable) -> None:
    there, wanted = table.types[name], duckdb_type(column)
    if why := column_misfit(column, there, same_name(name) in request.added):
        raise drift(
            request,
            f"column {quote(name)} would be {wanted} ({column.type} upstream), and is {there} in the file: {why}",
            f"ALTER TABLE {_called(table)} ALTER {quote(name)} TYPE {wanted} and run again; or, where rows are in it, ",
        )


def _check_collations(request: LoadRequest, table: ReplicaTable, compared: Sequence[str]) -> None:
    """Rows are found by `compared`."""
    if wrong := [quote(name) for name in compared if name in table.collated]:
        changes = "; ".join(f"ALTER TABLE {_called(table)} ALTER {name} TYPE {TEXT}" for name in wrong)
        raise drift(
            request,
            f"rows are found by {', '.join(wrong)}, whose collation in the file takes different texts for equal",
            f"{changes} and run again; or, where rows are in it, ",
        )


def _called(table: ReplicaTable) -> str:
    return f"{quote(table.name.database)}.{quote(table.name.table)}"


def _check_key(request: LoadRequest, table: ReplicaTable, sent: Mapping[str, Column]) -> None:
    """A table that holds several rows of a key is not written to by that key alone. A key that TiCDC does not write
    tells no rows apart."""
    stored = table.upstream.stored if table.upstream is not None else ()
    wanted = (column.name for column in stored if column.is_pk and column.name not in request.load.absent)
    lost = [name for name in wanted if same_name(name) not in sent]
    if lost:
        raise drift(request, f"the rows lack the columns {', '.join(lost)} of the replica's key")
