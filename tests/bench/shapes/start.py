"""Whole processes: what a start costs."""

from __future__ import annotations

import atexit
import subprocess
import sys
from pathlib import Path

from tests.bench.shapes.tables import ManyTables
from tests.s3_server import S3Server


class Cold(ManyTables):
    """The program as a whole process, from its start to its exit."""

    name, title, most_seconds = "K", "cold: `once` as a process, one table with ten new rows", 3.5
    reach = None
    count, rows = 1, 10

    @property
    def tables(self) -> list[str]:
        return [f"t{number:04d}" for number in range(max(1, int(self.count * self.scale)))]

    def round(self) -> None:
        self.apply_as_process()

    def limit(self) -> None:
        """A Python that does nothing."""
        subprocess.run([sys.executable, "-c", "pass"], check=True)


class NothingNew(Cold):
    """The same on a storage that is applied already."""

    name, title, most_seconds = "F", "nothing new in one table: `once` as a process", 0.5

    @property
    def events(self) -> int:
        return 0

    def build(self) -> int:
        size = super().build()
        self.publish()
        self.server.drop_all()
        self.round()
        return size

    def publish(self) -> None:
        """Bring the storage to where it is read from."""

    def before_round(self) -> None: ...

    def before_limit(self) -> None: ...


class NothingNew5(NothingNew):
    name, title, most_seconds = "F5", "nothing new in 5,000 tables of 20 rows", 1.5
    count, rows = 5000, 20


class NothingNewOnS3(NothingNew5):
    name, title = "F5S", "nothing new in 5,000 tables of 20 rows, on S3"

    def publish(self) -> None:
        self._s3 = S3Server().start()
        atexit.register(self._s3.stop)
        self._s3.put_directory(self.storage, self.name)

    def upstream(self, storage: Path) -> str:
        return self._s3.uri(self.name)
