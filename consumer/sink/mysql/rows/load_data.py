"""Puts by LOAD DATA LOCAL INFILE: CSV from Arrow, sent from memory.

If a value does not fit, LOAD DATA LOCAL stores another one and counts a warning. Then it is rolled back, and strict
statements write the rows and find the one that does not fit.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv
import pymysql

from consumer.errors import RowRefused
from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.sink.mysql.rows.values import Form, form_of, from_text, texts
from consumer.sink.mysql.server.errors import LOCAL_INFILE_OFF, TOO_LARGE, errno, translate
from consumer.sink.mysql.server.wire import load_local
from consumer.sink.mysql.target import mysql_target, table_of

_FORMAT = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid", null_string="NULL")
_CLAUSES = (
    "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' LINES TERMINATED BY '\\n'"
)


class NotLoaded(Exception):
    """LOAD DATA did not store the rows as they are; the transaction must be rolled back. `switched_off`: never will."""

    def __init__(self, reason: str, switched_off: bool = False) -> None:
        super().__init__(reason)
        self.switched_off = switched_off


def load(connection: pymysql.Connection, target: LoadTarget, rows: pa.Table) -> None:
    """REPLACE `rows` (columns ``c0 .. cN``) in the transaction at hand. Raises NotLoaded; pymysql's errors of the
    connection and of locks pass through."""
    try:
        warnings = load_local(connection, load_statement(target), memoryview(csv_of(target, rows)))
    except pymysql.MySQLError as error:
        if errno(error) in LOCAL_INFILE_OFF:
            raise NotLoaded("local_infile is off", switched_off=True) from error
        if errno(error) not in TOO_LARGE and isinstance(translate(error), RowRefused):
            raise NotLoaded(str(error)) from error
        raise
    if warnings:
        raise NotLoaded(f"{warnings} warnings")


def load_statement(target: LoadTarget) -> str:
    """The statement for CSV of `csv_of`. Values that need an expression pass through a user variable.

    With any SET, servers forget that the AUTO_INCREMENT column was read from the file, and give a 0 a new number
    whatever sql_mode says. So that column is SET too.
    """
    counts = [column.counts for column in mysql_target(target).columns]
    expressed = [form_of(target, position) is not Form.TEXT for position in range(len(target.names))]
    places, assignments = [], []
    for position, name in enumerate(target.names):
        if expressed[position] or (counts[position] and any(expressed)):
            places.append(f"@v{position}")
            assignments.append(f"{quote(name)} = {from_text(target, position, f'@v{position}')}")
        else:
            places.append(quote(name))
    setting = f" SET {', '.join(assignments)}" if assignments else ""
    return (
        f"LOAD DATA LOCAL INFILE 'rows' REPLACE INTO TABLE {table_of(target)} {_CLAUSES} ({', '.join(places)}){setting}"
    )


def csv_of(target: LoadTarget, rows: pa.Table) -> pa.Buffer:
    """The rows as CSV: every value quoted, null the bare word NULL."""
    sink = pa.BufferOutputStream()
    table = pa.table(texts(target, rows), names=[f"c{position}" for position in range(len(target.columns))])
    pyarrow.csv.write_csv(table, sink, _FORMAT)
    return sink.getvalue()
