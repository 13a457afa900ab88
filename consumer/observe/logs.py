"""The log: structlog, as text or JSON, with a fixed vocabulary: table, version, commit_ts, files, rows, seconds."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from consumer.errors import BadConfig
from consumer.model.texts import printable

_QUIET = (
    "py4j",
    "pyspark",
    "botocore",
    "fsspec",
    "asyncio",
    "urllib3",
    "aiohttp",
    "gcsfs",
    "adlfs",
)
"""These loggers report errors that they also raise. The consumer reports each once, in its own words."""
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Line = MutableMapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How to log. `scrub` removes the secrets from a text; every logged text passes through it. `consumer` is the one,
    of several in this process, that the lines are about."""

    level: str = "info"
    format: str = "text"
    file: str | None = None
    scrub: Callable[[str], str] = str
    consumer: str = ""


class Log:
    """The log. The logger is made with its first line: a run that logs nothing does not load structlog."""

    def __init__(self, settings: LogSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self.written = clock()
        """When the last line above debug was written."""
        self._file = _LogFile(settings.file) if settings.file else None
        for name in _QUIET:
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def info(self, event: str, **values: object) -> None:
        self._write("info", event, values)

    def debug(self, event: str, **values: object) -> None:
        self._write("debug", event, values)

    def warning(self, event: str, **values: object) -> None:
        self._write("warning", event, values)

    def error(self, event: str, **values: object) -> None:
        self._write("error", event, values)

    def _write(self, level: str, event: str, values: dict[str, object]) -> None:
        if level != "debug":
            self.written = self._clock()
        if _LEVELS[level] >= _LEVELS[self._settings.level]:
            about = {"consumer": self._settings.consumer} if self._settings.consumer else {}
            getattr(_logger(self._settings, _Lines(self._file)), level)(event, **about, **values)

    def close(self) -> None:
        """Closes the log file, if there is one."""
        if self._file:
            self._file.close()


@dataclass(frozen=True)
class _Lines:
    """Where lines are written: a file, or the current stderr (a live progress bar replaces it)."""

    file: _LogFile | None

    def msg(self, line: str) -> None:
        # A full disk or a closed terminal must not stop the replication.
        with contextlib.suppress(OSError):
            print(line, file=self.file.current() if self.file else sys.stderr, flush=True)

    debug = info = warning = error = msg


class _LogFile:
    """The file at a path, which is reopened once somebody has moved or removed it (logrotate). Raises BadConfig if it
    cannot be opened at first."""

    def __init__(self, path: str) -> None:
        self._path, self._lock = Path(path), threading.Lock()
        try:
            self._file = self._open()
        except OSError as problem:
            raise BadConfig(f"log-file: {path} cannot be written ({problem.strerror})") from problem

    def current(self) -> TextIO:
        with self._lock:
            if self._is_moved():
                with contextlib.suppress(OSError):
                    before, self._file = self._file, self._open()
                    before.close()
            return self._file

    def close(self) -> None:
        with contextlib.suppress(OSError):  # lines that found no room are tried once more
            self._file.close()

    def _open(self) -> TextIO:
        return self._path.open("a", encoding="utf-8", buffering=1)

    def _is_moved(self) -> bool:
        try:
            there, ours = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


@cache
def _logger(settings: LogSettings, lines: _Lines) -> Any:
    import structlog

    def scrub(_logger: object, _name: str, event: Line) -> Line:
        return {key: settings.scrub(value) if isinstance(value, str) else value for key, value in event.items()}

    last: Any = structlog.processors.JSONRenderer() if settings.format == "json" else _as_text
    return structlog.wrap_logger(
        lines,
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            scrub,
            last,
        ],
    )


def _as_text(_logger: object, _name: str, event: Line) -> str:
    about = f"{event.pop('consumer')}: " if "consumer" in event else ""
    head = f"{event.pop('timestamp')} {event.pop('level'):<7} {about}{printable(event.pop('event'))}"
    if "kind" in event:  # a note, whose text says all of it
        return head
    # A hint can hold a command: quoted like the other values it could not be pasted.
    hint = event.pop("hint", "")
    line = " ".join([head, *(f"{key}={_value(value)}" for key, value in event.items())])
    return "\n".join([line, *map(printable, f"  {hint}".split("\n"))]) if hint else line


def _value(value: object) -> str:
    text = str(value)
    is_plain = text and text.isprintable() and " " not in text
    return text if is_plain else repr(text)
