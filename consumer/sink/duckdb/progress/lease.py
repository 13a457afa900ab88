"""One writer at a time: a lock on a file beside the database while a consumer runs, and an epoch in the database.

DuckDB itself keeps other processes out only while the file is open, which it is not between rounds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
from pathlib import Path

import duckdb

from consumer.errors import BadConfig, LeaseHeld, TargetUnavailable


class FileLock:
    """An advisory lock that ends with its process, on the file ``lock`` in the staging folder."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder) / "lock"
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def take(self) -> None:
        """Raises LeaseHeld when another consumer has it, TargetUnavailable where the folder cannot be written, and
        BadConfig where its file system has no locks."""
        if self.held:
            return
        try:
            self._path.parent.mkdir(exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise TargetUnavailable(f"the staging folder {self._path.parent} cannot be written: {error}") from error
        try:
            self._lock(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _lock(self, descriptor: int) -> None:
        folder = self._path.parent
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 512, 0).decode(errors="replace")
            raise LeaseHeld(
                f"another consumer is at work on this file: {holder or 'it is just starting'}",
                hint="wait for it, or give this one another file",
            ) from error
        except OSError as error:
            raise BadConfig(
                f"the file system of {folder} gives no locks, without which two consumers could write: {error}",
                hint="put the DuckDB file on a local disk, or mount its file system with locks",
            ) from error
        try:
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, holder_text().encode(), 0)
        except OSError as error:
            raise TargetUnavailable(
                f"the staging folder {folder} cannot be written: {error}", hint="make room, then run again"
            ) from error

    def release(self) -> None:
        """It may be called twice."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def holder_text() -> str:
    """Who this process is, for whoever finds the lease held."""
    return f"{socket.gethostname()[:200]} (pid {os.getpid()})"


def raise_epoch(connection: duckdb.DuckDBPyConnection) -> int:
    """Lock out all writers of earlier epochs; returns the new one. The caller commits."""
    found = connection.execute(
        "UPDATE storage_consumer.lease SET epoch = epoch + 1, holder = ?, since = now() AT TIME ZONE 'UTC' "
        "RETURNING epoch",
        (holder_text(),),
    ).fetchall()
    return int(found[0][0])


def check_epoch(connection: duckdb.DuckDBPyConnection, epoch: int) -> None:
    """Part of every write transaction: raises LeaseHeld unless `epoch` is the one in force."""
    found = connection.execute("SELECT epoch, holder FROM storage_consumer.lease").fetchall()
    if not found or found[0][0] != epoch:
        holder = found[0][1] if found else "nobody: its progress was removed"
        raise LeaseHeld(
            f"this consumer was taken over by {holder}",
            hint="end the other one, then run again: only one consumer of a file can run",
        )


_ENDED = ".ended"


def epoch_folder(staging: str, epoch: int) -> str:
    """Where the writers of `epoch` stage, each load in a folder of its own."""
    return os.path.join(staging, str(epoch))


def begin_load(staging: str, epoch: int) -> str:
    """The folder in which the writers of one load stage; without it they can write no more. What is left of loads that
    have ended goes."""
    try:
        for ended in Path(epoch_folder(staging, epoch)).glob(f"*{_ENDED}"):
            shutil.rmtree(ended, ignore_errors=True)
        return tempfile.mkdtemp(dir=epoch_folder(staging, epoch))
    except OSError as error:
        raise TargetUnavailable(f"the staging folder {staging} cannot be written: {error}") from error


def end_load(folder: str) -> None:
    """Lock out the writers of one load; what they have staged stays. It may be called twice."""
    try:
        os.rename(folder, folder + _ENDED)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TargetUnavailable(f"the staging folder {folder} cannot be written: {error}") from error


def staged_file(staging: str, epoch: int, path: str) -> str:
    """Where the file is that a writer of `epoch` staged as `path`. Raises LeaseHeld for one of another epoch."""
    folder, name = os.path.split(path)
    if os.path.dirname(folder) != epoch_folder(staging, epoch):
        raise LeaseHeld(f"{path} was staged by a writer that has been locked out since")
    return os.path.join(folder + _ENDED, name) if os.path.isdir(folder + _ENDED) else path


def begin_staging(staging: str, epoch: int) -> None:
    """Make the folder of `epoch` and remove all others: what killed or locked-out writers left."""
    wanted = Path(epoch_folder(staging, epoch))
    try:
        wanted.mkdir(exist_ok=True)
        for other in Path(staging).iterdir():
            if other.is_dir() and other != wanted:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise TargetUnavailable(f"the staging folder {staging} cannot be written: {error}") from error


def end_staging(staging: str, epoch: int) -> None:
    """Remove the folder of `epoch`, with what was not published of it."""
    shutil.rmtree(epoch_folder(staging, epoch), ignore_errors=True)
