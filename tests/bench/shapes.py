"""What is measured: each shape's storage, the round that applies it, and the limit beside it."""

from __future__ import annotations

import atexit
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from consumer import app
from consumer.config.load import load
from consumer.spark.load import SparkLoader
from tests.bench import generate
from tests.bench.decode import decode_alone, parse_alone
from tests.s3_server import S3Server
from tests.servers import MariaDb
from tests.support.observers import Recorder


class Shape(ABC):
    """`events` row changes; `reach` is the part of the limit's speed that is asked for, None where time is."""

    name: str
    title: str
    reach: float | None = None
    most_seconds: float | None = None
    encode: generate.Encode = staticmethod(generate.canal_line)

    def __init__(self, work: Path, server: MariaDb, loader: SparkLoader, scale: float) -> None:
        self.work, self.server, self.loader = work, server, loader
        self.scale = scale
        self.storage = work / self.name

    @property
    @abstractmethod
    def events(self) -> int: ...

    @abstractmethod
    def build(self) -> int:
        """Write the storage once; its data bytes."""

    @abstractmethod
    def limit(self) -> None:
        """The fastest thing of its kind that could be done with the same rows."""

    def before_round(self) -> None:
        self.server.drop_all()

    def before_limit(self) -> None:
        self.server.drop_all()

    def round(self) -> None:
        self.apply(self.storage)

    def apply(self, storage: Path) -> None:
        config = self.work / "changefeed.toml"
        config.write_text(generate.CSV_CONFIG)
        flags = {"downstream_uri": self.server.url(), "tz": "UTC", "upstream_uri": f"file://{storage}"}
        if self.encode is generate.canal_line:
            flags["upstream_uri"] += "?protocol=canal-json"
        settings = load(flags, {}, str(config)).settings
        result = app.once(settings, Recorder(), self.loader)
        if result.exit_code:
            raise SystemExit(f"shape {self.name}: {[table.error for table in result.tables.values() if table.error]}")


class Inserts(Shape):
    name, title, reach = "A", "1 M inserts into one table with a secondary index", 0.45
    connections = 4

    @property
    def events(self) -> int:
        return int(1_000_000 * self.scale)

    def build(self) -> int:
        self._csv()
        return generate.write_storage(self.storage, [("t", generate.inserts(self.events))], self.encode)

    def _csv(self) -> None:
        rows = generate.inserts(self.events)
        for part in range(self.connections):
            with self._part(part).open("w") as out:
                for _, row in islice(rows, self.events // self.connections):
                    out.write(",".join(f'"{value}"' for value in row.values()) + "\n")

    def limit(self) -> None:
        self.server.execute("CREATE DATABASE bench", "USE bench", generate.create_statement("t"))
        with ThreadPoolExecutor(self.connections) as pool:
            list(pool.map(self._load, range(self.connections)))

    def _load(self, part: int) -> None:
        connection = self.server.connect(database="bench", autocommit=False)
        connection.cursor().execute(
            f"LOAD DATA LOCAL INFILE '{self._part(part)}' INTO TABLE t CHARACTER SET utf8mb4"
            " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
        )
        connection.commit()
        connection.close()

    def _part(self, part: int) -> Path:
        return self.work / f"{self.name}{part}.csv"


class CsvInserts(Inserts):
    name, title, reach = "B", "the same in CSV", 0.5
    encode = staticmethod(generate.csv_line)


class HotUpdates(Shape):
    name, title, reach = "C", "1 M changes over 20,000 keys", 0.5

    @property
    def events(self) -> int:
        return int(1_000_000 * self.scale)

    def build(self) -> int:
        changes = generate.updates(self.events, min(20_000, self.events))
        return generate.write_storage(self.storage, [("t", changes)])

    def limit(self) -> None:
        parse_alone(self.storage, use_threads=True)


class ManyTables(Shape):
    name, title, most_seconds = "E", "500 tables of 200 rows with their CREATE TABLE", 5.0
    count, rows = 500, 200

    @property
    def tables(self) -> list[str]:
        return [f"t{number:03d}" for number in range(int(self.count * self.scale))]

    @property
    def events(self) -> int:
        return len(self.tables) * self.rows

    def build(self) -> int:
        rows = {table: list(generate.inserts(self.rows, seed)) for seed, table in enumerate(self.tables)}
        self._values = {table: [tuple(row.values()) for _, row in group] for table, group in rows.items()}
        return generate.write_storage(self.storage, rows.items())

    def limit(self) -> None:
        connection = self.server.connect()
        cursor = connection.cursor()
        cursor.execute("CREATE DATABASE bench")
        cursor.execute("USE bench")
        for table, rows in self._values.items():
            cursor.execute(generate.create_statement(table))
            cursor.executemany(f"INSERT INTO `{table}` VALUES (%s,%s,%s,%s)", rows)
        connection.close()


class Tables1(ManyTables):
    """With E5 and E20: what a round costs as tables become more."""

    name, title, most_seconds = "E1", "1,000 tables of 20 rows", None
    count, rows = 1000, 20


class Tables5(Tables1):
    name, title, count = "E5", "5,000 tables of 20 rows", 5000


class Tables20(Tables1):
    name, title, count = "E20", "20,000 tables of 20 rows", 20_000


class SmallFiles(Shape):
    """`events` are files. The limit is the same rows in one file."""

    name, title = "S", "10,000 files of 4 KB in one table (events: files)"
    rows = 8

    @property
    def events(self) -> int:
        return int(10_000 * self.scale)

    def build(self) -> int:
        rows = generate.inserts(self.events * self.rows)
        generate.write_storage(self.work / "S1", [("t", generate.inserts(self.events * self.rows))])
        return generate.write_storage(self.storage, [("t", rows)], file_bytes=3800)

    def limit(self) -> None:
        self.apply(self.work / "S1")


class Cold(ManyTables):
    """The program as a whole process, from its start to its exit."""

    name, title, most_seconds = "K", "cold: `once` as a process, one table with ten new rows", 3.5
    count, rows = 1, 10

    @property
    def tables(self) -> list[str]:
        return [f"t{number:04d}" for number in range(max(1, int(self.count * self.scale)))]

    @property
    def upstream(self) -> str:
        return f"file://{self.storage}?protocol=canal-json"

    def round(self) -> None:
        program = Path(sys.executable).with_name("storage-consumer")
        command = [
            program,
            "once",
            "--upstream-uri",
            self.upstream,
            "--downstream-uri",
            self.server.url(),
            "--tz",
            "UTC",
        ]
        subprocess.run(command, check=True, capture_output=True)

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

    @property
    def upstream(self) -> str:
        return self._s3.uri(self.name)


class DecodeJson(Shape):
    """One core, from the files to change tables: no fold, no target. The limit is Arrow's parser on the same bytes."""

    name, title = "G", "decode alone, canal-JSON"

    @property
    def events(self) -> int:
        return int(200_000 * self.scale)

    def build(self) -> int:
        return generate.write_storage(self.storage, [("t", generate.inserts(self.events))], self.encode)

    def before_round(self) -> None: ...

    def before_limit(self) -> None: ...

    def round(self) -> None:
        decode_alone(self.storage)

    def limit(self) -> None:
        parse_alone(self.storage)


class DecodeCsv(DecodeJson):
    name, title = "H", "decode alone, CSV"
    encode = staticmethod(generate.csv_line)


SHAPES: dict[str, Callable[[Path, MariaDb, SparkLoader, float], Shape]] = {
    shape.name: shape
    for shape in (Inserts, CsvInserts, HotUpdates, ManyTables, Cold, NothingNew, SmallFiles, DecodeJson, DecodeCsv)
}
GROWTH: dict[str, Callable[[Path, MariaDb, SparkLoader, float], Shape]] = {
    shape.name: shape for shape in (Tables1, Tables5, Tables20, NothingNew5, NothingNewOnS3)
}
"""These take long, so they are measured when they are named."""
