"""What the bounds of a partitioning are compared with: its columns, or the value of its expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from consumer.ddl.expressions import Call, ColumnName, Expression, NotUnderstood, Number, TextLiteral, parse_expression
from consumer.model.columns import Column, Family
from consumer.model.names import same_name
from consumer.model.table_definition import Partitioning, PartitionKind
from consumer.sink.columnar.partition_values import Translator, time_of
from consumer.sink.columnar.sql import literal

_PADDED = frozenset({"utf8mb4_bin", "utf8mb3_bin", "utf8_bin", "latin1_bin", "ascii_bin"})
"""Collations that compare bytes, without the blanks at the end."""
_UNPADDED = "utf8mb4_0900_bin"
_ALIKE = ("[-0-9a-z]*", "[-0-9A-Z]*")
"""Texts that every collation sorts as their bytes do, among themselves."""
_COLUMNS = (PartitionKind.RANGE_COLUMNS, PartitionKind.LIST_COLUMNS)


@dataclass(frozen=True, slots=True)
class Comparand:
    """`sql` is compared with what `bound` makes of a bound (or raises NotUnderstood). `exact` is False for text of a
    collation that is not known to compare bytes: equal bytes are equal there too, but others need not be unequal."""

    sql: str
    bound: Callable[[Expression], str]
    exact: bool = True


def comparands(partitioning: Partitioning, translator: Translator) -> Sequence[Comparand]:
    """What is compared, in the order of ``partitioning.by``. Raises NotUnderstood."""
    if partitioning.kind in _COLUMNS:
        return [_column(name, partitioning, translator) for name in partitioning.by]
    match parse_expression(partitioning.by[0]):
        case Call("UNIX_TIMESTAMP", (ColumnName(name),)) | Call(
            "FLOOR", (Call("UNIX_TIMESTAMP", (ColumnName(name),)),)
        ) if partitioning.kind is PartitionKind.RANGE:
            return [_clock(name, translator)]
        case expression:
            return [_whole(expression, translator)]


def _whole(expression: Expression, translator: Translator) -> Comparand:
    return Comparand(translator.whole(expression).sql, lambda bound: translator.whole(bound).sql)


def _clock(name: str, translator: Translator) -> Comparand:
    """Seconds since 1970 grow as UTC does: only the bounds are converted."""
    column, spelled = translator.column(name)
    if column.family is not Family.TIMESTAMP:
        raise NotUnderstood(f"UNIX_TIMESTAMP of a {column.type}")
    return Comparand(spelled, partial(_clock_bound, column, translator.is_text(name)))


def _clock_bound(column: Column, as_text: bool, bound: Expression) -> str:
    if not isinstance(bound, Number) or bound.value < as_text:
        raise NotUnderstood(
            "a bound of UNIX_TIMESTAMP that is no number above 0: a text means another time in each zone"
        )
    try:
        time = datetime.fromtimestamp(bound.value, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise NotUnderstood(f"{bound.value} as a bound of UNIX_TIMESTAMP") from error
    return _moment(column, as_text, time.replace(tzinfo=None))


def _column(name: str, partitioning: Partitioning, translator: Translator) -> Comparand:
    column, spelled = translator.column(name)
    match column.family:
        case Family.INTEGER:
            return _whole(ColumnName(name), translator)
        case Family.DATE | Family.DATETIME:
            as_text = translator.is_text(name)
            kept = spelled if as_text else f"CAST({spelled} AS TIMESTAMP)"
            return Comparand(kept, partial(_date_bound, column, as_text))
        case Family.BINARY if column.type == "VARBINARY":
            return Comparand(spelled, lambda bound: f"encode({_literal(bound)})")
        case Family.TEXT:
            return _text(column, spelled, partitioning, translator)
        case _:
            raise NotUnderstood(f"column {column.name} is {column.type}")


def _date_bound(column: Column, as_text: bool, bound: Expression) -> str:
    if not isinstance(bound, TextLiteral) or (column.family is Family.DATE and " " in bound.value):
        raise NotUnderstood(f"a bound of column {column.name} that is no {column.type}")
    return _moment(column, as_text, time_of(bound.value))


def _moment(column: Column, as_text: bool, time: datetime) -> str:
    """A time as a column holds it: as text, a DATE or TIMESTAMP sorts as time does, with the digits of its column."""
    digits = f"{time.microsecond:06d}"
    if digits.rstrip("0")[column.scale or 0 :]:
        raise NotUnderstood(f"the bound {time} has more digits than column {column.name}")
    if not as_text:
        return f"TIMESTAMP {literal(time.isoformat(' '))}"
    whole = time.date().isoformat() if column.family is Family.DATE else time.replace(microsecond=0).isoformat(" ")
    return literal(f"{whole}.{digits[: column.scale]}" if column.scale else whole)


def _text(column: Column, spelled: str, partitioning: Partitioning, translator: Translator) -> Comparand:
    collation = dict(partitioning.collations).get(same_name(column.name), "")
    if collation in _PADDED:
        return Comparand(f"rtrim({spelled}, ' ')", lambda bound: f"rtrim({_literal(bound)}, ' ')")
    if collation != _UNPADDED and partitioning.kind is PartitionKind.RANGE_COLUMNS:
        at = [same_name(name) for name in partitioning.by].index(same_name(column.name))
        bounds = [parse_expression(row[at]) for part in partitioning.partitions for row in part.values]
        texts = [bound.value for bound in bounds if isinstance(bound, TextLiteral)]
        alike = next((known for known in _ALIKE if all(re.fullmatch(known, text) for text in texts)), None)
        if alike is None:
            raise NotUnderstood(f"the order of texts in column {column.name}, of collation {collation or 'not known'}")
        translator.unsure.append(f"NOT regexp_full_match({spelled}, '{alike}')")
    return Comparand(spelled, _literal, exact=collation == _UNPADDED)


def _literal(bound: Expression) -> str:
    if not isinstance(bound, TextLiteral):
        raise NotUnderstood("a bound of a text column that is no text")
    return literal(bound.value)
