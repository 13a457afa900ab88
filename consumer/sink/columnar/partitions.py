"""Partition expressions as SQL of DuckDB over a replica table, each with exactly TiDB's meaning, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import partial

from consumer.ddl.expressions import (
    Binary,
    Call,
    ColumnName,
    Expression,
    NotUnderstood,
    Null,
    Number,
    TextLiteral,
    parse_partition_expression,
)
from consumer.model.columns import Column, Family
from consumer.model.names import same_name
from consumer.model.table_definition import Partition, Partitioning, PartitionKind
from consumer.sink.columnar.table import ReplicaTable, quote_name, quote_text, widened

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
    """Translates the expressions of one table. `unsure` collects SQL conditions: the translation does not hold for a
    row that meets one of them."""

    def __init__(self, table: ReplicaTable) -> None:
        self._table = table
        self.unsure: list[str] = []

    def column(self, name: str) -> tuple[Column, str]:
        """Returns a column that the replica keeps, and its name as an identifier. Raises NotUnderstood."""
        columns = self._table.upstream.stored if self._table.upstream else ()
        column = next((column for column in columns if same_name(column.name) == same_name(name)), None)
        spelled = self._table.spelled(name)
        if column is None or spelled is None:
            raise NotUnderstood(f"the replica has no column {name}")
        return column, quote_name(spelled)

    def is_text(self, name: str) -> bool:
        """Returns whether the column became text for values that are no dates."""
        column, _ = self.column(name)
        return widened(column, self._type_now(name))

    def _type_now(self, name: str) -> str:
        return self._table.types[str(self._table.spelled(name))]

    def whole_number(self, expression: Expression) -> SqlValue:
        """Returns a whole number. Raises NotUnderstood for anything else, as the other methods do."""
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
                number = self.whole_number(left)
                return SqlValue(
                    ValueKind.WHOLE, f"({number.sql} {'//' if operator == 'DIV' else '%'} {value})", number.unsigned
                )
            case Binary("+" | "-" | "*" as operator, left, right):
                first, second = self.whole_number(left), self.whole_number(right)
                return self._bounded(f"({first.sql} {operator} {second.sql})", first.unsigned or second.unsigned)
            case Call("ABS", (inner,)):
                number = self.whole_number(inner)
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
        """Notes the range of the result's type: beyond it, the result is an error or another number, by the session's
        SQL mode."""
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
    """Returns the date or time of a literal. Raises NotUnderstood."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise NotUnderstood(f"the text '{text}' is no date")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction = int((match[7] or "").ljust(6, "0"))
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


_PADDED = frozenset({"utf8mb4_bin", "utf8mb3_bin", "utf8_bin", "latin1_bin", "ascii_bin"})
"""Collations that compare bytes, without trailing blanks."""
_UNPADDED = "utf8mb4_0900_bin"
_ALIKE = ("[-0-9a-z]*", "[-0-9A-Z]*")
"""Texts that every collation sorts among themselves in the order of their bytes."""
_COLUMNS = (PartitionKind.RANGE_COLUMNS, PartitionKind.LIST_COLUMNS)


@dataclass(frozen=True, slots=True)
class Comparand:
    """`sql` is compared with the SQL that `bound` returns for a bound (it may raise NotUnderstood). `exact` is False
    for text of a collation that is not known to compare bytes: equal bytes are equal there, but different bytes may be
    equal, too."""

    sql: str
    bound: Callable[[Expression], str]
    exact: bool = True


def comparands(partitioning: Partitioning, translator: Translator) -> Sequence[Comparand]:
    """Returns what is compared, in the order of ``partitioning.by``. Raises NotUnderstood."""
    if partitioning.kind in _COLUMNS:
        return [_column(name, partitioning, translator) for name in partitioning.by]
    match parse_partition_expression(partitioning.by[0]):
        case Call("UNIX_TIMESTAMP", (ColumnName(name),)) | Call(
            "FLOOR", (Call("UNIX_TIMESTAMP", (ColumnName(name),)),)
        ) if partitioning.kind is PartitionKind.RANGE:
            return [_clock(name, translator)]
        case expression:
            return [_whole(expression, translator)]


def _whole(expression: Expression, translator: Translator) -> Comparand:
    return Comparand(translator.whole_number(expression).sql, lambda bound: translator.whole_number(bound).sql)


def _clock(name: str, translator: Translator) -> Comparand:
    """Seconds since 1970 grow as UTC does, so only the bounds are converted."""
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
    """Returns a time as a column holds it. As text, a DATE or TIMESTAMP sorts as time does, with the digits of its
    column."""
    digits = f"{time.microsecond:06d}"
    if digits.rstrip("0")[column.scale or 0 :]:
        raise NotUnderstood(f"the bound {time} has more digits than column {column.name}")
    if not as_text:
        return f"TIMESTAMP {quote_text(time.isoformat(' '))}"
    seconds = time.date().isoformat() if column.family is Family.DATE else time.replace(microsecond=0).isoformat(" ")
    return quote_text(f"{seconds}.{digits[: column.scale]}" if column.scale else seconds)


def _text(column: Column, spelled: str, partitioning: Partitioning, translator: Translator) -> Comparand:
    collation = dict(partitioning.collations).get(same_name(column.name), "")
    if collation in _PADDED:
        return Comparand(f"rtrim({spelled}, ' ')", lambda bound: f"rtrim({_literal(bound)}, ' ')")
    if collation != _UNPADDED and partitioning.kind is PartitionKind.RANGE_COLUMNS:
        position = [same_name(name) for name in partitioning.by].index(same_name(column.name))
        bounds = [parse_partition_expression(row[position]) for part in partitioning.partitions for row in part.values]
        texts = [bound.value for bound in bounds if isinstance(bound, TextLiteral)]
        alike = next((pattern for pattern in _ALIKE if all(re.fullmatch(pattern, text) for text in texts)), None)
        if alike is None:
            raise NotUnderstood(f"the order of texts in column {column.name}, of collation {collation or 'not known'}")
        translator.unsure.append(f"NOT regexp_full_match({spelled}, '{alike}')")
    return Comparand(spelled, _literal, exact=collation == _UNPADDED)


def _literal(bound: Expression) -> str:
    if not isinstance(bound, TextLiteral):
        raise NotUnderstood("a bound of a text column that is no text")
    return quote_text(bound.value)


_INT64 = 1 << 63


def members(partitioning: Partitioning, chosen: Collection[int], table: ReplicaTable) -> str:
    """Returns a condition that is true for rows in the partitions at the positions `chosen`, and false for rows of
    other partitions. It is NULL if that cannot be decided: the row is in no known partition. Raises NotUnderstood."""
    translator = Translator(table)
    match partitioning.kind:
        case PartitionKind.KEY:
            raise NotUnderstood("the hash of PARTITION BY KEY")
        case PartitionKind.HASH:
            branches = _hash(partitioning, chosen, translator)
        case PartitionKind.RANGE | PartitionKind.RANGE_COLUMNS:
            branches = " ".join(_range(partitioning, chosen, comparands(partitioning, translator)))
        case _:
            branches = _list(partitioning, chosen, comparands(partitioning, translator))
    unsure = "".join(f"WHEN {condition} THEN NULL " for condition in dict.fromkeys(translator.unsure))
    return f"CASE {unsure}{branches} END"


def _hash(partitioning: Partitioning, chosen: Collection[int], translator: Translator) -> str:
    """TiDB treats the value as a signed 64-bit number, and NULL as 0."""
    value = translator.whole_number(parse_partition_expression(partitioning.by[0]))
    signed = (
        f"({value.sql} - CASE WHEN {value.sql} >= {_INT64} THEN {_INT64 * 2} ELSE 0 END)"
        if value.unsigned
        else value.sql
    )
    places = ", ".join(map(str, sorted(chosen)))
    return f"WHEN coalesce(abs({signed} % {len(partitioning.partitions)}), 0) IN ({places}) THEN TRUE ELSE FALSE"


def _range(partitioning: Partitioning, chosen: Collection[int], compared: Sequence[Comparand]) -> Iterator[str]:
    """Yields one branch for each run of partitions that are all chosen, or all not chosen."""
    partitions = partitioning.partitions
    for position, partition in enumerate(partitions):
        is_last = position + 1 == len(partitions)
        if is_last or (position in chosen) != (position + 1 in chosen):
            (bounds,) = partition.values
            yield f"WHEN {_less(compared, bounds)} THEN {position in chosen}"


def _less(compared: Sequence[Comparand], bounds: Sequence[str]) -> str:
    """Compares column by column. NULL is less than all values."""
    first, bound = compared[0], bounds[0]
    if bound.upper() == "MAXVALUE":
        return "TRUE"
    limit = first.bound(parse_partition_expression(bound))
    less = f"{first.sql} IS NULL OR {first.sql} < {limit}"
    return f"({less} OR ({first.sql} = {limit} AND {_less(compared[1:], bounds[1:])}))" if compared[1:] else f"({less})"


def _list(partitioning: Partitioning, chosen: Collection[int], compared: Sequence[Comparand]) -> str:
    """Returns the branches. Text that equals no member by its bytes can equal one by its collation: then the DEFAULT
    partition is no answer."""
    taken = [part for position, part in enumerate(partitioning.partitions) if position in chosen]
    others = [part for position, part in enumerate(partitioning.partitions) if position not in chosen]
    branches = [
        f"WHEN {condition} THEN {answer}"
        for parts, answer in ((taken, True), (others, False))
        if (condition := _equal(compared, parts))
    ]
    default = next(
        (position in chosen for position, part in enumerate(partitioning.partitions) if part.is_default), None
    )
    certain = default is not None and all(each.exact for each in compared)
    return " ".join([*branches, f"ELSE {default}" if certain else "ELSE NULL"])


def _equal(compared: Sequence[Comparand], partitions: Sequence[Partition]) -> str:
    """Returns the condition that the row is one of those that `partitions` list; "" if they list none."""
    rows = [row for partition in partitions for row in partition.values]
    if len(compared) > 1:
        return " OR ".join(f"({' AND '.join(map(_same, compared, row))})" for row in rows)
    (only,) = compared
    bounds = [parse_partition_expression(text) for (text,) in rows]
    values = [only.bound(bound) for bound in bounds if not isinstance(bound, Null)]
    null = [f"{only.sql} IS NULL"] if len(values) < len(bounds) else []
    return " OR ".join([*([f"{only.sql} IN ({', '.join(values)})"] if values else []), *null])


def _same(compared: Comparand, text: str) -> str:
    bound = parse_partition_expression(text)
    return f"{compared.sql} IS NULL" if isinstance(bound, Null) else f"{compared.sql} = {compared.bound(bound)}"
