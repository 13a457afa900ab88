"""Shape LAG: how long it is from the moment that `metadata` moves until a row can be read in the target, where one
change comes at a time: by small loads in the program's process and by a warm Spark, beside idle tables or none, in a
MariaDB and in a DuckDB file's copy for readers."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

import duckdb

from tests.bench.generate import Storage
from tests.bench.live import run_command
from tests.bench.rows import inserts
from tests.servers import MariaDb

_BEATING = "beating"
_LOOK_SECONDS = 0.005
_GIVE_UP_SECONDS = 120.0
_WARM = 5
"""So many changes come before those that are measured: the first one brings Spark's start."""
_WAYS = {"in process": ("--in-process-bytes", "4MiB"), "by Spark": ()}
_WANTED = {"in process": 1.0, "by Spark": 2.0}
"""The p50 that is aimed at, in seconds."""


def measure_lag(work: Path, server: MariaDb, changes: int, idle: int, look: str) -> dict[str, Any]:
    """p50 and p99 in seconds, for each target, each way and for 0 and `idle` tables beside the one that changes. `look`
    is --flush-interval, how often `run` looks for new files."""
    found: dict[str, Any] = {"title": f"lag: one change at a time, looked for each {look}", "changes": changes}
    targets: dict[str, _Target] = {"MariaDB": _OnServer(server), "DuckDB": _InFile(work / "LAG.duckdb")}
    for tables in (0, idle):
        upstream = _Upstream(Storage(work / f"LAG{tables}"), tables)
        for name, target in targets.items():
            for way, flags in _WAYS.items():
                target.clear()
                waits = _waits(upstream, target, changes, [*flags, "--flush-interval", look], work / "LAG.log")
                found[f"{name}, {way}, {tables:,} idle tables"] = {
                    "p50_seconds": round(statistics.median(waits), 3),
                    "p99_seconds": round(waits[int(len(waits) * 0.99)], 3),
                    "wanted_p50_seconds": _WANTED[way],
                }
    return found


class _Target(Protocol):
    uri: str

    def clear(self) -> None: ...

    def rows(self) -> int:
        """What a reader counts in the table that changes; 0 where it is not there yet."""


class _OnServer:
    def __init__(self, server: MariaDb) -> None:
        self.uri = server.url()
        self._server = server

    def clear(self) -> None:
        self._server.drop_all()

    def rows(self) -> int:
        there = f"information_schema.tables WHERE table_schema = 'bench' AND table_name = '{_BEATING}'"
        if self._server.execute(f"SELECT COUNT(*) FROM {there}")[0][0] == 0:
            return 0
        return int(str(self._server.execute(f"SELECT COUNT(*) FROM bench.{_BEATING}")[0][0]))


class _InFile:
    """The program holds the file itself for much of the time, so readers have the copy."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._copy = folder, folder / "copy.duckdb"
        self.uri = f"duckdb:///{folder}/work.duckdb?copy={self._copy}"

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()

    def rows(self) -> int:
        if not self._copy.exists():
            return 0
        with duckdb.connect(str(self._copy), read_only=True) as connection:
            found = connection.execute(f"SELECT COUNT(*) FROM bench.{_BEATING}").fetchall()
        return int(found[0][0])


class _Upstream:
    """A table that gets a row at a time, and `idle` others that have one."""

    def __init__(self, storage: Storage, idle: int) -> None:
        self.storage, self.written = storage, 0
        self._rows = inserts(1 << 30)
        for number in range(idle):
            storage.table(name := f"idle{number:05d}")
            storage.rows(name, inserts(1))
        storage.table(_BEATING)
        self.commit()

    def commit(self) -> None:
        self.storage.rows(_BEATING, [next(self._rows)])
        self.storage.publish()
        self.written += 1


def _waits(upstream: _Upstream, target: _Target, changes: int, flags: list[str], log: Path) -> list[float]:
    waits = []
    with log.open("ab") as output:
        program = subprocess.Popen(
            [*run_command(upstream.storage.folder, target.uri), *flags], stdout=output, stderr=output
        )
        try:
            _wait_for(target, upstream.written, program)
            for number in range(_WARM + changes):
                upstream.commit()
                began = time.monotonic()
                _wait_for(target, upstream.written, program)
                if number >= _WARM:
                    waits.append(time.monotonic() - began)
        finally:
            program.terminate()
            program.wait(60)
    return sorted(waits)


def _wait_for(target: _Target, rows: int, program: subprocess.Popen[bytes]) -> None:
    """Until the target has so many rows. Raises SystemExit where the program ends or they do not come."""
    until = time.monotonic() + _GIVE_UP_SECONDS
    while target.rows() < rows:
        if program.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"shape LAG: {rows} rows did not arrive; the program's exit code is {program.returncode}")
        time.sleep(_LOOK_SECONDS)
