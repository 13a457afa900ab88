"""What the rows of the bench are like: kinds of tables, and random changes, the same for the same seed."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from consumer.model.columns import Column

Row = dict[str, str]
Change = tuple[Row | None, Row | None]
"""The row before it (None: INSERT) and after it (None: DELETE), as texts; binary ones a character a byte."""
_ORDERS = 61
_SQL_TYPES = {"INT": 4, "BIGINT": -5, "DECIMAL": 3, "CHAR": 1, "VARCHAR": 12, "DATETIME": 93, "LONGBLOB": 2004}


@dataclass(frozen=True)
class Kind:
    """Tables with `columns`, of which the first is the primary key, and with `indexes` as in CREATE TABLE. `values`
    makes those of the other columns for a key."""

    columns: tuple[Column, ...]
    values: Callable[[random.Random, int], list[str]]
    indexes: str = ""
    sql_types: dict[str, int] = field(init=False)
    mysql_types: list[dict[str, str]] = field(init=False)
    """In the orders that lines of canal-JSON have by chance."""

    def __post_init__(self) -> None:
        chance, types = random.Random(0), [(column.name, column.type.lower()) for column in self.columns]
        orders = [dict(chance.sample(types, len(types))) for _ in range(_ORDERS)]
        object.__setattr__(self, "sql_types", {column.name: _SQL_TYPES[column.type] for column in self.columns})
        object.__setattr__(self, "mysql_types", orders)

    def create(self, table: str) -> str:
        """Its CREATE TABLE."""
        columns = ",".join(_declared(column) for column in self.columns)
        return f"CREATE TABLE `{table}` ({columns}{self.indexes})"

    def row(self, chance: random.Random, key: int) -> Row:
        return dict(zip((column.name for column in self.columns), [str(key), *self.values(chance, key)], strict=True))


def _declared(column: Column) -> str:
    size = f"({column.length},{column.scale})" if column.scale else f"({column.length})" if column.length else ""
    if column.is_pk:
        return f"`{column.name}` INT PRIMARY KEY"
    return f"`{column.name}` {column.type}{'' if column.type in ('INT', 'BIGINT', 'LONGBLOB') else size} NOT NULL"


@cache
def _words() -> list[str]:
    """Once for all: thousands of tables would take minutes otherwise."""
    digits = random.Random(0)
    return ["".join(digits.choices(string.digits, k=11)) for _ in range(5000)]


def _text(chance: random.Random, words: int) -> str:
    return "-".join(_words()[int(chance.random() * 5000)] for _ in range(words))


def _sysbench(chance: random.Random, _: int) -> list[str]:
    return [str(chance.randrange(1_000_000)), _text(chance, 10), _text(chance, 5)]


def _unique(chance: random.Random, key: int) -> list[str]:
    return [str(key * 2_654_435_761 % (1 << 62)), _text(chance, 10), _text(chance, 5)]


_WIDE_TYPES = ("INT", "BIGINT", "DECIMAL", "VARCHAR", "DATETIME")


def _wide(chance: random.Random, _: int) -> list[str]:
    number, word = chance.randrange(1 << 30), _text(chance, 2)
    five = [str(number), str(number << 20), f"{number}.2500", word, f"2026-11-{1 + number % 28:02} 10:00:00"]
    return [five[position % 5] for position in range(199)]


def _blob(chance: random.Random, _: int) -> list[str]:
    return [chance.randbytes(1 << 20).decode("latin-1")]


def _column(name: str, kind: str, length: int | None = None, scale: int | None = None) -> Column:
    return Column(name, kind, length=length, scale=scale, nullable=False)


_KEY = Column("id", "INT", length=11, nullable=False, is_pk=True)
_TEXTS = (_column("c", "CHAR", 120), _column("pad", "CHAR", 60))
SYSBENCH = Kind((_KEY, _column("k", "INT", 11), *_TEXTS), _sysbench, ",INDEX `k_1`(`k`)")
UNIQUE = Kind((_KEY, _column("u", "BIGINT", 20), *_TEXTS), _unique, ",UNIQUE KEY `u_1`(`u`)")
_WIDE_SIZES: dict[str, tuple[int, ...]] = {"INT": (11,), "BIGINT": (20,), "DECIMAL": (18, 4), "VARCHAR": (40,)}
_WIDE_KINDS = [_WIDE_TYPES[number % 5] for number in range(199)]
_WIDE_COLUMNS = (_column(f"c{n}", kind, *_WIDE_SIZES.get(kind, ())) for n, kind in enumerate(_WIDE_KINDS))
WIDE = Kind((_KEY, *_WIDE_COLUMNS), _wide)
BLOBS = Kind((_KEY, _column("b", "LONGBLOB", 4294967295)), _blob)


def inserts(count: int, seed: int = 7, kind: Kind = SYSBENCH) -> Iterator[Change]:
    chance = random.Random(seed)
    return ((None, kind.row(chance, key)) for key in range(1, count + 1))


def updates(count: int, keys: int, seed: int = 7) -> Iterator[Change]:
    """`count` changes over `keys` rows: each is inserted once, then updated at random."""
    chance = random.Random(seed)
    now: dict[int, Row] = {}
    for number in range(count):
        key = number + 1 if number < keys else chance.randrange(1, keys + 1)
        old, now[key] = now.get(key), SYSBENCH.row(chance, key)
        yield old, now[key]


def mixed(count: int, rows: dict[int, Row], kind: Kind, seed: int = 8) -> Iterator[Change]:
    """`count` changes of the table that has `rows`: of ten, six are inserts, three updates and one is a delete. `rows`
    is what the table has after them."""
    chance = random.Random(seed)
    keys, next_key = list(rows), max(rows, default=0) + 1
    for _ in range(count):
        draw = chance.random()
        place = chance.randrange(len(keys))
        key = keys[place]
        if draw < 0.6:
            keys.append(next_key)
            rows[next_key] = kind.row(chance, next_key)
            yield None, rows[next_key]
            next_key += 1
        elif draw < 0.9:
            old, rows[key] = rows[key], kind.row(chance, key)
            yield old, rows[key]
        else:
            keys[place] = keys[-1]
            keys.pop()
            yield rows.pop(key), None
