"""What a lake keeps of the progress: each commit adds and takes back records, whose sum is what is there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest

from consumer.errors import BadConfig, LeaseHeld, ProgressMoved
from consumer.model.bad_rows import BadRow
from consumer.model.columns import Column
from consumer.model.files import Folder
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import (
    AuditRow,
    DdlId,
    DdlKind,
    DdlRecord,
    DdlState,
    FolderProgress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.sink import progress_sql
from consumer.sink.columnar.progress import FileTables
from consumer.sink.columnar.table import ReplicaTable, Upstream
from consumer.sink.lake import progress as lake_progress
from consumer.sink.lake.formats import Commit, Rewrite
from consumer.sink.lake.progress import LakeProgress, LakeTable, mark_complete, mark_incomplete, take_lease
from consumer.sink.progress_sql import Rows

COLUMNS = (Column("id", "INT", nullable=False, is_pk=True), Column("v", "VARCHAR", default="it's"))


@dataclass
class Rewritten:
    """As much of a DataFrame as the progress needs."""

    rows: pa.Table

    def coalesce(self, files: int) -> Rewritten:
        return self


@dataclass
class Log:
    """As much of a `TableFormat` as the progress needs, in memory."""

    commits: list[pa.Table] = field(default_factory=list)
    number: int = 0
    anew: int = 0

    def foreign(self, place: str) -> bool:
        return False

    def version(self, place: str) -> str:
        return str(self.number)

    def forget(self, place: str) -> None: ...

    def few(self, place: str) -> tuple[pa.Table | None, int]:
        return (pa.concat_tables(self.commits) if self.commits else None), self.number

    def add(self, place: str, rows: pa.Table, commit: Commit, first: bool = False) -> bool:
        if commit.generation != self.number + 1:
            raise ProgressMoved("another one came before")
        self.commits.append(rows)
        self.number = commit.generation
        return True

    @contextmanager
    def committing(self, spark: Any, place: str, commit: Commit) -> Iterator[Log]:
        yield self
        self.number = commit.generation

    def replace(self, rewrite: Rewrite) -> None:
        self.commits, self.anew = [cast(Rewritten, rewrite.rows).rows], self.anew + 1

    def createDataFrame(self, rows: pa.Table) -> Rewritten:
        return Rewritten(rows)

    def progress(self) -> LakeProgress:
        return LakeProgress(self, "place", lambda: self)  # type: ignore[arg-type,return-value]

    def kept(self) -> Counter[tuple[str, str]]:
        """The sum of all records."""
        found: Counter[tuple[str, str]] = Counter()
        rows = pa.concat_tables(self.commits).to_pydict() if self.commits else {"book": [], "record": [], "sign": []}
        for book, record, sign in zip(rows["book"], rows["record"], rows["sign"], strict=True):
            found[book, record] += sign
        return found


def everything(rows: Any) -> Counter[tuple[str, str]]:
    """A full look at the tables."""
    found: Counter[tuple[str, str]] = Counter()
    tables = rows.run("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'storage_consumer'")
    for (book,) in tables:
        found.update((book, text) for (text,) in rows.run(f"SELECT to_json(t) FROM storage_consumer.{book} t"))
    return found


def table(name: TableName, generation: int = 0) -> LakeTable:
    replica = ReplicaTable(name, {"id": "INTEGER", "v": "VARCHAR"}, Upstream(COLUMNS))
    return LakeTable(replica, f"/lake/{name}", Commit(generation))


def random_change(rng: random.Random, tables: list[TableName], moment: int) -> ProgressChange:
    def some() -> list[TableName]:
        return rng.sample(tables, rng.randint(0, 3))

    folders = {
        Folder(str(name), rng.randint(1, 3), "", "2026-11-27"): FolderProgress(moment, 2, "é") for name in some()
    }
    places = {name: TableProgress(moment, rng.choice(list(State)), "why", "") for name in some()}
    audit = tuple(AuditRow("load", name, 1, 2, 3) for name in some()) * rng.randint(1, 2)
    ddls = tuple(DdlRecord(DdlId(*name, rng.randint(1, 4), 7), DdlState.DONE, "é'") for name in some())
    return ProgressChange(
        applied_ts=moment if rng.random() < 0.5 else None,
        tables={**places, **dict.fromkeys(some())},
        folders={**folders, **{folder: None for folder in folders if rng.random() < 0.3}},
        ddls=ddls,
        forget_ddls=tuple(DdlId(*name, rng.randint(1, 4), 7) for name in some()),
        audit=audit,
        starts=dict.fromkeys(some(), moment),
        rewind=True,
        routes='["d.* -> e.*"]' if rng.random() < 0.1 else None,
        moved_lacks={name: some() for name in some()},
        quarantined={name: {rng.choice("ab") * 32: BadRow("a" * 32, "why")} for name in some()},
        taken_in={name: ["a" * 32] for name in some()},
        losses={name: {"c" * 32: Loss("gone", "path", 1, 2)} for name in some()},
        syncpoint=rng.choice((0, 0, 2)),
        leaves=rng.random() < 0.1,
    )


def test_what_is_kept_is_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over random changes, some of which break off, and starts from what is kept."""
    monkeypatch.setattr(lake_progress, "_ANEW", 9)
    rng, log = random.Random(1), Log()
    tables = [TableName("d", f"t{n}") for n in range(6)]
    progress, epoch = log.progress(), 0
    with progress.transaction(None) as rows:
        progress_sql.register(rows, "c", "u", "UTC")
        epoch = take_lease(rows)
    for moment in range(1, 31):
        with suppress(InterruptedError), progress.transaction(epoch) as rows:
            match rng.randint(0, 9):
                case 0:
                    progress_sql.claim_tables(rows, "c", dict.fromkeys(rng.sample(tables, 2)))
                case 1:
                    changed = {name: rng.choice((None, table(name, moment))) for name in rng.sample(tables, 2)}
                    progress.remember(rows, changed, rng.choice((0, moment)))
                case 2:
                    rng.choice((mark_incomplete, mark_complete))(rows)
                case 3 if rng.random() < 0.3:
                    progress_sql.forget_consumer(rows, "c")
                    progress_sql.register(rows, "c", "u", "UTC")
                case _:
                    progress_sql.write_progress(
                        rows, "c", epoch, random_change(rng, tables, moment), rng.sample(tables, 2)
                    )
            if rng.random() < 0.1:
                raise InterruptedError
        assert +log.kept() == everything(progress.rows())
        if rng.random() < 0.1:
            progress = log.progress()
            assert +log.kept() == everything(progress.rows())
    assert log.anew > 1


def test_a_commit_costs_what_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted are the rows that come out of the tables, and the records that are written."""
    work = [0]
    run = FileTables.run

    def counted(self: Any, query: str, *values: object) -> Rows:
        found: Rows = run(self, query, *values)
        work[0] += len(found)
        return found

    costs = []
    for size in (20, 400):
        log, names = Log(), [TableName("d", f"t{n}") for n in range(size)]
        progress = log.progress()
        with progress.transaction(None) as rows:
            progress_sql.register(rows, "c", "u", "UTC")
            epoch = take_lease(rows)
        folders = {Folder(f"d/t{n}", k, "", ""): FolderProgress(1, 2, "e") for n in range(size) for k in range(3)}
        audit = tuple(AuditRow("load", name, 1, 2, 3) for name in names)
        with progress.transaction(epoch) as rows:
            progress_sql.claim_tables(rows, "c", dict.fromkeys(names))
            progress.remember(rows, {name: table(name) for name in names})
            progress_sql.write_progress(rows, "c", epoch, ProgressChange(5, folders=folders, audit=audit), names)
        work[0] = 0
        with monkeypatch.context() as patched:
            patched.setattr(FileTables, "run", counted)
            with progress.transaction(epoch) as rows:
                progress.remember(rows, {names[3]: table(names[3], 2)})
                change = ProgressChange(6, folders={Folder("d/t3", 9): FolderProgress()}, audit=audit[3:4])
                progress_sql.write_progress(rows, "c", epoch, change, names[3:4])
        costs.append((work[0], log.commits[-1].num_rows))
    assert costs[0] == costs[1]
    assert costs[0][1] == 6  # the folder and the audit row; the moment and the table's number, before and after


def test_rows_that_another_release_has_written_otherwise_are_written_anew() -> None:
    log = Log()
    progress = log.progress()
    with progress.transaction(None) as rows:
        progress_sql.register(rows, "c", "u", "UTC")
        epoch = take_lease(rows)
    (only,) = log.commits
    spaced = [text.replace('"name":', '"name": ') for text in only.column("record").to_pylist()]
    log.commits = [only.set_column(3, "record", pa.array(spaced))]
    progress = log.progress()
    with progress.transaction(epoch) as rows:
        progress_sql.write_progress(rows, "c", epoch, ProgressChange(7))
    assert log.anew == 1
    assert +log.kept() == everything(progress.rows())
    assert progress_sql.read_progress(log.progress().rows(), "c").applied_ts == 7


def test_a_record_that_is_taken_back_twice_is_damage() -> None:
    log = Log()
    with log.progress().transaction(None) as rows:
        progress_sql.register(rows, "c", "u", "UTC")
    (only,) = log.commits
    taken = only.set_column(2, "sign", pa.array([-1] * only.num_rows, pa.int32()))
    log.commits = [only, taken, taken]
    with pytest.raises(BadConfig, match="taken back"):
        log.progress().rows()


def test_who_was_taken_over_records_nothing() -> None:
    log = Log()
    first, second = log.progress(), log.progress()
    with first.transaction(None) as rows:
        progress_sql.register(rows, "c", "u", "UTC")
        epoch = take_lease(rows)
    with second.transaction(None) as rows:
        take_lease(rows)
    kept = log.kept()
    with pytest.raises(LeaseHeld), first.transaction(epoch) as rows:
        progress_sql.write_progress(rows, "c", epoch, ProgressChange(7))
    assert log.kept() == kept


def test_a_statement_that_an_earlier_build_recorded_without_its_kind_is_refused() -> None:
    """A record of a lake may lack a member, which is none of any kind."""
    log = Log()
    progress = log.progress()
    with progress.transaction(None) as rows:
        progress_sql.register(rows, "c", "u", "UTC")
        epoch = take_lease(rows)
    record = DdlRecord.skipped(DdlId("d", "t", 1, 7), DdlKind.BY_HAND, "done")
    with progress.transaction(epoch) as rows:
        progress_sql.write_progress(rows, "c", epoch, ProgressChange(5, ddls=(record,)), ())
    assert progress_sql.read_progress(log.progress().rows(), "c").ddls == {record.id: record}
    told = ',"kind":"by hand"'
    older = [text.replace(told, "") for text in log.commits[-1]["record"].to_pylist()]
    assert older != log.commits[-1]["record"].to_pylist()
    log.commits[-1] = log.commits[-1].set_column(3, "record", pa.array(older))
    with pytest.raises(BadConfig, match="is not as any release leaves it"):
        progress_sql.read_progress(log.progress().rows(), "c")
