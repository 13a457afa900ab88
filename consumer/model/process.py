"""This process on its machine: files and folders that are its own, what it lacks, and where no signal may raise."""

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
    """Where files of this kind are kept; RuntimeError where the user has no home. It need not be there."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "storage-consumer" / kind


def is_ours(path: Path) -> bool:
    """Whether nobody else can have written it. Raises OSError."""
    found = path.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & _OF_OTHERS


def put_in_place(written: IO[bytes], place: str) -> None:
    """Make the file `written`, which is open and has a name in the folder of `place`, the one at `place`: durably, and
    over the one that was there. Raises OSError."""
    written.flush()
    os.fsync(written.fileno())
    os.replace(written.name, place)
    folder = os.open(os.path.dirname(place) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def new_folder(kind: str, within: str | None = None) -> tuple[str, int]:
    """A folder that only we can read, in `within` (None: where temporary files go), and a handle that holds its lock
    until every process that has it is gone. Folders of this kind that are left behind are removed. Raises OSError."""
    prefix, within = f"storage-consumer-{kind}-", within or tempfile.gettempdir()
    for left in Path(within).glob(f"{prefix}*"):
        with suppress(OSError):
            _remove_forsaken(left)
    folder = tempfile.mkdtemp(prefix=prefix, dir=within)
    try:
        return folder, _locked(Path(folder))
    except (BlockingIOError, FileNotFoundError):  # another start took it for one that is left behind
        return new_folder(kind, within)
    except OSError:  # a file system without locks: no start can take one for left behind
        return folder, os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _remove_forsaken(folder: Path) -> None:
    """Remove it if nobody has it. Raises OSError where somebody has, or where it is another user's."""
    if is_ours(folder):
        handle = _locked(folder)
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


def _locked(folder: Path) -> int:
    """The handle of the lock. Raises BlockingIOError where somebody has it, FileNotFoundError where the folder goes."""
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
"""What Python says, as a RuntimeError and with no number."""


def lacking(error: BaseException) -> str:
    """What there is not enough of, "" where `error` says nothing of the kind."""
    if isinstance(error, OSError):
        return _NUMBERS.get(error.errno or 0, "")
    if isinstance(error, MemoryError):
        return "memory (ulimit -v)"
    return "memory or threads (ulimit -v, -u)" if isinstance(error, RuntimeError) and _NO_THREAD in str(error) else ""


def words_of(error: BaseException) -> str:
    """Its own words, on one line."""
    return one_line(str(error)) or type(error).__name__


_RAISING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
"""Signals whose handlers may raise."""


@contextmanager
def signals_later() -> Iterator[None]:
    """Signals that come within it are handled behind it. What their handlers raise in the middle of the start of a
    process would leave one that nobody knows of, and within the import of a native module it can abort this one."""
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
