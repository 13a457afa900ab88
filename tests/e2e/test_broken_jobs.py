"""A table whose load breaks the job that it is in: it alone stops, wherever the others were packed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from consumer import app
from consumer.errors import JobBroken, TargetBusy
from consumer.model.load import LoadOutcome, LoadTask
from consumer.model.names import TableName
from consumer.ports import Moved, RangeReader, unheard
from consumer.target import Writer
from tests.support.feed import Feed, MemoryReplica, states
from tests.support.inline_loader import InlineLoader


class Breaking(InlineLoader):
    """Each job with d.t in it breaks, `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times
        self.jobs: list[list[str]] = []

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        tables = [str(task.target.table) for task in tasks]
        self.jobs.append(tables)
        if "d.t" in tables and self._times:
            self._times -= 1
            return [LoadOutcome(task, (), (), JobBroken("a worker was killed")) for task in tasks]
        return super().load(tasks, writer, reader, moved)


@pytest.fixture
def replica(tmp_path: Path) -> MemoryReplica:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    for number, name in enumerate(("t", "u", "v")):
        feed.create(f"d.{name}", 2 + number)
        feed.puts(f"d.{name}", 2 + number, {10: (1, "1")})
    feed.checkpoint(20)
    return MemoryReplica(feed)


def test_a_table_that_breaks_every_job_stops_and_the_others_are_loaded(replica: MemoryReplica) -> None:
    loader = Breaking(times=99)
    result = app.once(replica.settings(), replica.seen, loader)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped", "d.u": "ok", "d.v": "ok"})
    assert "a worker was killed" in result.tables[TableName("d", "t")].error
    together = ["d.t", "d.u", "d.v"]
    assert loader.jobs == [together, together, ["d.t"], ["d.u"], ["d.v"]]
    assert replica.tables == {"d.t": {}, "d.u": {1: "1"}, "d.v": {1: "1"}}
    assert "give Spark's workers more memory" in result.tables[TableName("d", "t")].hint
    assert replica.once(20).exit_code == 0
    assert replica.tables["d.t"] == {1: "1"}


@pytest.mark.parametrize("times", [1, 2])
def test_a_job_that_breaks_by_chance_stops_nothing(times: int, replica: MemoryReplica) -> None:
    result = app.once(replica.settings(), replica.seen, Breaking(times))
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok", "d.u": "ok", "d.v": "ok"})
    assert replica.tables == {"d.t": {1: "1"}, "d.u": {1: "1"}, "d.v": {1: "1"}}


class Poisoned(InlineLoader):
    """A task of d.t meets what no writer expects."""

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        return super().load(tasks, _Poison(writer), reader, moved)


class _Poison:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

    def session(self, patience=0.0):  # type: ignore[no-untyped-def]
        context = self._writer.session(patience)
        session = context.__enter__()
        write = session.write

        def poisoned(target, changes):  # type: ignore[no-untyped-def]
            if str(target.table) == "d.t":
                raise MemoryError("no 9 TiB")
            return write(target, changes)

        session.write = poisoned  # type: ignore[method-assign]
        return nullcontext(session)


def test_whatever_a_task_raises_is_an_error_of_its_table(replica: MemoryReplica) -> None:
    result = app.once(replica.settings(), replica.seen, Poisoned())
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped", "d.u": "ok", "d.v": "ok"})
    assert (
        "its load needs more memory (ulimit -v) than a worker has: no 9 TiB" in result.tables[TableName("d", "t")].error
    )


class Busy(InlineLoader):
    """d.t is kept waiting, `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> list[LoadOutcome]:
        outcomes = super().load([task for task in tasks if str(task.target.table) != "d.t"], writer, reader)
        for task in tasks:
            if str(task.target.table) == "d.t":
                self._times -= 1
                error = TargetBusy("somebody holds it", table="d.t")
                outcomes += (
                    [LoadOutcome(task, (), (), error)] if self._times >= 0 else super().load([task], writer, reader)
                )
        return outcomes


def test_a_table_that_is_kept_waiting_is_tried_again(replica: MemoryReplica) -> None:
    result = app.once(replica.settings(), replica.seen, Busy(2))
    assert (result.exit_code, states(result)) == (0, {"d.t": "ok", "d.u": "ok", "d.v": "ok"})
    assert len(replica.seen.retries) == 2
