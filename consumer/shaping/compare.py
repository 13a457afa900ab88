"""Comparisons of two operands, as MySQL's: NULL with NULL is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from consumer.model.times import Clock
from consumer.shaping.arithmetic import alike, as_double, numeric, zero_of
from consumer.shaping.collations import Collation
from consumer.shaping.operands import TEXT_TYPE, Cells, Kind, Operand, Read, Values, moment_of

Pair = tuple[Values, Values]
PairRead = Callable[[Cells], Pair]
_UNKNOWN = pa.scalar(None, pa.bool_())


def comparable(left: Operand, right: Operand, collation: str, clock: Clock) -> PairRead | None:
    """Reads both in a form whose values compare as the operands do; None: one is NULL. Raises ValueError."""
    if Kind.NOTHING in (left.kind, right.kind):
        return None
    if Kind.MOMENT in (left.kind, right.kind):
        return _moments(left, right, clock)
    kinds = {left.kind, right.kind}
    if Kind.OPAQUE in kinds:
        named = next(o.name for o in (left, right) if o.kind is Kind.OPAQUE)
        raise ValueError(f"column {named} is of a type that only IS NULL can ask about")
    if kinds <= {Kind.TEXT, Kind.LABEL}:
        return _texts(left, right, collation)
    if kinds <= {Kind.TEXT, Kind.BYTES}:
        first, second = _bytes(left), _bytes(right)
        return lambda cells: (first(cells), second(cells))
    numbers = numeric(left), numeric(right)
    if numbers[0] is None or numbers[1] is None:
        raise ValueError(f"{left.kind} is not compared with {right.kind}; write both in the same way")
    return _numbers(numbers[0], numbers[1])


def _numbers(left: Operand, right: Operand) -> PairRead:
    if Kind.DOUBLE in (left.kind, right.kind):
        first, second = as_double(left), as_double(right)
        return lambda cells: (first(cells), second(cells))
    return lambda cells: alike(left.read(cells), right.read(cells))


def _moments(left: Operand, right: Operand, clock: Clock) -> PairRead:
    if left.kind is right.kind:
        if left.utc != right.utc:
            raise ValueError("a TIMESTAMP is compared with times by the changefeed's clock, so not with a DATETIME")
        return lambda cells: (left.read(cells), right.read(cells))
    moment, other = (left, right) if left.kind is Kind.MOMENT else (right, left)
    if other.kind is not Kind.TEXT or not isinstance(other.literal, str):
        raise ValueError(f"{moment.kind} is compared with a text such as '2024-12-31 23:59:59' only")
    value = moment_of(other.literal, moment.utc, clock)
    if moment is left:
        return lambda cells: (left.read(cells), value)
    return lambda cells: (value, right.read(cells))


def _texts(left: Operand, right: Operand, collation: str) -> PairRead:
    way = collation_of((left, right), collation)
    what = _named(left, right)
    return lambda cells: (way.key(left.read(cells), what), way.key(right.read(cells), what))


def collation_of(operands: Sequence[Operand], collation: str) -> Collation:
    """The one that COLLATE says, else `collation`. Raises ValueError."""
    said = {operand.collation for operand in operands if operand.collation}
    if len(said) > 1:
        raise ValueError("it compares texts by two collations")
    if not (name := next(iter(said), collation)):
        raise ValueError(
            f"nothing says by which collation {_named(*operands)} is compared; set collation in the rule, for example"
            ' collation = "utf8mb4_bin", which is the default of TiDB, or write COLLATE behind the column'
        )
    return Collation.of(name)


def _named(*operands: Operand) -> str:
    return next((f"column {operand.name}" for operand in operands if operand.name), "a text")


def _bytes(operand: Operand) -> Read:
    return lambda cells: operand.read(cells).cast(pa.large_binary())


def compared(kernel: Callable[[Values, Values], Values], pair: PairRead | None) -> Read:
    return (lambda _: _UNKNOWN) if pair is None else (lambda cells: kernel(*pair(cells)))


def null_safe(left: Operand, right: Operand, pair: PairRead | None) -> Read:
    """``<=>``"""

    def read(cells: Cells) -> Values:
        first, second = left.read(cells), right.read(cells)
        both = pc.and_(pc.is_null(first), pc.is_null(second))
        same = _UNKNOWN if pair is None else pc.equal(*pair(cells))
        return pc.or_(both, pc.fill_null(same, pa.scalar(False)))

    return read


def truth(operand: Operand) -> Read:
    """It as a condition: a number is TRUE where it is not 0. Raises ValueError."""
    if operand.kind in (Kind.TRUTH, Kind.NOTHING):
        return operand.read if operand.kind is Kind.TRUTH else lambda _: _UNKNOWN
    if operand.kind not in (Kind.NUMBER, Kind.DOUBLE):
        raise ValueError(f"{operand.kind} is no condition")

    def read(cells: Cells) -> Values:
        values = operand.read(cells)
        return pc.not_equal(values, zero_of(values))

    return read


def nothing() -> Operand:
    return Operand(Kind.NOTHING, lambda _: pa.scalar(None, TEXT_TYPE))
