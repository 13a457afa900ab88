"""Lakes, beside a plain job of PySpark that does the same, and the data source: processes with a Spark of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.bench import generate
from tests.bench.rows import Change, inserts, updates
from tests.bench.shapes.base import Shape
from tests.bench.shapes.bulk import HotUpdates
from tests.bench.shapes.tables import ManyTables
from tests.bench.warm import WarmProcess


class _IntoLake(Shape):
    """Every time into a new lake. What the two have in the end is the same."""

    lake = "delta"
    reach = 1.0
    tables: tuple[str, ...] = ("t",)
    rows = 1_000_000

    @property
    def events(self) -> int:
        return len(self.tables) * int(self.rows * self.scale)

    def changes(self, table: int) -> Iterable[Change]:
        return inserts(int(self.rows * self.scale), table)

    def build(self) -> int:
        self._made: dict[str, int] = {}
        # The plain job goes by the commit-ts: each change has its own.
        rows = ((name, self.changes(number)) for number, name in enumerate(self.tables))
        size = generate.write_storage(self.storage, rows, transaction=1)
        flags = {"downstream_uri": self.downstream, "tz": "UTC", "upstream_uri": self.upstream(self.storage)}
        self._ours = WarmProcess("warm", json.dumps({**flags, "master": "local[2]"}), self.work / f"{self.name}.log")
        self._plain = WarmProcess("plain_job", self.lake, self.work / f"{self.name}.plain.log")
        self.round_pid, self.limit_pid = self._ours.pid, self._plain.pid
        self.processes = [self._ours, self._plain]
        self.before_limit()
        self.limit()
        return size

    @property
    def downstream(self) -> str:
        return f"{self.lake}://{self._folder('ours')}"

    def before_round(self) -> None:
        self._renew("ours")

    def before_limit(self) -> None:
        self._renew("plain")

    def round(self) -> None:
        self._ours.ask(downstream_uri=self.downstream)

    def limit(self) -> None:
        self._plain.ask(do="apply", storage=str(self.storage), folder=str(self._folder("plain")))

    def end(self) -> None:
        one, other = (str(self._folder(whose)) for whose in ("ours", "plain"))
        self._plain.ask(do="compare", one=one, other=other, tables=self.tables)
        super().end()

    def _renew(self, whose: str) -> None:
        """Spark remembers what was in a folder."""
        shutil.rmtree(self._folder(whose), ignore_errors=True)
        self._made[whose] = self._made.get(whose, 0) + 1

    def _folder(self, whose: str) -> Path:
        return self.work / f"{self.name}.{whose}.{self._made.get(whose, 0)}"


class DeltaInserts(_IntoLake):
    name, title = "DA", "A into Delta, beside a plain job of PySpark"


class DeltaUpdates(_IntoLake):
    name, title = "DC", "C into Delta, beside a plain job of PySpark"

    def changes(self, table: int) -> Iterable[Change]:
        count = int(self.rows * self.scale)
        return updates(count, min(20_000, count), table)


class DeltaTables(_IntoLake):
    name, title = "DE", "500 tables of 200 rows into Delta, beside a plain job of PySpark"

    @property
    def tables(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"t{number:03d}" for number in range(max(2, int(ManyTables.count * self.scale))))

    def changes(self, table: int) -> Iterable[Change]:
        return inserts(ManyTables.rows, table)

    @property
    def events(self) -> int:
        return len(self.tables) * ManyTables.rows


class IcebergInserts(DeltaInserts):
    name, title, lake = "IA", "A into Iceberg, beside a plain job of PySpark", "iceberg"


class IcebergUpdates(DeltaUpdates):
    name, title, lake = "IC", "C into Iceberg, beside a plain job of PySpark", "iceberg"


class IcebergTables(DeltaTables):
    name, title, lake = "IE", "500 tables of 200 rows into Iceberg, beside a plain job of PySpark", "iceberg"


class StateOfUpdates(HotUpdates):
    """Without writing them: Spark's own sink `noop` takes the rows."""

    name, title, reach = "CS", "The state of C by the data source, beside C", 0.67
    final = None

    def build(self) -> int:
        size = super().build()
        self.final = None
        self._reading = WarmProcess("plain_job", "delta", self.work / f"{self.name}.log")
        self.round_pid = self._reading.pid
        self.processes = [self._reading]
        return size

    def before_round(self) -> None: ...

    def round(self) -> None:
        self._reading.ask(do="read", uri=self.upstream(self.storage), table=f"{generate.DATABASE}.t", mode="state")

    def limit(self) -> None:
        self.apply(self.storage)
