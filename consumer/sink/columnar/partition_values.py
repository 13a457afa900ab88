"""Partition expressions as SQL of DuckDB over a replica table, each with TiDB's meaning or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from consumer.ddl.expressions import Binary, Call, ColumnName, Expression, NotUnderstood, Number, TextLiteral
from consumer.model.columns import Column, Family
from consumer.model.names import same_name
from consumer.sink.columnar.sql import quote
from consumer.sink.columnar.table import ReplicaTable
from consumer.sink.columnar.types import widened

_TIME = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?)?", re.ASCII)
_DAYS = "(date_diff('day', DATE '1970-01-01', CAST({0} AS DATE)) + 719528)"
_OF_TIME = {
    "YEAR": "year({0})",
    "QUARTER": "quarter({0})",
    "MONTH": "month({0})",
    "DAY": "day({0})",
    "DAYOFMONTH": "day({0})",
    "DAYOFYEAR": "dayofyear({0})",
    "DAYOFWEEK": "(dayofweek({0}) + 1)",
    "WEEKDAY": "(isodow({0}) - 1)",
    "HOUR": "hour({0})",
    "MINUTE": "minute({0})",
    "SECOND": "second({0})",
    "MICROSECOND": "(microsecond({0}) % 1000000)",
    "TO_DAYS": _DAYS,
    "TO_SECONDS": f"({_DAYS} * 86400 + hour({{0}}) * 3600 + minute({{0}}) * 60 + second({{0}}))",
    "EXTRACT YEAR_MONTH": "(year({0}) * 100 + month({0}))",
    **{
        f"EXTRACT {unit}": f"{unit.lower()}({{0}})"
        for unit in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
    },
}
"""Functions of a DATE or DATETIME, over a TIMESTAMP of DuckDB."""
_SIGNED = (-(1 << 63), (1 << 63) - 1)
_UNSIGNED = (0, (1 << 64) - 1)


class ValueKind(Enum):
    WHOLE = "a whole number"
    DECIMAL = "a decimal number"
    TIME = "a time"


@dataclass(frozen=True, slots=True)
class SqlValue:
    """A value as an SQL expression: a HUGEINT, a DECIMAL or a TIMESTAMP."""

    kind: ValueKind
    sql: str
    unsigned: bool = False


class Translator:
    """Translates the expressions of one table. `unsure` collects SQL conditions: for a row that meets one of them the
    translation does not hold."""

    def __init__(self, table: ReplicaTable) -> None:
        self._table = table
        self.unsure: list[str] = []

    def column(self, name: str) -> tuple[Column, str]:
        """A column that the replica keeps, and its name as an identifier. Raises NotUnderstood."""
        known = self._table.upstream.stored if self._table.upstream else ()
        column = next((column for column in known if same_name(column.name) == same_name(name)), None)
        spelled = self._table.spelled(name)
        if column is None or spelled is None:
            raise NotUnderstood(f"the replica has no column {name}")
        return column, quote(spelled)

    def is_text(self, name: str) -> bool:
        """Whether a column of dates holds text, for values that are no dates."""
        column, _ = self.column(name)
        return widened(column, self._type_now(name))

    def _type_now(self, name: str) -> str:
        return self._table.types[str(self._table.spelled(name))]

    def whole(self, expression: Expression) -> SqlValue:
        """A whole number. Raises NotUnderstood for anything else, as the others do."""
        return self._of_kind(expression, ValueKind.WHOLE)

    def _of_kind(self, expression: Expression, kind: ValueKind) -> SqlValue:
        value = self._value(expression)
        if value.kind is not kind:
            raise NotUnderstood(f"{kind.value} is expected, there is {value.kind.value}")
        return value

    def _value(self, expression: Expression) -> SqlValue:
        match expression:
            case Number(value):
                return SqlValue(ValueKind.WHOLE, f"CAST({value} AS HUGEINT)", value > _SIGNED[1])
            case TextLiteral(value):
                return SqlValue(ValueKind.TIME, f"TIMESTAMP '{time_of(value)}'")
            case ColumnName(name):
                return self._column(name)
            case Binary("DIV" | "MOD" as operator, left, Number(value)) if value > 0:
                number = self.whole(left)
                return SqlValue(
                    ValueKind.WHOLE, f"({number.sql} {'//' if operator == 'DIV' else '%'} {value})", number.unsigned
                )
            case Binary("+" | "-" | "*" as operator, left, right):
                one, other = self.whole(left), self.whole(right)
                return self._bounded(f"({one.sql} {operator} {other.sql})", one.unsigned or other.unsigned)
            case Call("ABS", (inner,)):
                number = self.whole(inner)
                return self._bounded(f"abs({number.sql})", number.unsigned)
            case Call("FLOOR" | "CEILING" | "CEIL" as function, (inner,)):
                number = self._value(inner)
                if number.kind is ValueKind.DECIMAL:
                    rounded = "floor" if function == "FLOOR" else "ceil"
                    return SqlValue(ValueKind.WHOLE, f"CAST({rounded}({number.sql}) AS HUGEINT)")
                return self._of_kind(inner, ValueKind.WHOLE)
            case Call("DATEDIFF", (left, right)):
                days = [_DAYS.format(self._of_kind(each, ValueKind.TIME).sql) for each in (left, right)]
                return SqlValue(ValueKind.WHOLE, f"CAST({days[0]} - {days[1]} AS HUGEINT)")
            case Call(function, (inner,)) if function in _OF_TIME:
                return SqlValue(
                    ValueKind.WHOLE,
                    f"CAST({_OF_TIME[function].format(self._of_kind(inner, ValueKind.TIME).sql)} AS HUGEINT)",
                )
            case Call("UNIX_TIMESTAMP", (TextLiteral(),)):
                raise NotUnderstood("UNIX_TIMESTAMP of a text means another time in each time zone")
            case _:
                raise NotUnderstood(f"an expression with {_shown(expression)}")

    def _bounded(self, sql: str, unsigned: bool) -> SqlValue:
        """Beyond the range of its type a result is an error, or another number, by the session's SQL mode."""
        low, high = _UNSIGNED if unsigned else _SIGNED
        self.unsure.append(f"{sql} NOT BETWEEN {low} AND {high}")
        return SqlValue(ValueKind.WHOLE, sql, unsigned)

    def _column(self, name: str) -> SqlValue:
        column, spelled = self.column(name)
        match column.family:
            case Family.INTEGER | Family.YEAR:
                unsigned = column.unsigned or column.family is Family.YEAR
                return SqlValue(ValueKind.WHOLE, f"CAST({spelled} AS HUGEINT)", unsigned)
            case Family.DECIMAL if self._type_now(name).startswith("DECIMAL"):
                return SqlValue(ValueKind.DECIMAL, spelled)
            case Family.DATE | Family.DATETIME if self.is_text(name):
                time = f"TRY_CAST({spelled} AS TIMESTAMP)"
                self.unsure.append(f"({spelled} IS NOT NULL AND ({time} IS NULL OR starts_with({spelled}, '0000')))")
                return SqlValue(ValueKind.TIME, time)
            case Family.DATE | Family.DATETIME:
                return SqlValue(ValueKind.TIME, f"CAST({spelled} AS TIMESTAMP)")
            case _:
                raise NotUnderstood(f"column {column.name} is {column.type}")


def time_of(text: str) -> datetime:
    """A date or time that a literal spells. Raises NotUnderstood."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise NotUnderstood(f"the text '{text}' is no date")
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction = int((found[7] or "").ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, fraction)
    except ValueError as error:
        raise NotUnderstood(f"the text '{text}' is no date") from error


def _shown(expression: Expression) -> str:
    match expression:
        case Call(function):
            return f"{function}()"
        case Binary(operator):
            return operator
        case _:
            return type(expression).__name__
