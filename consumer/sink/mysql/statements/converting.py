"""Converts columns so that their values are upstream's, or refuses the statement.

A server converts by its own rules. So before the statement runs, it converts each value in a temporary table. A text
that it would turn into another number or time is rewritten first, in the form in which upstream reads it. JSON is
rewritten after the statement, as TiDB writes it.
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
from consumer.sink.mysql.rows.normal_form import expression, normal_form_of_read, normal_form_of_written
from consumer.sink.mysql.rows.values import bytes_of
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import server_error
from consumer.sink.mysql.statements.conversions import ConvertedColumn
from consumer.sink.mysql.tables.checks import type_of
from consumer.sink.mysql.tables.describe import describe_tables, labels_of_type
from consumer.sink.mysql.target import TargetColumn
from consumer.sink.progress_layout import SCHEMA

_FORMS = qualified(SCHEMA, "forms")
_TRIED = qualified(SCHEMA, "conversions")
_UTF8 = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_AT_A_TIME = 5_000
_READ_AT_A_TIME = 10_000

_Different = tuple[Value, Value, Value | None]
"""A value, what upstream made of it, and what the server makes of it. None for a value that it refuses to convert."""


def _temporary_file() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class _Forms:
    """New forms of texts, in a file, as a column can have a billion. A line has a text's hash and its form."""

    _file: IO[str] = field(default_factory=_temporary_file)

    def add(self, text: str, form: str) -> None:
        self._file.write(json.dumps([hashlib.sha256(text.encode()).hexdigest(), form]) + "\n")

    def write(self, cursor: pymysql.cursors.Cursor, table: TableName, column: str) -> None:
        """Gives each text of the column its form. pymysql's errors pass through.

        One UPDATE finds the forms by the texts' hashes, because texts have no index.
        """
        self._file.seek(0)
        if not (lines := list(islice(self._file, _AT_A_TIME))):
            return
        cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_FORMS}")
        cursor.execute(f"CREATE TEMPORARY TABLE {_FORMS} (old BINARY(32) PRIMARY KEY, form LONGTEXT) {_UTF8}")
        while lines:
            rows = ((bytes.fromhex(old), form) for old, form in map(json.loads, lines))
            # pymysql combines many rows into one statement if they are plain values.
            cursor.executemany(f"INSERT IGNORE INTO {_FORMS} VALUES (%s, %s)", list(rows))
            lines = list(islice(self._file, _AT_A_TIME))
        table_sql, name_sql = f"{qualified(*table)} AS here", f"here.{quote(column)}"
        stay = [f"here.{quote(name)} = here.{quote(name)}" for name in _touched_by_updates(cursor, table)]
        by_hash = f"forms.old = UNHEX(SHA2(CONVERT({name_sql} USING utf8mb4), 256))"
        assignments = ", ".join([f"{name_sql} = forms.form", *stay])
        cursor.execute(f"UPDATE {table_sql} STRAIGHT_JOIN {_FORMS} AS forms ON {by_hash} SET {assignments}")
        cursor.execute(f"DROP TEMPORARY TABLE {_FORMS}")

    def close(self) -> None:
        self._file.close()


def prepare_conversion(
    cursor: pymysql.cursors.Cursor, table: TableName, columns: Sequence[ConvertedColumn], flavor: FlavorName
) -> None:
    """Checks, before anything of the statement has run, each value that the server may convert differently, and
    rewrites what must be rewritten. It can be repeated. pymysql's errors pass through. Raises NoValue, with the table
    unchanged."""
    target = describe_tables(cursor, [table]).get(table) if columns else None
    with ExitStack() as files:
        forms_by_column = list[tuple[str, _Forms]]()
        for column in columns:
            if target is None or (now := target.column(column.before)) is None:
                continue  # the server refuses the statement
            old = column.conversion.old
            if old.labelled and not old.elements:
                conversion = Conversion(replace(old, elements=labels_of_type(now.type)), column.conversion.new)
                column = replace(column, conversion=conversion)
            forms = files.enter_context(closing(_Forms()))
            try:
                _look(cursor, table, column, now, flavor, forms)
            except NoValue as error:
                raise NoValue(f"column {column.before}: {error}") from error
            forms_by_column.append((column.before, forms))
        for name, forms in forms_by_column:
            forms.write(cursor, table, name)


def _look(
    cursor: pymysql.cursors.Cursor,
    table: TableName,
    column: ConvertedColumn,
    now: TargetColumn,
    flavor: FlavorName,
    forms: _Forms,
) -> None:
    """Checks the values of one column. `forms` gets those that must be rewritten before the statement."""
    conversion, name_sql, table_sql = column.conversion, quote(column.before), qualified(*table)
    new = conversion.new
    as_text = new.family in (Family.TEXT, Family.BINARY)
    if conversion.refuses_null:
        cursor.execute(f"SELECT 1 FROM {table_sql} WHERE {name_sql} IS NULL LIMIT 1")
        if cursor.fetchone() is not None:
            raise NoValue("it has a NULL, and upstream had none")
    if flavor == "tidb" and conversion.by_mode:
        read = f"JSON_UNQUOTE({name_sql})" if conversion.old.family is Family.JSON else name_sql
        # This session accepts any day up to the 31st. The inner LIMIT keeps the condition away from the store,
        # which may not accept it.
        day = f"CAST({read} AS DATETIME({new.scale or 0}))"
        days = f"SELECT {name_sql} AS value, {day} AS day FROM {table_sql} LIMIT {2**64 - 1}"
        odd = "day <> 0 AND day + INTERVAL 0 DAY IS NULL"
        cursor.execute(f"SELECT value FROM ({days}) AS looked_at WHERE {odd} LIMIT 1")
        for (value,) in cursor.fetchall():
            raise NoValue(f"{shown(value if isinstance(value, bytes) else str(value))} is a day that no month has")
    elif conversion.unknown:
        cursor.execute(f"SELECT 1 FROM {table_sql} WHERE {name_sql} IS NOT NULL LIMIT 1")
        if cursor.fetchone() is not None:
            raise NoValue(conversion.unknown)
    elif column.rewritten_after(flavor):
        make = conversion.maker()
        for text in _texts(cursor.connection, table, column.before):
            make(tidb_json(text))
    elif conversion.way is Way.COMPUTED or (as_text and "zerofill" in now.type):
        different = _try(cursor, table, column, now, flavor)
        if column.rewritten_before:
            _write_before(conversion, different, forms)
        else:
            for value, wanted, made in different:
                ours, theirs = shown(wanted), shown(made or "")
                raise NoValue(
                    f"upstream made {ours} of {shown(value)} as {type_of(new)}, and this server makes {theirs}"
                )
        cursor.execute(f"DROP TEMPORARY TABLE {_TRIED}")
    elif as_text and conversion.way is Way.SAME:  # a server cuts blanks off silently
        characters = most_characters(new)
        length = (
            f"LENGTH({name_sql}) > {most_bytes(new)}"
            if characters is None
            else f"CHAR_LENGTH({name_sql}) > {characters}"
        )
        cursor.execute(f"SELECT {name_sql} FROM {table_sql} WHERE {length} LIMIT 1")
        for (value,) in cursor.fetchall():
            raise NoValue(f"{shown(value if isinstance(value, bytes) else str(value))} is longer than {type_of(new)}")


def _plain(column: Column, text: str) -> str:
    """Returns a value as every server reads it, in few characters: the text column must hold it for a moment."""
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
    cursor: pymysql.cursors.Cursor, table: TableName, column: ConvertedColumn, now: TargetColumn, flavor: FlavorName
) -> Iterator[_Different]:
    """Has the server convert each value in a temporary table. Yields the values that it converts differently from
    upstream. If it refuses some, yields all texts that are not in their new form yet. Raises NoValue."""
    conversion, name_sql = column.conversion, quote(column.before)
    kind = f"{now.type} COLLATE {now.collation}" if now.collation else now.type
    cursor.execute(f"DROP TEMPORARY TABLE IF EXISTS {_TRIED}")
    cursor.execute(f"CREATE TEMPORARY TABLE {_TRIED} (old {kind} NULL, new {kind} NULL)")
    # Equal values are not removed: that costs a server more than to convert them.
    cursor.execute(
        f"INSERT INTO {_TRIED} SELECT {name_sql}, {name_sql} FROM {qualified(*table)} WHERE {name_sql} IS NOT NULL"
    )
    to, old = conversion.new, _selected(conversion.old, expression(conversion.old.family, now, flavor, "old"))
    made = TargetColumn(
        name="new",
        data_type=to.type.lower(),
        type=type_of(to).lower(),
        collation="",
        nullable=True,
        generated=False,
        default=None,
        extra="",
        expression="",
    )
    new = _selected(to, expression(to.family, made, flavor, "new"))
    refusal: pymysql.MySQLError | None = None
    try:
        cursor.execute(f"ALTER TABLE {_TRIED} MODIFY new {type_of(to)} NULL")
    except pymysql.MySQLError as error:
        if not isinstance(server_error(error, "ddl"), DdlRefused):
            raise
        refusal = error
    for values, *converted_here in _columns(cursor.connection, (old,) if refusal else (old, new)):
        wanted, lost = convert_values(conversion, values)
        if lost:
            raise NoValue(lost)
        same = (
            _same(to, made, wanted, *converted_here) if converted_here else pc.equal(_plain_texts(to, wanted), values)
        )
        for position in np.flatnonzero(~pc.fill_null(same, False).to_numpy(zero_copy_only=False)):
            if refusal is None or column.rewritten_before:
                yield (
                    values[position].as_py(),
                    wanted[position].as_py(),
                    converted_here[0][position].as_py() if converted_here else None,
                )
    if refusal is not None and not column.rewritten_before:
        raise NoValue(f"this server does not make {type_of(to)} of all values: {refusal.args[-1]}") from refusal


def _same(to: Column, made: TargetColumn, wanted: pa.Array, theirs: pa.Array) -> pa.Array:
    return pc.equal(
        normal_form_of_written(to.family, made.data_type, wanted),
        normal_form_of_read(to.family, made.data_type, theirs),
    )


def _selected(column: Column, expression: str) -> str:
    return expression if column.family is Family.BINARY else f"CAST({expression} AS CHAR)"


def _columns(connection: pymysql.Connection, expressions: Sequence[str]) -> Iterator[list[pa.Array]]:
    """Yields the values that the server converts, some rows at a time."""
    with SSCursor(connection) as rows:
        rows.execute(f"SELECT {', '.join(expressions)} FROM {_TRIED}")
        while rows_fetched := rows.fetchmany(_READ_AT_A_TIME):
            yield [pa.array(values) for values in zip(*rows_fetched, strict=True)]


def rewrite_texts(cursor: pymysql.cursors.Cursor, table: TableName, column: str, form: Callable[[str], str]) -> None:
    """Rewrites each text of the column by `form`, which does not change its own results. pymysql's errors pass
    through."""
    with closing(_Forms()) as forms:
        for text in _texts(cursor.connection, table, column):
            if (new := form(text)) != text:
                forms.add(text, new)
        forms.write(cursor, table, column)


def _texts(connection: pymysql.Connection, table: TableName, column: str) -> Iterator[str]:
    """Yields each text of the column once."""
    name_sql = quote(column)
    with SSCursor(connection) as texts:
        texts.execute(f"SELECT DISTINCT {bytes_of(name_sql)} FROM {qualified(*table)} WHERE {name_sql} IS NOT NULL")
        for (text,) in texts:
            yield text.decode()


def _touched_by_updates(cursor: pymysql.cursors.Cursor, table: TableName) -> list[str]:
    """Returns the columns that an UPDATE sets to its own time."""
    cursor.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND extra LIKE '%%on update%%'",
        table,
    )
    return [name for (name,) in cursor.fetchall()]
