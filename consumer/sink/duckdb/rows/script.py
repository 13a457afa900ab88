"""Statements that repair rows of one table, for a person to run with DuckDB's own client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.values import binary_to_hex
from consumer.model.load import LoadTarget
from consumer.sink.columnar.progress import GENERATION
from consumer.sink.columnar.table import quote_name, quote_text
from consumer.sink.duckdb.rows.compare import DuckDbComparer

_ROWS = 500
_BLOB = "BLOB"


@dataclass(frozen=True, slots=True)
class DuckDbScript:
    """`table` is the table's name in statements, `catalog` the file's. The table has no unique keys."""

    comparer: DuckDbComparer
    catalog: str
    table: str
    exchanges: ClassVar[bool] = True

    def begin(self, generation: str) -> bytes:
        now = f"({GENERATION.format(quote_name(self.catalog))})"
        moved = (
            f"CASE WHEN {now} IS DISTINCT FROM {quote_text(generation)} THEN error('the consumer has continued') END"
        )
        return f"BEGIN TRANSACTION;\nSELECT {moved} AS stays;\n".encode()

    def write(self, target: LoadTarget, rows: pa.Table, there: bool) -> Iterator[bytes]:
        """Rows that unexpectedly exist are updated like those that are known to exist: otherwise a key would have two
        rows."""
        others = [position for position in range(len(target.names)) if position not in target.key]
        changed = ", ".join(f"{quote_name(target.names[n])} = {self._value(target, n)}" for n in others)
        columns, same = ", ".join(map(quote_name, target.names)), self._same(target, target.key)
        for source in self._sources(target, rows):
            if others:
                yield _statement(f"UPDATE {self.table} AS t SET {changed} FROM {source} WHERE {same}")
            if not there:
                new = f"NOT EXISTS (FROM {self.table} AS t WHERE {same})"
                values = f"SELECT {self._values(target)} FROM {source} WHERE {new}"
                yield _statement(f"INSERT INTO {self.table} ({columns}) {values}")

    def remove(self, target: LoadTarget, rows: pa.Table) -> Iterator[bytes]:
        for source in self._sources(target, rows):
            yield _statement(f"DELETE FROM {self.table} AS t USING {source} WHERE {self._same(target, target.key)}")

    def copies(self, target: LoadTarget, rows: pa.Table) -> Iterator[bytes]:
        """Deletes all copies and inserts as many as required: no number distinguishes equal rows in a table that has a
        column named rowid."""
        columns, every = ", ".join(map(quote_name, target.names)), range(len(target.names))
        for source in self._sources(target, rows, counted=True):
            yield _statement(f"DELETE FROM {self.table} AS t USING {source} WHERE {self._same(target, every)}")
            again = f"(SELECT *, unnest(range(CAST(n AS BIGINT))) FROM {source}) AS s"
            yield _statement(f"INSERT INTO {self.table} ({columns}) SELECT {self._values(target)} FROM {again}")

    def end(self) -> bytes:
        return b"COMMIT;\n"

    def _values(self, target: LoadTarget) -> str:
        return ", ".join(self._value(target, position) for position in range(len(target.names)))

    def _value(self, target: LoadTarget, position: int) -> str:
        """Returns a value of `_sources` in its column's type."""
        kind = self.comparer.table.types[target.names[position]]
        return f"from_hex(s.v{position})" if kind == _BLOB else f"CAST(s.v{position} AS {kind})"

    def _same(self, target: LoadTarget, positions: Sequence[int]) -> str:
        pairs = ((f"t.{quote_name(target.names[n])}", self._value(target, n)) for n in positions)
        return " AND ".join(f"{name} IS NOT DISTINCT FROM {value}" for name, value in pairs)

    def _sources(self, target: LoadTarget, rows: pa.Table, counted: bool = False) -> Iterator[str]:
        """Yields `rows` as tables ``s`` of texts ``v0 .. vN``, of bounded size."""
        texts = replace(self.comparer, target=target).expected(rows)
        columns = [_literals(texts.column(f"c{position}")) for position in range(len(target.names))]
        names = [f"v{position}" for position in range(len(columns))]
        if counted:
            columns.append(_literals(pc.cast(rows.column("n"), pa.large_string())))
            names.append("n")
        tuples = pc.binary_join_element_wise("(", pc.binary_join_element_wise(*columns, ", "), ")", "")
        for start in range(0, len(tuples), _ROWS):
            yield f"(VALUES {', '.join(tuples.slice(start, _ROWS).to_pylist())}) AS s({', '.join(names)})"


def _statement(text: str) -> bytes:
    return f"{text};\n".encode()


def _literals(values: pa.ChunkedArray) -> pa.Array:
    array = values.combine_chunks()
    if pa.types.is_large_binary(array.type) or pa.types.is_binary(array.type):
        array = binary_to_hex(array)
    text = pc.replace_substring(array.cast(pa.string()), "'", "''")
    for control in "\0\r":  # a statement cannot contain \\0, and some clients do not keep \\r
        text = pc.replace_substring(text, control, f"' || chr({ord(control)}) || '")
    return pc.fill_null(pc.binary_join_element_wise("'", text, "'", ""), "NULL")
