"""What Spark's JVM says: of use only where it does not start."""

from __future__ import annotations

import io
import os
import re
import tempfile
from typing import IO

_GAVE_UP = b'Exception in thread "main"'
_SAY_NOTHING = (
    *("A JNI error has occurred", "Error initializing SparkContext", "Exception thrown in awaitResult"),
    *("Spark's default log4j", "Setting default log level", "To adjust logging level"),
)
"""The reason is in another line."""
_AROUND = re.compile(r"^(\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ [\w$]+: |Caused by: )")
"""What stands before the words: of a log line its time, level and class."""


def new_noise() -> IO[bytes]:
    """In memory where the system can: a JVM whose disk is full can still say so."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("spark-stderr"), "w+b", buffering=0)
    return tempfile.TemporaryFile()


def has_given_up(noise: IO[bytes]) -> bool:
    """Whether Java's main thread has ended with an exception. Its other threads keep the JVM alive."""
    return _GAVE_UP in _said(noise)


def forget(noise: IO[bytes]) -> None:
    """Before another JVM speaks."""
    noise.seek(0)
    noise.truncate()


def telling_line(noise: IO[bytes]) -> str:
    """The first line that speaks of an error, else the last one, "" when nothing was said."""
    lines = [line.strip() for line in _said(noise).decode(errors="replace").splitlines() if line.strip()]
    lines = [line for line in lines if not any(words in line for words in _SAY_NOTHING)]
    telling = [line for line in lines if "error" in line.lower() or "exception" in line.lower()]
    return _AROUND.sub("", (telling or lines or [""])[0 if telling else -1])[:500]


def _said(noise: IO[bytes]) -> bytes:
    """All of it. The place in the file is the JVM's too, and stays."""
    handle = noise.fileno()
    said = io.BytesIO()
    while part := os.pread(handle, 1 << 20, said.tell()):
        said.write(part)
    return said.getvalue()
