"""A signal ends a command in time, with the exit code its kind has."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from consumer.cli import signals
from consumer.model.names import TableName
from consumer.results import RunResult, TableResult
from tests.unit.cli.conftest import UPSTREAM, FakeApp, exit_code


def interrupted_by(number: signal.Signals, times: int = 1) -> Callable[..., RunResult]:
    def work(*_: object) -> RunResult:
        for _time in range(times):
            os.kill(os.getpid(), number)
        time.sleep(30)
        return RunResult()

    return work


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("command", ["once", "backfill"])
def test_a_bounded_command_is_to_be_tried_again(
    number: signal.Signals, command: str, app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app.action = interrupted_by(number)
    assert exit_code(command, "--upstream-uri", UPSTREAM, "--json") == 4
    shown = capsys.readouterr()
    assert f"stopped by a signal ({number.name}) before" in shown.err
    assert "Run the same command again (`once` in place of `backfill`)" in shown.err  # which refuses progress
    assert f"stopped by a signal ({number.name}) before" in json.loads(shown.out)["error"]


def test_what_a_native_library_makes_of_a_signal_is_no_bug(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    """As DuckDB does in the middle of a statement."""

    def work(*_: object) -> RunResult:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None
        return RunResult()

    app.action = work
    assert exit_code("once", "--upstream-uri", UPSTREAM, "--json") == 4
    assert "stopped by a signal (SIGTERM) before" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_run_finishes_the_step_in_hand_and_is_done(
    number: signal.Signals, app: FakeApp, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(_observer: object, stop: threading.Event) -> RunResult:
        os.kill(os.getpid(), number)
        assert stop.wait(5)
        return RunResult(checkpoint_ts=7, tables={TableName("a", "b"): TableResult(rows=1)})

    app.action = work
    assert exit_code("run", "--upstream-uri", UPSTREAM, "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["checkpoint_ts"] == 7
    assert shown.err.endswith(f" ended by a signal signal={number.name}\n")


def test_run_with_a_log_file_takes_no_hang_up_for_an_end(app: FakeApp, tmp_path: Path) -> None:
    """logrotate sends it once it has moved the file."""

    def work(_observer: object, stop: threading.Event) -> RunResult:
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.wait(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
        return RunResult()

    app.action = work
    assert exit_code("run", "--upstream-uri", UPSTREAM, "--log-file", str(tmp_path / "log")) == 0
    assert "signal=SIGTERM" in (tmp_path / "log").read_text(encoding="utf-8")


def test_run_abandons_a_step_that_takes_too_long(
    app: FakeApp, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "ABANDON_AFTER", 1)
    app.action = interrupted_by(signal.SIGTERM)
    began = time.monotonic()
    assert exit_code("run", "--upstream-uri", UPSTREAM, "--json") == 0
    assert time.monotonic() - began < 10
    shown = capsys.readouterr()
    assert json.loads(shown.out)["tables"] == {}
    assert "ended by a signal signal=SIGTERM" in shown.err


def test_a_second_signal_does_not_wait(app: FakeApp) -> None:
    app.action = interrupted_by(signal.SIGINT, times=2)
    began = time.monotonic()
    assert exit_code("run", "--upstream-uri", UPSTREAM) == 0
    assert time.monotonic() - began < 10


def test_no_time_is_left_over_thirty_seconds() -> None:
    assert signals.ABANDON_AFTER + signals.LEAVE_AFTER < 30


def test_the_handlers_of_before_come_back(app: FakeApp) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 0
    assert signal.getsignal(signal.SIGTERM) is before


class Fragile:
    """Interrupted while it is finalized, where Python ignores what is raised."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)


def test_a_signal_in_a_finalizer_is_not_lost(app: FakeApp, capsys: pytest.CaptureFixture[str]) -> None:
    def work(_observer: object) -> RunResult:
        Fragile()
        time.sleep(10)
        return RunResult()

    app.action = work
    assert exit_code("once", "--upstream-uri", UPSTREAM) == 4
    told = capsys.readouterr().err
    assert "stopped by a signal" in told
    assert "Traceback" not in told
