"""On a terminal a bar stands in for the lines about progress; elsewhere there are lines."""

from __future__ import annotations

import io
import re
import sys

import pytest

from consumer.cli import text
from consumer.model.events import Note, NoteKind, RoundStarted, StepFinished, WorkEnded, WorkStarted, WorkUnit
from consumer.model.names import TableName
from consumer.model.progress import AuditRow
from consumer.results import RunResult
from tests.unit.cli.conftest import UPSTREAM, FakeApp, exit_code


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(observer: object) -> RunResult:
    load = WorkUnit((TableName("a", "b"),), files=1, bytes=1000)
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


NAME = "shop.a_table_whose_name_is_rather_long -> replica.and_another_name"
PATH = "/data/storage/shop/carts/470611625733521409/2026-11-21/CDC00000000000000000001.json"
COMMAND = "storage-consumer once --accept-gap-in shop.carts --upstream-uri 'file:///data/storage?protocol=canal-json'"


@pytest.mark.parametrize("columns", [50, 80, 150])
def test_no_word_is_broken_on_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    cells = ["shop.carts", NAME, *(f"{number:,}" for number in range(10**6, 10**6 + 6)), "2026-11-21T06:01:13.918Z"]
    headings = ["first", "table", "changes", "rows", "puts", "deletes", "DDL", "dropped", "applied to"]
    text.print_table(headings, [cells], numbers=range(2, 8))
    text.out(
        f"shop.carts is stopped: {PATH}:1: the line is not JSON, and it may be cut off", f"  restore it, or: {COMMAND}"
    )
    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    words = {word.strip(",") for line in shown for word in line.split()}
    assert {*cells[0].split(), *NAME.split(), *cells[2:], f"{PATH}:1:", "JSON"} <= words
    assert [line[-len(COMMAND) :] for line in shown if "storage-consumer" in line] == [COMMAND]
    assert all(len(line) <= columns for line in shown if PATH not in line and COMMAND not in line and NAME not in line)
