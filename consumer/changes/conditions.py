"""Compiles an expression over a table's columns to Arrow kernels on change tables, which compare as MySQL does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from consumer.changes.expressions import expression_columns, parse_expression
from consumer.changes.operands import (
    TEXT_TYPE,
    Collation,
    ConvertedColumns,
    Operand,
    OperandKind,
    Read,
    Values,
    absolute,
    all_in_common_type,
    arithmetic_operand,
    column_operand,
    double_reader,
    in_common_type,
    like,
    moment_literal,
    negated,
    number_literal,
    numeric,
    zero_of,
)
from consumer.codec.change_table import Flags, arrow_type
from consumer.errors import CannotBeExact
from consumer.model.columns import Column
from consumer.model.names import same_name
from consumer.model.times import Clock

_COMPARISONS: dict[type[exp.Expr], Callable[[Values, Values], Values]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_ORDERED: tuple[type[exp.Expr], ...] = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_LOGIC: dict[type[exp.Expr], Callable[[Values, Values], Values]] = {
    exp.And: pc.and_kleene,
    exp.Or: pc.or_kleene,
    exp.Xor: pc.xor,
}


@dataclass(frozen=True)
class Condition:
    """A compiled expression. No message or representation of it ever shows a value of a row."""

    text: str
    read: Read
    columns: tuple[int, ...]
    """The positions of the columns that it names."""

    def holds(self, table: pa.Table) -> Flags:
        """Returns a flag for each row: whether the condition is TRUE of it. Raises CannotBeExact."""
        try:
            result = self.read(ConvertedColumns(table))
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise CannotBeExact(
                f"{self.text!r} cannot be computed of a row: {_kind_of(error)}",
                hint="change the expression so that every value of its columns can be computed with; if the table has"
                " rows already, fill it again under another --name",
            ) from None
        if isinstance(result, pa.Scalar):
            return pa.repeat(result, table.num_rows).fill_null(False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
        flags: Flags = pc.fill_null(result, False).to_numpy(zero_copy_only=False)
        return flags


def _kind_of(error: Exception) -> str:
    if not isinstance(error, pa.ArrowException):
        return str(error)
    too_large = "overflow" in str(error) or "fit" in str(error)
    return "a number is too large" if too_large else "a value has another type"


def compile_condition(
    text: str, columns: Sequence[Column], collation: str = "", clock: Clock | None = None
) -> Condition:
    """Compiles `text` for the columns of a change table, which are given in their order. Raises ValueError that names
    the expression and the reason why it cannot be computed."""
    compiler = _Compiler(columns, collation, clock or Clock())
    tree, column_names = parse_expression(text), expression_columns(text)
    positions = tuple(n for n, column in enumerate(columns) if same_name(column.name) in column_names)
    try:
        condition = Condition(text, truth(compiler.operand(tree)), positions)
        condition.read(ConvertedColumns(_no_rows(columns)))
    except (ValueError, pa.ArrowException) as error:
        raise ValueError(f"{text!r}: {error}") from None
    return condition


def _no_rows(columns: Sequence[Column]) -> pa.Table:
    return pa.schema([(f"c{n}", arrow_type(column)) for n, column in enumerate(columns)]).empty_table()


class _Compiler:
    def __init__(self, columns: Sequence[Column], collation: str, clock: Clock) -> None:
        self._columns = {same_name(column.name): (column, n) for n, column in enumerate(columns)}
        self._collation, self._clock = collation, clock

    def operand(self, node: exp.Expr) -> Operand:
        match node:
            case exp.Paren():
                return self.operand(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                return _text(node.this) if node.is_string else number_literal(node.this)
            case exp.HexString():
                return Operand(OperandKind.BYTES, _always(pa.scalar(bytes.fromhex(node.this), pa.large_binary())))
            case exp.Null():
                return nothing()
            case exp.Boolean():
                return Operand(OperandKind.TRUTH, _always(pa.scalar(bool(node.this))))
            case exp.Cast():
                return self._moment(node)
            case exp.Collate():
                return self._collated(node)
            case exp.Neg():
                return negated(self._number(node.this))
            case exp.Abs():
                return absolute(self._number(node.this))
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
                return arithmetic_operand(node, self._number(node.this), self._number(node.expression))
            case exp.Length():
                return self._length(node)
            case exp.Coalesce():
                return self._coalesced(node)
            case _:
                return Operand(OperandKind.TRUTH, self._condition(node))

    def _condition(self, node: exp.Expr) -> Read:
        match node:
            case exp.And() | exp.Or() | exp.Xor():
                return self._logic(node)
            case exp.Not():
                return _applied(pc.invert, truth(self.operand(node.this)))
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ():
                left, right = self.operand(node.this), self.operand(node.expression)
                return null_safe(left, right, comparable(left, right, self._collation, self._clock))
            case exp.Between():
                low = self._compared(exp.GTE, node.this, node.args["low"])
                high = self._compared(exp.LTE, node.this, node.args["high"])
                return lambda cells: pc.and_kleene(low(cells), high(cells))
            case exp.In():
                return self._in(node)
            case exp.Escape():
                escape = node.expression
                if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.this) == 1):
                    raise ValueError("ESCAPE needs one character")
                return self._like(node.this, escape.this)
            case exp.Like():
                return self._like(node, "")
        if type(node) in _COMPARISONS:
            return self._compared(type(node), node.this, node.expression)
        raise ValueError(f"'{node.sql(dialect='mysql')}' does not stand where it can be computed")

    def _column(self, node: exp.Column) -> Operand:
        column_and_position = self._columns.get(same_name(node.name))
        if column_and_position is None:
            raise ValueError(f"the rows have no column {node.name}")
        return column_operand(*column_and_position)

    def _number(self, node: exp.Expr) -> Operand:
        operand = self.operand(node)
        number = numeric(operand)
        if number is None:
            raise ValueError(f"'{node.sql(dialect='mysql')}' is {operand.kind}, and not a number to compute with")
        return number

    def _moment(self, node: exp.Cast) -> Operand:
        """Returns the literal of ``DATE '2024-12-31'`` as a text. The type of what it is compared with decides how it
        is read."""
        if not (isinstance(node.this, exp.Literal) and node.this.is_string and node.to.this in _MOMENTS):
            raise ValueError("CAST is not supported here")
        return _text(node.this.this)

    def _collated(self, node: exp.Collate) -> Operand:
        operand = self.operand(node.this)
        if operand.kind not in (OperandKind.TEXT, OperandKind.LABEL):
            raise ValueError("COLLATE is for texts")
        return replace(operand, collation=same_name(node.expression.name))

    def _length(self, node: exp.Length) -> Operand:
        operand = self.operand(node.this)
        if operand.kind not in (OperandKind.TEXT, OperandKind.LABEL):
            raise ValueError("CHAR_LENGTH is for texts")
        return Operand(OperandKind.NUMBER, lambda cells: pc.utf8_length(operand.read(cells)).cast(pa.int64()))

    def _coalesced(self, node: exp.Coalesce) -> Operand:
        parts = [self.operand(part) for part in (node.this, *node.expressions)]
        kinds = {part.kind for part in parts}
        if kinds not in ({OperandKind.NUMBER}, {OperandKind.TEXT}, {OperandKind.DOUBLE}):
            raise ValueError("COALESCE and IFNULL take values of one type, numbers or texts")
        collation = next((part.collation for part in parts if part.collation), "")

        def read(cells: ConvertedColumns) -> Values:
            values = [part.read(cells) for part in parts]
            if parts[0].kind is OperandKind.NUMBER:
                values = all_in_common_type(values)
            return pc.coalesce(*values)

        column_name = next((part.name for part in parts if part.name), "")
        return Operand(parts[0].kind, read, collation=collation, name=column_name)

    def _logic(self, node: exp.Expr) -> Read:
        kernel = _LOGIC[type(node)]
        left, right = truth(self.operand(node.this)), truth(self.operand(node.expression))
        return lambda cells: kernel(left(cells), right(cells))

    def _is(self, node: exp.Is) -> Read:
        wanted = node.expression
        if isinstance(wanted, exp.Null):
            return _applied(pc.is_null, self.operand(node.this).read)
        if not isinstance(wanted, exp.Boolean):
            raise ValueError("IS is followed by NULL, TRUE or FALSE")
        condition, is_true = truth(self.operand(node.this)), bool(wanted.this)

        def read(cells: ConvertedColumns) -> Values:
            truths = condition(cells)
            return pc.fill_null(truths if is_true else pc.invert(truths), pa.scalar(False))

        return read

    def _compared(self, kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> Read:
        first, second = self.operand(left), self.operand(right)
        if kind in _ORDERED and OperandKind.LABEL in (first.kind, second.kind):
            raise ValueError("labels of an ENUM are compared with = and <> only")
        return compared(_COMPARISONS[kind], comparable(first, second, self._collation, self._clock))

    def _in(self, node: exp.In) -> Read:
        comparisons = [self._compared(exp.EQ, node.this, value) for value in node.expressions]

        def read(cells: ConvertedColumns) -> Values:
            return reduce(pc.or_kleene, (comparison(cells) for comparison in comparisons))

        return read

    def _like(self, node: exp.Expr, escape: str) -> Read:
        if not isinstance(node, exp.Like):
            raise ValueError("ESCAPE is for LIKE")
        operand, pattern = self.operand(node.this), self.operand(node.expression)
        is_pattern = pattern.kind is OperandKind.TEXT and pattern.literal is not None
        if operand.kind not in (OperandKind.TEXT, OperandKind.LABEL) or not is_pattern:
            raise ValueError("LIKE compares a text with a pattern that is written there")
        rule, text = collation_of((operand, pattern), self._collation), str(pattern.literal)
        what = f"column {operand.name}" if operand.name else "a text"
        negate = bool(node.args.get("negate"))

        def read(cells: ConvertedColumns) -> Values:
            matches = like(operand.read(cells), text, escape, rule, what)
            return pc.invert(matches) if negate else matches

        return read


_MOMENTS = (exp.DType.DATE, exp.DType.DATETIME, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ)


def _text(text: str) -> Operand:
    return Operand(OperandKind.TEXT, _always(pa.scalar(text, TEXT_TYPE)), literal=text)


def _always(value: pa.Scalar) -> Read:
    return lambda _: value


def _applied(kernel: Callable[[Values], Values], read: Read) -> Read:
    return lambda cells: kernel(read(cells))


Pair = tuple[Values, Values]
PairRead = Callable[[ConvertedColumns], Pair]
_UNKNOWN = pa.scalar(None, pa.bool_())


def comparable(left: Operand, right: Operand, collation: str, clock: Clock) -> PairRead | None:
    """Returns a function that reads both operands in a form whose values compare as the operands do, or None if one is
    NULL. Raises ValueError."""
    if OperandKind.NOTHING in (left.kind, right.kind):
        return None
    if OperandKind.MOMENT in (left.kind, right.kind):
        return _moments(left, right, clock)
    kinds = {left.kind, right.kind}
    if OperandKind.OPAQUE in kinds:
        column_name = next(o.name for o in (left, right) if o.kind is OperandKind.OPAQUE)
        raise ValueError(f"column {column_name} is of a type that only IS NULL can ask about")
    if kinds <= {OperandKind.TEXT, OperandKind.LABEL}:
        return _texts(left, right, collation)
    if kinds <= {OperandKind.TEXT, OperandKind.BYTES}:
        first, second = _bytes(left), _bytes(right)
        return lambda cells: (first(cells), second(cells))
    numbers = numeric(left), numeric(right)
    if numbers[0] is None or numbers[1] is None:
        raise ValueError(f"{left.kind} is not compared with {right.kind}; write both in the same way")
    return _numbers(numbers[0], numbers[1])


def _numbers(left: Operand, right: Operand) -> PairRead:
    if OperandKind.DOUBLE in (left.kind, right.kind):
        first, second = double_reader(left), double_reader(right)
        return lambda cells: (first(cells), second(cells))
    return lambda cells: in_common_type(left.read(cells), right.read(cells))


def _moments(left: Operand, right: Operand, clock: Clock) -> PairRead:
    if left.kind is right.kind:
        if left.utc != right.utc:
            raise ValueError("a TIMESTAMP is compared with times by the changefeed's clock, so not with a DATETIME")
        return lambda cells: (left.read(cells), right.read(cells))
    moment, other = (left, right) if left.kind is OperandKind.MOMENT else (right, left)
    if other.kind is not OperandKind.TEXT or not isinstance(other.literal, str):
        raise ValueError(f"{moment.kind} is compared with a text such as '2024-12-31 23:59:59' only")
    value = moment_literal(other.literal, moment.utc, clock)
    if moment is left:
        return lambda cells: (left.read(cells), value)
    return lambda cells: (value, right.read(cells))


def _texts(left: Operand, right: Operand, collation: str) -> PairRead:
    rule = collation_of((left, right), collation)
    what = _named(left, right)
    return lambda cells: (rule.key(left.read(cells), what), rule.key(right.read(cells), what))


def collation_of(operands: Sequence[Operand], collation: str) -> Collation:
    """Returns the collation that a COLLATE names, else `collation`. Raises ValueError."""
    names = {operand.collation for operand in operands if operand.collation}
    if len(names) > 1:
        raise ValueError("it compares texts by two collations")
    if not (name := next(iter(names), collation)):
        raise ValueError(
            f"nothing says by which collation {_named(*operands)} is compared; write it after the text, as"
            " 'a' COLLATE utf8mb4_bin, the default of TiDB; a rule of [[consumer.rows]] can set collation instead"
        )
    return Collation.of(name)


def _named(*operands: Operand) -> str:
    return next((f"column {operand.name}" for operand in operands if operand.name), "a text")


def _bytes(operand: Operand) -> Read:
    return lambda cells: operand.read(cells).cast(pa.large_binary())


def compared(kernel: Callable[[Values, Values], Values], pair: PairRead | None) -> Read:
    return (lambda _: _UNKNOWN) if pair is None else (lambda cells: kernel(*pair(cells)))


def null_safe(left: Operand, right: Operand, pair: PairRead | None) -> Read:
    """Returns the reader of ``<=>``."""

    def read(cells: ConvertedColumns) -> Values:
        first, second = left.read(cells), right.read(cells)
        both = pc.and_(pc.is_null(first), pc.is_null(second))
        same = _UNKNOWN if pair is None else pc.equal(*pair(cells))
        return pc.or_(both, pc.fill_null(same, pa.scalar(False)))

    return read


def truth(operand: Operand) -> Read:
    """Returns the reader of the operand as a condition: a number is TRUE where it is not 0. Raises ValueError."""
    if operand.kind in (OperandKind.TRUTH, OperandKind.NOTHING):
        return operand.read if operand.kind is OperandKind.TRUTH else lambda _: _UNKNOWN
    if operand.kind not in (OperandKind.NUMBER, OperandKind.DOUBLE):
        raise ValueError(f"{operand.kind} is no condition")

    def read(cells: ConvertedColumns) -> Values:
        values = operand.read(cells)
        return pc.not_equal(values, zero_of(values))

    return read


def nothing() -> Operand:
    return Operand(OperandKind.NOTHING, lambda _: pa.scalar(None, TEXT_TYPE))
