"""The program as its users start it, in folders of its own, and the ways in which it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from consumer.model.process import cache_folder

_MARK = "SOAKED_CONSUMER"
ENDS_WITHIN = 60.0
"""Seconds in which nothing of a program is left, however it ended, on a busy machine."""


class Program:
    """`words` begin its command line, the command and its flags follow. `temporary` is the TMPDIR of all its lives."""

    def __init__(self, folder: Path, words: Sequence[str], flags: Sequence[str]) -> None:
        self._words, self._flags, self._log = tuple(words), tuple(flags), folder / "program.log"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        cache = folder / "cache" / "storage-consumer"
        cache.mkdir(parents=True, mode=0o700)
        (cache / "spark").symlink_to(cache_folder("spark"))
        self._mark = str(folder)
        self._environment = {
            **os.environ, "TMPDIR": str(self.temporary), "XDG_CACHE_HOME": str(folder / "cache"), _MARK: self._mark,
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: str = "run") -> None:
        with self._log.open("ab") as log:
            words = [*self._words, command, *self._flags]
            self._process = subprocess.Popen(words, stdout=log, stderr=log, env=self._environment)

    @property
    def code(self) -> int | None:
        """How it ended; None while it lives."""
        return self._process.poll() if self._process is not None else 0

    def driver(self) -> psutil.Process | None:
        if self._process is None or self._process.poll() is not None:
            return None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid)
        return None

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal; the exit code, or the signal's negative number, once the driver is gone."""
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait()

    def wait(self, seconds: float = ENDS_WITHIN) -> int:
        assert self._process is not None
        return self._process.wait(seconds)

    def left(self) -> list[str]:
        """Processes that its lives started and that are still there after `ENDS_WITHIN`: their command lines."""
        deadline = time.monotonic() + ENDS_WITHIN
        while (family := self._family()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return family

    def stop(self) -> None:
        """Whatever it does."""
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)

    def said(self) -> str:
        """The end of what it logged."""
        return self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""

    def _family(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(_MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline())[:200])
        return found
