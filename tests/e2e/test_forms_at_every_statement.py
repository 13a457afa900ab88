"""Forms on servers, where one statement of a run meets a fault: no change is lost, none is there twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from consumer.model.actions import Action
from tests.e2e.test_forms_by_hand import (
    ALL,
    APPENDED,
    MS,
    NOTE,
    SOFT,
    VERSION,
    VERSIONS,
    Formed,
    first_rows,
    line,
    time_text,
    versions,
)  # fmt: skip
from tests.servers import SqlServer
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash
from tests.support.feed import Feed
from tests.support.server_faults import FAULTS, Fault, Fuse, faulty


@pytest.fixture(params=["fresh_mariadb", "fresh_mysql"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    found: SqlServer = request.getfixturevalue(request.param)
    return found


def feed_of(folder: Path) -> Feed:
    """Rows of all kinds, a TRUNCATE, a new column, and a row behind them."""
    feed = Feed(folder)
    feed.database("d", MS)
    first_rows(feed)
    feed.truncate("d.t", 16 * MS)
    text = "ALTER TABLE `t` ADD COLUMN `note` VARCHAR(20) DEFAULT 'n'"
    feed.statement("d.t", 18 * MS, Action.ADD_COLUMN, text, (ID, VALUE, NOTE))
    feed.file("d.t", 18 * MS, line(19, "INSERT", 1, "19", note="x"))
    return feed


def wanted(form: str) -> tuple[str, list[tuple[str, ...]]]:
    if form == "append":
        rows = [(*row, "n") for row in APPENDED]
        ended = [("1", "10"), ("3", "4"), ("4", "3"), ("6", "5")]
        rows += [(key, v, "D", str(16 * MS), "d.t", str(16 * MS), "n") for key, v in ended]
        return f"{ALL}, note", sorted([*rows, ("1", "19", "I", str(19 * MS), "d.t", str(18 * MS), "x")])
    if form == "history":
        rows = [(*row, "n") for row in versions(*((key, v, came, went or 16) for key, v, came, went in VERSIONS))]
        return f"{VERSION}, note", sorted([*rows, *((*row, "x") for row in versions((1, 19, 19, 0)))])
    end = {"None": time_text(16)}
    rows = [(*row[:2], end.get(row[2], row[2]), "n") for row in SOFT if row[0] != "1"]
    return "id, v, _deleted_at, note", sorted([*rows, ("1", "19", "None", "x")])


def moments(
    server: SqlServer, folder: Path, form: str, fault: Fault, level: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[int, str]]:
    """Runs with a fault at each `step`th statement, as far as there is one; yields its number and text."""
    replica = Formed(feed_of(folder), server.url(), server.execute, form)
    columns, rows = wanted(form)
    moment = 0
    while True:
        server.drop_all()
        assert replica.once(12 * MS, consistency=level).exit_code == 0
        replica.feed.checkpoint(20 * MS)
        fuse = Fuse(fault, moment)
        with faulty(fuse, monkeypatch):
            try:
                ended = replica.once(max_wait="20s", consistency=level).exit_code
            except Crash:
                ended = -9
        assert ended == (-9 if fuse.burnt and fault.startswith("killed") else 0), (moment, fuse.statement)
        if ended:
            server.kill_clients()
            assert replica.once(20 * MS, consistency=level).exit_code == 0, (moment, fuse.statement)
        assert replica.rows(columns) == rows, (moment, fuse.statement)
        assert replica.once(30 * MS, consistency=level).exit_code == 0
        assert replica.rows(columns) == rows, (moment, fuse.statement)
        if not fuse.burnt:
            return
        yield moment, fuse.statement
        moment += step


@pytest.mark.parametrize("level", ["row", "snapshot"])
@pytest.mark.parametrize("fault", FAULTS)
def test_history(fault: Fault, level: str, server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met = list(moments(server, tmp_path / "cdc", "history", fault, level, 7, monkeypatch))
    assert len(met) > 5
