"""Random histories in canal-JSON without commit-ts: several changes of a key in a millisecond, restarts that send rows
again, and nodes that name date folders by the clocks of their own zones. A table is right, or it is stopped by name."""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.results import RunResult
from tests.support.feed import Feed, MemoryReplica, Rows, states

START = 1_790_000_000_000
SEEDS = range(20)
Change = tuple[int, int, str | None, str | None]
"""A commit-ts, a key, and its value (None: deleted), and the one before."""


class Changefeed:
    """One table. A flush lies in the date folder of the node's own clock; `offsets` are the nodes' zones in hours, and
    each restart begins on any of them."""

    def __init__(self, folder: Path, seed: int, offsets: tuple[int, ...]) -> None:
        self.feed = Feed(folder / str(seed))
        self.random, self.offsets = random.Random(seed), offsets
        self.now = START
        self.offset = offsets[0]
        self.version = self._tick(1)
        self.feed.create("d.t", self.version)
        self.history: list[Change] = []
        self.buffer: list[Change] = []
        self.checkpoint = self.version

    def play(self) -> None:
        acts = [self.commit] * 8 + [self.flush] * 4 + [self.restart] * 2 + [self.wait, self.add_index]
        """Random acts, and at the end a restart in the middle of what is mostly one millisecond: nothing hides it."""
        for _ in range(self.random.randint(5, 25)):
            self.random.choice(acts)()
        for act in (self.flush, self.commit, self.flush, self.commit, self.restart, self.flush):
            act()
        self.checkpoint = self._tick(5)

    def commit(self) -> None:
        """A transaction, mostly in the millisecond of the one before; its deletes come first."""
        least = self._tick(self.random.choice([0, 0, 0, 1]))
        ts = max(least, self.version + 1, *(ts + 1 for ts, *_ in self.history[-1:]), 0)
        there = self.state()
        for key in self.random.sample(range(1, 4), self.random.randint(1, 2)):
            value = None if key in there and self.random.random() < 0.4 else str(ts % 100_000)
            self.history.append((ts, key, value, there.get(key)))
            self.buffer.append(self.history[-1])

    def flush(self) -> None:
        if self.buffer:
            self._write(self.buffer)
        self.buffer = []
        self.checkpoint = max([self.checkpoint, *(ts for ts, *_ in self.history[-1:])])

    def wait(self) -> None:
        self._tick(self.random.choice([2, 5 * 3_600_000, 26 * 3_600_000]))

    def restart(self) -> None:
        """What was not flushed is lost, and all since some moment that was complete is sent again."""
        self.offset = self.random.choice(self.offsets)
        self.now += 60_000
        kept = [ts for ts, *_ in self.history if ts <= self.checkpoint]
        since = self.random.choice([self.checkpoint, *kept])
        self.buffer = []
        for change in [change for change in self.history if change[0] > since]:
            self.buffer.append(change)
            if self.random.random() < 0.3:
                self._write(self.buffer)
                self.buffer = []

    def add_index(self) -> None:
        self.flush()
        self.version = self.checkpoint = self._tick(2) + self.random.randint(0, 3)
        query = f"ALTER TABLE `t` ADD INDEX `i{self.version}` (`v`)"
        self.feed.statement("d.t", self.version, Action.ADD_INDEX, query)
        self._tick(2)

    def state(self) -> Rows:
        last = {key: value for _, key, value, _ in self.history}
        return {key: value for key, value in last.items() if value is not None}

    def _tick(self, milliseconds: int) -> int:
        self.now += milliseconds
        return self.now << 18

    def _write(self, changes: list[Change]) -> None:
        self.now += 1000 if self.random.random() < 0.5 else 0
        moment = datetime.fromtimestamp(self.now / 1000, UTC)
        date = (moment + timedelta(hours=self.offset)).date().isoformat()
        path = self.feed.file("d.t", self.version, b"".join(map(_line, changes)), date=date)
        os.utime(path, ns=(self.now * 1_000_000,) * 2)


def _line(change: Change) -> bytes:
    ts, key, value, old = change
    message = {
        "id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "es": ts >> 18, "ts": 0, "sql": "",
        "type": "DELETE" if value is None else "INSERT", "sqlType": {"id": 4, "v": 4}, "old": None,
        "mysqlType": {"id": "int", "v": "int"}, "data": [{"id": str(key), "v": value or old}],
    }  # fmt: skip
    return json.dumps(message).encode() + b"\r\n"


def applied(changefeed: Changefeed, **flags: object) -> tuple[RunResult, Rows]:
    replica = MemoryReplica(changefeed.feed)
    result = replica.once(changefeed.checkpoint, file_expiration_days=0, **flags)
    return result, replica.tables["d.t"]


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_in_one_zone_leave_no_doubt(seed: int, tmp_path: Path) -> None:
    changefeed = Changefeed(tmp_path, seed, (8,))
    changefeed.play()
    result, rows = applied(changefeed)
    assert (result.exit_code, rows) == (0, changefeed.state())


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_in_several_zones_are_right_or_stop_the_table(seed: int, copied: bool, tmp_path: Path) -> None:
    changefeed = Changefeed(tmp_path, seed, (9, -9))
    changefeed.play()
    for path in changefeed.feed.folder.rglob("CDC*") if copied else ():
        os.utime(path)
    result, rows = applied(changefeed)
    if states(result) == {"d.t": "stopped"}:
        assert 'date-order = "time"' in next(iter(result.tables.values())).hint
    else:
        assert (result.exit_code, rows) == (0, changefeed.state())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_times_of_the_files_order_what_several_zones_wrote(seed: int, tmp_path: Path) -> None:
    changefeed = Changefeed(tmp_path, seed, (9, -9))
    changefeed.play()
    result, rows = applied(changefeed, date_order="time")
    assert (result.exit_code, rows) == (0, changefeed.state())


def test_a_new_dispatcher_that_sends_a_part_of_a_millisecond_again_stops_the_table(tmp_path: Path) -> None:
    """Nothing in the names says which of the two came first."""
    changefeed = Changefeed(tmp_path, 0, (0,))
    first, ts = changefeed.version, changefeed.version + (2 << 18)
    again: list[Change] = [(ts, 1, "10", None), (ts + 1, 1, "11", "10"), (ts + 1, 2, "20", None)]
    for number, changes in enumerate((again[:1], again), 1):
        content = b"".join(map(_line, changes))
        changefeed.feed.file("d.t", first, content, 1, dispatcher=str(number) * 37)
    changefeed.checkpoint = ts + (5 << 18)
    result, _ = applied(changefeed)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
