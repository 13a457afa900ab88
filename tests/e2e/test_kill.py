"""kill -9 at any moment, then a plain re-run: the target ends equal to the upstream's state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from consumer.spark.load import SparkLoader
from tests.e2e.corpus import Case, read_cases
from tests.e2e.targets import Lake, Server, Target
from tests.servers import SqlServer
from tests.support.examples import TIMES
from tests.support.lakes import FORMATS

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"
KILLS = TIMES
"""How many moments each case is killed at."""
_KILLS_OF_A_RUN = 1 if TIMES == 1 else 2
"""`make proof` kills what goes on after a kill, too."""
_TRIES = 5
"""To kill one before it has ended."""
PROGRAM = Path(sys.executable).with_name("storage-consumer")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.name: case for case in read_cases(FIXTURES, tmp_path_factory.mktemp("unpacked"))}


CASES = ("ticdc/l_volume/cj_none", "tiflow/d2_nokey/cj_ext")
Kill = Callable[[psutil.Process], bool]
"""Whether there was somebody to kill."""


def _group(program: psutil.Process) -> bool:
    os.killpg(program.pid, signal.SIGKILL)
    return True


def _driver(program: psutil.Process) -> bool:
    """Its Spark goes on for a moment."""
    program.kill()
    return True


def _machine(program: psutil.Process) -> bool:
    return _descendant(program, lambda process: process.name() == "java")


def _worker(program: psutil.Process) -> bool:
    """The last one that Spark has started, of its Python processes."""
    return _descendant(program, lambda process: "pyspark.worker" in process.cmdline())


def _descendant(program: psutil.Process, fits: Callable[[psutil.Process], bool]) -> bool:
    with suppress(psutil.NoSuchProcess):
        found = [process for process in program.children(recursive=True) if fits(process)]
        for process in found[-1:]:
            process.kill()
        return bool(found)
    return False


@pytest.mark.parametrize(("name", "kind"), [(CASES[0], "fresh_mysql"), (CASES[1], "fresh_mariadb")])
def test_killed_at_random_moments_a_plain_rerun_ends_equal(
    name: str, kind: str, cases: dict[str, Case], request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(kind)
    assert isinstance(server, SqlServer)
    _ends_equal(cases[name], Server(server), [_group, _driver])


@pytest.mark.parametrize("lake", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_killed_at_random_moments_a_lake_ends_equal(
    name: str, lake: str, cases: dict[str, Case], lake_spark: SparkLoader, tmp_path: Path
) -> None:
    _ends_equal(cases[name], Lake(lake, tmp_path, lake_spark), [_driver, _machine, _worker, _group], times=4)


def _ends_equal(case: Case, target: Target, kills: list[Kill], times: int = 1) -> None:
    """Killed by each of `kills` in turn, `times` as often as KILLS says."""
    target.prepare(case)
    started = time.monotonic()
    subprocess.run(_command(case, target), check=True, capture_output=True)
    seconds = time.monotonic() - started
    assert target.differences(case, None) == []
    moments = random.Random(11)
    killed = 0
    for number in range(KILLS * times):
        target.prepare(case)
        for _ in range(_KILLS_OF_A_RUN):
            started = time.monotonic()
            if _run_and_kill(_command(case, target), moments.uniform(0.2, 1.0) * seconds, kills[number % len(kills)]):
                killed += 1
                continue
            # The machine has less to do than when the first run was timed.
            seconds = time.monotonic() - started
            target.prepare(case)
        done = subprocess.run(_command(case, target), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert target.differences(case, None) == [], f"kill {number}"
    assert killed


def _command(case: Case, target: Target) -> list[str]:
    return [
        str(PROGRAM), "once", "--upstream-uri", f"file://{case.folder / 'storage'}?protocol=canal-json",
        "--downstream-uri", target.url, "--config", str(case.folder / "config.toml"), "--tz", "UTC",
        "--master", "local[2]",
    ]  # fmt: skip


def _run_and_kill(command: list[str], after: float, kill: Kill) -> bool:
    """Start the program and `kill` it, or a process of it, after so many seconds. False when it had ended before."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        killed = kill(psutil.Process(process.pid))
        process.wait()
        return killed
    return False
