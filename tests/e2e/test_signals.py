"""Any signal at any moment: the process ends in time, says so in one line, and leaves nobody behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.command_line import DEMO

PROGRAM = Path(sys.executable).with_name("storage-consumer")
MARK = "TESTED_CONSUMER"
ENDS_WITHIN = 30
NOTICED_WITHIN = 20
"""Seconds in which the children of a killed driver see that it is gone, on a busy machine."""


class Consumer:
    """The program at work on a copy of the demo changefeed, in a process group of its own, as a shell starts it."""

    def __init__(self, command: str, folder: Path) -> None:
        storage = shutil.copytree(DEMO, folder / "storage")
        words = [str(PROGRAM), command, "--upstream-uri", f"file://{storage}?protocol=canal-json", "--tz", "UTC"]
        words += ["--downstream-uri", f"duckdb:///{folder}/replica.duckdb", "--json", "--master", "local[1]"]
        self.mark = str(folder)
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, MARK: self.mark},
        )  # fmt: skip

    def family(self) -> list[psutil.Process]:
        """Every process that this one started, and itself."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False

    def wait_for(self, seen: Callable[[list[str]], bool]) -> None:
        """Until the command lines of the family look as asked."""
        deadline = time.monotonic() + 120
        while not seen([" ".join(_words(process)) for process in self.family()]):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def alone_within(self, seconds: float) -> bool:
        """Whether none of the family is left after at most so many seconds."""
        deadline = time.monotonic() + seconds
        while self.family():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def launching(lines: list[str]) -> bool:
    """Spark's JVM is being started, and has not answered yet."""
    return any("spark-submit" in line or "java" in line for line in lines)


def working(lines: list[str]) -> bool:
    """Python workers are at a task."""
    return any("consumer.spark.daemon" in line for line in lines)


@pytest.fixture
def consumer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Consumer]:
    started = Consumer(request.param, tmp_path)
    yield started
    for process in started.family():
        process.kill()
    started.process.communicate()


BY_SIGNAL = [("once", 4), ("run", 0)]


@pytest.mark.parametrize(("consumer", "code"), BY_SIGNAL, indirect=["consumer"])
@pytest.mark.parametrize("moment", [launching, working])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_summary(
    consumer: Consumer, code: int, moment: Callable[[list[str]], bool], number: signal.Signals
) -> None:
    consumer.wait_for(moment)
    # A terminal sends its signals to the whole group.
    os.killpg(consumer.process.pid, number) if number is not signal.SIGTERM else consumer.process.send_signal(number)
    began = time.monotonic()
    out, err = consumer.process.communicate(timeout=ENDS_WITHIN + 30)
    assert time.monotonic() - began < ENDS_WITHIN
    assert "Traceback" not in err
    assert "does not start" not in err
    body = json.loads(out.splitlines()[-1])
    assert body["exit_code"] == consumer.process.returncode
    if consumer.process.returncode != 0:
        assert consumer.process.returncode == code
        assert err.count("stopped by a signal") == 1
    assert body["tables"]["du.t"]["ddl"] > 0
    assert consumer.alone_within(2)


@pytest.mark.parametrize(("consumer", "code"), BY_SIGNAL, indirect=["consumer"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("later", [0.0, 0.4])
def test_a_signal_while_python_imports_the_program(
    consumer: Consumer, code: int, number: signal.Signals, later: float
) -> None:
    while not _catches(consumer.process.pid, signal.SIGTERM):
        time.sleep(0.002)
    time.sleep(later)
    consumer.process.send_signal(number)
    out, err = consumer.process.communicate(timeout=ENDS_WITHIN)
    assert "Traceback" not in err
    assert consumer.process.returncode == json.loads(out)["exit_code"] == code
    assert err.count("stopped by a signal") == (code != 0)


def _catches(process: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("consumer", ["once"], indirect=True)
@pytest.mark.parametrize("moment", [launching, working])
def test_nobody_outlives_a_killed_driver(consumer: Consumer, moment: Callable[[list[str]], bool]) -> None:
    consumer.wait_for(moment)
    consumer.process.kill()
    assert consumer.alone_within(NOTICED_WITHIN)
