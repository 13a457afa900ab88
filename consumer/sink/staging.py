"""Folders for rows that are written but not yet published. Executors must reach them too. Each epoch has a folder, and
each load has a folder within it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from consumer.errors import ConsumerError, LeaseHeld, StagingUnseen, TargetUnavailable
from consumer.model.names import TableName

_ENDED = ".ended"


def epoch_folder(staging: str, epoch: int) -> str:
    """Returns the folder of `epoch`. Each load of the epoch stages in a subfolder of its own."""
    return os.path.join(staging, str(epoch))


def begin_load(staging: str, epoch: int) -> str:
    """Creates the folder in which the writers of one load stage, and returns its path. Without the folder they cannot
    write."""
    try:
        return tempfile.mkdtemp(dir=epoch_folder(staging, epoch))
    except OSError as error:
        raise TargetUnavailable(f"the staging folder {staging} cannot be written: {error}") from error


def end_load(folder: str) -> None:
    """Locks out the writers of one load. What they have staged stays. Can be called twice."""
    try:
        os.rename(folder, folder + _ENDED)
    except FileNotFoundError:
        return
    except OSError as error:
        raise TargetUnavailable(f"the staging folder {folder} cannot be written: {error}") from error


def end_loads(staging: str, epoch: int) -> None:
    """Removes what ended loads have staged. Nobody publishes it any more."""
    for ended in Path(epoch_folder(staging, epoch)).glob(f"*{_ENDED}"):
        shutil.rmtree(ended, ignore_errors=True)


def staged_file(staging: str, epoch: int, path: str) -> str:
    """Returns the present path of the file that a writer of `epoch` staged as `path`. Raises LeaseHeld if the file is
    of another epoch."""
    folder, name = os.path.split(path)
    if os.path.dirname(folder) != epoch_folder(staging, epoch):
        raise LeaseHeld(f"{path} was staged by a writer that has been locked out since")
    return os.path.join(folder + _ENDED, name) if os.path.isdir(folder + _ENDED) else path


def begin_staging(staging: str, epoch: int) -> None:
    """Creates the folder of `epoch` and removes all others, which killed or locked-out writers left behind."""
    wanted = Path(epoch_folder(staging, epoch))
    try:
        wanted.mkdir(exist_ok=True)
        for other in Path(staging).iterdir():
            if other.is_dir() and other != wanted:
                shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise TargetUnavailable(f"the staging folder {staging} cannot be written: {error}") from error


def end_staging(staging: str, epoch: int) -> None:
    """Removes the folder of `epoch` with everything in it that was not published."""
    shutil.rmtree(epoch_folder(staging, epoch), ignore_errors=True)


def save(folder: str, table: TableName, content: Any, ending: str, hint: str) -> str:
    """Stages `content` (bytes, or a buffer of them) of `table` in the folder of a load, and returns the file's path.

    The same content of the same table gives the same file again, so it counts once. The same content of another table
    is another file, because it may be published separately.

    Raises LeaseHeld once the load's writers are locked out, TargetUnavailable if the disk cannot take the file, and
    StagingUnseen with `hint` if this machine does not have the folder or its user may not write there.
    """
    digest = hashlib.blake2b(str(table).encode() + b"\0", digest_size=16)
    digest.update(content)
    path = os.path.join(folder, digest.hexdigest() + ending)
    written = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(written, "wb") as file:
            file.write(content)
        os.replace(written, path)
    except FileNotFoundError as error:
        raise _without(folder, hint) from error
    except PermissionError as error:
        raise StagingUnseen(
            f"a Spark worker may not write to the folder {folder}: {error.strerror}", hint=hint
        ) from error
    except OSError as error:
        with suppress(OSError):  # the next try needs the room
            os.unlink(written)
        raise TargetUnavailable(
            f"the staging folder {folder} cannot be written: {error}", hint="make room, then run again"
        ) from error
    return path


def _without(folder: str, hint: str) -> ConsumerError:
    staging = os.path.dirname(os.path.dirname(folder))
    if os.path.isdir(staging):
        return LeaseHeld(f"this writer was locked out: its folder {folder} is gone", hint="the load is tried again")
    return StagingUnseen(f"a Spark worker does not see the folder {staging}, in which rows are staged", hint=hint)
