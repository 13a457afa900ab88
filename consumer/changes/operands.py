"""The typed operands of expressions, as Arrow values: literals, and columns of a change table, whose values are texts.

Exact numbers are int64 and decimals, others are doubles. A value is NULL where it is NULL in MySQL. Texts are compared
by collations that can be followed exactly.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from consumer.codec.values import to_utc
from consumer.errors import CannotBeExact
from consumer.model.columns import Column, Family
from consumer.model.names import same_name
from consumer.model.times import Clock

Values = Any
"""A pyarrow.Array, or a pyarrow.Scalar for the same value in every row."""
TEXT_TYPE = pa.large_string()


class ConvertedColumns:
    """The columns of a change table, each converted once."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._converted: dict[str, pa.Array] = {}

    def column(self, name: str, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
        if name not in self._converted:
            values = self._table.column(name).combine_chunks()
            self._converted[name] = convert(values)
        return self._converted[name]


Read = Callable[[ConvertedColumns], Values]


class OperandKind(enum.StrEnum):
    """The type of an operand's values."""

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
    """An operand: `read` returns its values for a change table.

    The values are bool, int64 or decimal, double, text or binary. Moments are texts ``YYYY-MM-DD HH:MM:SS.ffffff``,
    those of TIMESTAMPs in UTC. `literal` is the value of a literal, `collation` the one that COLLATE names. `utc`: it
    is a TIMESTAMP. `unsigned`: it is a whole number that MySQL never lets fall below 0. `name` is the name of its
    column.
    """

    kind: OperandKind
    read: Read
    literal: object = None
    collation: str = ""
    utc: bool = False
    unsigned: bool = False
    name: str = ""


def column_operand(column: Column, position: int) -> Operand:
    """Returns the operand of a column whose texts are in ``c{position}``."""
    kind, convert = _of_family(column)
    name = f"c{position}"
    return Operand(
        kind,
        lambda cells: cells.column(name, convert),
        utc=column.family is Family.TIMESTAMP,
        unsigned=column.family is Family.BIT or (column.unsigned and column.family is Family.INTEGER),
        name=column.name,
    )


def _of_family(column: Column) -> tuple[OperandKind, Callable[[pa.Array], pa.Array]]:
    match column.family:
        case Family.INTEGER if not (column.unsigned and column.type == "BIGINT"):
            return OperandKind.NUMBER, lambda text: text.cast(pa.int64())
        case Family.INTEGER | Family.BIT:
            return OperandKind.NUMBER, lambda text: text.cast(pa.decimal128(20, 0))
        case Family.DECIMAL:
            digits, scale = column.digits
            exact = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
            return OperandKind.NUMBER, lambda text: text.cast(exact)
        case Family.FLOAT:
            return OperandKind.DOUBLE, lambda text: text.cast(pa.float32()).cast(pa.float64())
        case Family.DOUBLE:
            return OperandKind.DOUBLE, lambda text: text.cast(pa.float64())
        case Family.TEXT:
            return OperandKind.TEXT, lambda text: text
        case Family.BINARY:
            return OperandKind.BYTES, lambda value: value
        case Family.ENUM if column.elements:
            labels = pa.array(["", *column.elements], TEXT_TYPE)
            return OperandKind.LABEL, lambda text: labels.take(text.cast(pa.int32()))
        case Family.DATE | Family.DATETIME | Family.TIMESTAMP:
            return OperandKind.MOMENT, to_moment
        case _:
            return OperandKind.OPAQUE, lambda value: value


_DATE, _SECONDS, _MICROSECONDS = 10, 19, 26


def to_moment(text: pa.Array) -> pa.Array:
    """Returns dates, and times with any number of digits of a second, in the one form that compares as text."""
    lengths = pc.binary_length(text)
    day = pc.binary_join_element_wise(text, pa.scalar(" 00:00:00.000000", TEXT_TYPE), pa.scalar("", TEXT_TYPE))
    whole_second = pc.binary_join_element_wise(text, pa.scalar(".000000", TEXT_TYPE), pa.scalar("", TEXT_TYPE))
    padded = pc.utf8_rpad(text, _MICROSECONDS, "0")
    return pc.if_else(pc.equal(lengths, _DATE), day, pc.if_else(pc.equal(lengths, _SECONDS), whole_second, padded))


_MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?")


def moment_literal(text: str, utc: bool, clock: Clock) -> pa.Scalar:
    """Returns a literal as a moment. With `utc` it is to be compared with TIMESTAMPs, so it is read by the changefeed's
    clock. Raises ValueError."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a date or time in the form 2024-12-31 or 2024-12-31 23:59:59")
    seconds = f"{text[:10]} {text[11:19] or '00:00:00'}"
    if not seconds.startswith("0000-00-00"):
        try:
            datetime.fromisoformat(seconds)
        except ValueError:
            raise ValueError(f"there is no time '{text}'") from None
    fixed = f"{seconds}.{(match[7] or '').ljust(6, '0')}"
    return to_utc(pa.array([fixed], TEXT_TYPE), clock)[0] if utc else pa.scalar(fixed, TEXT_TYPE)


_MOST_DIGITS = 76
_MOST_INT = (1 << 63) - 1


def number_literal(text: str) -> Operand:
    """Returns the operand of a number as it is written. With an exponent it is a double."""
    if "e" in text.lower():
        value = pa.scalar(float(text), pa.float64())
        return Operand(OperandKind.DOUBLE, lambda _: value, literal=float(text))
    if text.isdigit() and int(text) <= _MOST_INT:
        return exact_operand(pa.scalar(int(text), pa.int64()), text)
    integer_digits, _, fraction = text.partition(".")
    digits = max(len(integer_digits.lstrip("0")) + len(fraction), 1)
    if digits > _MOST_DIGITS:
        raise ValueError(f"{text} has too many digits")
    kind = pa.decimal256(digits, len(fraction))
    return exact_operand(pa.array([text if integer_digits else f"0{text}"]).cast(kind)[0], text)


def exact_operand(value: pa.Scalar, text: str) -> Operand:
    return Operand(OperandKind.NUMBER, lambda _: value, literal=text)


def numeric(operand: Operand) -> Operand | None:
    """Returns the operand as a number, or None for what MySQL would have to convert from text."""
    if operand.kind is OperandKind.TRUTH:
        return Operand(OperandKind.NUMBER, lambda cells: operand.read(cells).cast(pa.int64()))
    return operand if operand.kind in (OperandKind.NUMBER, OperandKind.DOUBLE) else None


def double_reader(operand: Operand) -> Read:
    """Returns the reader of the operand's doubles. A decimal becomes the double that is nearest to it, as its text
    would be read."""

    def read(cells: ConvertedColumns) -> Values:
        values = operand.read(cells)
        texts = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
        return texts.cast(pa.float64())

    return read


def in_common_type(left: Values, right: Values) -> tuple[Values, Values]:
    """Returns exact numbers in one type that holds both."""
    first, second = all_in_common_type((left, right))
    return first, second


def arithmetic_operand(node: exp.Expr, left: Operand, right: Operand) -> Operand:
    """Returns the operand of an arithmetic operation. Raises ValueError for an operation that has no exact kernel."""
    operation = _OPERATIONS[type(node)]
    if OperandKind.DOUBLE in (left.kind, right.kind):
        of_double = _OF_DOUBLES.get(type(node))
        if of_double is None:
            raise ValueError("DIV and % are for whole numbers here")
        first, second = double_reader(left), double_reader(right)
        return Operand(OperandKind.DOUBLE, lambda cells: of_double(first(cells), second(cells)))
    if isinstance(node, exp.Div):
        raise ValueError("/ of exact numbers rounds; multiply the other side instead, or use a number such as 2e0")

    unsigned = left.unsigned or right.unsigned

    def read(cells: ConvertedColumns) -> Values:
        first, second = left.read(cells), right.read(cells)
        if isinstance(node, exp.IntDiv | exp.Mod) and not first.type == second.type == pa.int64():
            raise ValueError("DIV and % are for whole numbers here, without BIGINT UNSIGNED")
        if first.type != second.type or first.type != pa.int64():
            first, second = _minimal(first), _minimal(second)
        result = operation(first, second)
        return _above_zero(result) if unsigned and not _scale(result.type) else result

    return Operand(OperandKind.NUMBER, read, unsigned=unsigned)


def negated(operand: Operand) -> Operand:
    return Operand(operand.kind, lambda cells: pc.negate_checked(operand.read(cells)))


def absolute(operand: Operand) -> Operand:
    return Operand(operand.kind, lambda cells: pc.abs_checked(operand.read(cells)))


def all_in_common_type(values: Sequence[Values]) -> list[Values]:
    """Returns exact numbers in one type that holds all of them."""
    if len({str(value.type) for value in values}) == 1:
        return list(values)
    wide = pa.decimal256(_MOST_DIGITS, max(_scale(value.type) for value in values))
    return [value.cast(wide) for value in values]


def _above_zero(values: Values) -> Values:
    """Returns `values`, whole numbers of which one operand is unsigned. Raises ValueError where one is below 0, which
    is out of range in MySQL, too."""
    below = pc.less(values, zero_of(values))
    if pc.any(pa.array([below.as_py()]) if isinstance(below, pa.Scalar) else below).as_py():
        raise ValueError("an unsigned number falls below 0")
    return values


def _minimal(values: Values) -> Values:
    """Returns the values as decimals of 256 bits that have no more digits than they need, so that results have room."""
    digits = 19 if values.type == pa.int64() else values.type.precision
    return values.cast(pa.decimal256(digits, _scale(values.type)))


def zero_of(values: Values) -> Values:
    """Returns 0 in the type of `values`."""
    return pa.array(["0"], pa.string()).cast(values.type)[0]


def _scale(kind: pa.DataType) -> int:
    return kind.scale if pa.types.is_decimal(kind) else 0


def _without_zero(values: Values) -> Values:
    zero = pc.equal(values, zero_of(values))
    return pc.if_else(zero, pa.scalar(None, values.type), values)


def _quotient(left: Values, right: Values) -> Values:
    return pc.divide_checked(left, _without_zero(right))


def _remainder(left: Values, right: Values) -> Values:
    divisor = _without_zero(right)
    return pc.subtract_checked(left, pc.multiply_checked(pc.divide_checked(left, divisor), divisor))


_OPERATIONS: dict[type[exp.Expr], Callable[[Values, Values], Values]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
    exp.Div: _quotient,
    exp.IntDiv: _quotient,
    exp.Mod: _remainder,
}
_OF_DOUBLES: dict[type[exp.Expr], Callable[[Values, Values], Values]] = {
    exp.Add: pc.add,
    exp.Sub: pc.subtract,
    exp.Mul: pc.multiply,
    exp.Div: _quotient,
}


_PADDED = ("utf8mb4_bin", "utf8mb3_bin", "utf8_bin", "ascii_bin")
_BYTES = ("binary", "utf8mb4_0900_bin")
_GENERAL = ("utf8mb4_general_ci", "utf8mb3_general_ci", "utf8_general_ci")
COLLATIONS = (*_PADDED, *_BYTES, *_GENERAL)
"""The collations by which each comparison is exact; by a general_ci only if the texts are ASCII."""


@dataclass(frozen=True, slots=True)
class Collation:
    """A rule of comparison. `padded`: blanks at the end do not count. `folded`: upper and lower case are equal."""

    name: str
    padded: bool
    folded: bool

    @staticmethod
    def of(name: str) -> Collation:
        """Returns the collation of that name. Raises ValueError for one that cannot be followed exactly."""
        lowered = same_name(name)
        if lowered not in COLLATIONS:
            raise ValueError(f"the collation {name} cannot be followed exactly; known are {', '.join(COLLATIONS)}")
        return Collation(lowered, lowered not in _BYTES, lowered in _GENERAL)

    def key(self, values: Values, what: str) -> Values:
        """Returns values that compare by bytes as the texts compare by this collation. Raises CannotBeExact, which
        shows no value."""
        trimmed = pc.utf8_rtrim(values, " ") if self.padded else values
        return pc.ascii_upper(self.checked(trimmed, what)) if self.folded else trimmed

    def checked(self, values: Values, what: str) -> Values:
        """Returns `values`. Raises CannotBeExact where case does not count and one of them is not ASCII."""
        if (
            self.folded and pc.any(pc.invert(pc.string_is_ascii(values))).as_py()
            if _many(values)
            else (self.folded and values.is_valid and not str(values).isascii())
        ):
            raise CannotBeExact(
                f"{what} has a text with other characters than ASCII's, whose case the collation {self.name} ignores"
                " in ways that are not followed here",
                hint="compare by a collation that ends in _bin: say it in the rule, or after the text with COLLATE; if"
                " the table has rows already, fill it again under another --name",
            )
        return values


def _many(values: Values) -> bool:
    return isinstance(values, pa.Array | pa.ChunkedArray)


def like(values: Values, pattern: str, escape: str, collation: Collation, what: str) -> Values:
    """Returns the result of LIKE, in which blanks at the end count. Raises ValueError for a pattern that ends in its
    escape character."""
    characters, arrow_pattern = iter(pattern), ""
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            if following is None:
                raise ValueError(f"the pattern '{pattern}' ends with its escape character")
            arrow_pattern += f"\\{following}" if following in "%_\\" else following
        else:
            arrow_pattern += "\\\\" if character == "\\" else character
    if collation.folded and not pattern.isascii():
        raise ValueError(f"the pattern '{pattern}' needs a collation that ends in _bin")
    checked = collation.checked(values, what)
    return pc.match_like(checked.cast(TEXT_TYPE), arrow_pattern, ignore_case=collation.folded)
