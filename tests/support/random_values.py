"""Random values of the types of the type cases, beside the cases' own, and random histories of rows of them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random

from consumer.model.columns import Family
from tests.support.type_cases import FAMILIES, TypeCase, Value
from tests.support.type_cases.case import binary, number, text

CASES = tuple(case for cases in FAMILIES.values() for case in cases)
_PIECES = (
    *(
        "a",
        "A",
        "é",
        "😀",
        "\0",
        "\r",
        "\n",
        "\r\n",
        '"',
        "'",
        "\\",
        "\\N",
        "\u2028",
        "\ufeff",
        " ",
        "\t",
        "NULL",
        "null",
    ),
    *(
        "%",
        "_",
        ",",
        ";",
        "`",
        "0",
        "\x1a",
        "\x08",
        "\x7f",
        "<",
        "&",
        "{",
        "}null",
        '"}',
        "[*]",
        "e\u0301",
        "\uffff",
        "日",
    ),
)
_BYTES = (0, 0x22, 0x27, 0x5C, 0x0A, 0x0D, 0xFF, 0xC3, 0x80, 0x20, 0x41)
_JSON = (text("1"), text("1.0"), text('{"a": [1]}'), text('{"a": [1.0]}'), text('"1"'))

Row = tuple[Value | None, ...]


@dataclass(frozen=True)
class Change:
    """A row before and after, None where it was or is not there. At `ts`; of its window the number."""

    window: int
    ts: int
    before: Row | None
    after: Row | None


@dataclass
class History:
    """A table of random types, its changes by window, and the rows that are there after each window.

    `key` are the positions of its primary key, () for none.
    """

    cases: tuple[TypeCase, ...]
    key: tuple[int, ...]
    changes: list[Change] = field(default_factory=list)
    states: list[list[Row]] = field(default_factory=list)

    @property
    def create(self) -> str:
        columns = [
            f"`{case.column.name}` {case.sql}{'' if case.column.nullable else ' NOT NULL'}" for case in self.cases
        ]
        key = ",".join(f"`{self.cases[position].column.name}`" for position in self.key)
        return f"CREATE TABLE `t` ({','.join([*columns, *([f'PRIMARY KEY({key})'] if key else [])])})"


def drawn(random: Random, cases: tuple[TypeCase, ...], windows: int = 2) -> History:
    """A history of a table with some of `cases`."""
    chosen = random.sample(cases, random.randint(2, 6))
    able = [position for position, case in enumerate(chosen) if case.key]
    key = tuple(random.sample(able, min(len(able), random.choice((0, 1, 1, 2, 3)))))
    for position in key:
        column = replace(chosen[position].column, nullable=False, is_pk=True)
        chosen[position] = replace(chosen[position], column=column)
    history = History(tuple(chosen), key)
    rows: list[Row] = []
    ts = 20
    for window in range(windows):
        for _ in range(random.randint(1, 25)):
            ts += 1
            _change(random, history, rows, window, ts)
        history.states.append(list(rows))
    return history


def _change(random: Random, history: History, rows: list[Row], window: int, ts: int) -> None:
    before = rows.pop(random.randrange(len(rows))) if rows and random.random() < 0.6 else None
    after = None if before and random.random() < 0.4 else _row(random, history, before)
    if after is not None and identity(history, after) in {identity(history, row) for row in rows}:
        after = before
    if after is not None:
        rows.append(after)
    if after is not before:
        history.changes.append(Change(window, ts, before, after))


def identity(history: History, row: Row) -> object:
    """What upstream compares rows by: of texts without trailing blanks. A row of a table with no key is like none."""
    if not history.key:
        return object()
    return tuple(value.canal.rstrip(" ") for position in history.key if (value := row[position]) is not None)


def _row(random: Random, history: History, before: Row | None) -> Row:
    """A new row, or `before` with some of its columns changed."""
    cells: list[Value | None] = []
    for position, case in enumerate(history.cases):
        if before is not None and random.random() < (0.8 if position in history.key else 0.4):
            cells.append(before[position])
        elif case.column.nullable and random.random() < 0.15:
            cells.append(None)
        else:
            cells.append(value_of(random, case))
    return tuple(cells)


def value_of(random: Random, case: TypeCase) -> Value:
    """One of the case's own values that CSV can hold, or another of its type."""
    own = case.column.family is not Family.TIMESTAMP and random.random() < 0.4  # theirs are of another clock
    made = None if own else _made(random, case)
    return made or random.choice([value for value in case.values if value.csv is not None])


def _made(random: Random, case: TypeCase) -> Value | None:
    column = case.column
    match column.family:
        case Family.INTEGER:
            low, high = (int(case.values[place].canal) for place in (0, -1))
            value = random.choice((random.randint(low, high), min(high, max(low, random.randint(-300, 300)))))
            return number(str(value), value)
        case Family.BIT:
            value = random.getrandbits(column.length or 1)
            return replace(number(str(value), value), example=f"b'{value:b}'")
        case Family.DECIMAL:
            return _decimal(random, case)
        case Family.FLOAT | Family.DOUBLE:
            return _real(random, single=column.family is Family.FLOAT)
        case Family.JSON:
            return random.choice(_JSON)
        case Family.TIMESTAMP:
            return _timestamp(random, case)
        case Family.BINARY:
            return binary(_bytes(random, case))
        case Family.TEXT if "CHARACTER SET" not in case.sql:
            longest = 20 if "(" in case.sql else 60
            made = "".join(random.choices(_PIECES, k=random.randint(0, 12)))[:longest]
            return text(made.rstrip(" ") if column.type == "CHAR" else made)
    return None


def _decimal(random: Random, case: TypeCase) -> Value:
    digits, scale = case.column.length or 0, case.column.scale or 0
    whole = random.randint(0, 10 ** random.randint(1, digits) - 1)
    plain = str(whole).rjust(scale + 1, "0")
    written = ("-" if whole and random.random() < 0.5 else "") + (
        f"{plain[:-scale]}.{plain[-scale:]}" if scale else plain
    )
    return number(written, written if case.duckdb_type == "VARCHAR" else Decimal(written))


def _real(random: Random, single: bool) -> Value | None:
    """Any bits. TiCDC writes the shortest text that reads back the same, in CSV with an exponent as Go does."""
    kind, size = ("<f", 4) if single else ("<d", 8)
    (value,) = struct.unpack(kind, random.randbytes(size))
    if value != value or abs(value) == float("inf") or value == 0:
        return None
    digits = (
        next(
            shown
            for places in range(17)
            if struct.pack(kind, float(shown := f"{value:.{places}e}")) == struct.pack(kind, value)
        )
        if abs(value) < (3.4e38 if single else 1.7e308)
        else None
    )
    if digits is None:
        return None
    mantissa, exponent = digits.split("e")
    plain = f"{Decimal(digits):f}"
    go = plain if -5 < int(exponent) < 6 else f"{mantissa}e{exponent[0]}{int(exponent[1:]):02}"
    return Value(repr(value) if "e" in repr(value) else f"{value!r}e0", plain, go, value, value)


def _timestamp(random: Random, case: TypeCase) -> Value:
    """Of a changefeed under UTC."""
    shown = datetime.fromtimestamp(random.randint(1, (1 << 31) - 1), UTC).strftime("%Y-%m-%d %H:%M:%S")
    if case.column.scale:
        shown += f".{random.randrange(10**case.column.scale):0{case.column.scale}}"
    return replace(text(shown), duckdb=None)


def _bytes(random: Random, case: TypeCase) -> bytes:
    made = bytes(random.choice((*_BYTES, random.randrange(256))) for _ in range(random.randint(0, 40)))
    return made.ljust(case.column.length or 255, b"\0") if case.column.type == "BINARY" else made


def lines_of(change: Change) -> Iterator[tuple[str, Row, Row | None]]:
    """What TiCDC writes of it: (INSERT, UPDATE or DELETE, row, old row)."""
    if change.before is None:
        assert change.after is not None
        yield "INSERT", change.after, None
    elif change.after is None:
        yield "DELETE", change.before, None
    else:
        yield "UPDATE", change.after, change.before
