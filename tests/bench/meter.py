"""CPU seconds by process family, and the greatest memory of one Spark worker, while something runs."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

import psutil

_LOOKS_EVERY = 0.5
"""Seconds. A look takes some milliseconds of a core, of which what is measured may need all."""


@dataclass
class Meter:
    """`seconds` of wall time; `cpu` seconds of server, driver, jvm and python workers; `worker_rss` in bytes."""

    server_pid: int | None = None
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    worker_rss: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Meter:
        self._begin = self._cpu()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._started = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.monotonic() - self._started
        self._stop.set()
        self._thread.join()
        self.cpu = {name: round(used - self._begin.get(name, 0.0), 2) for name, used in self._cpu().items()}

    def _watch(self) -> None:
        while not self._stop.wait(_LOOKS_EVERY):
            for worker in _workers():
                try:
                    self.worker_rss = max(self.worker_rss, worker.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    def _cpu(self) -> dict[str, float]:
        me = psutil.Process()
        used = {"driver": _seconds(me)}
        used["jvm"] = sum(_seconds(child) for child in me.children() if child.name() == "java")
        used["workers"] = sum(_seconds(worker, dead_children=True) for worker in _workers())
        if self.server_pid is not None:
            used["server"] = _seconds(psutil.Process(self.server_pid))
        return used


def _workers() -> list[psutil.Process]:
    java = [child for child in psutil.Process().children() if child.name() == "java"]
    return [worker for jvm in java for worker in jvm.children(recursive=True)]


def _seconds(process: psutil.Process, dead_children: bool = False) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    ended = times.children_user + times.children_system if dead_children else 0.0
    return float(times.user + times.system + ended)
