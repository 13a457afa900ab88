"""Columns that become others: their values are upstream's, or the statement is refused.

A server converts by rules of its own. So it shows in a table of its own what it would make of each value, before the
statement runs. A text of which it would make another number or time is written as upstream reads it first; JSON is
written again behind the statement, as TiDB writes it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.cursors import SSCursor

from consumer.codec.conversions import convert_values
from consumer.errors import DdlRefused
from consumer.model.columns import Column, Family
from consumer.model.json_texts import tidb_json
from consumer.model.names import TableName, qualified, quote
from consumer.model.types.conversions import Conversion, Value, Way
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
_UTF8 = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_AT_A_TIME = 5_000
_READ_AT_A_TIME = 10_000

_Different = tuple[Value, Value, Value | None]
"""A value, what upstream made of it, and what the server does; None for one that it refused to convert."""


def _temporary_file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Forms:
    """New forms of texts, in a file: a column can have a billion. A line has a text's hash and its form."""

    _file: IO[str] = field(default_factory=_temporary_file)

    def add(self, text: str, form: str) -> None:
        self._file.write(json.dumps([hashlib.sha256(text.encode()).hexdigest(), form]) + "\n")

    def write(self, cursor: pymysql.cursors.Cursor, table: TableName, column: str) -> None:
        """Give each text of the column its form. pymysql's errors pass through.

        One UPDATE, which finds the forms by the texts' hashes: texts have no index.
        """
        self._file.seek(0)
        if not (lines := list(islice(self._file, _AT_A_TIME))):
            return
        cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_FORMS}")
        cursor.execute(f"CREATE TEMPORARY TABLE {_FORMS} (old BINARY(32) PRIMARY KEY, form LONGTEXT) {_UTF8}")
        while lines:
            found = ((bytes.fromhex(old), form) for old, form in map(json.loads, lines))
            # pymysql makes one statement of many rows where they are nothing but values.
            cursor.executemany(f"INSERT IGNORE INTO {_FORMS} VALUES (%s, %s)", list(found))
            lines = list(islice(self._file, _AT_A_TIME))
        there, own = f"{qualified(*table)} AS here", f"here.{quote(column)}"
        stay = [f"here.{quote(name)} = here.{quote(name)}" for name in _touched_by_updates(cursor, table)]
        by_hash = f"forms.old = UNHEX(SHA2(CONVERT({own} USING utf8mb4), 256))"
        given = ", ".join([f"{own} = forms.form", *stay])
        cursor.execute(f"UPDATE {there} STRAIGHT_JOIN {_FORMS} AS forms ON {by_hash} SET {given}")
        cursor.execute(f"DROP TEMPORARY TABLE {_FORMS}")

    def close(self) -> None:
        self._file.close()


def prepare(cursor: pymysql.cursors.Cursor, table: TableName, columns: Sequence[Converted], flavor: FlavorName) -> None:
    """Before the statement, of which nothing has run: look at each value that the server may make another one of, and
    write what must be written. Can be done again. pymysql's errors pass through. Raises NoValue, with the table as it
    was."""
    there = describe(cursor, [table]).get(table) if columns else None
    with ExitStack() as files:
        found = list[tuple[str, _Forms]]()
        for column in columns:
            if there is None or (now := there.column(column.before)) is None:
                continue  # the server refuses the statement
            old = column.conversion.old
            if old.labelled and not old.elements:
                known = Conversion(replace(old, elements=labels(now.type)), column.conversion.new)
                column = replace(column, conversion=known)
            forms = files.enter_context(closing(_Forms()))
            try:
                _look(cursor, table, column, now, flavor, forms)
            except NoValue as error:
                raise NoValue(f"column {column.before}: {error}") from error
            found.append((column.before, forms))
        for name, forms in found:
            forms.write(cursor, table, name)


def _look(
    cursor: pymysql.cursors.Cursor,
    table: TableName,
    column: Converted,
    now: TargetColumn,
    flavor: FlavorName,
    forms: _Forms,
) -> None:
    """Look at the values of one column; `forms` get those that must be written before the statement."""
    conversion, own, there = column.conversion, quote(column.before), qualified(*table)
    new = conversion.new
    as_text = new.family in (Family.TEXT, Family.BINARY)
    if conversion.refuses_null:
        cursor.execute(f"SELECT 1 FROM {there} WHERE {own} IS NULL LIMIT 1")
        if cursor.fetchone() is not None:
            raise NoValue("it has a NULL, and upstream had none")
    if flavor == "tidb" and conversion.by_mode:
        read = f"JSON_UNQUOTE({own})" if conversion.old.family is Family.JSON else own
        # Our session lets any day up to a 31st pass. The inner LIMIT keeps the condition from the store, which may not.
        day = f"CAST({read} AS DATETIME({new.scale or 0}))"
        days = f"SELECT {own} AS value, {day} AS day FROM {there} LIMIT {2**64 - 1}"
        odd = "day <> 0 AND day + INTERVAL 0 DAY IS NULL"
        cursor.execute(f"SELECT value FROM ({days}) AS looked_at WHERE {odd} LIMIT 1")
        for (value,) in cursor.fetchall():
            raise NoValue(f"{shown(value if isinstance(value, bytes) else str(value))} is a day that no month has")
    elif conversion.unknown:
        cursor.execute(f"SELECT 1 FROM {there} WHERE {own} IS NOT NULL LIMIT 1")
        if cursor.fetchone() is not None:
            raise NoValue(conversion.unknown)
    elif column.written_behind(flavor):
        make = conversion.maker()
        for text in _texts(cursor.connection, table, column.before):
            make(tidb_json(text))
    elif conversion.way is Way.COMPUTED or (as_text and "zerofill" in now.type):
        different = _try(cursor, table, column, now, flavor)
        if column.written_before:
            _write_before(conversion, different, forms)
        else:
            for value, wanted, made in different:
                ours, theirs = shown(wanted), shown(made or "")
                raise NoValue(
                    f"upstream made {ours} of {shown(value)} as {type_of(new)}, and this server makes {theirs}"
                )
        cursor.execute(f"DROP TEMPORARY TABLE {_TRIED}")
    elif as_text and conversion.way is Way.SAME:  # a server cuts blanks off without a word
        characters = most_characters(new)
        length = f"LENGTH({own}) > {most_bytes(new)}" if characters is None else f"CHAR_LENGTH({own}) > {characters}"
        cursor.execute(f"SELECT {own} FROM {there} WHERE {length} LIMIT 1")
        for (value,) in cursor.fetchall():
            raise NoValue(f"{shown(value if isinstance(value, bytes) else str(value))} is longer than {type_of(new)}")


def _plain(column: Column, text: str) -> str:
    """A value as every server reads it, in few characters: the text's own column must hold it for a moment."""
    return text.rstrip("0").rstrip(".") if column.family is Family.DECIMAL and "." in text else text


def _plain_texts(column: Column, texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else _plain(column, text) for text in texts.to_pylist()], pa.string())


def _write_before(conversion: Conversion, different: Iterable[_Different], forms: _Forms) -> None:
    most = most_characters(conversion.old)
    for text, wanted, _ in different:
        form = _plain(conversion.new, str(wanted))
        if most is not None and len(form) > most:
            raise NoValue(
                f"upstream made {shown(form)} of {shown(text)} as {type_of(conversion.new)}, this server does not, and"
                f" {type_of(conversion.old)} is too short for it to be written before the statement"
            )
        forms.add(str(text), form)


def _try(
    cursor: pymysql.cursors.Cursor, table: TableName, column: Converted, now: TargetColumn, flavor: FlavorName
) -> Iterator[_Different]:
    """Have the server convert each value, in a table of its own: those of which it makes another one than upstream did,
    or all texts that are no new form yet, where it refuses some. Raises NoValue."""
    conversion, own = column.conversion, quote(column.before)
    kind = f"{now.type} COLLATE {now.collation}" if now.collation else now.type
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_TRIED}")
    cursor.execute(f"CREATE TEMPORARY TABLE {_TRIED} (old {kind} NULL, new {kind} NULL)")
    # As they are: to sort out equal ones costs a server more than to convert them.
    cursor.execute(f"INSERT INTO {_TRIED} SELECT {own}, {own} FROM {qualified(*table)} WHERE {own} IS NOT NULL")
    to, old = conversion.new, _selected(conversion.old, expression(conversion.old.family, now, flavor, "old"))
    made = TargetColumn("new", to.type.lower(), type_of(to).lower(), "", True, False, None, "", "")
    new = _selected(to, expression(to.family, made, flavor, "new"))
    refusal: pymysql.MySQLError | None = None
    try:
        cursor.execute(f"ALTER TABLE {_TRIED} MODIFY new {type_of(to)} NULL")
    except pymysql.MySQLError as error:
        if not isinstance(translate(error, "ddl"), DdlRefused):
            raise
        refusal = error
    for values, *found in _columns(cursor.connection, (old,) if refusal else (old, new)):
        wanted, lost = convert_values(conversion, values)
        if lost:
            raise NoValue(lost)
        same = _same(to, made, wanted, *found) if found else pc.equal(_plain_texts(to, wanted), values)
        for at in np.flatnonzero(~pc.fill_null(same, False).to_numpy(zero_copy_only=False)):
            if refusal is None or column.written_before:
                yield values[at].as_py(), wanted[at].as_py(), found[0][at].as_py() if found else None
    if refusal is not None and not column.written_before:
        raise NoValue(f"this server does not make {type_of(to)} of all values: {refusal.args[-1]}") from refusal


def _same(to: Column, made: TargetColumn, wanted: pa.Array, theirs: pa.Array) -> pa.Array:
    return pc.equal(written(to.family, made.data_type, wanted), normal(to.family, made.data_type, theirs))


def _selected(column: Column, expression: str) -> str:
    return expression if column.family is Family.BINARY else f"CAST({expression} AS CHAR)"


def _columns(connection: pymysql.Connection, expressions: Sequence[str]) -> Iterator[list[pa.Array]]:
    """The values that the server converts, some rows at a time."""
    with SSCursor(connection) as rows:
        rows.execute(f"SELECT {', '.join(expressions)} FROM {_TRIED}")
        while found := rows.fetchmany(_READ_AT_A_TIME):
            yield [pa.array(values) for values in zip(*found, strict=True)]


def rewrite(cursor: pymysql.cursors.Cursor, table: TableName, column: str, form: Callable[[str], str]) -> None:
    """Have each text of the column as `form` writes it, which leaves it so. pymysql's errors pass through."""
    with closing(_Forms()) as forms:
        for text in _texts(cursor.connection, table, column):
            if (new := form(text)) != text:
                forms.add(text, new)
        forms.write(cursor, table, column)


def _texts(connection: pymysql.Connection, table: TableName, column: str) -> Iterator[str]:
    """Each text of the column once."""
    own = quote(column)
    with SSCursor(connection) as texts:
        texts.execute(f"SELECT DISTINCT {bytes_of(own)} FROM {qualified(*table)} WHERE {own} IS NOT NULL")
        for (text,) in texts:
            yield text.decode()


def _touched_by_updates(cursor: pymysql.cursors.Cursor, table: TableName) -> list[str]:
    """The columns to which an UPDATE gives its own time."""
    cursor.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND extra LIKE '%%on update%%'",
        table,
    )
    return [name for (name,) in cursor.fetchall()]
