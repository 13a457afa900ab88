"""The command line without Spark, each command a process of its own: forked from one that has imported it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path

import psutil

from tests.faults.points import Point
from tests.faults.stops import Stop, state, watch

_PATIENCE = 240.0
"""Seconds that a command may take on a busy machine. It hangs where it takes longer."""
_LOOKS_EVERY = 0.005
_looking = threading.Lock()
"""Whoever starts a process looks how all others are; an exit code that two threads ask for is lost."""
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.faults.imported"])


class Hangs(Exception):
    """A command was killed because it did not end."""


class Program:
    """A command that runs, with its log, its caches and temporary files in `folder`. It stops itself at the `number`-th
    time that it comes to `point`; None: it goes through."""

    def __init__(self, words: Sequence[str], folder: Path, point: Point | None = None, number: int = 1) -> None:
        self._log, self._reached = folder / "log", folder / "reached"
        self._process = _processes.Process(target=_command, args=(words, str(folder), point, number))
        with _looking:
            self._process.start()

    def stands(self) -> bool:
        """Wait for it; False if it ended before it came to the point."""
        while not self._reached.exists():
            with _looking:
                if not self._process.is_alive():
                    return False
            time.sleep(_LOOKS_EVERY)
        while state(self._pid) != "T":
            time.sleep(_LOOKS_EVERY)
        self._reached.unlink()
        return True

    def send(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    def kill_machine(self) -> None:
        """Of Java, if it has started one."""
        for child in psutil.Process(self._pid).children(recursive=True):
            if child.name() == "java":
                child.kill()

    def end(self) -> int:
        """Its exit code, or the negative number of a signal, once it has ended. Raises Hangs."""
        if not wait([self._process.sentinel], _PATIENCE):
            self.send(signal.SIGKILL)
            wait([self._process.sentinel])
            raise Hangs(f"a command hangs; its log is {self._log}")
        with _looking:
            self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def _command(words: Sequence[str], folder: str, point: Point | None, number: int) -> None:
    from consumer.app import parts
    from consumer.cli import program
    from consumer.cli.main import main
    from tests.faults.imported import COMMAND_LINE
    from tests.support.inline_loader import InlineLoader

    place = Path(folder)
    with (place / "log").open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["XDG_CACHE_HOME"] = tempfile.tempdir = str(place / "own")
    (place / "own").mkdir(exist_ok=True)
    setattr(parts, "SparkLoader", lambda _settings: InlineLoader())  # noqa: B010 - mypy sees no such name there
    setattr(program, "build", lambda _commands: COMMAND_LINE)  # noqa: B010 - it is another type
    if point is not None:
        watch(point, Stop(number, place / "reached"))
    sys.argv = ["storage-consumer", *words]
    main(words)
