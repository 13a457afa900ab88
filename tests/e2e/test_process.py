"""The program as a process: its streams, signals, secrets, and what Spark must not say."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import MariaDb
from tests.support.command_line import DEMO

PROGRAM = Path(sys.executable).with_name("storage-consumer")
PASSWORD = "hunter22"


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "storage"))


def words(command: str, storage: Path, target: str, *more: str) -> list[str]:
    upstream = f"file://{storage}?protocol=canal-json"
    return [str(PROGRAM), command, "--upstream-uri", upstream, "--downstream-uri", target, "--tz", "UTC", *more]


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["text", "json"])
def test_a_reader_that_leaves_is_no_error(flags: tuple[str, ...], storage: Path, tmp_path: Path) -> None:
    command = words("plan", storage, f"duckdb:///{tmp_path}/replica.duckdb", *flags)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert told == b""


def test_stderr_holds_the_log_alone_and_no_secret(storage: Path, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute(f"CREATE USER u IDENTIFIED BY '{PASSWORD}'", "GRANT ALL ON *.* TO u")
    command = words("once", storage, fresh_mariadb.url("u", PASSWORD), "-v", "--json", "--master", "local[1]")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert {name: table["state"] for name, table in json.loads(done.stdout)["tables"].items()} == {
        "du.n": "ok", "du.s": "ok", "du.t": "ok",
    }  # fmt: skip
    strange = [line for line in done.stderr.splitlines() if line.split()[1:2] not in (["info"], ["debug"])]
    assert strange == []
    assert PASSWORD not in done.stderr


def test_a_trace_holds_no_secret(storage: Path, fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute(f"CREATE USER u IDENTIFIED BY '{PASSWORD}'")
    command = words("once", storage, fresh_mariadb.url("u", PASSWORD), "-v")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert PASSWORD not in done.stderr + done.stdout


def test_a_spark_that_does_not_start_is_one_sentence(storage: Path, tmp_path: Path) -> None:
    command = words("once", storage, f"duckdb:///{tmp_path}/replica.duckdb", "--master", "moon", "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error.startswith("Spark does not start: ")
    assert "check --master" in json.loads(done.stdout)["hint"]
    assert "Master must" in error
    assert "Traceback" not in done.stderr


def test_run_ends_with_0_at_a_signal(storage: Path, tmp_path: Path) -> None:
    (storage / "metadata").write_text('{"checkpoint-ts":1}', encoding="utf-8")
    command = words("run", storage, f"duckdb:///{tmp_path}/replica.duckdb", "-v", "--json", "--flush-interval", "100ms")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "round started" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["checkpoint_ts"] == 1
