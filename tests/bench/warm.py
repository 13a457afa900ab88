"""Processes with a Spark of their own, as one process has one. They do something for each line that they read, a JSON
object, and answer with an exit code: ``python -m tests.bench.warm FLAGS`` applies a storage, with more flags."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

from consumer import app
from consumer.cli.main import COLLECT_AFTER
from consumer.config.load import load
from consumer.sink import spark_properties
from consumer.spark.load import SparkLoader
from consumer.spark.session import start_session
from consumer.spark.settings import SparkSettings
from tests.support.observers import Recorder


class WarmLoader(SparkLoader):
    """Keeps Spark from one round to the next, as that of `run` does."""

    def close(self) -> None: ...


class WarmProcess:
    """Such a process: a module of this package with an argument. Its first round, which starts executors and loads
    classes, is the caller's to leave out."""

    def __init__(self, module: str, argument: str, log: Path) -> None:
        command = [sys.executable, "-m", f"tests.bench.{module}", argument]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._log, self.pid = log, self._process.pid

    def ask(self, **what: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        if (answer := self._process.stdout.readline().strip()) != "0":
            raise SystemExit(f"a warm process failed ({answer}): {self._log.read_text()[-2000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def main() -> None:
    gc.set_threshold(*COLLECT_AFTER)  # as the program has it
    flags = json.loads(sys.argv[1])
    spark = SparkSettings(flags["master"], tuple(spark_properties(flags["downstream_uri"]).items()))
    session = start_session(spark)
    loader = WarmLoader(spark)
    for line in sys.stdin:
        settings = load({**flags, **json.loads(line)}, {}, None).settings
        result = app.once(settings, Recorder(), loader)
        print(result.exit_code, [table.error for table in result.tables.values() if table.error] or "", flush=True)
    session.close()


if __name__ == "__main__":
    main()
