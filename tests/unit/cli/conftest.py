"""The command line with a stand-in for `consumer.app`, called in this process."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

import consumer
from consumer.cli.main import main
from consumer.model.check import Repairing, VerifyResult
from consumer.model.names import TableName
from consumer.results import CheckResult, InspectResult, PlanResult, RetryResult, RunResult, StatusResult

UPSTREAM = "file:///data/cdc?protocol=canal-json"


@dataclass
class FakeApp:
    """Answers every command with `result`, or does `action`; keeps what it was called with."""

    result: Any = field(default_factory=RunResult)
    action: Callable[..., Any] | None = None
    calls: list[tuple[str, Any, tuple[Any, ...]]] = field(default_factory=list)

    def answer(self, name: str, settings: Any, observer: Any, *rest: Any) -> Any:
        self.calls.append((name, settings, rest))
        return self.action(observer, *rest) if self.action else self.result

    def once(self, settings: Any, observer: Any, loader: object = None) -> RunResult:
        return self.answer("once", settings, observer)

    def backfill(self, settings: Any, observer: Any, loader: object = None) -> RunResult:
        return self.answer("backfill", settings, observer)

    def run(self, settings: Any, observer: Any, stop: threading.Event) -> RunResult:
        return self.answer("run", settings, observer, stop)

    def replay(self, settings: Any, observer: Any, after: str | None, end: str | None) -> RunResult:
        return self.answer("replay", settings, observer, after, end)

    def load_export(
        self, settings: Any, observer: Any, uri: str, some: Callable[[TableName], bool] | None
    ) -> RunResult:
        return self.answer("load_export", settings, observer, uri, some)

    def inspect(self, settings: Any, observer: Any, time_range: bool) -> InspectResult:
        return self.answer("inspect", settings, observer, time_range)

    def check(self, settings: Any, observer: Any) -> CheckResult:
        return self.answer("check", settings, observer)

    def plan(self, settings: Any, observer: Any) -> PlanResult:
        return self.answer("plan", settings, observer)

    def status(self, settings: Any, observer: Any) -> StatusResult:
        return self.answer("status", settings, observer)

    def verify(
        self,
        settings: Any,
        observer: Any,
        tables: Sequence[TableName],
        show: int,
        ranges_at_a_time: int,
        repairing: Repairing,
    ) -> VerifyResult:
        return self.answer("verify", settings, observer, tables, show, ranges_at_a_time, repairing)

    def retry(self, settings: Any, observer: Any, wanted: Callable[[TableName], bool]) -> RetryResult:
        return self.answer("retry", settings, observer, wanted)

    def resync(self, settings: Any, observer: Any, table: TableName) -> RunResult:
        return self.answer("resync", settings, observer, table)

    def forget(self, settings: Any, observer: Any, sure: bool) -> str:
        return self.answer("forget", settings, observer, sure)

    def maintain(self, settings: Any, observer: Any, keep: timedelta, loader: Any) -> Any:
        return self.answer("maintain", settings, observer, keep)

    def lake_at(
        self, settings: Any, observer: Any, moment: int, wanted: Callable[[TableName], bool], loader: Any
    ) -> Any:
        return self.answer("lake_at", settings, observer, moment)

    def skip_ddl(self, settings: Any, observer: Any, table: TableName, version: int, reason: str) -> str:
        return self.answer("skip_ddl", settings, observer, table, version, reason)

    def changes(self, settings: Any, *rest: Any) -> Any:
        """`consumer.source.story.ordered_changes`: a moment, and no rows."""
        return types.SimpleNamespace(end=self.answer("changes", settings, None, *rest).to_ts), iter(())


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> FakeApp:
    fake = FakeApp()
    monkeypatch.setitem(sys.modules, "consumer.app", types.ModuleType("consumer.app"))
    monkeypatch.setattr(consumer, "app", fake, raising=False)
    story = types.ModuleType("consumer.source.story")
    monkeypatch.setattr(story, "ordered_changes", fake.changes, raising=False)
    monkeypatch.setitem(sys.modules, "consumer.source.story", story)
    taken_back = types.ModuleType("consumer.source.undo")
    monkeypatch.setattr(taken_back, "undo", partial(fake.answer, "undo"), raising=False)
    monkeypatch.setitem(sys.modules, "consumer.source.undo", taken_back)
    for name in ("STORAGE_CONSUMER_CONFIG", "STORAGE_CONSUMER_UPSTREAM_URI"):
        monkeypatch.delenv(name, raising=False)
    return fake


def exit_code(*arguments: str) -> int:
    """What `main` leaves with."""
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return int(left.value.code or 0)
