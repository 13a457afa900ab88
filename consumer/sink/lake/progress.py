"""The progress of a lake, and the list of its tables: in memory the tables of a DuckDB replica, on disk one table of
the lake itself, `storage_consumer/progress`.

Its rows are never changed. Each commit adds records, with 1 in `sign`, and takes some back, with -1: what is there has
the sum 1. Now and then a commit writes anew what is there. A commit proves the one before it (`Commit.generation`), so
whoever was taken over can record nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import duckdb

from consumer.errors import LeaseHeld, ProgressMoved
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink.columnar.progress import GENERATION, TABLES, FileTables, check_epoch, ensure_schema, raise_epoch
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.lake.formats import Commit, TableFormat
from consumer.sink.progress_layout import SCHEMA
from consumer.sink.progress_sql import holder_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = TableName(SCHEMA, "progress")
_LAKE_TABLE = {
    "database_name": "VARCHAR",
    "table_name": "VARCHAR",
    "place": "VARCHAR",
    "generation": "BIGINT",
    "table_text": "VARCHAR",
}
_BOOKS: Mapping[str, Mapping[str, str]] = {**TABLES, "lake_table": _LAKE_TABLE}
_LEFT = "nobody"
"""Holder of a lease that was given back."""
_ANEW = 100
"""So many commits add to the table before one writes it anew: each is a file that a start reads."""


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake: what statements see of it, where it is, and the newest commit of ours in it."""

    replica: ReplicaTable
    place: str
    newest: Commit = field(default_factory=Commit)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Upstream's columns, in the lake's order and under its names."""
        assert self.replica.upstream is not None
        known = {self.replica.spelled(column.name): column for column in self.replica.upstream.columns}
        return tuple(replace(known[name], name=name) for name in self.replica.types)


class LakeProgress:
    """One consumer's view of the table. `spark` gives a session of its own."""

    def __init__(self, tables: TableFormat, place: str, spark: Callable[[], SparkSession]) -> None:
        self._tables, self._place, self._spark = tables, place, spark
        self._memory: duckdb.DuckDBPyConnection | None = None
        self._generation, self._seen = 0, ""
        self._since = 0
        self._there: dict[str, Counter[str]] = {}
        self._lake_tables: dict[TableName, LakeTable] = {}

    @property
    def lake_tables(self) -> Mapping[TableName, LakeTable]:
        """All tables of the lake, by their names in lower case."""
        self.rows()
        return self._lake_tables

    def rows(self) -> FileTables:
        """The progress as it was read."""
        return FileTables(self._read() if self._memory is None else self._memory)

    def forget(self) -> None:
        """Read it again when it is asked for next."""
        self._memory = None

    def refresh(self) -> None:
        """Read it again when it is asked for next, if somebody has written to it."""
        if self._memory is not None and self._tables.version(self._place) != self._seen:
            self.forget()

    def generation(self) -> str:
        """Another text whenever somebody takes the lake."""
        return str(self.rows().run(GENERATION.format("memory"))[0][0])

    @contextmanager
    def transaction(self, epoch: int | None) -> Iterator[FileTables]:
        """What is done within becomes durable at its end, in one commit. Raises LeaseHeld where another has taken the
        lake since. `epoch` None: of whoever takes it."""
        connection = self._read() if self._memory is None else self._memory
        connection.begin()
        try:
            if epoch is not None:
                check_epoch(connection, epoch)
            yield FileTables(connection)
            self._save(connection, epoch or 0)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    def remember(self, rows: FileTables, changed: Mapping[TableName, LakeTable | None]) -> None:
        """In a transaction: tables that are others now; None for one that is gone."""
        for name, table in changed.items():
            key = name.folded
            rows.run("DELETE FROM storage_consumer.lake_table WHERE database_name = ? AND table_name = ?", *key)
            if table is not None:
                generation, text = table.newest.generation, _text(table.replica)
                rows.run(
                    "INSERT INTO storage_consumer.lake_table VALUES (?, ?, ?, ?, ?)",
                    *key,
                    table.place,
                    generation,
                    text,
                )

    def keep(self, changed: Mapping[TableName, LakeTable | None]) -> None:
        """Behind a transaction, or a commit of a table: what is there now."""
        for name, table in changed.items():
            if table is None:
                self._lake_tables.pop(name.folded, None)
            else:
                self._lake_tables[name.folded] = table

    def _read(self) -> duckdb.DuckDBPyConnection:
        """Raises TargetUnavailable, BadConfig."""
        connection = duckdb.connect()
        ensure_schema(connection)
        columns = ", ".join(f"{name} {kind}" for name, kind in _LAKE_TABLE.items())
        connection.execute(f"CREATE TABLE storage_consumer.lake_table ({columns})")
        self._there, self._since, self._seen = {}, 0, self._tables.version(self._place)
        rows, self._generation = self._tables.few(self._place)
        if rows is not None:
            self._since = len(set(rows.column("generation").to_pylist()))
            summed = rows.group_by(["book", "record"]).aggregate([("sign", "sum")])
            for book, record, count in zip(
                *(summed.column(n).to_pylist() for n in ("book", "record", "sign_sum")), strict=True
            ):
                if count:
                    self._there.setdefault(book, Counter())[record] = count
            for book in _BOOKS:
                connection.execute(f"DELETE FROM storage_consumer.{book}")
            for book, records in self._there.items():
                self._insert(connection, book, records)
        self._memory = connection
        self._lake_tables = {}
        query = "SELECT database_name, table_name, place, generation, table_text FROM storage_consumer.lake_table"
        for *name, place, generation, text in connection.execute(query).fetchall():
            self._lake_tables[TableName(*name)] = LakeTable(_replica(text), place, Commit(int(generation)))
        return connection

    def _insert(self, connection: duckdb.DuckDBPyConnection, book: str, records: Counter[str]) -> None:
        shape = json.dumps([dict(_BOOKS[book])])
        incoming = f"SELECT unnest(from_json(?, '{shape}'), recursive := true)"
        connection.execute(
            f"INSERT INTO storage_consumer.{book} BY NAME {incoming}", [f"[{','.join(records.elements())}]"]
        )

    def _save(self, connection: duckdb.DuckDBPyConnection, epoch: int) -> None:
        there = {
            book: Counter(
                text for (text,) in connection.execute(f"SELECT to_json(t) FROM storage_consumer.{book} t").fetchall()
            )
            for book in _BOOKS
        }
        anew = self._since >= _ANEW
        changes = [
            (book, sign, text)
            for book, found in there.items()
            for sign, some in (
                (1, found if anew else found - self._old(book)),
                (-1, Counter() if anew else self._old(book) - found),
            )
            for text in some.elements()
        ]
        if not changes:
            return
        import pyarrow as pa

        generation = self._generation + 1
        books, signs, texts = (list(part) for part in zip(*changes, strict=True))
        kinds = (pa.int64(), pa.string(), pa.int32(), pa.string())
        columns = ([generation] * len(changes), books, signs, texts)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        rows = pa.table(arrays, names=["generation", "book", "sign", "record"])
        try:
            if anew:
                spark, commit = self._spark(), Commit(generation, epoch=epoch)
                with self._tables.committing(spark, self._place, commit) as change:
                    change.replace(spark.createDataFrame(rows).coalesce(1))
            else:
                self._tables.add(self._place, rows, generation)
        except ProgressMoved as moved:
            self.forget()
            raise LeaseHeld(
                "this consumer was taken over by another one of this lake",
                hint="end the other one, then run again: only one consumer of a lake can run",
            ) from moved
        self._generation, self._there, self._since = generation, there, 0 if anew else self._since + 1
        self._seen = self._tables.version(self._place)

    def _old(self, book: str) -> Counter[str]:
        return self._there.get(book, Counter())


def take(rows: FileTables) -> int:
    """Become the one writer, in a transaction; the epoch."""
    return raise_epoch(rows.connection)


def leave(rows: FileTables) -> None:
    """The progress has all that was done to tables."""
    rows.run("UPDATE storage_consumer.lease SET holder = ?", _LEFT)


def hold(rows: FileTables) -> None:
    """What is done to tables from now on may not be in the progress."""
    rows.run("UPDATE storage_consumer.lease SET holder = ?", holder_text())


def was_left(rows: FileTables) -> bool:
    """Whether the last one to have the lake did `leave` it, and was not killed."""
    return rows.run("SELECT holder FROM storage_consumer.lease")[0][0] in ("", _LEFT)


def _text(table: ReplicaTable) -> str:
    assert table.upstream is not None
    return json.dumps({"name": table.name, "types": dict(table.types), **table.upstream.as_dict()}, ensure_ascii=False)


def _replica(text: str) -> ReplicaTable:
    said = json.loads(text)
    return ReplicaTable(TableName(*said["name"]), said["types"], Upstream.of(said))
