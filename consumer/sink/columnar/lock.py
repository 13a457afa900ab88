"""Admits one writer at a time: a lock on a file in the staging folder while a consumer runs."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from hashlib import sha256
from pathlib import Path

from consumer.errors import BadConfig, ConsumerError, LeaseHeld, TargetUnavailable
from consumer.sink.progress_sql import holder_text

NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


class FileLock:
    """An advisory lock on a file in the staging folder. It ends with its process."""

    def __init__(self, folder: str, target: str, file: str = "lock", part: str = "") -> None:
        """`target` is the word for the target in messages. Other consumers can hold other parts than `part`
        meanwhile."""
        self._path, self._target, self._part = Path(folder) / file, target, part
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def take(self) -> None:
        """Takes the lock. Raises LeaseHeld if another consumer has it, TargetUnavailable if the folder cannot be
        written, and BadConfig if its file system has no locks."""
        if self.held:
            return
        try:
            self._path.parent.mkdir(exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._not_written(error) from error
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _lock(self, descriptor: int) -> None:
        folder = self._path.parent
        try:
            if self._part:  # locks one byte: a file for each part would have to stay for ever
                byte = int.from_bytes(sha256(self._part.encode()).digest()[:7])
                lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, lock)
                return
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 512, 0).decode(errors="replace")
            raise LeaseHeld(
                f"another consumer is running on this {self._target}: {holder or 'it is just starting'}",
                hint=f"wait for it, or give this one another {self._target}",
            ) from error
        except OSError as error:
            raise BadConfig(
                f"the file system of {folder} gives no locks, without which two consumers could write: {error}",
                hint=f"put the target's {self._target} on a local disk, or mount its file system with locks",
            ) from error
        try:
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, holder_text().encode(), 0)
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: OSError) -> ConsumerError:
        """Returns the error. If this user may not write there, it is not retried: that does not change by itself."""
        text = f"the staging folder {self._path.parent} cannot be written: {error.strerror}"
        if error.errno in NOT_ALLOWED:
            hint = f"let this user write to {self._path.parent.parent}, or put the {self._target} elsewhere"
            return BadConfig(text, hint=f"{hint} (--downstream-uri)")
        return TargetUnavailable(text, hint="make room, then run again")

    def release(self) -> None:
        """Releases the lock. It may be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
