"""Typed operands: columns of a change table, whose values are texts, and literals, as Arrow values to compute with."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.values import to_utc
from consumer.model.columns import Column, Family
from consumer.model.times import Clock

Values = Any
"""A pyarrow.Array, or a pyarrow.Scalar for the same value in every row."""
TEXT_TYPE = pa.large_string()


class Cells:
    """The columns of a change table, each converted once."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._converted: dict[str, pa.Array] = {}

    def column(self, name: str, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
        if name not in self._converted:
            values = self._table.column(name).combine_chunks()
            self._converted[name] = convert(values)
        return self._converted[name]


Read = Callable[[Cells], Values]


class Kind(enum.StrEnum):
    """What is computed with."""

    TRUTH = "a condition"
    NUMBER = "an exact number"
    DOUBLE = "a floating-point number"
    TEXT = "a text"
    LABEL = "a label of an ENUM"
    BYTES = "a binary value"
    MOMENT = "a date or time"
    OPAQUE = "a value of a type that only IS NULL can ask about"
    NOTHING = "NULL"


@dataclass(frozen=True, slots=True)
class Operand:
    """`read` gives its values for a change table: bool, int64 or decimal, double, text, binary; moments are texts
    ``YYYY-MM-DD HH:MM:SS.ffffff``, of TIMESTAMPs in UTC. `literal` is a literal's value; `collation` what was said by
    COLLATE. `utc`: it is a TIMESTAMP; `unsigned`: a whole number that MySQL never lets below 0; `name`: a column's."""

    kind: Kind
    read: Read
    literal: object = None
    collation: str = ""
    utc: bool = False
    unsigned: bool = False
    name: str = ""


def column_operand(column: Column, position: int) -> Operand:
    """The operand of a column whose texts are ``c{position}``."""
    kind, convert = _of_family(column)
    name = f"c{position}"
    return Operand(
        kind,
        lambda cells: cells.column(name, convert),
        utc=column.family is Family.TIMESTAMP,
        unsigned=column.family is Family.BIT or (column.unsigned and column.family is Family.INTEGER),
        name=column.name,
    )


def _of_family(column: Column) -> tuple[Kind, Callable[[pa.Array], pa.Array]]:
    match column.family:
        case Family.INTEGER if not (column.unsigned and column.type == "BIGINT"):
            return Kind.NUMBER, lambda text: text.cast(pa.int64())
        case Family.INTEGER | Family.BIT:
            return Kind.NUMBER, lambda text: text.cast(pa.decimal128(20, 0))
        case Family.DECIMAL:
            digits, scale = column.digits
            exact = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
            return Kind.NUMBER, lambda text: text.cast(exact)
        case Family.FLOAT:
            return Kind.DOUBLE, lambda text: text.cast(pa.float32()).cast(pa.float64())
        case Family.DOUBLE:
            return Kind.DOUBLE, lambda text: text.cast(pa.float64())
        case Family.TEXT:
            return Kind.TEXT, lambda text: text
        case Family.BINARY:
            return Kind.BYTES, lambda value: value
        case Family.ENUM if column.elements:
            labels = pa.array(["", *column.elements], TEXT_TYPE)
            return Kind.LABEL, lambda text: labels.take(text.cast(pa.int32()))
        case Family.DATE | Family.DATETIME | Family.TIMESTAMP:
            return Kind.MOMENT, to_moment
        case _:
            return Kind.OPAQUE, lambda value: value


_DATE, _SECONDS, _MICROSECONDS = 10, 19, 26


def to_moment(text: pa.Array) -> pa.Array:
    """Dates, and times with any number of digits of a second, in the one form that compares as text."""
    lengths = pc.binary_length(text)
    day = pc.binary_join_element_wise(text, pa.scalar(" 00:00:00.000000", TEXT_TYPE), pa.scalar("", TEXT_TYPE))
    whole = pc.binary_join_element_wise(text, pa.scalar(".000000", TEXT_TYPE), pa.scalar("", TEXT_TYPE))
    part = pc.utf8_rpad(text, _MICROSECONDS, "0")
    return pc.if_else(pc.equal(lengths, _DATE), day, pc.if_else(pc.equal(lengths, _SECONDS), whole, part))


_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")


def moment_of(text: str, utc: bool, clock: Clock) -> pa.Scalar:
    """A literal as a moment; `utc`: to compare with TIMESTAMPs, by the changefeed's clock. Raises ValueError."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a date or time in the form 2024-12-31 or 2024-12-31 23:59:59")
    whole = f"{text[:10]} {text[11:19] or '00:00:00'}"
    if not whole.startswith("0000-00-00"):
        try:
            datetime.fromisoformat(whole)
        except ValueError:
            raise ValueError(f"there is no time '{text}'") from None
    fixed = f"{whole}.{(found[7] or '').ljust(6, '0')}"
    return to_utc(pa.array([fixed], TEXT_TYPE), clock)[0] if utc else pa.scalar(fixed, TEXT_TYPE)
