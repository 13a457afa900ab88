"""Trials one after the other under one `run` on a Spark cluster: a worker or its executor meets a fault at a point of a
task, and the target must come to be what the upstream is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import psutil
import pymysql
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tests.faults.chain import Outcome
from tests.faults.points import OF_TASKS, Point
from tests.faults.spark_archive import FLAGS, cheap_flags
from tests.faults.spark_daemon import FOLDER
from tests.faults.spark_program import HALVES
from tests.faults.targets import Target
from tests.faults.workload import Workload
from tests.spark_cluster import SparkCluster

_PATIENCE = 400.0
"""Seconds in which rows arrive, and tasks begin, on a busy machine."""
_LOOKS_EVERY, _LOOKS_LATER, _LOOKS_AT_LEAST_EVERY = 0.1, 1.2, 1.0
_LIVES = 4
"""Of the program in one trial, at most."""
_GIVEN_UP = {"network.timeout": "8s", "network.timeoutInterval": "1s", "executor.heartbeatInterval": "1s"}
"""How soon Spark's driver takes an executor that says nothing for lost."""


class SparkChain:
    """On a cluster of its own. `folder` is empty. Each start of the program draws whether tables are loaded in two
    halves. The `worker` stands, it is one of the `executor`."""

    worker: psutil.Process
    executor: psutil.Process

    def __init__(self, folder: Path, target: Target, seed: int) -> None:
        self.folder, self.target = folder, target
        (folder / "cdc").mkdir()
        (folder / "own").mkdir()
        self.workload = Workload(folder / "cdc", seed)
        flags = cheap_flags()
        self._cluster = SparkCluster(workers=2, java_options=flags)
        conf = {f"spark.{name}": value for name, value in _GIVEN_UP.items()}
        conf |= {f"spark.{whose}.extraJavaOptions": flags for whose in ("driver", "executor")}
        conf |= {"spark.executor.memory": "600m", "spark.driver.host": "127.0.0.1"}
        conf |= {"spark.python.daemon.module": "tests.faults.spark_daemon", f"spark.executorEnv.{FOLDER}": str(folder)}
        self._words = [
            sys.executable, "-m", "tests.faults.spark_program", "run", *target.flags, "--tz", "UTC",
            "--upstream-uri", f"file://{folder / 'cdc'}?protocol=canal-json", "--downstream-uri", target.uri,
            "--flush-interval", "200ms", "--max-wait", "20s", "--log-level", "warning", "--master", self._cluster.url,
            *(word for name, value in conf.items() for word in ("--spark-conf", f"{name}={value}")),
        ]  # fmt: skip
        self._environment = {**os.environ, "TMPDIR": str(folder / "own"), "SPARK_LAUNCHER_OPTS": FLAGS}
        self._random = random.Random(seed)
        self._program: subprocess.Popen[bytes] | None = None

    def play(self, point: Point, number: int, act: Callable[[SparkChain], None]) -> Outcome:
        """One trial. `act` is what happens while a worker stands at the point, for the `number`-th time that one comes
        there. `first` of the outcome is 0 where the program went on."""
        self.workload.upstream.forget()
        self.workload.advance()
        self._arm(point, number)
        if self._program is None:
            self._cluster.__enter__()
        if self._program is None or self._program.poll() is not None:
            self.start()
        if not self._stands():
            code = self._program.poll() if self._program is not None else None
            return Outcome(code or 0, None if code is None else [f"`run` ended by itself with {code}"])
        self.workload.advance()
        first = self._program
        act(self)
        wrong = self.arrive()
        return Outcome((first.poll() if first is not None else None) or 0, wrong)

    def start(self) -> None:
        environment = {**self._environment, **({HALVES: "1"} if self._random.random() < 0.5 else {})}
        with (self.folder / "log").open("ab") as log:
            self._program = subprocess.Popen(self._words, stdout=log, stderr=log, env=environment)

    def driver(self) -> psutil.Process:
        assert self._program is not None
        return psutil.Process(self._program.pid)

    def end(self, number: signal.Signals) -> None:
        """Of the program, by that signal."""
        if self._program is not None:
            self._program.send_signal(number)
            self._program.wait(_PATIENCE)

    def close(self) -> None:
        if self._program is not None:
            self._program.terminate()
            try:
                self._program.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self.end(signal.SIGKILL)
            self._cluster.__exit__()

    def arrive(self) -> list[str]:
        """Wait until the target is what the upstream is, and start a program that ended by itself again; what is
        otherwise in the end."""
        deadline, lives, pauses = time.monotonic() + _PATIENCE, 1, _pauses()
        while wrong := self._differences():
            if time.monotonic() > deadline or lives > _LIVES:
                return wrong
            if self._program is not None and self._program.poll() is not None:
                lives += 1
                self.start()
            time.sleep(next(pauses))
        return []

    def _differences(self) -> list[str]:
        try:
            with self.target.reading() as query:
                return self.workload.differences(query)
        except (duckdb.Error, pymysql.MySQLError, PySparkException, Py4JError) as error:
            return [str(error)]  # the program has the file, or changes a table

    def _arm(self, point: Point, number: int) -> None:
        for left in [*self.folder.glob("armed-*"), *self.folder.glob("reached-*")]:
            left.unlink()
        (self.folder / f"armed-{OF_TASKS.index(point)}-{number}").touch()

    def _stands(self) -> bool:
        """Wait for a worker to stand; False if all was done without one."""
        deadline, pauses = time.monotonic() + _PATIENCE, _pauses()
        look = time.monotonic()
        while (now := time.monotonic()) < deadline:
            for reached in self.folder.glob("reached-*"):
                self.worker = psutil.Process(int(reached.name.partition("-")[2]))
                while self.worker.status() != psutil.STATUS_STOPPED:
                    time.sleep(_LOOKS_EVERY / 10)
                self.executor = next(p for p in self.worker.parents() if p.name() == "java")
                return True
            assert self._program is not None
            if self._program.poll() is not None:
                return False
            if now >= look:
                if not self._differences():
                    return False
                look = now + next(pauses)
            time.sleep(_LOOKS_EVERY)
        return False


def _pauses() -> Iterator[float]:
    """Between looks at the target, longer and longer: they cost the machine what the program is to have."""
    pause = _LOOKS_EVERY
    while True:
        yield pause
        pause = min(pause * _LOOKS_LATER, _LOOKS_AT_LEAST_EVERY)
