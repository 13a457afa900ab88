"""Several upstreams and targets by the program as a process, with Spark: kills, signals, a target that is down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pymysql
import pytest

from consumer.model.times import MAX_TSO
from tests.servers import MariaDb
from tests.support.bank import NAMES, Bank
from tests.support.feed import Feed

PROGRAM = Path(sys.executable).with_name("storage-consumer")


@contextmanager
def program(config: Path, command: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The program, with all that it starts in a group of its own, which is gone behind it."""
    log = config.with_suffix(".log")
    with log.open("ab") as err:
        words = [str(PROGRAM), command, "--config", str(config), "--master", "local[1]", "--json", *more]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=err, text=True, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def until(holds: Callable[[], bool], process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + 90
    while not holds():
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.1)


def held(server: MariaDb) -> dict[str, Any]:
    try:
        return {name: server.execute(f"SELECT v FROM {name}.a")[0][0] for name in NAMES}
    except (pymysql.MySQLError, IndexError):
        return {}


def test_run_of_three_upstreams_killed_and_ended_by_a_signal(tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    bank = Bank(tmp_path, fresh_mariadb.url())
    bank.write('flush-interval = "100ms"\n')
    log = bank.config.with_suffix(".log")
    for step, end in enumerate((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM), 1):
        bank.move(100 * step, "eu", "us", 10)
        bank.move(100 * step + 10, "us", "asia", 5)
        bank.checkpoints(**dict.fromkeys(NAMES, 100 * step + 20))
        with program(bank.config, "run") as process:
            until(lambda: held(fresh_mariadb) == bank.held, process, log)
            if end is signal.SIGTERM:
                process.terminate()
                printed, _ = process.communicate(timeout=30)
            else:
                os.killpg(process.pid, end)
    body = json.loads(printed.splitlines()[-1])
    assert (process.returncode, body["exit_code"], list(body["consumers"])) == (0, 0, list(NAMES))
    assert all(one["tables"]["bank.a"]["state"] == "ok" for one in body["consumers"].values())
    assert "Traceback" not in log.read_text(encoding="utf-8")
    bank.config.with_suffix(".log").unlink()
    with program(bank.config, "once") as process:
        again = json.loads(process.communicate(timeout=60)[0].splitlines()[-1])
    assert {one["tables"]["bank.a"]["rows"] for one in again["consumers"].values()} == {0}
    assert held(fresh_mariadb) == bank.held


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_once_of_several(end: signal.Signals, tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    """The first one waits for a target that does not answer; the others are not begun."""
    bank = Bank(tmp_path, "mysql://u@127.0.0.1:9/")
    with program(bank.config, "once", "--max-wait", "1h") as process:
        time.sleep(4)
        process.send_signal(end)
        body = json.loads(process.communicate(timeout=30)[0].splitlines()[-1])
    assert process.returncode == 4
    assert {one["exit_code"] for one in body["consumers"].values()} == {4}
    assert all("stopped by a signal" in one["error"] for one in body["consumers"].values())


def test_a_target_that_is_down_does_not_hold_up_the_other(tmp_path: Path, fresh_mariadb: MariaDb) -> None:
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    feed.database("d", 5)
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {20: (1, "1")})
    feed.checkpoint(30)
    config, url = tmp_path / "two.toml", fresh_mariadb.url()
    config.write_text(
        f"""
[consumer]
upstream-uri = "file://{feed.folder}?protocol=canal-json"
tz = "UTC"
flush-interval = "100ms"

[[consumer.targets]]
name = "server"
uri = "{url}"

[[consumer.targets]]
name = "file"
uri = "duckdb:///{tmp_path}/file.duckdb"
""",
        encoding="utf-8",
    )

    def in_file() -> list[tuple[Any, ...]]:
        with suppress(duckdb.Error), duckdb.connect(str(tmp_path / "file.duckdb"), read_only=True) as connection:
            return connection.execute("SELECT v FROM d.a").fetchall()
        return []

    def on_server() -> list[tuple[Any, ...]]:
        with suppress(pymysql.MySQLError):
            return list(fresh_mariadb.execute("SELECT v FROM d.a"))
        return []

    log = config.with_suffix(".log")
    fresh_mariadb.end()
    with program(config, "run") as process:
        until(lambda: in_file() == [(1,)], process, log)
        for version in (2, 3):
            feed.puts("d.a", 10, {30 + version: (1, str(version))})
            feed.checkpoint(30 + version)
            until(lambda version=version: in_file() == [(version,)], process, log)  # type: ignore[misc]
        fresh_mariadb.start()
        until(lambda: on_server() == [(3,)], process, log)
        process.terminate()
        body = json.loads(process.communicate(timeout=30)[0].splitlines()[-1])
    assert (process.returncode, {one["exit_code"] for one in body["consumers"].values()}) == (0, {0})
    assert 0 < body["consumers"]["server"]["tables"]["d.a"]["watermark"] < MAX_TSO
