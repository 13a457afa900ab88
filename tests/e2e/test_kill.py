"""kill -9 at any moment, then a plain re-run: the target ends equal to the upstream's state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.corpus import Case, compare, read_cases
from tests.servers import SqlServer
from tests.support.examples import TIMES

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


@pytest.mark.parametrize(
    ("name", "kind"), [("ticdc/l_volume/cj_none", "fresh_mysql"), ("tiflow/d2_nokey/cj_ext", "fresh_mariadb")]
)
def test_killed_at_random_moments_a_plain_rerun_ends_equal(
    name: str, kind: str, cases: dict[str, Case], request: pytest.FixtureRequest
) -> None:
    case, server = cases[name], request.getfixturevalue(kind)
    assert isinstance(server, SqlServer)
    storage = case.folder / "storage"
    command = _command(case, storage, server)
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.monotonic() - started
    assert compare(case.expected(), server.url(), storage) == []
    moments = random.Random(11)
    killed = 0
    for number in range(KILLS):
        server.drop_all()
        for _ in range(_KILLS_OF_A_RUN):
            started = time.monotonic()
            if _run_and_kill(command, moments.uniform(0.2, 1.0) * seconds, group=number % 2 == 0):
                killed += 1
                continue
            # The machine has less to do than when the first run was timed.
            seconds = time.monotonic() - started
            server.drop_all()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert compare(case.expected(), server.url(), storage) == [], f"kill {number}"
    assert killed


def _command(case: Case, storage: Path, server: SqlServer) -> list[str]:
    return [
        str(PROGRAM), "once", "--upstream-uri", f"file://{storage}?protocol=canal-json",
        "--downstream-uri", server.url(), "--config", str(case.folder / "config.toml"), "--tz", "UTC",
        "--master", "local[2]",
    ]  # fmt: skip


def _run_and_kill(command: list[str], after: float, group: bool) -> bool:
    """Start the program and kill -9 it after so many seconds: the whole group, or the driver alone, whose Spark workers
    then go on for a moment. False when it had ended before."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
        return True
    return False
