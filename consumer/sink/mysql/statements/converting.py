"""Columns that become others: their values are upstream's, or the statement is refused.

A server converts by rules of its own. So a text that becomes a number or a time is written as upstream reads it first;
JSON is written again behind the statement, as TiDB writes it. Of other values the server shows in a table of its own
what it would make of each, before the statement runs.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.cursors import SSCursor

from consumer.codec.conversions import converted
from consumer.errors import DdlRefused
from consumer.model.columns import Column, Family
from consumer.model.json_texts import tidb_json
from consumer.model.names import TableName, qualified, quote
from consumer.model.types.conversions import Conversion, Way
from consumer.model.types.texts import most_bytes, most_characters
from consumer.model.types.values import NoValue, shown
from consumer.sink.mysql.rows.normal_form import expression, normal, written
from consumer.sink.mysql.rows.values import bytes_of
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.statements.conversions import Converted
from consumer.sink.mysql.tables.checks import type_of
from consumer.sink.mysql.tables.describe import describe, labels
from consumer.sink.mysql.target import TargetColumn
from consumer.sink.progress_layout import SCHEMA

_FORMS = qualified(SCHEMA, "forms")
_TRIED = qualified(SCHEMA, "conversions")
_AT_A_TIME = 500
_READ_AT_A_TIME = 10_000


def prepare(cursor: pymysql.cursors.Cursor, table: TableName, columns: Sequence[Converted], flavor: FlavorName) -> None:
    """Before the statement, of which nothing has run: look at each value that the server may make another one of. Can
    be done again. pymysql's errors pass through. Raises NoValue."""
    there = describe(cursor, [table]).get(table) if columns else None
    for column in columns:
        if there is None or (now := there.column(column.before)) is None:
            continue  # the server refuses the statement
        old = column.conversion.old
        if old.labelled and not old.elements:
            known = Conversion(replace(old, elements=labels(now.type)), column.conversion.new)
            column = replace(column, conversion=known)
        try:
            _prepare(cursor, table, column, now, flavor)
        except NoValue as error:
            raise NoValue(f"column {column.before}: {error}") from error


def _prepare(
    cursor: pymysql.cursors.Cursor, table: TableName, column: Converted, now: TargetColumn, flavor: FlavorName
) -> None:
    conversion, own, there = column.conversion, quote(column.before), qualified(*table)
    new = conversion.new
    as_text = new.family in (Family.TEXT, Family.BINARY)
    if conversion.unknown:
        cursor.execute(f"SELECT 1 FROM {there} WHERE {own} IS NOT NULL LIMIT 1")
        if cursor.fetchone() is not None:
            raise NoValue(conversion.unknown)
    elif column.written_before:
        make = conversion.maker()
        rewrite(cursor, table, column.before, lambda text: _plain(new, str(make(text))))
    elif column.written_behind(flavor):
        make = conversion.maker()
        for text in _texts(cursor.connection, table, column.before):
            make(tidb_json(text))
    elif conversion.way is Way.COMPUTED or (as_text and "zerofill" in now.type):
        _try(cursor, table, column, now, flavor)
    elif as_text and conversion.way is Way.SAME:  # a server cuts blanks off without a word
        characters = most_characters(new)
        length = f"LENGTH({own}) > {most_bytes(new)}" if characters is None else f"CHAR_LENGTH({own}) > {characters}"
        cursor.execute(f"SELECT {own} FROM {there} WHERE {length} LIMIT 1")
        for (value,) in cursor.fetchall():
            raise NoValue(f"{shown(value if isinstance(value, bytes) else str(value))} is longer than {type_of(new)}")


def _plain(column: Column, text: str) -> str:
    """A value as every server reads it, in few characters: the text's own column must hold it for a moment."""
    return text.rstrip("0").rstrip(".") if column.family is Family.DECIMAL and "." in text else text


def _try(
    cursor: pymysql.cursors.Cursor, table: TableName, column: Converted, now: TargetColumn, flavor: FlavorName
) -> None:
    """Have the server convert each value, in a table of its own. Raises NoValue where it makes another one of it than
    upstream did."""
    conversion, own = column.conversion, quote(column.before)
    kind = f"{now.type} COLLATE {now.collation}" if now.collation else now.type
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_TRIED}")
    cursor.execute(f"CREATE TEMPORARY TABLE {_TRIED} (old {kind} NULL, new {kind} NULL)")
    each = f"MIN({own}), MIN({own})" if now.collation else f"DISTINCT {own}, {own}"
    group = f" GROUP BY {bytes_of(own)}" if now.collation else ""
    cursor.execute(f"INSERT INTO {_TRIED} SELECT {each} FROM {qualified(*table)} WHERE {own} IS NOT NULL{group}")
    old = _selected(conversion.old, expression(conversion.old.family, now, flavor, "old"))
    for (values,) in _columns(cursor.connection, (old,)):
        _, lost = converted(conversion, values)
        if lost:
            raise NoValue(lost)
    to = conversion.new
    made = TargetColumn("new", to.type.lower(), type_of(to).lower(), "", True, False, None, "", "")
    try:
        cursor.execute(f"ALTER TABLE {_TRIED} MODIFY new {type_of(to)} NULL")
    except pymysql.MySQLError as error:
        if not isinstance(translate(error, "ddl"), DdlRefused):
            raise
        raise NoValue(f"this server does not make {type_of(to)} of all values: {error.args[-1]}") from error
    new = _selected(to, expression(to.family, made, flavor, "new"))
    for values, found in _columns(cursor.connection, (old, new)):
        wanted, _ = converted(conversion, values)
        theirs = normal(to.family, made.data_type, found)
        same = pc.fill_null(pc.equal(written(to.family, made.data_type, wanted), theirs), False)
        for at in np.flatnonzero(~same.to_numpy(zero_copy_only=False))[:1]:
            value, ours, other = (shown(array[int(at)].as_py()) for array in (values, wanted, found))
            raise NoValue(f"upstream made {ours} of {value} as {type_of(to)}, and this server makes {other}")
    cursor.execute(f"DROP TEMPORARY TABLE {_TRIED}")


def _selected(column: Column, expression: str) -> str:
    return expression if column.family is Family.BINARY else f"CAST({expression} AS CHAR)"


def _columns(connection: pymysql.Connection, expressions: Sequence[str]) -> Iterator[list[pa.Array]]:
    """The values that the server converts, some rows at a time."""
    with SSCursor(connection) as rows:
        rows.execute(f"SELECT {', '.join(expressions)} FROM {_TRIED}")
        while found := rows.fetchmany(_READ_AT_A_TIME):
            yield [pa.array(values) for values in zip(*found, strict=True)]


def rewrite(cursor: pymysql.cursors.Cursor, table: TableName, column: str, form: Callable[[str], str]) -> None:
    """Have each text of the column as `form` writes it, which leaves it so. pymysql's errors pass through.

    One look at the column, and one UPDATE, which finds the new texts by hashes of the old ones: texts have no index.
    """
    there, own = qualified(*table), quote(column)
    with tempfile.TemporaryFile("w+", encoding="utf-8") as spool:
        if not _spooled(_texts(cursor.connection, table, column), form, spool):
            return
        spool.seek(0)
        cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_FORMS}")
        cursor.execute(
            f"CREATE TEMPORARY TABLE {_FORMS} (old CHAR(64) PRIMARY KEY, form LONGTEXT)"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )
        while lines := list(islice(spool, _AT_A_TIME)):
            cursor.executemany(f"INSERT INTO {_FORMS} VALUES (%s, %s)", [json.loads(line) for line in lines])
    text = f"CONVERT({own} USING utf8mb4)"
    found = f"SELECT form FROM {_FORMS} WHERE old = CONVERT(SHA2({text}, 256) USING utf8mb4) COLLATE utf8mb4_bin"
    stay = [f"{quote(name)} = {quote(name)}" for name in _touched_by_updates(cursor, table)]
    cursor.execute(f"UPDATE {there} SET {', '.join([f'{own} = COALESCE(({found}), {own})', *stay])}")
    cursor.execute(f"DROP TEMPORARY TABLE {_FORMS}")


def _texts(connection: pymysql.Connection, table: TableName, column: str) -> Iterator[str]:
    """Each text of the column once."""
    own = quote(column)
    with SSCursor(connection) as texts:
        texts.execute(f"SELECT DISTINCT {bytes_of(own)} FROM {qualified(*table)} WHERE {own} IS NOT NULL")
        for (text,) in texts:
            yield text.decode()


def _spooled(texts: Iterator[str], form: Callable[[str], str], spool: IO[str]) -> bool:
    """Whether some have another form; their hashes and forms, a line each."""
    found = False
    for text in texts:
        if (new := form(text)) != text:
            found = True
            spool.write(json.dumps([hashlib.sha256(text.encode()).hexdigest(), new]) + "\n")
    return found


def _touched_by_updates(cursor: pymysql.cursors.Cursor, table: TableName) -> list[str]:
    """The columns to which an UPDATE gives its own time."""
    cursor.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND extra LIKE '%%on update%%'",
        table,
    )
    return [name for (name,) in cursor.fetchall()]
