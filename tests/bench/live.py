"""Shape L: a live changefeed. Twenty tables get a file each second while one table's backlog is read; how long a change
needs from its file to the target, and what memory does meanwhile."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
import pymysql

from tests.bench.generate import Storage
from tests.bench.rows import inserts
from tests.servers import MariaDb

TABLES = [f"live{number:02d}" for number in range(20)]
BACKLOG = "backlog"
_LOOK_SECONDS = 0.2
_GIVE_UP_SECONDS = 300


def measure_live(work: Path, server: MariaDb, minutes: float, backlog_rows: int) -> dict[str, Any]:
    """Seconds from a file's checkpoint to its row in the target, and megabytes of all processes of the program, at the
    end of each minute."""
    storage = Storage(work / "L")
    for table in [*TABLES, BACKLOG]:
        storage.table(table)
    storage.rows(BACKLOG, inserts(backlog_rows))
    storage.publish()
    server.drop_all()
    watch = _Watch(server)
    with (work / "L.log").open("wb") as log:
        program = subprocess.Popen(
            [*run_command(storage.folder, server.url()), "--flush-interval", "1s"], stdout=log, stderr=log
        )
        try:
            memory = _write(storage, watch, minutes, program)
            watch.finish()
        finally:
            program.terminate()
            program.wait(60)
    waits = sorted(watch.waits)
    return {
        "title": f"live: 20 files a second beside {backlog_rows:,} rows of backlog, {minutes:g} minutes",
        "changes": len(waits),
        "p50_seconds": round(statistics.median(waits), 2),
        "p95_seconds": round(waits[int(len(waits) * 0.95)], 2),
        "greatest_seconds": round(waits[-1], 2),
        "backlog_done_seconds": round(watch.backlog_seconds(backlog_rows), 1),
        "memory_mb": memory,
        "wanted": {"p50_seconds": 3.0, "p95_seconds": 6.0},
    }


def run_command(folder: Path, downstream: str) -> list[str]:
    program = str(Path(sys.executable).with_name("storage-consumer"))
    uris = ["--upstream-uri", f"file://{folder}?protocol=canal-json", "--downstream-uri", downstream]
    return [program, "run", *uris, "--tz", "UTC"]


def _write(storage: Storage, watch: _Watch, minutes: float, program: subprocess.Popen[bytes]) -> list[int]:
    """A row for each table each second; the program's memory at each minute."""
    memory = []
    rows = {table: inserts(1 << 30, seed) for seed, table in enumerate(TABLES)}
    begin = time.monotonic()
    for second in range(int(minutes * 60)):
        time.sleep(max(0.0, begin + second - time.monotonic()))
        for table in TABLES:
            storage.rows(table, [next(rows[table])])
        storage.publish()
        watch.written(second + 1)
        if program.poll() is not None:
            raise SystemExit(f"shape L: the program ended with exit code {program.returncode}")
        if second % 60 == 59:
            memory.append(_megabytes(program.pid))
    return memory


def _megabytes(pid: int) -> int:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return round(sum(process.memory_info().rss for process in family) / 1e6)


class _Watch:
    """Looks at the target until it has what was written."""

    def __init__(self, server: MariaDb) -> None:
        self.waits: list[float] = []
        self._server = server
        self._written: dict[int, float] = {}
        self._seen: defaultdict[str, int] = defaultdict(int)
        self._begin = time.monotonic()
        self._last = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def written(self, number: int) -> None:
        """The row `number` of every table is in the storage, and below its checkpoint."""
        self._written[number] = time.monotonic()

    def finish(self) -> None:
        self._last = len(self._written)
        self._thread.join(_GIVE_UP_SECONDS)
        if self._thread.is_alive():
            raise SystemExit(f"shape L: not all rows arrived: {dict(self._seen)}")

    def backlog_seconds(self, rows: int) -> float:
        """From the program's start until the backlog's table has all its rows; counted once the live tables have."""
        while self._one(f"SELECT COUNT(*) FROM bench.{BACKLOG}") < rows:
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() - self._begin

    def _one(self, query: str) -> int:
        return int(self._server.execute(query)[0][0])

    def _look(self) -> None:
        while not self._last or any(self._seen[table] < self._last for table in TABLES):
            time.sleep(_LOOK_SECONDS)
            try:
                found = self._server.execute(
                    " UNION ALL ".join(f"SELECT '{table}', MAX(id) FROM bench.{table}" for table in TABLES)
                )
            except pymysql.err.ProgrammingError:  # the tables are still to be made
                continue
            now = time.monotonic()
            for table, newest in found:
                for number in range(self._seen[table] + 1, (newest or 0) + 1):
                    self.waits.append(now - self._written.get(number, now))
                self._seen[table] = newest or 0
