"""The program as a process: its streams, signals, secrets, and what Spark must not say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
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


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_streams_that_are_closed_lead_nowhere(closed: tuple[int, ...], storage: Path, tmp_path: Path) -> None:
    """For programs that it starts too: where the number of one is free, the next file gets it."""
    command = words("plan", storage, f"duckdb:///{tmp_path}/replica.duckdb")
    shell = " ".join(["exec", '"$@"', *(f"{number}>&-" for number in closed)])
    done = subprocess.run(["bash", "-c", shell, "bash", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("CREATE DATABASE" in done.stdout) == (1 not in closed)
    assert done.stderr == ""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_file_gets_the_number_of_a_closed_stream(number: int, tmp_path: Path) -> None:
    """What a program that is started writes to that number would be in the file."""
    look = f"readlink /proc/$$/fd/{number} > {tmp_path}/leads"
    lines = [
        "import subprocess; from consumer.cli import early",
        f"early.open_missing(); file = open({str(tmp_path / 'file')!r}, 'w')",
        f"subprocess.run(['bash', '-c', {look!r}], check=True)",
    ]
    shell = f'exec "$@" {number}>&-'
    subprocess.run(["bash", "-c", shell, "bash", sys.executable, "-c", "\n".join(lines)], check=True)
    assert (tmp_path / "leads").read_text() == "/dev/null\n"


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


def test_a_java_that_is_not_there_is_one_sentence(storage: Path, tmp_path: Path) -> None:
    command = words("once", storage, f"duckdb:///{tmp_path}/replica.duckdb", "--json")
    away = {**os.environ, "JAVA_HOME": f"{tmp_path}/away"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=away)
    assert done.returncode == 2
    result = json.loads(done.stdout)
    assert result["error"] == f"Spark does not start: JAVA_HOME is {tmp_path}/away, where no bin/java is"
    assert "JAVA_HOME" in result["hint"]
    assert "Traceback" not in done.stderr


def fake_spark(folder: Path, *lines: str) -> dict[str, str]:
    """An environment in which Spark is started by these lines of a shell."""
    script = folder / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text("\n".join(["#!/bin/bash", *lines]) + "\n", encoding="utf-8")
    script.chmod(0o755)
    return {**os.environ, "SPARK_HOME": str(folder / "spark"), "XDG_CACHE_HOME": str(folder)}


@pytest.mark.parametrize(
    ("lines", "code", "words_of_it"),
    [
        (["kill -9 $$"], 4, "its JVM was killed (signal 9)"),
        (["exit 137"], 4, "its JVM was killed (signal 9)"),
        (["echo OutOfMemoryError >&2", "kill -ABRT $$"], 4, "its JVM was killed (signal 6)"),
        (["echo 'Error: Could not create the JVM.' >&2", "exit 1"], 2, "Error: Could not create the JVM."),
        (["exit 1"], 2, "its JVM ended with code 1"),
    ],
)
def test_a_jvm_that_is_killed_as_it_starts_is_an_outage(
    storage: Path, tmp_path: Path, lines: list[str], code: int, words_of_it: str
) -> None:
    command = words("once", storage, f"duckdb:///{tmp_path}/replica.duckdb", "--json")
    spark = fake_spark(tmp_path, *lines)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=spark)
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["error"].startswith(f"Spark does not start: {words_of_it}")
    assert "Traceback" not in done.stderr


def test_a_jvm_that_is_killed_before_it_names_sparks_command_is_an_outage(storage: Path, tmp_path: Path) -> None:
    """Spark's script loses how it ended."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/bash\nkill -9 $$\n", encoding="utf-8")
    java.chmod(0o755)
    command = words("once", storage, f"duckdb:///{tmp_path}/replica.duckdb", "--json")
    killed = {**os.environ, "JAVA_HOME": f"{tmp_path}/java", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=killed)
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["error"] == "Spark does not start: its JVM was killed (it ended without a word)"


def test_run_starts_spark_again_where_it_was_killed_as_it_started(storage: Path, tmp_path: Path) -> None:
    spark = fake_spark(tmp_path, f"echo x >> {tmp_path}/starts", "kill -9 $$")
    command = words("run", storage, f"duckdb:///{tmp_path}/replica.duckdb", "--flush-interval", "100ms")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=spark)
    try:
        assert process.stderr is not None
        while "trying again" not in (line := process.stderr.readline()):
            assert process.poll() is None
        assert "its JVM was killed (signal 9)" in line
        deadline = time.monotonic() + 60
        while len((tmp_path / "starts").read_text(encoding="utf-8")) < 4:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


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
