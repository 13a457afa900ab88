"""Random transactions, run on the original: what each has changed in the end, as TiCDC tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pymysql

from consumer.model.names import TableName
from tests.support.random_ddl.definitions import Definitions
from tests.support.random_ddl.events import Change, Manner
from tests.support.random_ddl.original import Original, Row, Shape, quoted
from tests.support.random_ddl.proposal import Table

ORDER = ("DELETE", "UPDATE", "INSERT")
REFUSED = (1062, 1048, 1526, 1748)
"""Duplicate keys, NULL, no partition: upstream refuses them too."""

Placed = tuple[str, Row]
"""Partition name and row."""
Pair = tuple[Placed | None, Placed | None]


@dataclass(frozen=True)
class Transactions:
    original: Original
    random: Random
    manner: Manner

    def run(self, ts: int, name: TableName, table: Table) -> list[Change]:
        """Some statements on one table; their net changes, in TiCDC's order."""
        before = self._rows(name, table.shape)
        for _ in range(self.random.randint(1, 4)):
            self._write(name, table)
        pairs = list(self._pairs(before, self._rows(name, table.shape), table))
        return sorted((_change(ts, name, table, *pair) for pair in pairs), key=lambda change: ORDER.index(change.kind))

    def _rows(self, name: TableName, shape: Shape) -> list[Placed]:
        parts = [part for part, _ in shape.bounds] or [""]
        return [
            (part, row)
            for part in parts
            for row in self.original.rows(name, shape, f" PARTITION ({quoted(part)})" if part else "")
        ]

    def _write(self, name: TableName, table: Table) -> None:
        draw, place, shape = Definitions(self.random), self.original.place(name), table.shape
        values = {column.name: draw.value(column) for column in shape.columns if column.name not in shape.generated}
        condition = f"`id` = {self.random.randrange(9)}"
        match self.random.randrange(8):
            case 0 | 1 | 2 | 3:
                columns, row = ",".join(map(quoted, values)), ",".join(values.values())
                statement = f"INSERT INTO {place} ({columns}) VALUES ({row})"
            case 4 | 5:
                some = self.random.sample(sorted(values), self.random.randint(1, len(values)))
                sets = ",".join(f"{quoted(column)}={values[column]}" for column in some)
                statement = f"UPDATE {place} SET {sets} WHERE {condition}"
            case 6:
                statement = f"UPDATE {place} SET `id`=`id`+1 ORDER BY `id` DESC LIMIT 3"
            case _:
                statement = f"DELETE FROM {place} WHERE {condition}"
        self.original.execute("START TRANSACTION")
        try:
            self.original.execute(statement)
        except pymysql.MySQLError as error:
            if error.args[0] not in REFUSED:
                raise
        # The original does not have the unique indexes that only upstream has, which are all about the id.
        unique = any(index.unique for index in table.left_out)
        repeated = f"SELECT 1 FROM {place} GROUP BY `id` HAVING COUNT(`id`) > 1"
        self.original.execute("ROLLBACK" if unique and self.original.execute(repeated) else "COMMIT")

    def _pairs(self, before: Sequence[Placed], after: Sequence[Placed], table: Table) -> Iterator[Pair]:
        """Which row became which. That does not show in the rows: where they have an identity beside their key, a
        changed one may have come from any."""
        lost, won = _difference(before, after), _difference(after, before)
        key = table.shape.key
        if not key:
            yield from ((row, None) for row in lost)
            yield from ((None, row) for row in won)
            return
        old = {_key(row, key): row for row in lost}
        new = {_key(row, key): row for row in won}
        pairs: list[Pair] = [(old.get(k), new.get(k)) for k in dict.fromkeys([*old, *new])]
        raw = self.manner.raw and self.manner.commit_ts and table.nonclustered
        if raw and self.random.random() < 0.5:
            shuffled = [row for _, row in pairs]
            self.random.shuffle(shuffled)
            pairs = [(row, other) for (row, _), other in zip(pairs, shuffled, strict=True) if row or other]
        for one, other in pairs:
            moved = one and other and one[0] != other[0]
            if one and other and (moved or (not raw and _differ(one, other, table.shape.unique_columns))):
                yield one, None
                yield None, other
            else:
                yield one, other


def _change(ts: int, name: TableName, table: Table, old: Placed | None, new: Placed | None) -> Change:
    placed = new or old
    assert placed is not None
    kind = "UPDATE" if old and new else "DELETE" if old else "INSERT"
    partition = str(table.partitions[placed[0]]) if placed[0] else ""
    rows = [side[1] if side else None for side in (old, new)]
    return Change(ts, name, kind, rows[0], rows[1], partition, table.version, table.shape, table.nonclustered)


def _difference(some: Sequence[Placed], others: Sequence[Placed]) -> list[Placed]:
    gone = Counter((part, tuple(row.items())) for part, row in others)
    found = []
    for part, row in some:
        image = (part, tuple(row.items()))
        if gone[image]:
            gone[image] -= 1
        else:
            found.append((part, row))
    return found


def _key(placed: Placed, key: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(placed[1][column] for column in key)


def _differ(one: Placed, other: Placed, columns: frozenset[str]) -> bool:
    return any(one[1][column] != other[1][column] for column in columns)
