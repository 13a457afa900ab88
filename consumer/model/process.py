"""Handles this process on its machine: its own files and folders, missing resources, and code that signals must not
interrupt."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from consumer.model.texts import one_line

_OF_OTHERS = 0o022


def cache_folder(kind: str) -> Path:
    """Returns where files of this kind are kept; the folder need not exist. Raises RuntimeError if the user has no
    home."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "storage-consumer" / kind


def is_ours(path: Path) -> bool:
    """Returns whether only this user can have written it. Raises OSError."""
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & _OF_OTHERS


def put_in_place(written: IO[bytes], path: str) -> None:
    """Moves the file `written`, which is open and has a name in the folder of `path`, to `path`: durably, and in place
    of an existing file. Raises OSError."""
    written.flush()
    os.fsync(written.fileno())
    os.replace(written.name, path)
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def new_folder(kind: str, within: str | None = None) -> tuple[str, int]:
    """Creates a folder that only this user can read, in `within` (None: where temporary files go). Returns it, and a
    handle that holds its lock until every process that has it has ended. Abandoned folders of this kind are removed.
    Raises OSError."""
    prefix, within = f"storage-consumer-{kind}-", within or tempfile.gettempdir()
    for abandoned in Path(within).glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_forsaken(abandoned)
    folder = tempfile.mkdtemp(prefix=prefix, dir=within)
    try:
        return folder, _locked(Path(folder))
    except (BlockingIOError, FileNotFoundError):  # another start took it for an abandoned one
        return new_folder(kind, within)
    except OSError:  # a file system without locks: no start can take it for abandoned
        return folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _remove_forsaken(folder: Path) -> None:
    """Removes the folder if no process uses it. Raises OSError if one does, or if it is another user's."""
    if is_ours(folder):
        handle = _locked(folder)
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _locked(folder: Path) -> int:
    """Returns the handle of the lock. Raises BlockingIOError if another process has it, FileNotFoundError if the folder
    is being removed."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder.stat()
    except OSError:
        os.close(handle)
        raise
    return handle


_NUMBERS = {
    errno.ENOMEM: "memory",
    errno.EMFILE: "open files (ulimit -n)",
    errno.ENFILE: "open files",
    errno.EAGAIN: "processes or threads (ulimit -u)",
    errno.ENOSPC: "room on a disk",
    errno.EDQUOT: "room on a disk",
}
_NO_THREAD = "can't start new thread"
"""The text of Python's RuntimeError for it, which has no number."""


def lacking(error: BaseException) -> str:
    """Returns which resource is exhausted, "" if `error` is about something else."""
    if isinstance(error, OSError):
        return _NUMBERS.get(error.errno or 0, "")
    if isinstance(error, MemoryError):
        return "memory (ulimit -v)"
    return "memory or threads (ulimit -v, -u)" if isinstance(error, RuntimeError) and _NO_THREAD in str(error) else ""


def words_of(error: BaseException) -> str:
    """Returns the error's own words, on one line."""
    return one_line(str(error)) or type(error).__name__


_RAISING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
"""Signals whose handlers may raise."""


@contextmanager
def signals_later() -> Iterator[None]:
    """Delays signals that come within it until its end. An exception of their handlers in the middle of the start of a
    process would leave a process that nobody knows of, and during the import of a native module it can abort this
    process."""
    if threading.current_thread() is not threading.main_thread():  # the handlers run elsewhere
        yield
        return
    came: list[int] = []
    handlers = {number: handler for number in _RAISING if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda late, _frame: came.append(late))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
