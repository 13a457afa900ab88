"""What every shape is: a storage, the round that applies it, and the limit beside it."""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from consumer import app
from consumer.config.load import load
from consumer.spark.load import SparkLoader
from tests.bench import generate
from tests.bench.rows import SYSBENCH, Kind, Row
from tests.bench.warm import WarmProcess
from tests.servers import SqlServer
from tests.support.observers import Recorder

CONNECTIONS = 4
"""Of a limit that writes to the server."""


class Shape(ABC):
    """`events` row changes; `reach` is the part of the limit's speed that is asked for, None where time is. `final` are
    the rows that each table has in the end, None where that is not asked."""

    name: str
    title: str
    reach: float | None = None
    most_seconds: float | None = None
    encode: generate.Encode = staticmethod(generate.canal_line)
    final: int | None = None
    round_pid: int | None = None
    limit_pid: int | None = None
    """Of the processes that do it, where that is not this one."""

    def __init__(self, work: Path, server: SqlServer, loader: SparkLoader, scale: float) -> None:
        self.work, self.server, self.loader = work, server, loader
        self.scale = scale
        self.storage = work / self.name
        self.processes: list[WarmProcess] = []

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

    def end(self) -> None:
        """Behind the last round."""
        for process in self.processes:
            process.close()

    def there(self) -> int:
        """The rows of the table in the target."""
        return int(str(self.server.execute("SELECT COUNT(*) FROM bench.t")[0][0]))

    @property
    def downstream(self) -> str:
        return self.server.url()

    @property
    def config(self) -> Path:
        """The changefeed's TOML."""
        path = self.work / "changefeed.toml"
        path.write_text(generate.CSV_CONFIG)
        return path

    def upstream(self, storage: Path) -> str:
        return f"file://{storage}" + ("?protocol=canal-json" if self.encode is generate.canal_line else "")

    def apply(self, storage: Path, **more: str) -> None:
        flags = {"downstream_uri": self.downstream, "tz": "UTC", "upstream_uri": self.upstream(storage), **more}
        result = app.once(load(flags, {}, str(self.config)).settings, Recorder(), self.loader)
        if result.exit_code:
            raise SystemExit(f"shape {self.name}: {[table.error for table in result.tables.values() if table.error]}")

    def apply_as_process(self, *flags: str) -> None:
        """The program as a whole process, from its start to its exit."""
        program = str(Path(sys.executable).with_name("storage-consumer"))
        uris = ["--upstream-uri", self.upstream(self.storage), "--downstream-uri", self.downstream]
        subprocess.run([program, "once", *uris, "--tz", "UTC", *flags], check=True, capture_output=True)


class Loaded:
    """Rows for LOAD DATA into one table on several connections. Binary values go as hexadecimal digits."""

    def __init__(self, work: Path, name: str, kind: Kind = SYSBENCH) -> None:
        self._work, self._name, self._kind = work, name, kind
        self._binary = [column.type.endswith("BLOB") for column in kind.columns]

    def write(self, rows: Iterable[Row]) -> None:
        """Keep the rows in as many files as there are connections."""
        parts = [self._part(part).open("w") for part in range(CONNECTIONS)]
        for number, line in enumerate(self._lines(rows)):
            parts[number * CONNECTIONS // 1000 % CONNECTIONS].write(line)
        for part in parts:
            part.close()

    def create(self, server: SqlServer) -> None:
        server.execute("CREATE DATABASE bench", "USE bench", self._kind.create("t"))

    def load(self, server: SqlServer) -> None:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            list(pool.map(lambda part: self._load(server, part), range(CONNECTIONS)))

    def _lines(self, rows: Iterable[Row]) -> Iterator[str]:
        for row in rows:
            values = zip(row.values(), self._binary, strict=True)
            texts = (value.encode("latin-1").hex() if binary else value for value, binary in values)
            yield ",".join(f'"{text}"' for text in texts) + "\n"

    def _load(self, server: SqlServer, part: int) -> None:
        columns = [column.name for column in self._kind.columns]
        named = ",".join(f"@{name}" if binary else name for name, binary in zip(columns, self._binary, strict=True))
        unhex = [f"{name}=UNHEX(@{name})" for name, binary in zip(columns, self._binary, strict=True) if binary]
        connection = server.connect(database="bench", autocommit=False)
        connection.cursor().execute(
            f"LOAD DATA LOCAL INFILE '{self._part(part)}' INTO TABLE t CHARACTER SET utf8mb4"
            f" FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' ESCAPED BY '' ({named})"
            + (f" SET {','.join(unhex)}" if unhex else "")
        )
        connection.commit()
        connection.close()

    def _part(self, part: int) -> Path:
        return self._work / f"{self._name}{part}.csv"
