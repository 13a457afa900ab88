"""The progress as the driver takes it to be: what the target has said, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.errors import TargetUnavailable
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange, TableProgress
from consumer.pipeline.ledger import Ledger
from tests.support.memory.sink import MemorySink

TABLE = TableName("db", "t")


class Silent:
    def __getattr__(self, _name: str) -> Any:
        return lambda *_: None


class Target(MemorySink):
    """Counts how often it may rest. `adds`: what it records of its own with each change."""

    rests = 0
    adds = ProgressChange()

    def record(self, change: ProgressChange) -> ProgressChange:
        return super().record(change.merged(self.adds))

    def rest(self) -> None:
        self.rests += 1


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    target = Target(f"ledger {request.node.name}", "c")
    target.acquire("file:///upstream")
    return target


def ledger_of(target: Target) -> Ledger:
    return Ledger(target, Silent(), 0.0, target.progress())


def test_what_the_target_says_is_believed(target: Target) -> None:
    ledger = ledger_of(target)
    target.adds = ProgressChange(tables={TABLE: TableProgress(7)})
    ledger.record(ProgressChange(applied_ts=5))
    assert ledger.progress == target.progress()
    assert ledger.progress.tables == {TABLE: TableProgress(7)}


def test_the_target_rests_after_each_round_though_nothing_was_new(target: Target) -> None:
    ledger = ledger_of(target)
    for rounds in (1, 2):
        with ledger.round():
            assert target.rests == rounds - 1
        assert target.rests == rounds


def test_after_a_round_that_broke_off_the_progress_is_what_the_target_has(target: Target) -> None:
    ledger = ledger_of(target)

    def recorded_unheard() -> None:
        target.record(ProgressChange(applied_ts=9))
        raise TargetUnavailable("the answer got lost")

    with pytest.raises(TargetUnavailable), ledger.round():
        recorded_unheard()
    assert ledger.progress.applied_ts == 0
    assert ledger.confirmed().applied_ts == 9
    assert ledger.progress == target.progress()
