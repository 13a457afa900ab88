"""Folders for what is written and not yet published, which executors must reach too: one for each load, within one for
each epoch."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from consumer.errors import LeaseHeld, TargetUnavailable

_ENDED = ".ended"


def epoch_folder(staging: str, epoch: int) -> str:
    """Where the writers of `epoch` stage, each load in a folder of its own."""
    return os.path.join(staging, str(epoch))


def begin_load(staging: str, epoch: int) -> str:
    """The folder in which the writers of one load stage; without it they cannot write any more. Folders of loads that
    have ended are removed."""
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
    """Make the folder of `epoch` and remove all others, which killed or locked-out writers left."""
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
