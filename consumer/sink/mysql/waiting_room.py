"""The folder in which rows wait until they are published."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.load import LoadOutcome
from consumer.model.process import new_folder
from consumer.sink.staging import begin_load, begin_staging, end_loads, staged_file


class WaitingRoom:
    """A folder of this process within `staging` ("" for the folder of temporary files). Each epoch and each load have
    folders of their own in it (`sink.staging`). The next start removes the folder of a process that was killed."""

    def __init__(self, staging: str) -> None:
        """Raises BadConfig, TargetUnavailable."""
        self._within = staging or tempfile.gettempdir()
        try:
            self._folder, self._lock = new_folder("rows", self._within)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            raise BadConfig(
                f"rows cannot be staged in {self._within}: {error.strerror}",
                hint="name a folder that this user can write to: staging=.. in --downstream-uri",
            ) from error
        except OSError as error:
            raise self._unavailable(error) from error
        self._epoch = 0

    def begin(self, epoch: int) -> None:
        """Lets writers of `epoch` stage rows, and removes what other epochs have staged. Raises TargetUnavailable."""
        self._restore_folder()
        begin_staging(self._folder, epoch)
        self._epoch = epoch

    def begin_load(self) -> str:
        """Creates the folder of one load and returns its path."""
        return begin_load(self._folder, self._epoch)

    def end_loads(self) -> None:
        """Removes what ended loads have staged. Called at the end of a round."""
        end_loads(self._folder, self._epoch)

    def paths(self, outcome: LoadOutcome) -> list[str]:
        """Returns the paths of an outcome's files. Raises LeaseHeld if their writer was locked out."""
        staged = sorted({receipt.staged for receipt in outcome.receipts if receipt.staged})
        return [staged_file(self._folder, self._epoch, path) for path in staged]

    def remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            with suppress(OSError):  # a file that stays is removed with its folder
                os.unlink(path)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

    def _restore_folder(self) -> None:
        """Creates another folder if somebody has removed this one. Rows that were in it are staged again."""
        if os.path.isdir(self._folder):
            return
        try:
            folder, lock = new_folder("rows", self._within)
        except OSError as error:
            raise self._unavailable(error) from error
        os.close(self._lock)
        self._folder, self._lock = folder, lock

    def _unavailable(self, error: OSError) -> TargetUnavailable:
        return TargetUnavailable(
            f"rows cannot be staged in {self._within}: {error.strerror}",
            hint="see to it that the folder is there and has room, then run again",
        )
