"""Which version of a lake's table has the rows of a moment, and which table had a name then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from consumer.errors import BadConfig
from consumer.model.bad_rows import BadRow
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange, State, TableProgress
from consumer.sink import progress_sql
from consumer.sink.lake.formats import Commit
from consumer.sink.lake.moments import Moments
from consumer.sink.lake.progress import LakeProgress, LakeTable, take_lease
from tests.unit.sink.test_lake_progress import Log, table

A, B, C, TRASH = (TableName("d", name) for name in ("a", "b", "c", "__trash_a_30"))


def commit(generation: int, from_ts: int, commit_ts: int, statement: str = "") -> Commit:
    return Commit(generation, from_ts=from_ts, commit_ts=commit_ts, statement=statement)


@dataclass
class Versions:
    """As much of a `TableFormat` as `Moments` needs: the commits of tables, by place, in their order; those `gone` have
    lost files."""

    of_tables: Mapping[str, list[Commit]] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

    def commits(self, place: str) -> Iterator[tuple[str, Commit]]:
        yield from reversed([(f"v{one.generation}", one) for one in self.of_tables.get(place, [])])

    def is_whole(self, place: str, version: str) -> bool:
        return version not in self.gone

    def sql(self, place: str) -> str:
        return place


@dataclass
class Replica:
    versions: Versions
    progress: LakeProgress
    epoch: int

    @classmethod
    def new(cls) -> Replica:
        progress = Log().progress()
        with progress.transaction(None) as rows:
            progress_sql.register(rows, "c", "u", "UTC")
            return cls(Versions(), progress, take_lease(rows))

    def change(self, version: int, **places: str | None) -> None:
        """What a statement makes of names: the place that each has then."""
        changed = {
            TableName("d", name): None if place is None else placed(TableName("d", name), place)
            for name, place in places.items()
        }
        with self.progress.transaction(self.epoch) as rows:
            self.progress.remember(rows, changed, version)
            progress_sql.claim_tables(rows, "c", dict.fromkeys(changed))
            progress_sql.write_progress(rows, "c", self.epoch, ProgressChange(), list(changed))
        self.progress.keep(changed)

    def record(self, change: ProgressChange) -> None:
        with self.progress.transaction(self.epoch) as rows:
            progress_sql.write_progress(rows, "c", self.epoch, change)

    def at(self, moment: int, *names: TableName) -> str:
        """What is read of each table, or why it cannot be."""
        moments = Moments(self.versions, self.progress)  # type: ignore[arg-type]
        try:
            found = moments.tables_at(moment, names.__contains__ if names else None)
        except BadConfig as refused:
            return refused.message
        return ", ".join(f"{one.name.table}={one.place}:{one.version}:{one.commit_ts}" for one in found)


def placed(name: TableName, place: str) -> LakeTable:
    return replace(table(name), location=place)


@pytest.fixture
def replica() -> Replica:
    return Replica.new()


def test_a_version_holds_until_the_next_one_says_so(replica: Replica) -> None:
    replica.change(10, a="p")
    replica.versions.of_tables = {
        "p": [commit(1, 10, 20), commit(2, 30, 40), commit(3, 49, 50, "s"), commit(4, 50, 50)]
    }
    replica.record(ProgressChange(applied_ts=60))
    found = {moment: replica.at(moment) for moment in (9, 10, 15, 20, 30, 31, 40, 49, 50, 60, 61)}
    assert "no such table" in found[9]
    assert found[10] == "a=p:v1:0", "no row had come"
    assert "the oldest one in its log is of 20" in found[15]
    assert found[20] == found[30] == "a=p:v1:20"
    assert "known from 20 up to 30, and from 40 on" in found[31]
    assert found[40] == found[49] == "a=p:v2:40"
    assert found[50] == found[60] == "a=p:v4:50", "of two that claim a moment the newer counts"
    assert "complete up to 60" in found[61]


def test_what_is_not_known_of_a_version_is_not_guessed(replica: Replica) -> None:
    replica.change(10, a="p")
    replica.versions.of_tables = {"p": [commit(2, 15, 20), commit(3, 0, 0), commit(4, 40, 45)]}
    replica.record(ProgressChange(applied_ts=60))
    assert replica.at(20) == "a=p:v2:20"
    assert "known from 20 up to 20, and the next version is of no moment" in replica.at(21)
    assert "known from 20" in replica.at(40)
    assert replica.at(45) == replica.at(60) == "a=p:v4:45"
    assert "no version that is known" in replica.at(15), "the first commit is not in the log any more"
    replica.versions.gone = ("v2",)
    assert "files are gone" in replica.at(20)


def test_the_columns_of_a_table_that_had_no_row_yet(replica: Replica) -> None:
    replica.change(10, a="p")
    replica.record(ProgressChange(applied_ts=60))
    assert replica.at(50) == "a=p::0"
    replica.versions.of_tables = {"p": [commit(1, 29, 30, "ADD COLUMN"), commit(2, 40, 50)]}
    assert "other columns than after the statement of 30" in replica.at(20)
    assert replica.at(30) == "a=p:v1:30"


@pytest.mark.parametrize(
    ("place", "last"),
    [(TableProgress(40, State.STOPPED, "why"), 39), (TableProgress(40, State.WAITS, "why"), 39), (None, 60)],
)
def test_a_table_that_is_behind_has_no_later_moment(replica: Replica, place: TableProgress | None, last: int) -> None:
    """At the moment itself a statement may still be to come."""
    replica.change(10, a="p", b="q")
    replica.versions.of_tables = {"p": [commit(1, 10, 20)], "q": [commit(1, 10, 20)]}
    replica.record(ProgressChange(applied_ts=60, tables={A: place}))
    assert replica.at(last) == "a=p:v1:20, b=q:v1:20"
    assert "d.a is" in replica.at(last + 1)
    assert replica.at(60, B) == "b=q:v1:20"


def test_a_table_that_lacks_rows_has_the_moments_before(replica: Replica) -> None:
    replica.change(10, a="p", b="q")
    replica.versions.of_tables = {"p": [commit(1, 10, 20)], "q": [commit(1, 10, 20)]}
    bad, loss = BadRow("a" * 32, "why", commit_ts=35), Loss("gone", "path", 44, 50)
    replica.record(ProgressChange(applied_ts=60, quarantined={A: {bad.id: bad}}, losses={B: {loss.id: loss}}))
    assert replica.at(34) == "a=p:v1:20, b=q:v1:20"
    assert "d.a lacks rows from 35 on" in replica.at(35)
    assert replica.at(44, B) == "b=q:v1:20"
    assert "d.b lacks rows from 45 on" in replica.at(45, B)


def test_a_table_that_was_never_made_is_not_left_out(replica: Replica) -> None:
    replica.change(10, a="p")
    replica.record(ProgressChange(applied_ts=60, tables={C: TableProgress(29, State.STOPPED, "why")}))
    assert replica.at(20) == "a=p::0"
    assert "d.c is not as the others (stopped)" in replica.at(30)


def test_names_are_those_of_then(replica: Replica) -> None:
    """A RENAME, a DROP, another table in its place, and two that change their names by way of a third."""
    replica.change(10, a="p")
    replica.change(20, a=None, b="p")
    replica.change(30, b=None)
    replica.change(40, b="p", c="q")
    replica.change(50, b=None, a="p")
    replica.change(50, c=None, b="q")
    replica.change(50, a=None, c="p")
    replica.versions.of_tables = {"p": [commit(1, 40, 41)], "q": [commit(1, 40, 41)]}
    replica.record(ProgressChange(applied_ts=60))
    assert "d.a of then is gone" in replica.at(15), "the place has another table now"
    assert "d.b of then is gone" in replica.at(29)
    assert "no such table" in replica.at(35)
    assert replica.at(45) == "b=p:v1:41, c=q:v1:41"
    assert replica.at(50) == "b=q:v1:41, c=p:v1:41"


def test_a_table_in_the_trash_is_still_read(replica: Replica) -> None:
    replica.change(10, a="p")
    replica.change(30, a="q", __trash_a_30="p")
    replica.versions.of_tables = {"p": [commit(1, 10, 20)], "q": [commit(1, 30, 40)]}
    replica.record(ProgressChange(applied_ts=60))
    assert replica.at(29) == "a=p:v1:20"
    assert replica.at(30) == "a=q:v1:0"
    assert replica.at(60) == "a=q:v1:40"


def test_a_table_that_is_made_again_has_its_name_since_its_rename(replica: Replica) -> None:
    """A table beside it takes its place: its rows of before have another name upstream."""
    replica.change(10, a="p")
    replica.change(20, a=None, b="p")
    beside = TableName("d", "__beside")
    replica.change(10, __beside="q")
    replica.change(0, __beside=None, b="q")
    replica.versions.of_tables = {"q": [commit(1, 10, 15), commit(2, 25, 30)]}
    replica.record(ProgressChange(applied_ts=60))
    assert beside not in {named.name for named in replica.progress.names()}
    assert "d.a of then is gone" in replica.at(16)
    assert replica.at(20) == replica.at(25) == "b=q:v1:15"
    assert replica.at(60) == "b=q:v2:30"


def test_a_table_begins_where_an_export_has_filled_it(replica: Replica) -> None:
    replica.change(10, a="p")
    replica.versions.of_tables = {"p": [commit(1, 9, 30)]}
    replica.record(ProgressChange(applied_ts=60, starts={A: 30}))
    assert "begins at 30" in replica.at(20)
    assert replica.at(30) == "a=p:v1:30"


def test_a_table_of_which_nothing_is_known_has_no_moment(replica: Replica) -> None:
    """Neither under its name nor under the next one; one that is made then has some."""
    replica.change(10, a="p", b="q")
    with replica.progress.transaction(replica.epoch) as rows:
        replica.progress.forget_names(rows, [A])
    replica.record(ProgressChange(applied_ts=60))
    assert "d.a has no moments" in replica.at(20)
    assert replica.at(20, B) == "b=q::0"
    replica.change(30, a=None, c="p")
    assert "d.c has no moments" in replica.at(40)
    replica.change(50, c="r")
    assert replica.at(50) == "b=q::0, c=r::0"
