"""What is measured: each shape's storage, the round that applies it, and the limit beside it."""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from consumer import app
from consumer.config.load import load
from consumer.spark.load import SparkLoader
from tests.bench import generate
from tests.servers import MariaDb
from tests.support.observers import Recorder


class Shape(ABC):
    """`events` row changes; `reach` is the part of the limit's speed that is asked for, None where time is."""

    name: str
    title: str
    reach: float | None = None
    most_seconds: float | None = None

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
        settings = load(
            {
                "upstream_uri": f"file://{self.storage}?protocol=canal-json",
                "downstream_uri": self.server.url(),
                "tz": "UTC",
            },
            {},
        ).settings
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
        return generate.write_storage(self.storage, [("t", generate.inserts(self.events))])

    def _csv(self) -> None:
        rows = generate.inserts(self.events)
        for part in range(self.connections):
            with (self.work / f"A{part}.csv").open("w") as out:
                for _, row in islice(rows, self.events // self.connections):
                    out.write(",".join(f'"{value}"' for value in row.values()) + "\n")

    def limit(self) -> None:
        self.server.execute("CREATE DATABASE bench", "USE bench", generate.create_statement("t"))
        with ThreadPoolExecutor(self.connections) as pool:
            list(pool.map(self._load, range(self.connections)))

    def _load(self, part: int) -> None:
        connection = self.server.connect(database="bench", autocommit=False)
        connection.cursor().execute(
            f"LOAD DATA LOCAL INFILE '{self.work}/A{part}.csv' INTO TABLE t CHARACTER SET utf8mb4"
            " FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY ''"
        )
        connection.commit()
        connection.close()


class HotUpdates(Shape):
    name, title, reach = "C", "1 M changes over 20,000 keys", 0.5

    @property
    def events(self) -> int:
        return int(1_000_000 * self.scale)

    def build(self) -> int:
        changes = generate.updates(self.events, min(20_000, self.events))
        return generate.write_storage(self.storage, [("t", changes)])

    def limit(self) -> None:
        row = pa.struct([(column.name, pa.string()) for column in generate.COLUMNS])
        schema = pa.schema([("type", pa.string()), ("old", pa.list_(row)), ("data", pa.list_(row))])
        schema = schema.append(pa.field("_tidb", pa.struct([("commitTs", pa.int64())])))
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        read = pyarrow.json.ReadOptions(use_threads=True, block_size=8 << 20)
        for path in sorted(self.storage.rglob("CDC*.json")):
            pyarrow.json.read_json(path, read_options=read, parse_options=parse)


class ManyTables(Shape):
    name, title, most_seconds = "E", "500 tables of 200 rows with their CREATE TABLE", 5.0
    rows = 200

    @property
    def tables(self) -> list[str]:
        return [f"t{number:03d}" for number in range(int(500 * self.scale))]

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


class NothingNew(ManyTables):
    """The program as a whole process, on a storage that is applied already."""

    name, title, most_seconds = "F", "nothing new: `once` as a process", 1.0

    @property
    def events(self) -> int:
        return 0

    def build(self) -> int:
        size = super().build()
        self.server.drop_all()
        super().round()
        return size

    def before_round(self) -> None: ...

    def before_limit(self) -> None: ...

    def round(self) -> None:
        program = Path(sys.executable).with_name("storage-consumer")
        uri = f"file://{self.storage}?protocol=canal-json"
        command = [program, "once", "--upstream-uri", uri, "--downstream-uri", self.server.url(), "--tz", "UTC"]
        subprocess.run(command, check=True, capture_output=True)

    def limit(self) -> None:
        """A Python that does nothing."""
        subprocess.run([sys.executable, "-c", "pass"], check=True)


SHAPES: dict[str, Callable[[Path, MariaDb, SparkLoader, float], Shape]] = {
    shape.name: shape for shape in (Inserts, HotUpdates, ManyTables, NothingNew)
}
