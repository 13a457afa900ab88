"""The changes of one table, as an upstream made them, with the lines that TiCDC writes of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from consumer.model.columns import Column
from tests.support.build import ID

Row = tuple[int, str | None, int | None, str]
"""id, region, amount, note"""

COLUMNS = (
    ID,
    Column("region", "VARCHAR", length=10),
    Column("amount", "INT"),
    Column("note", "VARCHAR", length=20, nullable=False),
)
KEYLESS = (Column("id", "INT", nullable=False), *COLUMNS[1:])
CREATE = (
    "CREATE TABLE `{}` (`id` INT{},`region` VARCHAR(10),`amount` INT,`note` VARCHAR(20) NOT NULL) COLLATE utf8mb4_bin"
)
_TYPES = ("int", "varchar", "int", "varchar")
_KINDS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}


@dataclass(frozen=True)
class Change:
    """`row` is what it left, or took away; `old` what an UPDATE found."""

    ts: int
    kind: str
    row: Row
    old: Row | None = None

    def canal(self, database: str, table: str, key: bool = True) -> bytes:
        def values(row: Row) -> list[dict[str, str | None]]:
            return [{c.name: None if v is None else str(v) for c, v in zip(COLUMNS, row, strict=True)}]

        message = {
            "id": 0, "database": database, "table": table, "pkNames": ["id"] if key else [], "isDdl": False,
            "type": _KINDS[self.kind], "es": 0, "ts": 0, "sql": "",
            "sqlType": {c.name: 4 if t == "int" else 12 for c, t in zip(COLUMNS, _TYPES, strict=True)},
            "mysqlType": {c.name: t for c, t in zip(COLUMNS, _TYPES, strict=True)},
            "old": values(self.old) if self.old is not None else None,
            "data": values(self.row), "_tidb": {"commitTs": self.ts},
        }  # fmt: skip
        return json.dumps(message).encode() + b"\r\n"

    def csv(self, database: str, table: str, old_values: bool) -> bytes:
        def line(kind: str, row: Row, update: bool) -> str:
            cells = ("\\N" if v is None else f'"{v}"' if isinstance(v, str) else str(v) for v in row)
            flag = f"{str(update).lower()}," if old_values else ""
            return f'"{kind}","{table}","{database}",{self.ts},{flag}{",".join(cells)}\r\n'

        if self.kind == "U" and old_values:
            assert self.old is not None
            return (line("D", self.old, True) + line("I", self.row, True)).encode()
        return line(self.kind, self.row, False).encode()


def changes_of(seed: int, count: int = 120, keys: int = 12, copies: bool = False) -> list[Change]:
    """Random ones, with rising commit-ts from 10; `copies`: rows are told apart by nothing."""
    return list(_changes(random.Random(seed), count, keys, copies))


def _changes(chance: random.Random, count: int, keys: int, copies: bool) -> Iterator[Change]:
    there: list[Row] = []
    for ts in range(10, 10 + count):
        taken = {row[0] for row in there}
        free = [key for key in range(keys) if copies or key not in taken]
        kind = chance.choice("IUD" if there and free else "UD" if there else "I")
        if kind == "I":
            row = _row(chance, chance.choice(free))
            there.append(row)
            yield Change(ts, "I", row)
            continue
        old = there.pop(chance.randrange(len(there)))
        if kind == "D":
            yield Change(ts, "D", old)
            continue
        row = _row(chance, old[0])
        there.append(row)
        yield Change(ts, "U", row, old)


def _row(chance: random.Random, key: int) -> Row:
    region = chance.choice(["eu", "us", "EU", "eu ", None])
    return key, region, chance.choice([None, -1, 0, 5, 10, 11]), chance.choice(["a", "b", "it's"])


def rows_at(changes: Sequence[Change], ts: int) -> list[Row]:
    """What upstream had at that commit-ts."""
    there: list[Row] = []
    for change in changes:
        if change.ts > ts:
            break
        if change.kind != "I":
            there.remove(change.row if change.old is None else change.old)
        if change.kind != "D":
            there.append(change.row)
    return sorted(there, key=repr)
