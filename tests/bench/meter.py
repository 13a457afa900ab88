"""CPU seconds by process family, and the greatest memory of a driver and of one Spark worker, while something runs."""

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
    """`seconds` of wall time; `cpu` seconds of server, driver, jvm and python workers; `driver_rss`, of the driver and
    its JVM, and `worker_rss` in bytes. The driver is `driver_pid`, else this process."""

    server_pid: int | None = None
    driver_pid: int | None = None
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    driver_rss: int = 0
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
            driver = psutil.Process(self.driver_pid)
            self.driver_rss = max(self.driver_rss, sum(map(_memory, [driver, *_jvms(driver)])))
            self.worker_rss = max(self.worker_rss, *map(_memory, _workers(driver)), 0)

    def _cpu(self) -> dict[str, float]:
        driver = psutil.Process(self.driver_pid)
        used = {"driver": _seconds(driver)}
        used["jvm"] = sum(map(_seconds, _jvms(driver)))
        used["workers"] = sum(_seconds(worker, dead_children=True) for worker in _workers(driver))
        if self.server_pid is not None:
            used["server"] = _seconds(psutil.Process(self.server_pid))
        return used


def _jvms(driver: psutil.Process) -> list[psutil.Process]:
    return [child for child in driver.children() if child.name() == "java"]


def _workers(driver: psutil.Process) -> list[psutil.Process]:
    return [worker for jvm in _jvms(driver) for worker in jvm.children(recursive=True)]


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _seconds(process: psutil.Process, dead_children: bool = False) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    ended = times.children_user + times.children_system if dead_children else 0.0
    return float(times.user + times.system + ended)
