"""Describes the target's tables, which are read from information_schema in a few queries for any number of tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import pymysql

from consumer.model.names import TableName, by_name, qualified, same_name, same_names
from consumer.model.table_definition import IndexPart, KnownForeignKey, KnownIndex, TableIndexes
from consumer.sink.mysql.progress.schema import is_reserved
from consumer.sink.mysql.server.errors import MISSING, NO_RIGHT, NOT_A_NAME, errno
from consumer.sink.mysql.target import TargetColumn

_Name = TypeVar("_Name")
_Found = TypeVar("_Found")
_PLAIN = {"''": "'", r"\\": "\\", r"\n": "\n", r"\r": "\r", r"\0": "\0"}
_ESCAPED = re.compile(r"''|\\[\\nr0]")
_SINGLE_LOOKUPS = 20
"""Up to this number of tables of a database are queried one by one, because the server then opens only those."""
_NAMES_QUERY = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN %s"
_ALL_NAMES_QUERY = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
_REFERRED_QUERY = """
SELECT REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, TABLE_SCHEMA, TABLE_NAME, REFERENCED_COLUMN_NAME
FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL"""
_TABLES_QUERY = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE {where}"""
_COLUMNS_QUERY = """
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, COLLATION_NAME, IS_NULLABLE, COLUMN_DEFAULT,
  EXTRA, GENERATION_EXPRESSION
FROM information_schema.COLUMNS WHERE {where} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"""
_KEYS_QUERY = """
SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, NULLABLE
FROM information_schema.STATISTICS WHERE {where} AND NON_UNIQUE = 0"""
_TRIGGERS_QUERY = """
SELECT DISTINCT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS
WHERE EVENT_OBJECT_SCHEMA IN %s"""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique key. `columns` are in key order. `not_null` says that none of them can be NULL. `prefix` says that a
    column counts only in part, or is an expression, so the key covers less than its columns."""

    name: str
    columns: tuple[str, ...]
    not_null: bool
    prefix: bool

    @property
    def folded(self) -> frozenset[str]:
        """Returns its columns, each as `same_name` spells it."""
        return same_names(self.columns)


@dataclass(frozen=True)
class ServerTable:
    """A table of the target, in the target's spelling. `kind` is TABLE_TYPE: ``BASE TABLE``, ``VIEW``, ..."""

    name: TableName
    kind: str
    engine: str
    columns: tuple[TargetColumn, ...]
    unique_keys: tuple[UniqueKey, ...]
    triggers: bool

    def column(self, name: str) -> TargetColumn | None:
        """Returns the column of this name. MySQL ignores case in column names."""
        return self._by_name.get(same_name(name))

    @cached_property
    def _by_name(self) -> Mapping[str, TargetColumn]:
        return by_name(self.columns)


def describe_tables(cursor: pymysql.cursors.Cursor, names: Collection[TableName]) -> Mapping[TableName, ServerTable]:
    """Returns those of `names` that exist, by the names as given. A name that the server cannot spell does not exist.
    pymysql's other errors pass through."""
    return dict(_spelled(names, lambda names_part: _described(cursor, names_part).items()))


def _spelled(names: Collection[_Name], look: Callable[[Collection[_Name]], Collection[_Found]]) -> list[_Found]:
    """Returns what `look` returns for `names`, without those that the server cannot spell."""
    try:
        return list(look(names))
    except pymysql.MySQLError as error:
        if errno(error) not in NOT_A_NAME:
            raise
    half, listed = len(names) // 2, list(names)
    return [result for part in (listed[:half], listed[half:]) if half for result in _spelled(part, look)]


def _described(cursor: pymysql.cursors.Cursor, names: Collection[TableName]) -> Mapping[TableName, ServerTable]:
    spelled = Spelling(cursor)
    columns: dict[TableName, list[TargetColumn]] = defaultdict(list)
    parts: dict[TableName, dict[str, list[tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(list))
    heads: dict[TableName, tuple[str, str]] = {}
    for database, tables in _by_database(names):
        where, values = _where(database, tables)
        for row in _rows(cursor, _TABLES_QUERY.format(where=where), values):
            heads[TableName(*row[:2])] = (row[2], row[3] or "")
        for row in _rows(cursor, _COLUMNS_QUERY.format(where=where), values):
            columns[TableName(*row[:2])].append(_column(row[2:]))
        for row in _rows(cursor, _KEYS_QUERY.format(where=where), values):
            parts[TableName(*row[:2])][row[2]].append(row[3:])
    triggered = _triggered(cursor, {name.database for name in heads})
    described = {
        spelled.key(name): ServerTable(
            name, kind, engine, tuple(columns[name]), tuple(_unique_keys(parts[name])), name in triggered
        )
        for name, (kind, engine) in heads.items()
    }
    return {name: described[spelled.key(name)] for name in names if spelled.key(name) in described}


def missing_tables(cursor: pymysql.cursors.Cursor, names: Collection[TableName]) -> set[TableName]:
    """Returns those of `names` that the server does not have. It reads one list of names for each database and opens no
    table. A table that the server hides from this user is not among them, because nothing is known about it."""
    spelled = Spelling(cursor)
    databases = {name.database for name in names}
    listed = (
        _spelled(databases, lambda names_part: _rows(cursor, _NAMES_QUERY, (tuple(names_part),))) if databases else ()
    )
    listed_tables = {spelled.key(TableName(*row)) for row in listed}
    return {name for name in names if spelled.key(name) not in listed_tables and access_error(cursor, name) is None}


def tables_in(cursor: pymysql.cursors.Cursor, database: str) -> list[TableName]:
    """Returns the tables and views of a database that the server shows to this user."""
    rows = _spelled({database}, lambda names_part: _rows(cursor, _NAMES_QUERY, (tuple(names_part),)))
    return [TableName(*row) for row in rows]


def matching_tables(cursor: pymysql.cursors.Cursor, fits: Callable[[TableName], object]) -> dict[TableName, list[str]]:
    """Returns the tables and views whose name `fits`, with their columns, as far as the server shows them to this
    user."""
    rows = (TableName(*row) for row in _rows(cursor, _ALL_NAMES_QUERY, ()))
    same = [name for name in rows if not is_reserved(name.database) and fits(name)]
    return {
        name: [column.name for column in description.columns]
        for name, description in describe_tables(cursor, same).items()
    }


def access_error(cursor: pymysql.cursors.Cursor, name: TableName) -> pymysql.MySQLError | None:
    """Returns the server's error if this user may not know whether the table exists: the server's lists omit such
    tables. None if the user may know."""
    try:
        cursor.execute(f"SELECT 1 FROM {qualified(*name)} LIMIT 0")
    except pymysql.MySQLError as error:
        if errno(error) in NO_RIGHT:
            return error
        if errno(error) not in MISSING | NOT_A_NAME:
            raise
    return None


def referred_columns(cursor: pymysql.cursors.Cursor) -> Mapping[TableName, set[str]]:
    """Returns by table the columns that foreign keys of other tables refer to. All names are in lower case."""
    columns: defaultdict[TableName, set[str]] = defaultdict(set)
    for database, table, *other, column in _rows(cursor, _REFERRED_QUERY, ()):
        if (referred := TableName(database, table).folded) != TableName(*other).folded:
            columns[referred].add(same_name(column))
    return columns


def labels_of_type(column_type: str) -> tuple[str, ...]:
    """Returns the labels of an ENUM or SET from its COLUMN_TYPE: ``enum('a','it''s')`` -> ``('a', "it's")``."""
    quoted = re.findall(r"'((?:[^']|'')*)'", column_type, re.DOTALL)
    return tuple(_ESCAPED.sub(lambda match: _PLAIN[match.group()], text) for text in quoted)


class Spelling:
    """How the server compares table names: byte for byte, or ignoring case (lower_case_table_names)."""

    def __init__(self, cursor: pymysql.cursors.Cursor) -> None:
        cursor.execute("SELECT @@lower_case_table_names, VERSION()")
        lower, version = cursor.fetchone()
        self.case = int(lower) == 0 and "TiDB" not in version

    def key(self, name: TableName) -> TableName:
        return name if self.case else name.folded


def _by_database(names: Collection[TableName]) -> Iterator[tuple[str, list[str]]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for name in names:
        grouped[name.database].append(name.table)
    for database, tables in grouped.items():
        step = 1 if len(tables) <= _SINGLE_LOOKUPS else len(tables)
        for start in range(0, len(tables), step):
            yield database, tables[start : start + step]


def _where(database: str, tables: Sequence[str]) -> tuple[str, tuple[Any, ...]]:
    if len(tables) == 1:
        return "TABLE_SCHEMA = %s AND TABLE_NAME = %s", (database, tables[0])
    return "TABLE_SCHEMA = %s AND TABLE_NAME IN %s", (database, tables)


def _rows(cursor: pymysql.cursors.Cursor, query: str, values: tuple[Any, ...]) -> Sequence[tuple[Any, ...]]:
    cursor.execute(query, values)
    rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _column(row: Sequence[Any]) -> TargetColumn:
    name, data_type, full_type, collation, nullable, default, extra, expression = row
    # EXTRA is "VIRTUAL GENERATED" or "STORED GENERATED"; MySQL's "DEFAULT_GENERATED" is an expression default.
    generated = bool(re.search(r"\b(VIRTUAL|STORED|PERSISTENT)\b", extra, re.IGNORECASE))
    null = nullable == "YES"
    return TargetColumn(
        name=name,
        data_type=data_type.lower(),
        type=full_type,
        collation=collation or "",
        nullable=null,
        generated=generated,
        default=default,
        extra=extra,
        expression=expression or "",
    )


def _unique_keys(parts: Mapping[str, list[tuple[Any, ...]]]) -> Iterator[UniqueKey]:
    for name, rows in parts.items():
        rows.sort(key=lambda row: row[0])
        yield UniqueKey(
            name,
            tuple(column or "" for _, column, _, _ in rows),
            not_null=all(nullable != "YES" for _, _, _, nullable in rows),
            prefix=any(part is not None or column is None for _, column, part, _ in rows),
        )


def _triggered(cursor: pymysql.cursors.Cursor, databases: Collection[str]) -> set[TableName]:
    if not databases:
        return set()
    return {TableName(*row) for row in _rows(cursor, _TRIGGERS_QUERY, (list(databases),))}


def has_row(cursor: pymysql.cursors.Cursor, name: TableName) -> bool:
    """Returns whether the table has any row."""
    return bool(cursor.execute(f"SELECT 1 FROM {qualified(*name)} LIMIT 1"))


def row_count(cursor: pymysql.cursors.Cursor, name: TableName) -> int:
    """Returns the number of the table's rows."""
    cursor.execute(f"SELECT COUNT(*) FROM {qualified(*name)}")
    ((count,),) = cursor.fetchall()
    return int(count)


def null_columns(cursor: pymysql.cursors.Cursor, name: TableName) -> set[str]:
    """Returns the generated columns whose expression is just NULL. They replace columns that the server could not
    compute."""
    cursor.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND UPPER(generation_expression) = 'NULL'",
        (name.database, name.table),
    )
    return {str(column) for (column,) in cursor.fetchall()}


def table_indexes(cursor: pymysql.cursors.Cursor, table: TableName) -> TableIndexes:
    """Returns the table's indexes and foreign keys as the server shows them, none for a table that does not exist."""
    cursor.execute(
        "SELECT index_name, non_unique, column_name, sub_part FROM information_schema.statistics"
        " WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index",
        (table.database, table.table),
    )
    parts: dict[tuple[str, str], list[IndexPart]] = {}
    for name, non_unique, column, length in cursor.fetchall():
        kind = "PRIMARY" if name == "PRIMARY" else "INDEX" if int(non_unique) else "UNIQUE"
        parts.setdefault((name, kind), []).append(IndexPart(column, length is not None))
    cursor.execute(
        "SELECT constraint_name FROM information_schema.table_constraints"
        " WHERE table_schema = %s AND table_name = %s AND constraint_type = 'FOREIGN KEY'",
        (table.database, table.table),
    )
    return TableIndexes(
        True,
        tuple(KnownIndex(name, kind, tuple(columns)) for (name, kind), columns in parts.items()),
        tuple(KnownForeignKey(name, name) for (name,) in cursor.fetchall()),
    )
