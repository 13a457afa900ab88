"""Rows that lack columns of the target, from the storage to real targets: what was there stays."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.app import parts
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.results import RunResult
from consumer.sink import sink_for
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.crashes import Crash, CrashingLoader, CrashingSink, Fuse
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

U = Column("u", "VARCHAR", length=20)
NOTE = Column("note", "VARCHAR", length=20)
CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`u` VARCHAR(20) UNIQUE,`note` VARCHAR(20))"
Row = tuple[object, ...]
Data = dict[str, str | None]


@dataclass
class Target:
    url: str
    server: MariaDb | None = None

    def reset(self) -> None:
        if self.server:
            self.server.drop_all()
        else:
            Path(self.url.removeprefix("duckdb:///")).unlink(missing_ok=True)

    def execute(self, *statements: str) -> list[Row]:
        if self.server:
            return self.server.execute(*statements)
        with duckdb.connect(self.url.removeprefix("duckdb:///")) as connection:
            return [connection.execute(statement).fetchall() for statement in statements][-1]

    def rows(self) -> list[Row]:
        return self.execute("SELECT * FROM d.t ORDER BY id")


@pytest.fixture(params=["MariaDB", "DuckDB"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "DuckDB":
        return Target(f"duckdb:///{tmp_path / 'replica.duckdb'}")
    server = request.getfixturevalue("fresh_mariadb")
    return Target(server.url(), server)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """`d.t` with two rows up to 19, each with a note."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, CREATE, (ID, U, NOTE))
    first: list[Data] = [{"id": "1", "u": "a", "note": "n1"}, {"id": "2", "u": "b", "note": "n2"}]
    feed.file("d.t", 2, lines(10, *first))
    return feed


def lines(ts: int, *rows: Data, kind: str = "INSERT") -> bytes:
    return b"".join(row_line(kind, row, commit_ts=ts) + b"\r\n" for row in rows)


def replica(feed: Feed, target: Target) -> Replica:
    found = Replica(feed, target.url)
    assert found.once(19).exit_code == 0
    return found


def table(result: RunResult) -> tuple[str, str]:
    (found,) = [found for name, found in result.tables.items() if str(name) == "d.t"]
    return found.state, found.error


def test_column_selectors_that_leave_a_column_out(feed: Feed, target: Target) -> None:
    consumer = replica(feed, target)
    new: Sequence[Data] = [{"id": "1", "u": "x"}, {"id": "3", "u": None}]
    feed.file("d.t", 2, lines(20, *new) + lines(21, {"id": "2", "u": "b"}, kind="DELETE"))
    assert table(consumer.once(29)) == ("ok", "")
    assert target.rows() == [(1, "x", "n1"), (3, None, None)]
    assert any("do not have the target's columns note" in note for note in consumer.seen.notes)
    feed.file("d.t", 2, lines(30, {"id": "3", "u": "y"}) + lines(31, {"id": "2", "u": "b"}))
    assert table(consumer.once(39)) == ("ok", "")
    assert target.rows() == [(1, "x", "n1"), (2, "b", None), (3, "y", None)]


def test_a_column_that_upstream_dropped_and_the_target_keeps(feed: Feed, target: Target) -> None:
    consumer = replica(feed, target)
    feed.describe("d.t", 20, (ID, U))
    feed.file("d.t", 20, lines(21, {"id": "1", "u": "x"}, {"id": "3", "u": "c"}))
    assert table(consumer.once(29)) == ("ok", "")
    assert target.rows() == [(1, "x", "n1"), (2, "b", "n2"), (3, "c", None)]


def test_columns_and_triggers_that_were_added_by_hand(feed: Feed, target: Target) -> None:
    consumer = replica(feed, target)
    target.execute(
        "ALTER TABLE d.t ADD COLUMN site VARCHAR(20) DEFAULT 'here'", "UPDATE d.t SET site = 's' WHERE id = 1"
    )
    if target.server:
        target.execute(
            "ALTER TABLE d.t ADD COLUMN twice INT AS (id * 2) STORED, ADD COLUMN seq INT AUTO_INCREMENT UNIQUE"
        )
        target.execute("CREATE TRIGGER d.g BEFORE DELETE ON d.t FOR EACH ROW SET @gone = OLD.id")
    rows: list[Data] = [{"id": "1", "u": "x", "note": "n"}, {"id": "3", "u": "c", "note": "n3"}]
    feed.file("d.t", 2, lines(20, *rows))
    assert table(consumer.once(29, accept_trigger=True)) == ("ok", "")
    own = [(2, 1), (4, 2), (6, 3)] if target.server else [()] * 3
    wanted = [(1, "x", "n", "s"), (2, "b", "n2", "here"), (3, "c", "n3", "here")]
    assert target.rows() == [row + more for row, more in zip(wanted, own, strict=True)]
    if target.server:
        assert len(target.execute("SHOW TRIGGERS FROM d")) == 1


@pytest.mark.parametrize("first", ["with", "without"])
def test_rows_of_two_kinds_stop_their_table(feed: Feed, target: Target, first: str) -> None:
    consumer = replica(feed, target)
    kinds = [lines(20, {"id": "1", "u": "x", "note": None}), lines(21, {"id": "2", "u": "y"})]
    for content in kinds if first == "with" else kinds[::-1]:
        feed.file("d.t", 2, content)
    state, error = table(consumer.once(29))
    assert state == "stopped"
    assert "note" in error
    assert target.rows() == [(1, "a", "n1"), (2, "b", "n2")]


def test_a_key_that_the_rows_lack_stops_their_table(feed: Feed, target: Target) -> None:
    consumer = replica(feed, target)
    feed.file("d.t", 2, lines(20, {"u": "x", "note": "n"}))
    state, error = table(consumer.once(29))
    assert (state, "no column id" in error) == ("stopped", True)


def test_unique_values_change_places_wherever_a_run_dies(
    feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.file("d.t", 2, lines(11, {"id": "3", "u": "c", "note": "n3"}))
    feed.checkpoint(19)
    moved: list[Data] = [{"id": "1", "u": "b"}, {"id": "2", "u": "c"}, {"id": "3", "u": "a"}, {"id": "4", "u": "d"}]
    real, fuse = sink_for, Fuse()
    monkeypatch.setattr(parts, "sink_for", lambda *given, **named: CrashingSink(real(*given, **named), fuse))
    for moment in itertools.count(0, 2):  # before each change; after it is as before the next
        target.reset()
        feed.checkpoint(19)
        consumer = replica(feed, target)
        feed.file("d.t", 2, lines(20, *moved), number=3)
        feed.checkpoint(29)
        fuse = Fuse(moment)
        try:
            app.once(consumer.settings(), Recorder(), CrashingLoader(fuse))
            break
        except Crash:
            fuse = Fuse()
        assert app.once(consumer.settings(), Recorder(), InlineLoader()).exit_code == 0
        assert target.rows() == [(1, "b", "n1"), (2, "c", "n2"), (3, "a", "n3"), (4, "d", None)], moment
    assert moment > 4
