"""The progress of a lake, and the list of its tables: in memory the tables of a DuckDB replica, on disk one table of
the lake itself, `storage_consumer/progress`.

Its rows are never changed. Each commit adds records, with 1 in `sign`, and takes some back, with -1: what is there has
the sum 1. They are noted as the transaction changes rows, so a commit costs what changes. Now and then a commit writes
anew what is there. A commit proves the one before it (`Commit.generation`), so whoever was taken over can record
nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import duckdb

from consumer.errors import BadConfig, LeaseHeld, ProgressMoved
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink.columnar.progress import GENERATION, TABLES, FileTables, check_epoch, ensure_schema, raise_epoch
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.lake.failures import told
from consumer.sink.lake.formats import Commit, Rewrite, TableFormat
from consumer.sink.progress_layout import KEYS, SCHEMA, damaged
from consumer.sink.progress_sql import Rows, holder_text

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
# Which table had which name from which moment of upstream up to, but not at, which: 0 for one that has it still. One
# whose rows are gone has no place.
_LAKE_NAME = {
    "database_name": "VARCHAR",
    "table_name": "VARCHAR",
    "from_ts": "UBIGINT",
    "until_ts": "UBIGINT",
    "place": "VARCHAR",
}
_OWN: Mapping[str, Mapping[str, str]] = {"lake_table": _LAKE_TABLE, "lake_name": _LAKE_NAME}
_BOOKS: Mapping[str, Mapping[str, str]] = {**TABLES, **_OWN}
_LEFT = "nobody"
"""Holder of a lease that was given back."""
_ANEW = 100
"""So many commits add to the table before one writes it anew: each is a file that a start reads."""


@dataclass(frozen=True, slots=True)
class Named:
    """That the table at `place` was called `name` from `from_ts` on, and at `until_ts` was not; 0: it still is. `place`
    is "" where its rows are gone."""

    name: TableName
    from_ts: int
    until_ts: int
    place: str

    @property
    def row(self) -> Mapping[str, object]:
        said = (*self.name, self.from_ts, self.until_ts, self.place)
        return dict(zip(_LAKE_NAME, said, strict=True))


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake: what statements see of it, where it is, and the newest commit of ours in it. `lost`: whether
    a NULL in a column of days may be a day that no calendar has."""

    replica: ReplicaTable
    place: str
    newest: Commit = field(default_factory=Commit)
    lost: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Upstream's columns, in the lake's order and under its names."""
        assert self.replica.upstream is not None
        known = {self.replica.spelled(column.name): column for column in self.replica.upstream.columns}
        return tuple(replace(known[name], name=name) for name in self.replica.types)


class NotedTables(FileTables):
    """Note what they change: how many times each row of each table is there more, as JSON."""

    columns = _BOOKS
    keys: Mapping[str, Sequence[str]] = {
        **KEYS,
        "lake_table": ("database_name", "table_name"),
        "lake_name": ("database_name", "table_name", "from_ts"),
    }
    returning = "RETURNING to_json({})"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(connection)
        self.changes: Counter[tuple[str, str]] = Counter()

    def update(self, table: str, changes: str, where: str, *values: object) -> None:
        # Only tables with a few rows are updated, and it does not tell what was there.
        self._note(table, -1, self.all(table))
        super().update(table, changes, where, *values)
        self._note(table, 1, self.all(table))

    def take_out(self, table: str, which: str, *values: object) -> Rows:
        return self._note(table, -1, super().take_out(table, which, *values))

    def put_in(self, table: str, rows: str, *values: object) -> Rows:
        return self._note(table, 1, super().put_in(table, rows, *values))

    def all(self, book: str) -> Rows:
        """Its rows, as JSON."""
        return self.run(f"SELECT to_json(t) FROM storage_consumer.{book} t")

    def _note(self, book: str, sign: int, texts: Rows) -> Rows:
        for (text,) in texts:
            self.changes[book, text] += sign
        return texts


class LakeProgress:
    """One consumer's view of the table. `spark` gives a session of its own."""

    def __init__(self, tables: TableFormat, place: str, spark: Callable[[], SparkSession]) -> None:
        self._tables, self._place, self._spark = tables, place, spark
        self._memory: duckdb.DuckDBPyConnection | None = None
        self._generation, self._seen = 0, ""
        self._since = 0
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
        with told():
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
        rows = NotedTables(connection)
        connection.begin()
        try:
            if epoch is not None:
                check_epoch(rows, epoch)
            yield rows
            self._save(rows, epoch or 0)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    def remember(self, rows: FileTables, changed: Mapping[TableName, LakeTable | None], version: int = 0) -> None:
        """In a transaction: tables that are others now; None for one that is gone. `version` is that of the statement
        by which names change; 0: upstream's have not changed, and a table takes the place of another one."""
        self._follow_names(rows, changed, version)
        rows.remove("lake_table", [_key(name) for name in changed])
        there = ((name, table) for name, table in changed.items() if table is not None)
        rows.append("lake_table", [_row(name, table) for name, table in there])

    def _follow_names(self, rows: FileTables, changed: Mapping[TableName, LakeTable | None], version: int) -> None:
        there = {name.folded: self._lake_tables.get(name.folded) for name in changed}
        before = {name: table.place if table is not None else "" for name, table in there.items()}
        after = {name.folded: table.place if table is not None else "" for name, table in changed.items()}
        moved = {name for name, place in before.items() if place != after[name]}
        if not moved:
            return
        former = self._names(rows, "WHERE place IN (SELECT unnest(?))", [before[name] for name in moved])
        found, since = [], version
        for named in former:
            place = named.place if named.place in after.values() else ""
            if named.until_ts or named.name not in moved:
                found.append(replace(named, place=place))
            elif not version:
                since = max(since, named.from_ts)
            elif named.from_ts < version:
                found.append(replace(named, until_ts=version, place=place))
        told_of = {named.place for named in former if not named.until_ts}
        new = (name for name in moved if after[name] in told_of or after[name] not in before.values())
        found += [Named(name, since, 0, after[name]) for name in new if after[name]]
        rows.remove("lake_name", [named.row for named in former])
        rows.put("lake_name", [named.row for named in found])

    def forget_names(self, rows: FileTables, names: Collection[TableName]) -> None:
        """In a transaction: nothing is known any more of the moments of these tables."""
        for name in names:
            rows.delete("lake_name", "database_name = ? AND table_name = ?", *name.folded)

    def names(self) -> list[Named]:
        """Which tables there were when, as far as statements of upstream told it to this lake."""
        return self._names(self.rows(), "ORDER BY from_ts")

    def _names(self, rows: FileTables, which: str, *values: object) -> list[Named]:
        found = rows.run(f"SELECT {', '.join(_LAKE_NAME)} FROM {SCHEMA}.lake_name {which}", *values)
        return [Named(TableName(database, table), *said) for database, table, *said in found]

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
        for book, columns in _OWN.items():
            body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {SCHEMA}.{book} ({body})")
        with told():
            self._since, self._seen = 0, self._tables.version(self._place)
            records, self._generation = self._tables.few(self._place)
        if not self._seen and self._tables.foreign(self._place):
            raise BadConfig(
                f"another lake is in this folder: its {PLACE} is a table of another format or catalog",
                hint="name a folder of its own in --downstream-uri; one lake would remove files of the other",
            )
        if records is not None:
            connection.register("records", records)
            ((self._since,),) = connection.execute("SELECT count(DISTINCT generation) FROM records").fetchall()
            for (book,) in connection.execute("SELECT DISTINCT book FROM records").fetchall():
                if not _fill(connection, book):
                    self._since = _ANEW
            connection.unregister("records")
        self._memory = connection
        query = "SELECT database_name, table_name, place, generation, table_text FROM storage_consumer.lake_table"
        self._lake_tables = {
            TableName(*name): _table(text, place, int(generation))
            for *name, place, generation, text in connection.execute(query).fetchall()
        }
        return connection

    def _save(self, rows: NotedTables, epoch: int) -> None:
        changes = [
            (book, 1 if count > 0 else -1, text)
            for (book, text), count in rows.changes.items()
            for _ in range(abs(count))
        ]
        if not changes:
            return
        anew = self._since >= _ANEW
        if anew or not self._generation:  # the first one has rows that no statement has put there
            changes = [(book, 1, text) for book in _BOOKS for (text,) in rows.all(book)]
        import pyarrow as pa

        generation = self._generation + 1
        books, signs, texts = (list(part) for part in zip(*changes, strict=True))
        kinds = (pa.int64(), pa.string(), pa.int32(), pa.string())
        columns = ([generation] * len(changes), books, signs, texts)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        records = pa.table(arrays, names=["generation", "book", "sign", "record"])
        try:
            with told():
                if anew:
                    self._tables.forget(self._place)
                    spark, commit = self._spark(), Commit(generation, epoch=epoch)
                    with self._tables.committing(spark, self._place, commit) as change:
                        kept = {name: name for name in records.column_names}
                        change.replace(Rewrite(spark.createDataFrame(records).coalesce(1), kept))
                elif not self._tables.add(self._place, records, Commit(generation, epoch=epoch), generation == 1):
                    raise damaged(f"{SCHEMA}.progress is gone, or such as only Spark can write")
        except ProgressMoved as moved:
            self.forget()
            raise LeaseHeld(
                "this consumer was taken over by another one of this lake",
                hint="end the other one, then run again: only one consumer of a lake can run",
            ) from moved
        self._generation, self._since = generation, 0 if anew else self._since + 1
        with told():
            self._seen = self._tables.version(self._place)


def _fill(connection: duckdb.DuckDBPyConnection, book: str) -> bool:
    """Put into a table what `records` say of it. False where this release would write its rows otherwise, and so could
    not take them back. Raises BadConfig."""
    shape = json.dumps(dict(_BOOKS[book]))
    summed = f"SELECT record, sum(sign) AS n FROM records WHERE book = '{book}' GROUP BY record HAVING n <> 0"
    connection.execute(f"CREATE TEMP TABLE found AS SELECT *, from_json(record, '{shape}') AS row FROM ({summed})")
    ((least, other),) = connection.execute("SELECT min(n), count_if(record <> to_json(row)) FROM found").fetchall()
    if least is not None and least < 0:
        raise damaged(f"{SCHEMA}.{book} lacks a row that was taken back")
    copies = "SELECT unnest(row, recursive := true) FROM (SELECT row FROM found, range(CAST(n AS BIGINT)))"
    connection.execute(f"DELETE FROM {SCHEMA}.{book}")
    connection.execute(f"INSERT INTO {SCHEMA}.{book} BY NAME {copies}")
    connection.execute("DROP TABLE found")
    return bool(other == 0)


def take(rows: FileTables) -> int:
    """Become the one writer, in a transaction; the epoch."""
    return raise_epoch(rows)


def leave(rows: FileTables) -> None:
    """The progress has all that was done to tables."""
    rows.update("lease", "holder = ?", "true", _LEFT)


def hold(rows: FileTables) -> None:
    """What is done to tables from now on may not be in the progress."""
    rows.update("lease", "holder = ?", "true", holder_text())


def was_left(rows: FileTables) -> bool:
    """Whether the last one to have the lake did `leave` it, and was not killed."""
    return rows.run("SELECT holder FROM storage_consumer.lease")[0][0] in ("", _LEFT)


def _key(name: TableName) -> Mapping[str, str]:
    return {"database_name": name.folded.database, "table_name": name.folded.table}


def _row(name: TableName, table: LakeTable) -> Mapping[str, object]:
    said = (table.place, table.newest.generation, _text(table))
    return {**_key(name), **dict(zip(("place", "generation", "table_text"), said, strict=True))}


def _text(table: LakeTable) -> str:
    replica = table.replica
    assert replica.upstream is not None
    said = {"name": replica.name, "types": dict(replica.types), **replica.upstream.as_dict()}
    return json.dumps(said | {"lost": True} if table.lost else said, ensure_ascii=False)


def _table(text: str, place: str, generation: int) -> LakeTable:
    said = json.loads(text)
    replica = ReplicaTable(TableName(*said["name"]), said["types"], Upstream.of(said))
    return LakeTable(replica, place, Commit(generation), said.get("lost", False))
