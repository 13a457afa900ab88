"""Statements that repair rows of one table, for a person to run with the server's own client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from consumer.model.load import LoadTarget
from consumer.model.names import literal, quote
from consumer.sink.mysql.progress.epochs import GENERATION
from consumer.sink.mysql.rows.multiset import conditions, delete_copies
from consumer.sink.mysql.rows.statements import delete_statements, joined, key_conditions
from consumer.sink.mysql.rows.values import column_literals, odd_rows, sql
from consumer.sink.mysql.server.connection import file_session
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.target import mysql_target, table_of

_ROWS, _BYTES = 500, 256 * 1024


@dataclass(frozen=True, slots=True)
class MySqlScript:
    """A table where a put could remove another row, or has no value for a column, is written by UPDATE and INSERT. They
    fail if two rows would have the same unique key."""

    settings: MySqlSettings
    target: LoadTarget
    exchanges: ClassVar[bool] = False

    def begin(self, generation: str) -> bytes:
        """Opens the transaction. If the lease is of another generation, a subquery with two rows ends it at once. A
        consumer that acquires the target waits for its end."""
        now = f"({GENERATION.format(literal(self.settings.name))} FOR UPDATE)"
        moved = f"SELECT 'gone on' FROM (SELECT 1 UNION ALL SELECT 2) two WHERE NOT {now} <=> {literal(generation)}"
        return f"{self._session()};\nSTART TRANSACTION;\nSET @storage_consumer_moved = ({moved});\n".encode()

    def write(self, target: LoadTarget, rows: pa.Table, there: bool) -> Iterator[bytes]:
        odd = odd_rows(target, rows)
        yield from self._puts(target, rows if odd is None else rows.filter(pc.invert(odd)), there)
        if odd is not None:
            yield b"SET SESSION sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', '');\n"
            yield from self._puts(target, rows.filter(odd), there)
            yield f"{self._session()};\n".encode()

    def remove(self, target: LoadTarget, rows: pa.Table) -> Iterator[bytes]:
        yield from (statement + b";\n" for statement in delete_statements(target, rows, plain=True))

    def copies(self, target: LoadTarget, rows: pa.Table) -> Iterator[bytes]:
        """Changes rows only if the table still has as many copies as it had, so the statements can be repeated."""
        names, table = self._names(target), table_of(target).encode()
        images = self._tuples(target, rows).to_pylist()
        counts = zip(rows.column("n").to_pylist(), rows.column("held").to_pylist(), strict=True)
        for image, condition, (wanted, held) in zip(images, conditions(target, rows, plain=True), counts, strict=True):
            yield b"SET @storage_consumer_held = (SELECT COUNT(*) FROM %b WHERE %b);\n" % (table, condition)
            still = b"@storage_consumer_held = %d" % held
            if wanted < held:
                yield delete_copies(target, b"%b AND (%b)" % (still, condition), held - wanted) + b";\n"
            again = b"INSERT INTO %b (%b) SELECT %b FROM DUAL WHERE %b;\n" % (table, names, image[1:-2], still)
            yield from (again for _ in range(wanted - held))

    def end(self) -> bytes:
        return b"COMMIT;\n"

    def _session(self) -> str:
        return file_session(mysql_target(self.target).server.flavor)

    def _puts(self, target: LoadTarget, rows: pa.Table, there: bool) -> Iterator[bytes]:
        settings = mysql_target(target)
        safe = not (settings.is_staged or settings.secondary_unique or settings.padded)
        if safe or not there:
            head = self._head("REPLACE" if safe else "INSERT", target)
            for piece in joined(self._tuples(target, rows), b",", _ROWS, _BYTES):
                yield head + piece.text + b";\n"
            return
        values = zip(target.names, column_literals(target, rows, plain=True), strict=True)
        changed = [sql(f"{quote(name)} = ", value) for name, value in values if name not in settings.computed]
        # Otherwise ON UPDATE would set these columns to the current time.
        kept = "".join(f", {quote(name)} = {quote(name)}" for name in target.extra_columns)
        where = key_conditions(target, rows)
        start = f"UPDATE {table_of(target)} SET "
        yield from sql(start, sql(*changed, between=", "), f"{kept} WHERE ", where, ";\n").to_pylist()

    def _head(self, verb: str, target: LoadTarget) -> bytes:
        return b"%b INTO %b (%b) VALUES " % (verb.encode(), table_of(target).encode(), self._names(target))

    def _names(self, target: LoadTarget) -> bytes:
        computed = mysql_target(target).computed
        return ", ".join(quote(name) for name in target.names if name not in computed).encode()

    def _tuples(self, target: LoadTarget, rows: pa.Table) -> pa.Array:
        """Returns the rows as tuples. Each ends with a comma."""
        computed = mysql_target(target).computed
        values = zip(target.names, column_literals(target, rows, plain=True), strict=True)
        return sql("(", sql(*(value for name, value in values if name not in computed), between=","), "),")
