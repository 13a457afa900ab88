"""The replica tables of the file as they are now, and how rows fit them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence

import duckdb

from consumer.errors import ConsumerError, TableError
from consumer.model.columns import Column
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.sink.columnar.fitting import check_label_numbers, columns_drift, sent_columns
from consumer.sink.columnar.progress import has_schema
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
    quote_name,
    visible_columns,
)
from consumer.sink.common import reserved_database, table_missing
from consumer.sink.duckdb.connection import Database, catalog, qualified_name, schema_name
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
    table, DuckDB reads the columns of all tables, so each is described once."""

    _MOST = 8
    """How often some tables are described before all are, and none again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at = -1
        self._times = 0
        self._tables: dict[TableName, ReplicaTable | None] = {}

    def describe(
        self, connection: duckdb.DuckDBPyConnection | None, names: Collection[TableName]
    ) -> dict[TableName, ReplicaTable]:
        """As `replica_tables`, none if there is no file. A transaction for writing must not have changed a table
        yet."""
        if connection is None:
            return {}
        if not self._database.is_open:
            return replica_tables(connection, names)
        if self._read_at != self._database.forgotten:
            self._read_at, self._times, self._tables = self._database.forgotten, 0, {}
        new = {name for name in names if name.folded not in self._tables}
        if new and self._times < self._MOST:
            self.follow(dict.fromkeys(new) | replica_tables(connection, new))
        elif new and self._times == self._MOST:
            self.follow(replica_tables(connection, every_table(connection)))
        self._times += bool(new)
        described = ((name, self._tables.get(name.folded)) for name in names)
        return {name: table for name, table in described if table is not None}

    def follow(self, changes: Mapping[TableName, ReplicaTable | None]) -> None:
        """Applies the changes of a transaction to tables, None for a dropped one."""
        self._tables |= {name.folded: table for name, table in changes.items()}


def absent_tables(connection: duckdb.DuckDBPyConnection, names: Collection[TableName]) -> set[TableName]:
    """Returns those of `names` that the file does not have."""
    listed = "SELECT lower(table_schema), lower(table_name) FROM information_schema.tables "
    existing = set(connection.execute(f"{listed} WHERE table_catalog = current_database()").fetchall())
    return {name for name in names if name.folded not in existing}


def replica_tables(
    connection: duckdb.DuckDBPyConnection, names: Collection[TableName]
) -> dict[TableName, ReplicaTable]:
    """Returns those of `names` that exist. Names that differ only in case are one name, upstream and here."""
    wanted = {name: name.folded for name in names}
    listed = {"databases": [name.database for name in names], "tables": [name.table for name in names]}
    is_wanted = (
        "(lower({0}), lower(table_name)) IN "
        "(SELECT lower(unnest($databases::VARCHAR[])), lower(unnest($tables::VARCHAR[])))"
    )
    declared = (
        "SELECT database_name, table_name, columns FROM storage_consumer.table_columns "
        f"WHERE {is_wanted.format('database_name')}"
    )
    remembered = {
        TableName(database, table).folded: Upstream.of(json.loads(text))
        for database, table, text in (connection.execute(declared, listed).fetchall() if has_schema(connection) else ())
    }
    columns: dict[TableName, list[tuple[str, str, bool, bool]]] = {}
    for database, table, *column in connection.execute(
        "SELECT schema_name, table_name, column_name, data_type, is_generated, "
        "NOT is_nullable AND column_default IS NULL FROM duckdb_columns() "
        f"WHERE database_name = current_database() AND {is_wanted.format('schema_name')} "
        "ORDER BY schema_name, table_name, column_index",
        listed,
    ).fetchall():
        columns.setdefault(TableName(database, table), []).append(tuple(column))
    # The catalog shows collations only in the text of its CREATE TABLE.
    made = connection.execute(
        "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = current_database() "
        f"AND contains(upper(sql), 'COLLATE') AND {is_wanted.format('schema_name')}",
        listed,
    ).fetchall()
    collated = {TableName(database, table): _collated(sql) for database, table, sql in made}
    spelled = {name.folded: name for name in columns}
    return {
        name: ReplicaTable(
            name=spelled[key],
            types={column: kind for column, kind, _, _ in columns[spelled[key]]},
            upstream=remembered.get(key),
            generated=frozenset(column for column, _, generated, _ in columns[spelled[key]] if generated),
            required=frozenset(column for column, _, _, required in columns[spelled[key]] if required),
            collated=collated.get(spelled[key], frozenset()),
        )
        for name, key in wanted.items()
        if key in spelled
    }


def drop_table(connection: duckdb.DuckDBPyConnection, name: TableName) -> None:
    """Drops the table if it exists, and the record of its columns."""
    connection.execute(f"DROP TABLE IF EXISTS {qualified_name(connection, name)}")
    forget_columns(connection, name)


def tables_in_schema(connection: duckdb.DuckDBPyConnection, database: str) -> list[TableName]:
    """Returns the tables of a schema, by name."""
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower(?) ORDER BY table_name",
        (database,),
    )
    return [TableName(*row) for row in rows.fetchall()]


def every_table(connection: duckdb.DuckDBPyConnection) -> list[TableName]:
    """Returns the tables of all schemas except the consumer's own."""
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND schema_name <> ?",
        (SCHEMA,),
    )
    return [TableName(*row) for row in rows.fetchall()]


def drop_schema(connection: duckdb.DuckDBPyConnection, database: str) -> list[TableName]:
    """Drops a schema with all its tables and returns their names. The caller must remove the records of their columns.
    A schema named `main` or like the file stays, empty: DuckDB cannot drop it."""
    dropped = tables_in_schema(connection, database)
    for name in dropped:
        connection.execute(f"DROP TABLE {qualified_name(connection, name)}")
    if same_name(database) not in ("main", same_name(catalog(connection))):
        # If a schema has the name of the file, DuckDB does not accept the file's name here.
        named_like_file = connection.execute(
            "SELECT 1 FROM duckdb_schemas() "
            "WHERE database_name = current_database() AND lower(schema_name) = lower(current_database())"
        ).fetchall()
        written = quote_name(database) if named_like_file else schema_name(connection, database)
        connection.execute(f"DROP SCHEMA IF EXISTS {written} CASCADE")
    return dropped


def count_table_rows(connection: duckdb.DuckDBPyConnection, name: TableName) -> int:
    ((count,),) = connection.execute(f"SELECT count(*) FROM {qualified_name(connection, name)}").fetchall()
    return int(count)


def has_rows(connection: duckdb.DuckDBPyConnection, name: TableName) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM {qualified_name(connection, name)} LIMIT 1").fetchall())


def record_columns(connection: duckdb.DuckDBPyConnection, changed: Mapping[TableName, ReplicaTable | None]) -> None:
    """Records upstream's columns of changed tables, None for a dropped one."""
    for name, table in changed.items():
        forget_columns(connection, name)
        if table is not None and table.upstream is not None:
            row = (name.database, name.table, json.dumps(table.upstream.as_dict()))
            connection.execute("INSERT INTO storage_consumer.table_columns VALUES (?, ?, ?)", row)


def forget_columns(connection: duckdb.DuckDBPyConnection, name: TableName) -> None:
    connection.execute(
        "DELETE FROM storage_consumer.table_columns "
        "WHERE lower(database_name) = lower(?) AND lower(table_name) = lower(?)",
        (name.database, name.table),
    )


def _collated(sql: str) -> frozenset[str]:
    """Returns the columns whose collation does not compare bytes, according to the CREATE TABLE in the catalog."""
    collations = ((match["name"], match["collation"]) for match in _COLUMN_OR_TEXT.finditer(sql) if match["name"])
    names = (name for name, collation in collations if collation.upper() not in _OF_BYTES)
    return frozenset(name[1:-1].replace('""', '"') if name.startswith('"') else name for name in names)


_ADD = "add them to the replica by hand, or let [consumer.ddl] execute the statement that does and "


def load_targets(
    requests: Sequence[LoadRequest], tables: Mapping[TableName, ReplicaTable]
) -> Sequence[LoadTarget | ConsumerError]:
    """Returns the answers in the order of `requests`. The file has `tables`."""
    return [_answer(request, tables.get(request.name)) for request in requests]


def _answer(request: LoadRequest, table: ReplicaTable | None) -> LoadTarget | ConsumerError:
    try:
        if same_name(request.name.database) == SCHEMA:
            raise reserved_database(request, SCHEMA)
        if table is None:
            raise table_missing(request, _create_statement(request))
        return _target(request, table)
    except TableError as error:
        return error


def _create_statement(request: LoadRequest) -> str:
    columns = ", ".join(
        f"{quote_name(column.name)} {duckdb_type(column)}" for column in visible_columns(request.columns)
    )
    made = f"CREATE SCHEMA IF NOT EXISTS {quote_name(request.name.database)};\n"
    return f"{made}CREATE TABLE {quote_name(request.name.database)}.{quote_name(request.name.table)} ({columns})"


def _target(request: LoadRequest, table: ReplicaTable) -> LoadTarget:
    """Rows are written with all columns: the table's other columns are completed from it, by the handle key."""
    sent = sent_columns(request, table.upstream)
    absent_tables = [column.name for column in sent.values() if table.spelled(column.name) is None]
    if absent_tables:
        raise columns_drift(request, f"the replica lacks the rows' columns {', '.join(absent_tables)}", _ADD)
    mode = request.load.mode
    present = [column for column in request.columns if column.name not in request.load.absent]
    if mode is not None and mode.merges and (why := merge_misfit(present, table)):
        raise columns_drift(request, f"its rows cannot be in {request.name} with those of others: {why}")
    names = tuple(name for name in table.types if same_name(name) in sent)
    for name in names:
        _check_type(request, sent[same_name(name)], name, table)
        check_label_numbers(request, sent[same_name(name)])
    _check_key(request, table, sent)
    table_only = tuple(name for name in table.types if same_name(name) not in sent and name not in table.generated)
    columns = tuple(sent[same_name(name)] for name in names)
    key = handle_key(columns, request.unique_keys)
    _check_collations(request, table, [names[position] for position in key] or names)
    if table_only and not key:
        raise columns_drift(
            request,
            f"the rows lack the replica's columns {', '.join(table_only)}, and without a key no row can keep them",
        )
    return LoadTarget(
        request.load,
        columns,
        names,
        key,
        settings=ColumnarTarget(tuple(held_as(table.types[name]) for name in names)),
        extra_columns=table_only,
        virtual=tuple(sorted(table.upstream.virtual)) if table.upstream is not None else (),
    )


def _check_type(request: LoadRequest, column: Column, name: str, table: ReplicaTable) -> None:
    type_now, wanted = table.types[name], duckdb_type(column)
    if why := column_misfit(column, type_now, same_name(name) in request.added):
        raise columns_drift(
            request,
            f"column {quote_name(name)} would be {wanted} ({column.type} upstream), and is {type_now} in the file:"
            f" {why}",
            f"ALTER TABLE {_called(table)} ALTER {quote_name(name)} TYPE {wanted} and run again;"
            " or, where rows are in it, ",
        )


def _check_collations(request: LoadRequest, table: ReplicaTable, compared: Sequence[str]) -> None:
    """Raises SchemaDrift if one of the columns `compared`, by which rows are found, has a collation that does not
    compare bytes."""
    if wrong := [quote_name(name) for name in compared if name in table.collated]:
        changes = "; ".join(f"ALTER TABLE {_called(table)} ALTER {name} TYPE {TEXT}" for name in wrong)
        raise columns_drift(
            request,
            f"rows are found by {', '.join(wrong)}, whose collation in the file takes different texts for equal",
            f"{changes} and run again; or, where rows are in it, ",
        )


def _called(table: ReplicaTable) -> str:
    return f"{quote_name(table.name.database)}.{quote_name(table.name.table)}"


def _check_key(request: LoadRequest, table: ReplicaTable, sent: Mapping[str, Column]) -> None:
    """Raises SchemaDrift if the rows lack a column of the table's own key: several rows of the table can have the
    remaining key. A key that TiCDC does not write distinguishes no rows."""
    stored = table.upstream.stored if table.upstream is not None else ()
    wanted = (column.name for column in stored if column.is_pk and column.name not in request.load.absent)
    lost = [name for name in wanted if same_name(name) not in sent]
    if lost:
        raise columns_drift(request, f"the rows lack the columns {', '.join(lost)} of the replica's key")
