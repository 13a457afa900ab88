"""A DuckDB replica in a temporary folder, written through the sink and read by DuckDB itself."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from consumer.errors import TableMissing
from consumer.model.actions import Action
from consumer.model.columns import Column, Family
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect, LoadOutcome, LoadTarget, LoadTask, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.model.steps import ApplyDdl, Window
from consumer.sink.duckdb.settings import DuckDbSettings
from consumer.sink.duckdb.sink import DuckDbSink
from consumer.sink.duckdb.tables import every_table, replica_tables
from consumer.target import DdlOutcome, LoadRequest

TABLE = TableName("db", "t")
ID = Column("id", "INT", nullable=False, is_pk=True)
V = Column("v", "INT")
Rows = Sequence[Sequence[str | bytes | None]]


@cache
def _acquired(time_zone: str) -> bytes:
    """A file that was acquired once: to copy it costs less than to make its tables again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "replica.duckdb"
        sink = DuckDbSink(DuckDbSettings(str(path), "c", time_zone))
        sink.acquire("file:///upstream")
        sink.record(ProgressChange(applied_ts=0))
        sink.close()
        return path.read_bytes()


class Replica:
    def __init__(self, folder: Path, time_zone: str = "UTC") -> None:
        self.path = folder / "replica.duckdb"
        self.path.write_bytes(_acquired(time_zone))
        self.sink = DuckDbSink(DuckDbSettings(str(self.path), "c", time_zone))
        self.sink.acquire("file:///upstream")
        self._version = 100

    def execute(self, action: Action, query: str, columns: Sequence[Column] = (), **more: Any) -> DdlOutcome:
        (outcome,) = self.sink.apply_ddls([self.step(action, query, columns, **more)], {})
        return outcome

    def step(
        self,
        action: Action,
        query: str,
        columns: Sequence[Column] = (),
        table: TableName = TABLE,
        old_name: TableName | None = None,
        touches: tuple[TableName, ...] = (),
        version: int | None = None,
    ) -> ApplyDdl:
        self._version += 1
        at = self._version if version is None else version
        file = SchemaFile("p", "db/t", table.database, table.table, at, 1, query, action, tuple(columns))
        return ApplyDdl(file, (table, *touches), ProgressChange(), ProgressChange(), old_name)

    def apply(self, action: Action, query: str, columns: Sequence[Column] = (), **more: Any) -> str:
        """Execute what must not be refused; the note."""
        outcome = self.execute(action, query, columns, **more)
        assert outcome.error is None, outcome.error
        return outcome.note

    def target(
        self, columns: Sequence[Column], table: TableName = TABLE, unique: tuple[tuple[str, ...], ...] = ()
    ) -> LoadTarget:
        """A table that is not there is made first, by a statement that says no more than the schema file."""
        (answer,) = self.sink.prepare([LoadRequest(TableLoad(table), tuple(columns), unique)])
        if isinstance(answer, TableMissing):
            self.apply(Action.CREATE_TABLE, f"CREATE TABLE `{table.table}`", columns, table=table)
            (answer,) = self.sink.prepare([LoadRequest(TableLoad(table), tuple(columns), unique)])
        assert isinstance(answer, LoadTarget), answer
        return answer

    def put(self, columns: Sequence[Column], rows: Rows, table: TableName = TABLE) -> None:
        """Rows in the order of `columns`, as the files carry them."""
        target = self.target(columns, table)
        places = [[column.name for column in columns].index(column.name) for column in target.columns]
        values = {
            f"c{at}": pa.array([row[place] for row in rows], self._arrow_type(columns[place]))
            for at, place in enumerate(places)
        }
        self.write(target, pa.table({"put": pa.array([True] * len(rows), pa.bool_()), **values}))

    def write(self, target: LoadTarget, changes: pa.Table) -> None:
        with self.sink.writer().session() as session:
            receipt = session.write(target, changes)
        task = LoadTask(0, target, Window(1, 2), (), Dialect())
        self.sink.commit([LoadOutcome(task, (), (receipt,))], ProgressChange())

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """By hand, when the sink does not have the file open."""
        self.close_file()
        with duckdb.connect(str(self.path)) as connection:
            return connection.execute(text).fetchall()

    def close_file(self) -> None:
        """What the sink keeps of the tables of its open file is what the file says."""
        tables = self.sink._tables
        with self.sink._database.transaction() as connection:
            described = tables.describe(connection, names := every_table(connection))
            assert described == replica_tables(connection, names)
            assert [list(table.types) for table in described.values()] == [
                list(table.types) for table in replica_tables(connection, names).values()
            ]
        self.sink._database.release()

    def rows(self, table: TableName = TABLE) -> list[tuple[Any, ...]]:
        return self.query(f'SELECT * FROM "{table.database}"."{table.table}" ORDER BY ALL')

    def types(self, table: TableName = TABLE) -> dict[str, str]:
        described = self.query(f'DESCRIBE "{table.database}"."{table.table}"')
        return {row[0]: row[1] for row in described}

    @staticmethod
    def _arrow_type(column: Column) -> pa.DataType:
        return pa.binary() if column.family is Family.BINARY else pa.string()
