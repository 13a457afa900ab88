"""Many rows of one table."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.bench import generate
from tests.bench.decode import parse_alone
from tests.bench.rows import BLOBS, SYSBENCH, UNIQUE, WIDE, Kind, inserts, mixed, updates
from tests.bench.shapes.base import CONNECTIONS, Loaded, Shape

_STATEMENT_ROWS = 1000


class Inserts(Shape):
    name, title, reach = "A", "1 M inserts into one table with a secondary index", 0.65
    kind: Kind = SYSBENCH
    count, least, transaction = 1_000_000, 1, 50

    @property
    def events(self) -> int:
        return max(self.least, int(self.count * self.scale))

    def build(self) -> int:
        self.final = self.events
        self._loaded = Loaded(self.work, self.name, self.kind)
        self._loaded.write(row for _, row in inserts(self.events, kind=self.kind) if row is not None)
        rows = inserts(self.events, kind=self.kind)
        return generate.write_storage(
            self.storage, [("t", rows)], self.encode, kind=self.kind, transaction=self.transaction
        )

    def limit(self) -> None:
        self._loaded.create(self.server)
        self._loaded.load(self.server)


class InsertsAsProcess(Inserts):
    name, title, reach = "AP", "A as a whole process, from cold", None

    def round(self) -> None:
        self.apply_as_process()


class CsvInserts(Inserts):
    name, title, reach = "B", "the same in CSV", 0.75
    encode = staticmethod(generate.csv_line)


class WideRows(Inserts):
    name, title, reach = "W200", "20,000 inserts of 200 columns", 0.5
    kind, count = WIDE, 20_000


class LargeValues(Inserts):
    name, title, reach = "WBLOB", "200 inserts of 1 MB of random bytes", 0.5
    kind, count, least = BLOBS, 200, 4


class OneTransaction(Inserts):
    name, title, reach = "WTXN", "1 M inserts of one transaction", 0.5
    transaction = 1 << 60


class TableAtOnce(Inserts):
    """A large load at a level that publishes its rows, beside the same at `row`."""

    name, title, reach = "PT", "A with --consistency table, beside row", None
    level = "table"

    def round(self) -> None:
        self.apply(self.storage, consistency=self.level)

    def limit(self) -> None:
        self.apply(self.storage)


class SnapshotAtOnce(TableAtOnce):
    name, title, level = "PS", "A with --consistency snapshot, beside row", "snapshot"


class HotUpdates(Shape):
    name, title, reach = "C", "1 M changes over 20,000 keys", 0.7

    @property
    def events(self) -> int:
        return int(1_000_000 * self.scale)

    @property
    def keys(self) -> int:
        return min(20_000, self.events)

    def build(self) -> int:
        self.final = self.keys
        return generate.write_storage(self.storage, [("t", updates(self.events, self.keys))])

    def limit(self) -> None:
        parse_alone(self.storage, use_threads=True)


class Mixed(Shape):
    """The table has rows already. The limit writes the net changes as they are, in statements of 1,000 rows."""

    name, title, reach = "M", "1 M inserts, updates, deletes (60/30/10), a secondary unique key", 1.0

    @property
    def events(self) -> int:
        return int(1_000_000 * self.scale)

    def build(self) -> int:
        before = {int(row["id"]): row for _, row in inserts(max(10, self.events // 5), kind=UNIQUE) if row}
        self._loaded = Loaded(self.work, self.name, UNIQUE)
        self._loaded.write(before.values())
        # A transaction of TiCDC has each key once at most, unless it is split.
        self._storage = generate.Storage(self.storage, UNIQUE, transaction=1)
        self._storage.table("t")
        self._storage.rows("t", ((None, row) for row in before.values()))
        self._first, first_size = self._storage.ts, self._storage.size
        now = dict(before)
        self._storage.rows("t", mixed(self.events, now, UNIQUE))
        self._puts = [tuple(row.values()) for key, row in now.items() if before.get(key) is not row]
        self._deletes = [key for key in before if key not in now]
        self.final = len(now)
        return self._storage.size - first_size

    def before_round(self) -> None:
        super().before_round()
        self._storage.publish(self._first)
        self.apply(self.storage)
        self._storage.publish()

    def before_limit(self) -> None:
        super().before_limit()
        self._loaded.create(self.server)
        self._loaded.load(self.server)

    def limit(self) -> None:
        deletes = [("DELETE FROM t WHERE id IN %s", (batch,)) for batch in _batches(self._deletes)]
        one = f"({','.join(['%s'] * len(UNIQUE.columns))})"
        puts = [
            (f"REPLACE INTO t VALUES {','.join([one] * len(batch))}", [value for row in batch for value in row])
            for batch in _batches(self._puts)
        ]
        for statements in (deletes, puts):
            with ThreadPoolExecutor(CONNECTIONS) as pool:
                list(pool.map(self._execute, (statements[part::CONNECTIONS] for part in range(CONNECTIONS))))

    def _execute(self, statements: Iterable[tuple[str, object]]) -> None:
        connection = self.server.connect(database="bench")
        for statement, values in statements:
            connection.cursor().execute(statement, values)
        connection.close()


def _batches(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + _STATEMENT_ROWS] for start in range(0, len(items), _STATEMENT_ROWS)]
