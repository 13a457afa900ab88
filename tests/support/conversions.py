"""What a real TiDB made of old values: `fixtures/types/conversions.tsv`, as columns and values of change tables."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import groupby
from pathlib import Path

from consumer.ddl.declared import created_columns
from consumer.ddl.definitions import statement_of
from consumer.model.columns import Column, Family
from consumer.model.types.conversions import Conversion, Value
from consumer.model.types.values import NoValue

_FILE = Path(__file__).parents[2] / "fixtures" / "types" / "conversions.tsv"
_SHOWN_DIGITS = 6
"""Of a FLOAT, by the client."""


@dataclass(frozen=True)
class Measured:
    """What became of one value of a column `c` by a MODIFY; `behind` is NULL where that is None."""

    text: str
    """As the client showed it."""
    before: Value
    behind: Value | None


@dataclass(frozen=True)
class Pair:
    """A statement that gave a column another type. `refused`: no session could run it. `depends`: one that is strict
    could not, as of at least one of the values."""

    before: str
    behind: str
    values: tuple[Measured, ...]
    refused: bool
    depends: bool

    @property
    def old(self) -> Column:
        return column_of(self.before)

    @property
    def new(self) -> Column:
        return column_of(self.behind)

    def __str__(self) -> str:
        return f"{self.before} to {self.behind}"


@cache
def column_of(type_: str) -> Column:
    (column,) = created_columns(statement_of(f"CREATE TABLE `t` (`c` {type_})"))
    return replace(column, length=None) if column.family is Family.INTEGER else column


def by_type(found: Iterable[Pair]) -> dict[str, list[Pair]]:
    """By the type before."""
    return {type_: list(pairs) for type_, pairs in groupby(found, lambda pair: pair.before)}


@cache
def pairs() -> tuple[Pair, ...]:
    lines = [line for line in _FILE.read_text().splitlines() if not line.startswith("#")]
    rows = [line.split("\t") for line in lines]
    return tuple(_pair(*key, list(found)) for key, found in groupby(rows, lambda row: (row[0], row[1])))


def _pair(before: str, behind: str, rows: list[list[str]]) -> Pair:
    if rows[0][3].startswith("error "):
        return Pair(before, behind, (), refused=True, depends=False)
    old, new = column_of(before), column_of(behind)
    values = tuple(
        Measured(row[2], _value(old, row[2]), None if row[3] == "NULL" else _value(new, row[3])) for row in rows
    )
    return Pair(before, behind, values, refused=False, depends=any(len(row) > 4 for row in rows))


def _value(column: Column, text: str) -> Value:
    """As change tables have it."""
    match column.family:
        case Family.BINARY:
            return bytes.fromhex(text[2:])
        case Family.BIT:
            return str(int(text, 16))
        case Family.YEAR:
            return str(int(text))
        case Family.ENUM:
            return str(column.elements.index(text) + 1) if text else "0"
        case Family.SET:
            return str(sum(1 << column.elements.index(label) for label in text.split(",") if label))
        case _:
            return text.replace("\\0", "\0").replace("\\\\", "\\")


def same(column: Column, made: Value | None, measured: Value | None) -> bool:
    """Whether a value is the one that TiDB showed."""
    if made is None or measured is None or column.family not in (Family.FLOAT, Family.DOUBLE):
        return made == measured
    one, other = float(made), float(measured)
    if column.family is Family.FLOAT:
        one, other = (float(f"{_single(number):.{_SHOWN_DIGITS}g}") for number in (one, other))
        return math.isclose(one, other, rel_tol=10.0 ** -(_SHOWN_DIGITS - 1))
    return one == other


def _single(number: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", number))[0]
    return found


def computed(pair: Pair) -> list[tuple[Measured, Value]]:
    """The values of which the table of conversions says what TiDB made."""
    conversion, found = Conversion(pair.old, pair.new), list[tuple[Measured, Value]]()
    for measured in pair.values:
        with suppress(NoValue):
            found.append((measured, conversion.value(measured.before)))
    return found


def shown(column: Column, held: object) -> Value | None:
    """A value of a target's column, as Python has it, as change tables have it."""
    match held:
        case None | bytes():
            return held
        case Decimal():
            return format(held, "f")
        case datetime():
            digits = f".{held.microsecond:06}"[: (column.scale or 0) + 1] if column.scale else ""
            return held.replace(microsecond=0).isoformat(" ") + digits
        case str() if column.family is Family.ENUM:
            return str(column.elements.index(held) + 1) if held else "0"
        case str() if column.family is Family.SET:
            return str(sum(1 << column.elements.index(label) for label in held.split(",") if label))
        case _:
            return str(held)
