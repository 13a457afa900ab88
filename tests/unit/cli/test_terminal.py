"""On a terminal a bar stands in for the lines about progress; elsewhere there are lines."""

from __future__ import annotations

import io
import sys

import pytest

from consumer.model.events import Note, NoteKind, RoundStarted, StepFinished, Work, WorkEnded, WorkStarted
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.results import RunResult
from tests.unit.cli.conftest import UPSTREAM, FakeApp, exit_code


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(observer: object) -> RunResult:
    load = Work((TableName("a", "b"),), files=1, bytes=1000)
    observer.tell(RoundStarted(1, 1, 1, 1000))  # type: ignore[attr-defined]
    observer.tell(WorkStarted(load))  # type: ignore[attr-defined]
    observer.beat()  # type: ignore[attr-defined]
    observer.tell(WorkEnded(load))  # type: ignore[attr-defined]
    observer.tell(StepFinished(AuditRow("load", TableName("a", "b"), 0, 1, changes=5), 0.1))  # type: ignore[attr-defined]
    observer.tell(Note(NoteKind.STATEMENT, "mind this"))  # type: ignore[attr-defined]
    return RunResult()


def terminal_in(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """stderr as a terminal, set within the test: pytest's own capture takes over between set-up and test."""
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    return stderr


def test_a_person_sees_a_bar_and_warnings(app: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_in(monkeypatch)
    app.action = work
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 0
    shown = terminal.getvalue()
    assert "of 1000 B" in shown
    assert "mind this" in shown
    assert "load finished" not in shown


@pytest.mark.parametrize("flag", ["--log-format=json", "-v", "--log-level=error"])
def test_who_asks_for_a_certain_log_gets_lines(flag: str, app: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_in(monkeypatch)
    app.action = work
    assert exit_code("once", "--upstream-uri", UPSTREAM, flag) == 0
    shown = terminal.getvalue()
    assert "of 1000 B" not in shown
    assert ("load finished" in shown) == (flag != "--log-level=error")


def test_elsewhere_there_are_lines(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    app.action = work
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 0
    assert "load finished table=a.b" in capsys.readouterr().err
