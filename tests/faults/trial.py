"""One trial: a consumer meets a fault at a point of its round, is run again, and its target is compared."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import duckdb
import pymysql.cursors

from tests.faults.points import Point, command
from tests.faults.workload import Workload
from tests.mysql_server import MySql, mysql_template
from tests.servers import MariaDb, SqlServer, mariadb_template

_PATIENCE = 120.0
"""Seconds that a command may take on a busy machine. It hangs where it takes longer."""
_FROZEN = 1.0
_RUNS = 4
"""Runs after the fault, at most, until one ends with 0: locks of a killed process stand for a moment."""
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        "consumer.cli.program",
        "consumer.app.commands",
        "consumer.sink.mysql.sink",
        "consumer.sink.duckdb.sink",
        "tests.support.inline_loader",
    ]
)


class Target(ABC):
    """`uri` of the consumer's target, and `flags` of every command. The faults that are the target's own."""

    uri: str
    flags: tuple[str, ...] = ()

    @abstractmethod
    def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows by lower-case column."""

    @abstractmethod
    def cut_off(self) -> None:
        """End every connection to the target."""

    @abstractmethod
    def kill(self) -> None:
        """End the target at once, and start it again."""


class ServerTarget(Target):
    def __init__(self, server: SqlServer, *flags: str) -> None:
        self._server, self.uri, self.flags = server, server.url(), flags
        server.drop_all()

    def query(self, sql: str) -> list[dict[str, Any]]:
        connection = self._server.connect(cursorclass=pymysql.cursors.DictCursor)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute(sql)
            return [{name.lower(): value for name, value in row.items()} for row in cursor.fetchall()]

    def cut_off(self) -> None:
        self._server.kill_clients()

    def kill(self) -> None:
        self._server.kill()
        self._server.start()


class FileTarget(Target):
    """A DuckDB file: nothing between it and the consumer can break."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.flags = flags
        self._path = folder / "replica.duckdb"
        self.uri = f"duckdb:///{self._path}"

    def query(self, sql: str) -> list[dict[str, Any]]:
        with duckdb.connect(str(self._path), read_only=True) as connection:
            found = connection.execute(sql)
            names = [column[0].lower() for column in found.description or ()]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def cut_off(self) -> None: ...

    def kill(self) -> None: ...


def server_of(target: str, work: Path) -> SqlServer | None:
    """The server that `--target` names, started; None for a DuckDB file."""
    if target == "duckdb":
        return None
    return MySql(mysql_template()).start() if target == "mysql9" else MariaDb(mariadb_template(work)).start()


@dataclass(frozen=True)
class Outcome:
    """`first` is how the command that met the fault ended: an exit code, or the negative number of a signal.
    `differences` is empty where the target is right in the end; None where the command never came to the point."""

    first: int
    differences: list[str] | None


class Trial:
    """`folder` is empty, and of this trial alone."""

    def __init__(self, folder: Path, target: Target, seed: int) -> None:
        self._folder, self.target = folder, target
        self.random = random.Random(seed)
        (folder / "cdc").mkdir()
        self.workload = Workload(folder / "cdc", seed)
        self._process: ForkServerProcess | None = None
        self.log = folder / "log"

    def play(self, point: Point, number: int, act: Callable[[Trial], None]) -> Outcome:
        """`act` is what happens while the command stands at the point, for the `number`-th time, and how it goes on."""
        self.workload.advance()
        if self.random.random() < 0.5:
            self.run()
            self.workload.advance()
        reached = self._folder / "reached"
        self._process = self._start(point, number, reached)
        while not reached.exists():
            if not self._process.is_alive():
                return Outcome(self._process.exitcode or 0, None)
            time.sleep(0.005)
        while _state(self._process) != "T":
            time.sleep(0.005)
        self.workload.advance()  # upstream goes on meanwhile
        act(self)
        first = self._end(self._process)
        self.workload.advance()
        codes = [self.run()]
        while codes[-1] and len(codes) < _RUNS:
            time.sleep(1)
            codes.append(self.run())
        if codes[-1]:
            return Outcome(first, [f"the runs after it ended with {codes}"])
        return Outcome(first, self.workload.differences(self.target.query))

    def run(self) -> int:
        """A command with no fault; its exit code."""
        return self._end(self._start(None, 0, self._folder / "never"))

    def give_up(self) -> None:
        """End the command at the point, which cannot hear anything else."""
        if self._process is not None:
            self._process.kill()

    def send(self, number: signal.Signals) -> None:
        """To the command at the point."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def _start(self, point: Point | None, number: int, reached: Path) -> ForkServerProcess:
        flags = ["--upstream-uri", f"file://{self._folder / 'cdc'}?protocol=canal-json", "--downstream-uri"]
        words = ["once", *flags, self.target.uri, "--tz", "UTC", "--max-wait", "20s", "--log-level", "warning"]
        words += self.target.flags
        process = _processes.Process(target=command, args=(words, point, number, str(reached), str(self.log)))
        process.start()
        return process

    def _end(self, process: ForkServerProcess) -> int:
        process.join(_PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"a command hangs; its log is {self.log.read_text()}")
        return process.exitcode


def _state(process: ForkServerProcess) -> str:
    """How the kernel sees the process: T is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def killed(trial: Trial) -> None:
    trial.send(signal.SIGKILL)


def frozen(trial: Trial) -> None:
    time.sleep(_FROZEN)
    trial.send(signal.SIGCONT)


def overtaken(trial: Trial) -> None:
    """The target takes the frozen consumer for dead, another one does the work, and the first wakes up."""
    trial.target.cut_off()
    trial.run()
    trial.send(signal.SIGCONT)


def cut_off(trial: Trial) -> None:
    trial.target.cut_off()
    trial.send(signal.SIGCONT)


def target_killed(trial: Trial) -> None:
    trial.target.kill()
    trial.send(signal.SIGCONT)


def interrupted(trial: Trial) -> None:
    trial.send(signal.SIGTERM)
    trial.send(signal.SIGCONT)


KINDS: dict[str, Callable[[Trial], None]] = {
    "kill -9": killed,
    "frozen": frozen,
    "overtaken": overtaken,
    "SIGTERM": interrupted,
    "cut off": cut_off,
    "target killed": target_killed,
}
OF_A_FILE = ("kill -9", "frozen", "overtaken", "SIGTERM")
"""Those that a DuckDB file knows."""
