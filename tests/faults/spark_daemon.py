"""Spark's Python daemon whose workers stop where the harness wants one to, for ``spark.python.daemon.module``.

The harness makes the file ``armed-<point>-<n>`` in the folder that the environment names. The worker that comes to this
point for the `n`-th time since, of all workers, leaves ``reached-<pid>`` in its place and stops itself.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
from contextlib import suppress
from pathlib import Path

from consumer.spark.daemon import drop_archives, import_no_pandas, import_tasks
from tests.faults.points import OF_TASKS
from tests.faults.stops import watch

FOLDER = "FAULTS_FOLDER"
MOST = 3
"""The largest `n`."""


class ArmedStop:
    def __init__(self, folder: Path, point: int) -> None:
        self._folder, self._point = folder, point

    def __call__(self) -> None:
        for number in range(1, MOST + 1):
            # Renamed by one worker alone, whoever else is here.
            with suppress(FileNotFoundError):
                reached = self._folder / f"reached-{os.getpid()}" if number == 1 else self._armed(number - 1)
                self._armed(number).rename(reached)
                if number == 1:
                    os.kill(os.getpid(), signal.SIGSTOP)
                return

    def _armed(self, number: int) -> Path:
        return self._folder / f"armed-{self._point}-{number}"


if __name__ == "__main__":
    drop_archives()
    import_tasks()
    import_no_pandas()
    for number, point in enumerate(OF_TASKS):
        watch(point, ArmedStop(Path(os.environ[FOLDER]), number))
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
