"""What a command takes with all its processes: ``python -m tests.bench.cost COMMAND ..`` runs it, and prints the cost
as a line of JSON behind what the command prints."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import psutil

_LOOKS_EVERY, _LOOKS_OF_MEMORY = 0.1, 4
"""Seconds; and every so many of the looks is one at memory too, which takes longer."""
_SET_CHILD_SUBREAPER = 36  # of prctl(2)


@dataclass(frozen=True)
class Cost:
    """`cpu` seconds of all processes, also of those that ended; `memory`, the most that all were seen to have at once,
    in bytes: what several share counts once."""

    seconds: float
    cpu: float
    memory: int


def cost_of(command: Sequence[str]) -> Cost:
    """Raises SystemExit where the command fails."""
    measured = [sys.executable, "-m", "tests.bench.cost", *command]
    done = subprocess.run(measured, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return Cost(**json.loads(done.stdout.rstrip().rpartition("\n")[2]))


def main() -> int:
    # Processes whose parent has ended become this one's children, so that it can wait for each.
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watch = _Watch()
    begin = time.monotonic()
    code = subprocess.run(sys.argv[1:], check=False).returncode
    seconds = time.monotonic() - begin
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    # PySpark's daemon does not wait for its workers, so what they took is not in its own account.
    used = max(ended.ru_utime + ended.ru_stime, sum(watch.cpu.values()))
    print(json.dumps(asdict(Cost(round(seconds, 2), round(used, 2), watch.memory))))
    return code


class _Watch:
    """Looks at the processes below this one until it ends: `cpu` seconds of each, and the most `memory` of all."""

    def __init__(self) -> None:
        self.memory = 0
        self.cpu: dict[psutil.Process, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        me, looks = psutil.Process(), itertools.count()
        while True:
            below = me.children(recursive=True)
            self.cpu |= {process: used for process in below if (used := _asked(_own_cpu, process))}
            if next(looks) % _LOOKS_OF_MEMORY == 0:
                self.memory = max(self.memory, int(sum(_asked(_share, process) for process in below)))
            time.sleep(_LOOKS_EVERY)


def _asked(what: Callable[[psutil.Process], float], process: psutil.Process) -> float:
    """0 where it has just ended."""
    with contextlib.suppress(psutil.Error, OSError):
        return what(process)
    return 0


def _own_cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _share(process: psutil.Process) -> float:
    return float(process.memory_full_info().pss)


if __name__ == "__main__":
    sys.exit(main())
