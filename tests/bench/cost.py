"""What a command takes with all its processes: ``python -m tests.bench.cost COMMAND ..`` runs it, and prints the cost
as a line of JSON behind what the command prints."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import psutil

_LOOKS_EVERY = 0.2
_SET_CHILD_SUBREAPER = 36  # of prctl(2)


@dataclass(frozen=True)
class Cost:
    """`cpu` seconds of all processes, also of those that ended; `memory`, the most that all had at once, in bytes: what
    several share counts once."""

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
    memory = _Memory()
    begin = time.monotonic()
    code = subprocess.run(sys.argv[1:], check=False).returncode
    seconds = time.monotonic() - begin
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps(asdict(Cost(round(seconds, 2), round(used.ru_utime + used.ru_stime, 2), memory.most))))
    return code


class _Memory:
    """Looks at the processes below this one until it ends."""

    def __init__(self) -> None:
        self.most = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        me = psutil.Process()
        while True:
            self.most = max(self.most, sum(_share(process) for process in me.children(recursive=True)))
            time.sleep(_LOOKS_EVERY)


def _share(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return int(process.memory_full_info().pss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
