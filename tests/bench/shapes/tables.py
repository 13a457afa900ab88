"""Many tables, many files."""

from __future__ import annotations

from tests.bench import generate
from tests.bench.rows import SYSBENCH, inserts
from tests.bench.shapes.base import Shape


class ManyTables(Shape):
    name, title = "E", "500 tables of 200 rows with their CREATE TABLE"
    reach: float | None = 1.0
    count, rows = 500, 200

    @property
    def tables(self) -> list[str]:
        return [f"t{number:03d}" for number in range(int(self.count * self.scale))]

    @property
    def events(self) -> int:
        return len(self.tables) * self.rows

    def build(self) -> int:
        rows = {table: list(inserts(self.rows, seed)) for seed, table in enumerate(self.tables)}
        self._values = {
            table: [tuple(row.values()) for _, row in group if row is not None] for table, group in rows.items()
        }
        return generate.write_storage(self.storage, rows.items())

    def limit(self) -> None:
        connection = self.server.connect()
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE bench")
        cursor.execute("USE bench")
        for table, rows in self._values.items():
            cursor.execute(SYSBENCH.create(table))
            cursor.executemany(f"INSERT INTO `{table}` VALUES (%s,%s,%s,%s)", rows)
        connection.close()


class Tables1(ManyTables):
    """With E5 and E20: what a round costs as tables become more."""

    name, title, reach = "E1", "1,000 tables of 20 rows", None
    count, rows = 1000, 20


class Tables5(Tables1):
    name, title, most_seconds = "E5", "5,000 tables of 20 rows", 25.0
    count = 5000


class Tables20(Tables1):
    name, title, most_seconds = "E20", "20,000 tables of 20 rows", None
    count = 20_000


class SmallFiles(Shape):
    """`events` are files. The limit is the same rows in one file."""

    name, title = "S", "10,000 files of 4 KB in one table (events: files)"
    rows = 8

    @property
    def events(self) -> int:
        return int(10_000 * self.scale)

    def build(self) -> int:
        rows = inserts(self.events * self.rows)
        generate.write_storage(self.work / "S1", [("t", inserts(self.events * self.rows))])
        return generate.write_storage(self.storage, [("t", rows)], file_bytes=3800)

    def limit(self) -> None:
        self.apply(self.work / "S1")
