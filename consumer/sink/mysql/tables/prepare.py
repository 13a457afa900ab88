"""Matches rows to their target table: which columns are written, by which key, and why a table cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pymysql

from consumer.errors import CannotBeExact, Code, ConsumerError, SchemaDrift, TableError
from consumer.model.columns import Column
from consumer.model.hints import RESYNC
from consumer.model.load import LoadTarget, Purpose
from consumer.model.names import TableName, by_name, qualified, quote, same_name, same_names
from consumer.sink.common import reserved_database, table_missing
from consumer.sink.mysql.progress.schema import is_name_reserved
from consumer.sink.mysql.server.connection import Flavor, FlavorName, variable_is
from consumer.sink.mysql.server.errors import MISSING, errno
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.tables.blanks import Blanks, is_known, known_blanks
from consumer.sink.mysql.tables.checks import (
    check_engine,
    check_labels,
    check_stored,
    check_table,
    check_types,
    computed_when_read,
    quoted_list,
    refuse_indistinct,
    refuse_session_times,
    request_columns,
    type_of,
)
from consumer.sink.mysql.tables.describe import ServerTable, UniqueKey, access_error, describe_tables, labels_of_type
from consumer.sink.mysql.target import MySqlTarget, Server, TargetColumn
from consumer.target import LoadRequest

_GENERATED = "my_row_id"
"""The key column that a MySQL server can add to tables that have no key. Only users with an administrator's rights can
prevent it."""
_IN_LINE = "bring the target table's columns in line, or load it again from the storage: " + RESYNC


def prepare_targets(
    cursor: pymysql.cursors.Cursor, requests: Sequence[LoadRequest], settings: MySqlSettings
) -> Sequence[LoadTarget | ConsumerError]:
    """Returns the answers in the order of `requests`. pymysql's errors pass through. One of them is that this user may
    not see a table."""
    tables = describe_tables(cursor, {request.name for request in requests})
    for name in {request.name for request in requests}.difference(tables):
        if (error := access_error(cursor, name)) is not None:
            raise error
    blanks = _known_blanks(cursor, [table.name for table in tables.values()])
    cursor.execute("SELECT @@local_infile, VERSION()")
    local_infile, version = cursor.fetchone()
    flavor = Flavor.parse(version).name
    # TiDB's LOAD DATA silently skips rows that a CHECK refuses.
    loses_rows = flavor == "tidb" and variable_is(cursor, "tidb_enable_check_constraint", "ON")
    logs_statements = variable_is(cursor, "binlog_format", "STATEMENT")
    server = Server(flavor, bool(local_infile) and not loses_rows, logs_statements)
    shared = _Shared(settings, server, blanks)
    return [_answer(request, tables, shared) for request in requests]


def create_statement(request: LoadRequest) -> str:
    """Returns the CREATE TABLE that a schema file allows. The file has no collations and no other keys. TiDB's own
    collation distinguishes everything that upstream distinguishes."""
    lines = [f"  {quote(column.name)} {type_of(column)}" for column in request_columns(request)]
    keys = [tuple(column.name for column in request_columns(request) if column.is_pk)]
    keys += [] if keys[0] else [*request.unique_keys[:1]]
    lines += [
        f"  {'PRIMARY KEY' if number == 0 else 'UNIQUE KEY'} ({', '.join(map(quote, key))})"
        for number, key in enumerate(keys)
        if key
    ]
    table = qualified(*request.name)
    return f"CREATE TABLE {table} (\n" + ",\n".join(lines) + "\n) COLLATE = utf8mb4_bin"


@dataclass(frozen=True, slots=True)
class _Shared:
    settings: MySqlSettings
    server: Server
    blanks: Mapping[TableName, Blanks]


def _known_blanks(cursor: pymysql.cursors.Cursor, tables: Iterable[TableName]) -> Mapping[TableName, Blanks]:
    try:
        return known_blanks(cursor, tables)
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING:
            raise
        return {}


def _answer(
    request: LoadRequest, tables: Mapping[TableName, ServerTable], shared: _Shared
) -> LoadTarget | ConsumerError:
    try:
        return _target(request, _table_of(request, tables), shared)
    except TableError as error:
        return error


def _table_of(request: LoadRequest, tables: Mapping[TableName, ServerTable]) -> ServerTable:
    if is_name_reserved(request.table, request.name):
        raise reserved_database(request, request.name.database)
    if request.name not in tables:
        create_database = f"CREATE DATABASE IF NOT EXISTS {quote(request.name.database)};\n"
        raise table_missing(request, create_database + create_statement(request))
    return tables[request.name]


def _target(request: LoadRequest, table: ServerTable, shared: _Shared) -> LoadTarget:
    check_table(request, table, shared.settings)
    refuse_indistinct(request.table, table)
    refuse_session_times(request.table, table, shared.settings.time_zone)
    columns = _decoded_columns(request, table)
    check_stored(request, table)
    check_types(request, columns)
    check_labels(request, columns)
    names = tuple(target.name for _, target in columns)
    key = _handle_key(request, table, names)
    target_only = target_only_columns(request, table, names, key)
    trust = _trust_in(request, table, names, key)
    blanks = shared.blanks.get(table.name)
    handle = {same_name(names[position]) for position in key}
    secondary = any(unique.folded != handle for unique in table.unique_keys)
    doubtful = bool(trust.unproven or (trust.padded and blanks and blanks.may_hold))
    match request.load.purpose:
        case Purpose.LOAD_COLLIDED:
            doubtful = True
        case Purpose.MEND:
            doubtful |= secondary or bool(trust.padded)
    checked = doubtful and bool(key)
    check_engine(request, table, bool(key), shared.settings.staged)
    return LoadTarget(
        request.load,
        tuple(_with_labels(column, target, shared.server.flavor) for column, target in columns),
        names,
        key,
        extra_columns=tuple(column.name for column in target_only),
        computed=computed_when_read(request, table),
        virtual=tuple(column.name for column in table.columns if column.virtual),
        in_one_call=unique_values_move(table, target_only, names, key)
        or (checked and request.load.purpose is not Purpose.LOAD_IN_PARTS),
        settings=MySqlTarget(
            server=shared.server,
            name=table.name,
            columns=tuple(target for _, target in columns),
            own_columns=tuple(target_only),
            secondary_unique=secondary,
            checked=checked,
            padded=trust.padded,
            looked=is_known(blanks, names, trust.padded),
        ),
    )


def _decoded_columns(request: LoadRequest, table: ServerTable) -> list[tuple[Column, TargetColumn]]:
    """Returns the columns that both sides have, in the target's order. A column that the target computes is included
    only if it is stored and a unique key needs the rows' own value, or if rows are only compared."""
    sent = by_name(request_columns(request))
    missing = [column.name for column in sent.values() if table.column(column.name) is None]
    if missing:
        raise schema_drift(request, f"the target table lacks the rows' columns {quoted_list(missing)}")
    keyed = frozenset[str]().union(*(unique.folded for unique in table.unique_keys))
    return [
        (sent[same_name(column.name)], column)
        for column in table.columns
        if same_name(column.name) in sent
        if not column.generated
        or (not column.virtual and (request.load.purpose is Purpose.COMPARE or same_name(column.name) in keyed))
    ]


def _handle_key(request: LoadRequest, table: ServerTable, names: Sequence[str]) -> tuple[int, ...]:
    """Returns the positions of the handle key in `names`, () for none.

    REPLACE finds a row by the target's own unique keys, so the target must have a key with exactly these columns.
    Without a handle key, rows are distinguished by all their values. Two kinds of keys are not handles:

    1. A key with a virtual column. Rows never have a value for it, so it is no handle upstream either.
    2. A key that upstream does not have, if the statements declare upstream's index of that name, or all its indexes.
    """
    declared = tuple(column.name for column in request.columns if column.is_pk)
    candidates = [unique for unique in table.unique_keys if unique.not_null]
    if declared:
        key = next((unique for unique in candidates if unique.folded == same_names(declared)), None)
        if key is None:
            other = "DROP PRIMARY KEY, " if any(unique.name == "PRIMARY" for unique in table.unique_keys) else ""
            raise CannotBeExact(
                f"the target table has no unique NOT NULL key on the primary key's columns {quoted_list(declared)}",
                hint=f"ALTER TABLE {qualified(*table.name)} {other}ADD PRIMARY KEY"
                f" ({', '.join(map(quote, declared))}); then run again",
                table=str(request.table),
                code=Code.TARGET_KEY,
            )
    else:
        virtual = same_names(column.name for column in table.columns if column.virtual)
        exact = [unique for unique in candidates if not unique.prefix and virtual.isdisjoint(unique.folded)]
        written = same_names(names)
        exact = [u for u in exact if not u.folded <= written or _may_be_upstreams(request, u)]
        key = min(exact, key=lambda unique: (not unique.folded <= written, len(unique.columns)), default=None)
    if key is None:
        return ()
    positions = {same_name(name): number for number, name in enumerate(names)}
    unwritten = [column for column in key.columns if same_name(column) not in positions]
    if unwritten:
        generated = (
            f"ALTER TABLE {qualified(*table.name)} DROP PRIMARY KEY, DROP COLUMN `{_GENERATED}`; MySQL adds it"
            " while sql_generate_invisible_primary_key is on: turn that off first, then run again"
        )
        raise CannotBeExact(
            f"its key has columns that the rows lack: {quoted_list(unwritten)}",
            hint=generated if unwritten == [_GENERATED] else "",
            table=str(request.table),
            code=Code.TARGET_KEY,
        )
    return tuple(positions[same_name(column)] for column in key.columns)


def _may_be_upstreams(request: LoadRequest, unique: UniqueKey) -> bool:
    """Returns whether upstream may have this key."""
    if unique.folded in request.known_unique:
        return True
    return request.indexes is None and same_name(unique.name) not in request.known_index_names


def _with_labels(column: Column, target: TargetColumn, flavor: FlavorName) -> Column:
    """Returns the column with the target's own labels: a number means the same label there."""
    if not column.labelled or target.data_type not in ("enum", "set"):
        return column
    target_labels = labels_of_type(target.type)
    # MySQL and MariaDB show characters outside the basic plane as '?'. Such labels stay unknown instead of guessed.
    lost = flavor != "tidb" and any("?" in label for label in target_labels)
    return column if lost else replace(column, elements=target_labels)


def target_only_columns(
    request: LoadRequest, table: ServerTable, written: Sequence[str], key: Sequence[int]
) -> Sequence[TargetColumn]:
    """Returns the columns of `table` that are neither `written` nor computed by the target. `key` are positions in
    `written`.

    Raises SchemaDrift if a row of the target could not be found again, or could be removed without a change that asks
    for it.
    """
    written_names = same_names(written)
    unwritten = [
        column for column in table.columns if not column.generated and same_name(column.name) not in written_names
    ]
    if not unwritten:
        return unwritten
    names = [column.name for column in unwritten]
    if not key:
        raise schema_drift(request, f"{_lack(names)}, and without a key no row can keep them")
    for unique in _others(table, written, key):
        if not _is_written(unique, written_names) and not _stays_apart(unique, unwritten):
            raise schema_drift(request, f"{_lack(names)}, and its unique key {quote(unique.name)} needs their values")
    return unwritten


def unique_values_move(
    table: ServerTable, own: Sequence[TargetColumn], written: Sequence[str], key: Sequence[int]
) -> bool:
    """Returns whether all rows of a load must be completed by their `own` columns before the first of them is written.
    This is so when unique values may move between the rows."""
    written_names = same_names(written)
    return bool(own) and any(_is_written(unique, written_names) for unique in _others(table, written, key))


def _others(table: ServerTable, written: Sequence[str], key: Sequence[int]) -> list[UniqueKey]:
    """Returns the unique keys other than the handle key."""
    handle = same_names(written[position] for position in key)
    return [unique for unique in table.unique_keys if unique.folded != handle]


def _is_written(unique: UniqueKey, written: frozenset[str]) -> bool:
    return all(same_name(name) in written for name in unique.columns)


def _stays_apart(unique: UniqueKey, own: Sequence[TargetColumn]) -> bool:
    """Returns whether rows that keep their values and new rows with defaults can never be equal in `unique`."""
    columns = [next((column for column in own if column.name == name), None) for name in unique.columns]
    unwritten = [column for column in columns if column is not None]
    fresh = any(column.counts or (column.nullable and column.default in (None, "NULL")) for column in unwritten)
    return len(unwritten) == len(columns) and fresh


def _lack(names: Sequence[str]) -> str:
    return f"the rows lack the target table's columns {', '.join(map(quote, names))}"


def schema_drift(request: LoadRequest, text: str) -> SchemaDrift:
    """Returns the error for a table whose columns do not match the rows."""
    return SchemaDrift(text, hint=_IN_LINE, table=str(request.table))


@dataclass(frozen=True, slots=True)
class _Trust:
    """Which unique keys of the target certainly distinguish all that upstream's keys distinguish, so that REPLACE
    removes nothing but old images of rows.

    A key is proven if upstream is known to have it (its statements or schema files say so), the server compares its
    columns by their bytes, and the table has no rows that upstream no longer has. A key that contains the row's handle
    key is proven too: two rows can only be equal in it if they are one row. All other keys are not proven. Rows of
    their table are written so that the load stops if a put would remove another row than its own.

    `unproven` are unique keys by name. `padded` are text columns of the other keys, as positions among the written
    columns, whose collations ignore trailing blanks. Upstream's may not (TiDB without its new collations).
    """

    unproven: tuple[str, ...] = ()
    padded: tuple[int, ...] = ()


def _trust_in(request: LoadRequest, table: ServerTable, names: Sequence[str], key: Sequence[int]) -> _Trust:
    """Classifies the unique keys of `table`. `names` are the columns for which rows have a value, `key` the handle
    key's positions among them.

    Raises CannotBeExact for a key that upstream certainly does not have. A key with columns that the rows lack is
    checked by `target_only_columns`.
    """
    handle = {same_name(names[position]) for position in key}
    secondary = [unique for unique in table.unique_keys if unique.folded != handle]
    kept = same_names(names) | same_names(column.name for column in table.columns if column.generated)
    _refuse_extra(request, [unique for unique in secondary if unique.folded <= kept])
    if not key:
        return _Trust()
    others = [unique for unique in secondary if unique.prefix or unique.folded <= kept]
    upstream_keys = {frozenset(columns) for columns in request.known_unique}
    handles = [unique for unique in table.unique_keys if unique.folded == handle]
    proven = [unique for unique in handles if _is_fine(table, unique, names)]
    unproven = [unique for unique in handles if unique not in proven]
    fine = bool(proven)
    for unique in others:
        if fine and not unique.prefix and handle <= unique.folded:
            continue
        declared = (unique.folded in upstream_keys or unique.folded == _primary(request)) and not request.leaves_rows
        (proven if declared and _is_fine(table, unique, names) else unproven).append(unique)
    return _Trust(tuple(unique.name for unique in unproven), _padded(table, proven, names))


def _refuse_extra(request: LoadRequest, keys: Sequence[UniqueKey]) -> None:
    indexes = request.indexes
    if indexes is None:
        return
    for unique in keys:
        columns = unique.folded
        if same_name(unique.name) not in indexes and columns not in indexes and columns != _primary(request):
            raise CannotBeExact(
                f"the target table has a unique key {quote(unique.name)} on {', '.join(map(quote, unique.columns))},"
                " which upstream does not have: rows that are equal there would be lost",
                hint=f"ALTER TABLE {qualified(*request.name)} DROP INDEX "
                f"{quote(unique.name)}; then run again, or where its rows are not upstream's load it again from the"
                f" storage: {RESYNC}",
                table=str(request.table),
                code=Code.TARGET_KEY,
            )


def _is_fine(table: ServerTable, unique: UniqueKey, names: Sequence[str]) -> bool:
    """Returns whether the server distinguishes in this key all that differs in its columns' values, except trailing
    blanks."""
    if unique.prefix or not unique.folded <= same_names(names):
        return False
    columns = [table.column(name) for name in unique.columns]
    return not any(column is None or _is_coarse(column) for column in columns)


def _is_coarse(column: TargetColumn) -> bool:
    """Returns whether a collation other than a binary one compares the column. ENUM and SET are compared by their
    numbers."""
    compared = column.collation if column.data_type not in ("enum", "set") else ""
    return bool(compared) and not compared.endswith(("_bin", "binary"))


def _padded(table: ServerTable, keys: Sequence[UniqueKey], names: Sequence[str]) -> tuple[int, ...]:
    parts = {same_name(name) for unique in keys for name in unique.columns}
    candidates = ((position, table.column(name)) for position, name in enumerate(names) if same_name(name) in parts)
    return tuple(position for position, column in candidates if column is not None and _pads(column))


def _pads(column: TargetColumn) -> bool:
    """Returns whether comparisons ignore trailing blanks. A CHAR has none, here and upstream."""
    if column.data_type in ("enum", "set", "char") or not column.collation:
        return False
    return column.collation != "binary" and "nopad" not in column.collation and "_0900_" not in column.collation


def _primary(request: LoadRequest) -> frozenset[str]:
    return same_names(column.name for column in request.columns if column.is_pk)
