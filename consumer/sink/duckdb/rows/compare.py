"""Reads one table of the file for a comparison. Both sides are text of the types that upstream's columns have in a
file. The expected rows get there by the writer's own conversion and the casts of its merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import duckdb
import pyarrow as pa

from consumer.errors import BadConfig, RowRefused, SchemaDrift
from consumer.model.load import LoadTarget
from consumer.sink.columnar.comparer import ColumnarComparer
from consumer.sink.columnar.table import (
    TEXT,
    ColumnarTarget,
    ReplicaTable,
    duckdb_type,
    quote_name,
    quote_text,
    widened,
)
from consumer.sink.columnar.writer import SHARED, to_arrow
from consumer.sink.duckdb.connection import Database, qualified_name
from consumer.target import Only

RANGE_ROWS = 500_000
_READ_ROWS, _BATCH_ROWS, _BATCH_BYTES = 2_048, 100_000, 32 << 20
_BLOB = "BLOB"


@dataclass(frozen=True, slots=True)
class DuckDbComparer(ColumnarComparer):
    """`rows` is above every row's number, 0 if rows cannot be selected by their number."""

    path: str
    table: ReplicaTable
    target: LoadTarget
    rows: int
    only: Only | None = None

    @property
    def ranges(self) -> int:
        return max(1, -(-self.rows // RANGE_ROWS))

    def _expected(self, rows: pa.Table, as_it_is: bool = False) -> pa.Table:
        assert isinstance(self.target.settings, ColumnarTarget)
        staged, chosen = {}, []
        for position, (column, held) in enumerate(zip(self.target.columns, self.target.settings.held, strict=True)):
            values, kind = rows.column(f"c{position}"), self._own_type(position)
            try:
                values = to_arrow(column, values, held, position in self.target.key)
            except RowRefused:
                if not as_it_is:
                    raise
                kind = TEXT
            staged[f"c{position}"] = values
            chosen.append(f"{_as_text(f'c{position}', kind)} AS c{position}")
        source = pa.table(staged)
        connection = _memory()
        connection.register("staged", source)
        try:
            return _large(connection.sql(f"SELECT {', '.join(chosen)} FROM staged").to_arrow_table())
        finally:
            connection.unregister("staged")

    def held(self, number: int) -> Iterator[pa.Table]:
        """Raises BadConfig if this machine does not have the file."""
        chosen = [f"{self._held(n, quote_name(name))} AS c{n}" for n, name in enumerate(self.target.names)]
        first = number * RANGE_ROWS
        conditions = [f"rowid >= {first} AND rowid < {first + RANGE_ROWS}"] if self.ranges > 1 else []
        if self.only is not None:
            chosen_by = quote_name(self.target.names[self.only.position])
            values = ", ".join(map(quote_text, self.only.values))
            conditions.append(f"({chosen_by} IN ({values}) OR {chosen_by} IS NULL)")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        with Database(self.path).reader() as connection:
            if connection is None:
                raise BadConfig(f"a Spark worker does not see the file {self.path}", hint=SHARED)
            name = qualified_name(connection, self.table.name)
            selected = connection.sql(f"SELECT {', '.join(chosen)} FROM {name}{where}")
            yield from map(_large, _together(selected.to_arrow_reader(_READ_ROWS)))

    def _held(self, position: int, name: str) -> str:
        """Returns the column's value as text of the type that it should have. If the actual type cannot hold it the
        same way, the text shows the value with that type."""
        usual, kind = self._own_type(position), self.table.types[self.target.names[position]]
        if kind == usual:
            return name if kind == _BLOB else f"CAST({name} AS {TEXT})"
        back = f"CAST(TRY_CAST({name} AS {usual}) AS {kind})"
        strange = f"CAST({name} AS {TEXT}) || ' ({kind})'"
        return f"CASE WHEN {back} IS NOT DISTINCT FROM {name} THEN {_as_text(name, usual)} ELSE {strange} END"

    def _own_type(self, position: int) -> str:
        """Returns the type of a new column; text for a column that became text because of its values."""
        column, kind = self.target.columns[position], self.table.types[self.target.names[position]]
        return TEXT if widened(column, kind) else duckdb_type(column)


@lru_cache(maxsize=1)
def _memory() -> duckdb.DuckDBPyConnection:
    """Returns a connection for DuckDB's casts without a file, one for the process: a task is one thread."""
    return duckdb.connect()


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields tables of many rows, or of fewer if these are wide."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= _BATCH_ROWS or sum(b.nbytes for b in held) >= _BATCH_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def rows_of(connection: duckdb.DuckDBPyConnection, table: ReplicaTable) -> int:
    """Returns the greatest row number plus one; 0 if a column is named like that number (rowid). Raises SchemaDrift for
    a view."""
    views = (
        "SELECT 1 FROM duckdb_views() WHERE database_name = current_database() AND schema_name = ? AND view_name = ?"
    )
    if connection.execute(views, list(table.name)).fetchone():
        raise SchemaDrift(f"{table.name} is a view in the target, rows cannot be written to it")
    if table.spelled("rowid") is not None:
        return 0
    greatest = connection.execute(f"SELECT max(rowid) FROM {qualified_name(connection, table.name)}").fetchall()
    return 0 if greatest[0][0] is None else int(greatest[0][0]) + 1


def _as_text(value: str, kind: str) -> str:
    """Returns `value` as the text of a value of type `kind`. A value that the type cannot hold keeps its own text."""
    if kind in (_BLOB, TEXT):
        return value if kind == _BLOB else f"CAST({value} AS {TEXT})"
    return f"coalesce(CAST(TRY_CAST({value} AS {kind}) AS {TEXT}), CAST({value} AS {TEXT}))"


def _large(rows: pa.Table) -> pa.Table:
    kinds = [
        pa.large_binary() if pa.types.is_binary(f.type) or pa.types.is_large_binary(f.type) else pa.large_string()
        for f in rows.schema
    ]
    return pa.table(
        [column.cast(kind) for column, kind in zip(rows.columns, kinds, strict=True)], names=rows.column_names
    )
