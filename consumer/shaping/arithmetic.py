"""Numbers: exact ones in int64 and decimals, others in double. NULL where MySQL has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from consumer.shaping.operands import Cells, Kind, Operand, Read, Values

_MOST_DIGITS = 76
_MOST_INT = (1 << 63) - 1


def number_literal(text: str) -> Operand:
    """A number as it is written: with an exponent it is a double."""
    if "e" in text.lower():
        value = pa.scalar(float(text), pa.float64())
        return Operand(Kind.DOUBLE, lambda _: value, literal=float(text))
    if text.isdigit() and int(text) <= _MOST_INT:
        return exact(pa.scalar(int(text), pa.int64()), text)
    whole, _, fraction = text.partition(".")
    digits = max(len(whole.lstrip("0")) + len(fraction), 1)
    if digits > _MOST_DIGITS:
        raise ValueError(f"{text} has too many digits")
    kind = pa.decimal256(digits, len(fraction))
    return exact(pa.array([text if whole else f"0{text}"]).cast(kind)[0], text)


def exact(value: pa.Scalar, text: str) -> Operand:
    return Operand(Kind.NUMBER, lambda _: value, literal=text)


def numeric(operand: Operand) -> Operand | None:
    """It as a number, None for what MySQL would have to convert from text."""
    if operand.kind is Kind.TRUTH:
        return Operand(Kind.NUMBER, lambda cells: operand.read(cells).cast(pa.int64()))
    return operand if operand.kind in (Kind.NUMBER, Kind.DOUBLE) else None


def as_double(operand: Operand) -> Read:
    """A decimal becomes the double that is nearest to it, as its text would be read."""

    def read(cells: Cells) -> Values:
        values = operand.read(cells)
        written = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
        return written.cast(pa.float64())

    return read


def alike(left: Values, right: Values) -> tuple[Values, Values]:
    """Exact numbers in one type that holds both."""
    first, second = alike_all((left, right))
    return first, second


def computed(node: exp.Expr, left: Operand, right: Operand) -> Operand:
    """Raises ValueError for what has no exact kernel."""
    operation = _OPERATIONS[type(node)]
    if Kind.DOUBLE in (left.kind, right.kind):
        of_double = _OF_DOUBLES.get(type(node))
        if of_double is None:
            raise ValueError("DIV and % are for whole numbers here")
        first, second = as_double(left), as_double(right)
        return Operand(Kind.DOUBLE, lambda cells: of_double(first(cells), second(cells)))
    if isinstance(node, exp.Div):
        raise ValueError("/ of exact numbers rounds; multiply the other side instead, or use a number such as 2e0")

    unsigned = left.unsigned or right.unsigned

    def read(cells: Cells) -> Values:
        first, second = left.read(cells), right.read(cells)
        if isinstance(node, exp.IntDiv | exp.Mod) and not first.type == second.type == pa.int64():
            raise ValueError("DIV and % are for whole numbers here, without BIGINT UNSIGNED")
        if first.type != second.type or first.type != pa.int64():
            first, second = _minimal(first), _minimal(second)
        found = operation(first, second)
        return _above_zero(found) if unsigned and not _scale(found.type) else found

    return Operand(Kind.NUMBER, read, unsigned=unsigned)


def negated(operand: Operand) -> Operand:
    return Operand(operand.kind, lambda cells: pc.negate_checked(operand.read(cells)))


def absolute(operand: Operand) -> Operand:
    return Operand(operand.kind, lambda cells: pc.abs_checked(operand.read(cells)))


def alike_all(values: Sequence[Values]) -> list[Values]:
    """Exact numbers in one type that holds all."""
    if len({str(one.type) for one in values}) == 1:
        return list(values)
    wide = pa.decimal256(_MOST_DIGITS, max(_scale(one.type) for one in values))
    return [one.cast(wide) for one in values]


def _above_zero(values: Values) -> Values:
    """Whole numbers of which one is unsigned: below 0 they are out of range, as in MySQL."""
    below = pc.less(values, zero_of(values))
    if pc.any(pa.array([below.as_py()]) if isinstance(below, pa.Scalar) else below).as_py():
        raise ValueError("an unsigned number falls below 0")
    return values


def _minimal(values: Values) -> Values:
    """As decimals of 256 bits that have no more digits than they need, so that results have room."""
    digits = 19 if values.type == pa.int64() else values.type.precision
    return values.cast(pa.decimal256(digits, _scale(values.type)))


def zero_of(values: Values) -> Values:
    """0 in their type."""
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
