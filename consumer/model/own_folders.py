"""Temporary folders of one process (or of its JVM). Each is locked as long as that lives, so that a later start knows
which are left behind by one that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from consumer.model.user_cache import is_ours


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
