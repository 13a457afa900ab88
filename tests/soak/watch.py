"""What is measured of the program and its target, again and again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pymysql

from tests.faults.targets import Target
from tests.faults.workload import Query
from tests.soak.program import Program
from tests.soak.writer import KEEPING, PROBE, Writer

Values = dict[str, float]
_MIB = 1 << 20
_RECORDS = "audit"
"""The table that records what was done, for a month: it grows with the work."""


@dataclass(frozen=True)
class Sample:
    """`seconds` from the beginning. What could not be measured at that moment is not in `values`."""

    seconds: float
    life: int
    """Which start of the program it belongs to."""
    values: Values


@dataclass
class Watch:
    """Looks every `interval` seconds from `begin` to `end`. A DuckDB file that the program has open is left alone."""

    program: Program
    target: Target
    writer: Writer
    interval: float
    of_a_file: bool
    life: int = 0
    samples: list[Sample] = field(default_factory=list)
    error: Exception | None = None

    def begin(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _look(self) -> None:
        try:
            while not self._over.wait(self.interval):
                life = self.life
                values = {**self._of_processes(), **self._of_places()}
                if self.life == life:
                    self.samples.append(Sample(time.monotonic() - self.writer.started, life, values))
        except Exception as error:  # told by `end`
            self.error = error

    def _of_processes(self) -> Values:
        driver = self.program.driver()
        values: Values = {}
        with contextlib.suppress(psutil.Error, OSError):
            if driver is None:
                return values
            found = driver.children(recursive=True)
            children = [child for child in found if child.status() != psutil.STATUS_ZOMBIE]
            machines = [child for child in children if child.name() == "java"]
            workers = [child for child in children if child.name() != "java"]
            values = {"driver MiB": _megabytes(driver), "driver handles": driver.num_fds()}
            values |= {"driver threads": driver.num_threads(), "zombies": len(found) - len(children)}
            if machines:
                values["JVM MiB"] = sum(map(_megabytes, machines))
                values["JVM handles"] = sum(machine.num_fds() for machine in machines)
                values["JVM threads"] = sum(machine.num_threads() for machine in machines)
                values["workers MiB"] = sum(_or_none(worker, _megabytes) for worker in workers)
                values["worker handles"] = sum(_or_none(worker, psutil.Process.num_fds) for worker in workers)
                values["workers"] = len(workers)
        return values

    def _of_places(self) -> Values:
        values: Values = {
            "objects": self.writer.objects,
            "temporary files": len(entries(self.program.temporary)),
        }
        if not self.of_a_file:
            query = self.target.query
            with contextlib.suppress(pymysql.err.OperationalError):  # our own connection is cut off with the others
                if (last := arrived(query)) is not None:
                    values |= {**of_target(query), "lag s": (self.writer.probe() - last) / 1000}
                values["connections"] = connections(query)
        return values


def arrived(query: Query) -> int | None:
    """What the row of the probe holds in the target; None where it never came."""
    if not _tables(query, PROBE.partition(".")[0]):
        return None
    rows = query(f"SELECT v FROM {PROBE}")
    return int(rows[0]["v"]) if rows else None


def of_target(query: Query) -> Values:
    """Rows of the progress, and tables in the trash."""
    tables = _tables(query, "storage_consumer")
    rows = {name: query(f"SELECT COUNT(*) AS n FROM storage_consumer.{name}")[0]["n"] for name in tables}
    trash = [name for name in _tables(query, KEEPING.format("%")) if name.startswith("__trash_")]
    return {
        "progress rows": sum(rows.values()) - rows[_RECORDS],
        "audit rows": rows[_RECORDS],
        "tables in the trash": len(trash),
    }


def _tables(query: Query, databases: str) -> list[str]:
    """Of the databases that are LIKE that."""
    found = "SELECT table_name AS name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    return [row["name"] for row in query(f"{found} AND table_schema LIKE '{databases}'")]


def connections(query: Query) -> int:
    """At the server, without the one that asks and the scheduler of a MySQL, which is listed like one."""
    where = "host <> '' AND id <> CONNECTION_ID() AND user <> 'event_scheduler'"
    return len(query(f"SELECT id FROM information_schema.processlist WHERE {where}"))


def entries(folder: Path) -> list[str]:
    """Files and folders below it."""
    return sorted(f"{place}/{name}" for place, folders, files in os.walk(folder) for name in [*folders, *files])


def _megabytes(process: psutil.Process) -> float:
    """Its share of the memory: what several processes have in common counts in parts."""
    return float(process.memory_full_info().pss) / _MIB


def _or_none(process: psutil.Process, measure: Callable[[psutil.Process], float]) -> float:
    """0 where it has just ended."""
    with contextlib.suppress(psutil.Error, OSError):
        return measure(process)
    return 0.0
