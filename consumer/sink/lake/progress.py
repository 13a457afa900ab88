"""The progress of a lake, and the list of its tables. In memory these are the tables of a DuckDB replica, on disk one
table of the lake itself, `storage_consumer/progress`.

Its rows are never changed. Each commit adds records, with 1 in `sign`, and takes back some, with -1. A record exists if
its sum is 1. Records are noted while the transaction changes rows, so a commit costs as much as its changes. Now and
then a commit rewrites all existing records. A commit proves the one before it (`Commit.generation`), so a consumer
whose lake was taken over can record nothing.
"""

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
from consumer.sink.columnar.progress import (
    GENERATION,
    TABLES,
    FileTables,
    check_file_epoch,
    create_schema,
    raise_file_epoch,
)
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.lake.failures import errors_translated
from consumer.sink.lake.formats import Commit, Rewrite, TableFormat
from consumer.sink.progress_layout import KEYS, SCHEMA, damaged
from consumer.sink.progress_sql import Rows, holder_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS_TABLE = TableName(SCHEMA, "progress")
_LAKE_TABLE = {
    "database_name": "VARCHAR",
    "table_name": "VARCHAR",
    "place": "VARCHAR",
    "generation": "BIGINT",
    "table_text": "VARCHAR",
}
# Which table had which name, from one moment of upstream up to, but not including, another. 0 says that it still has
# the name. A table whose rows are gone has no location.
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
"""The holder of a lease that was given back."""
_ANEW = 100
"""The number of commits that add to the table before one rewrites it: each is a file that a start must read."""


@dataclass(frozen=True, slots=True)
class NamePeriod:
    """The table at `location` had the `name` from `from_ts` on, and no longer at `until_ts`; 0 if it still has it.
    `location` is "" if its rows are gone."""

    name: TableName
    from_ts: int
    until_ts: int
    location: str

    @property
    def row(self) -> Mapping[str, object]:
        said = (*self.name, self.from_ts, self.until_ts, self.location)
        return dict(zip(_LAKE_NAME, said, strict=True))


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake: what statements see of it, its location, and this program's newest commit in it. `lost` says
    that a NULL in a column of days may stand for a day that no calendar has."""

    replica: ReplicaTable
    location: str
    newest: Commit = field(default_factory=Commit)
    lost: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns upstream's columns, in the lake's order and with its names."""
        assert self.replica.upstream is not None
        declared = {self.replica.spelled(column.name): column for column in self.replica.upstream.columns}
        return tuple(replace(declared[name], name=name) for name in self.replica.types)


class TrackedTables(FileTables):
    """Tables that track their changes: by how many each row of each table, as JSON, has grown."""

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
        # Only tables with a few rows are updated, and an UPDATE does not return the old rows.
        self._note(table, -1, self.all(table))
        super().update(table, changes, where, *values)
        self._note(table, 1, self.all(table))

    def take_out(self, table: str, which: str, *values: object) -> Rows:
        return self._note(table, -1, super().take_out(table, which, *values))

    def put_in(self, table: str, rows: str, *values: object) -> Rows:
        return self._note(table, 1, super().put_in(table, rows, *values))

    def all(self, book: str) -> Rows:
        """Returns the table's rows as JSON."""
        return self.run(f"SELECT to_json(t) FROM storage_consumer.{book} t")

    def _note(self, book: str, sign: int, texts: Rows) -> Rows:
        for (text,) in texts:
            self.changes[book, text] += sign
        return texts


class LakeProgress:
    """One consumer's view of the progress table. `spark` returns a separate session."""

    def __init__(self, tables: TableFormat, location: str, spark: Callable[[], SparkSession]) -> None:
        self._tables, self._location, self._spark = tables, location, spark
        self._memory: duckdb.DuckDBPyConnection | None = None
        self._generation, self._seen = 0, ""
        self._since = 0
        self._lake_tables: dict[TableName, LakeTable] = {}

    @property
    def lake_tables(self) -> Mapping[TableName, LakeTable]:
        """Returns all tables of the lake, by their names in lower case."""
        self.rows()
        return self._lake_tables

    def rows(self) -> FileTables:
        """Returns the progress as it was read."""
        return FileTables(self._read() if self._memory is None else self._memory)

    def forget(self) -> None:
        """Makes the next access read the progress again."""
        self._memory = None

    def refresh(self) -> None:
        """Makes the next access read the progress again if somebody has written to it."""
        with errors_translated():
            if self._memory is not None and self._tables.version(self._location) != self._seen:
                self.forget()

    def generation(self) -> str:
        """Returns a text that changes whenever somebody acquires the lake."""
        return str(self.rows().run(GENERATION.format("memory"))[0][0])

    @contextmanager
    def transaction(self, epoch: int | None) -> Iterator[FileTables]:
        """Makes the changes of the context durable at its end, in one commit. Raises LeaseHeld if another consumer has
        acquired the lake since. `epoch` None: this consumer acquires it."""
        connection = self._read() if self._memory is None else self._memory
        rows = TrackedTables(connection)
        connection.begin()
        try:
            if epoch is not None:
                check_file_epoch(rows, epoch)
            yield rows
            self._save(rows, epoch or 0)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    def remember(self, rows: FileTables, changed: Mapping[TableName, LakeTable | None], version: int = 0) -> None:
        """Records changed tables in a transaction, None for a dropped one. `version` is that of the statement that
        changes names. 0: upstream's names have not changed, and a table replaces another one."""
        self._follow_names(rows, changed, version)
        rows.remove("lake_table", [_key(name) for name in changed])
        existing = ((name, table) for name, table in changed.items() if table is not None)
        rows.append("lake_table", [_row(name, table) for name, table in existing])

    def _follow_names(self, rows: FileTables, changed: Mapping[TableName, LakeTable | None], version: int) -> None:
        previous = {name.folded: self._lake_tables.get(name.folded) for name in changed}
        before = {name: table.location if table is not None else "" for name, table in previous.items()}
        after = {name.folded: table.location if table is not None else "" for name, table in changed.items()}
        moved = {name for name, location in before.items() if location != after[name]}
        if not moved:
            return
        former = self._names(rows, "WHERE place IN (SELECT unnest(?))", [before[name] for name in moved])
        periods, since = [], version
        for period in former:
            location = period.location if period.location in after.values() else ""
            if period.until_ts or period.name not in moved:
                periods.append(replace(period, location=location))
            elif not version:
                since = max(since, period.from_ts)
            elif period.from_ts < version:
                periods.append(replace(period, until_ts=version, location=location))
        current_locations = {period.location for period in former if not period.until_ts}
        new = (name for name in moved if after[name] in current_locations or after[name] not in before.values())
        periods += [NamePeriod(name, since, 0, after[name]) for name in new if after[name]]
        rows.remove("lake_name", [period.row for period in former])
        rows.put("lake_name", [period.row for period in periods])

    def forget_names(self, rows: FileTables, names: Collection[TableName]) -> None:
        """Removes, in a transaction, what is known of the moments of these tables."""
        for name in names:
            rows.delete("lake_name", "database_name = ? AND table_name = ?", *name.folded)

    def names(self) -> list[NamePeriod]:
        """Returns which tables existed when, as far as upstream's statements in this lake declare it."""
        return self._names(self.rows(), "ORDER BY from_ts")

    def _names(self, rows: FileTables, which: str, *values: object) -> list[NamePeriod]:
        rows_found = rows.run(f"SELECT {', '.join(_LAKE_NAME)} FROM {SCHEMA}.lake_name {which}", *values)
        return [NamePeriod(TableName(database, table), *said) for database, table, *said in rows_found]

    def keep(self, changed: Mapping[TableName, LakeTable | None]) -> None:
        """Applies changed tables to this view, after a transaction or a commit of a table."""
        for name, table in changed.items():
            if table is None:
                self._lake_tables.pop(name.folded, None)
            else:
                self._lake_tables[name.folded] = table

    def _read(self) -> duckdb.DuckDBPyConnection:
        """Raises TargetUnavailable, BadConfig."""
        connection = duckdb.connect()
        create_schema(connection)
        for book, columns in _OWN.items():
            body = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {SCHEMA}.{book} ({body})")
        with errors_translated():
            self._since, self._seen = 0, self._tables.version(self._location)
            records, self._generation = self._tables.few(self._location)
        if not self._seen and self._tables.foreign(self._location):
            raise BadConfig(
                f"another lake is in this folder: its {PROGRESS_TABLE} is a table of another format or catalog",
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
            TableName(*name): _table(text, location, int(generation))
            for *name, location, generation, text in connection.execute(query).fetchall()
        }
        return connection

    def _save(self, rows: TrackedTables, epoch: int) -> None:
        changes = [
            (book, 1 if count > 0 else -1, text)
            for (book, text), count in rows.changes.items()
            for _ in range(abs(count))
        ]
        if not changes:
            return
        rewrites = self._since >= _ANEW
        if rewrites or not self._generation:  # the first commit has rows that no statement has inserted
            changes = [(book, 1, text) for book in _BOOKS for (text,) in rows.all(book)]
        import pyarrow as pa

        generation = self._generation + 1
        books, signs, texts = (list(part) for part in zip(*changes, strict=True))
        kinds = (pa.int64(), pa.string(), pa.int32(), pa.string())
        columns = ([generation] * len(changes), books, signs, texts)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)]
        records = pa.table(arrays, names=["generation", "book", "sign", "record"])
        try:
            with errors_translated():
                if rewrites:
                    self._tables.forget(self._location)
                    spark, commit = self._spark(), Commit(generation, epoch=epoch)
                    with self._tables.committing(spark, self._location, commit) as change:
                        kept = {name: name for name in records.column_names}
                        change.replace(Rewrite(spark.createDataFrame(records).coalesce(1), kept))
                elif not self._tables.add(self._location, records, Commit(generation, epoch=epoch), generation == 1):
                    raise damaged(f"{SCHEMA}.progress is gone, or such as only Spark can write")
        except ProgressMoved as moved:
            self.forget()
            raise LeaseHeld(
                "this consumer was taken over by another one of this lake",
                hint="end the other one, then run again: only one consumer of a lake can run",
            ) from moved
        self._generation, self._since = generation, 0 if rewrites else self._since + 1
        with errors_translated():
            self._seen = self._tables.version(self._location)


def _fill(connection: duckdb.DuckDBPyConnection, book: str) -> bool:
    """Fills a table from its `records`. Returns False if this release would write its rows in another form, and so
    could not take them back. Raises BadConfig."""
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


def take_lease(rows: FileTables) -> int:
    """Makes this consumer the one writer, in a transaction. Returns the epoch."""
    return raise_file_epoch(rows)


def mark_complete(rows: FileTables) -> None:
    """Records that the progress includes all changes of tables."""
    rows.update("lease", "holder = ?", "true", _LEFT)


def mark_incomplete(rows: FileTables) -> None:
    """Records that later changes of tables may be missing in the progress."""
    rows.update("lease", "holder = ?", "true", holder_text())


def was_complete(rows: FileTables) -> bool:
    """Returns whether the last holder of the lake called `mark_complete`, and was not killed."""
    return rows.run("SELECT holder FROM storage_consumer.lease")[0][0] in ("", _LEFT)


def _key(name: TableName) -> Mapping[str, str]:
    return {"database_name": name.folded.database, "table_name": name.folded.table}


def _row(name: TableName, table: LakeTable) -> Mapping[str, object]:
    said = (table.location, table.newest.generation, _text(table))
    return {**_key(name), **dict(zip(("place", "generation", "table_text"), said, strict=True))}


def _text(table: LakeTable) -> str:
    replica = table.replica
    assert replica.upstream is not None
    said = {"name": replica.name, "types": dict(replica.types), **replica.upstream.as_dict()}
    return json.dumps(said | {"lost": True} if table.lost else said, ensure_ascii=False)


def _table(text: str, location: str, generation: int) -> LakeTable:
    said = json.loads(text)
    replica = ReplicaTable(TableName(*said["name"]), said["types"], Upstream.of(said))
    return LakeTable(replica, location, Commit(generation), said.get("lost", False))
