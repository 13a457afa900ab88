"""Tells what the storage shows of a column of an older row, after statements that changed the column; and which of
upstream's columns a table has that is no mirror.

There is one rule: a value in a row holds until a statement changes its column. What upstream then made of it is in the
one table of conversions (`model.types`), and each target makes the same. A row that existed when a column was added has
the column's default. What no file shows is counted and not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial

from consumer.ddl.changes import statement_changes
from consumer.ddl.declared import Definition, NoExactValue, backfill_text, is_moment
from consumer.model.actions import Action
from consumer.model.check import Modes
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import LoadTarget
from consumer.model.names import by_name, same_name
from consumer.model.table_modes import TableMode
from consumer.model.types.conversions import Conversion, Value, Way
from consumer.model.types.texts import number
from consumer.model.types.values import NoValue

Conversions = tuple[Conversion, ...] | None
"""The conversions that a value has gone through, in order; None if they are not known."""


@dataclass(frozen=True, slots=True)
class ColumnOrigins:
    """Where the values of an era's rows come from, for each column that the table has now: the name that the column had
    in the era ("" if it did not exist), the conversions of its values since, and the values of columns that were added
    later."""

    names: tuple[str, ...]
    made: tuple[Conversions, ...]
    added: Mapping[int, Value | None] = field(default_factory=dict)

    @classmethod
    def now(cls, columns: Sequence[Column]) -> ColumnOrigins:
        return cls(tuple(column.name for column in columns), ((),) * len(columns))

    def before(self, statement: SchemaFile, columns: Sequence[Column], rules: ValueRules) -> ColumnOrigins:
        """Returns the origins as they were before `statement`, when the table had `columns`. A statement without text
        has changed no column's name."""
        clauses = statement_changes(statement).columns
        new_columns = by_name(statement.columns)
        old_columns = by_name(columns)
        names, made, added = list(self.names), list(self.made), dict(self.added)
        for position, (name, since) in enumerate(zip(self.names, self.made, strict=True)):
            if not name:
                continue
            column, definition = new_columns.get(same_name(name)), clauses.columns.get(same_name(name), Definition())
            former = old_columns.get((clauses.old_name(name) or "") if statement.query else same_name(name))
            if former is None or column is None:
                names[position] = ""
                value: Value | None = UNKNOWN
                if column is not None:
                    value = rules.default(statement, column, definition)
                value = _now(value, since)
                if value is UNKNOWN:
                    made[position] = None
                else:
                    added[position] = value
                continue
            names[position] = former.name
            if column.labelled and former.family is column.family:  # a statement that declares no labels leaves them
                column = replace(column, elements=column.elements or definition.elements or former.elements)
            conversion = None if since is None else rules.made(former, column)
            made[position] = None if since is None or conversion is None else (*conversion, *since)
        return ColumnOrigins(tuple(names), tuple(made), added)


def _now(value: Value | None, made: Conversions) -> Value | None:
    """Returns what a new column's value has become since, UNKNOWN if that cannot be known."""
    if made is None or value is UNKNOWN:
        return UNKNOWN
    try:
        for conversion in made:
            if value is None and conversion.refuses_null:
                return UNKNOWN
            value = None if value is None else conversion.value(value)
    except NoValue:
        return UNKNOWN
    return value


def upstream_conversions(old: Column, new: Column) -> Conversions:
    """Returns the conversions of the values of `old`."""
    conversion = Conversion(old, new)
    match conversion.way:
        case Way.UNKNOWN:
            return None
        case Way.KEPT if not conversion.refuses_null:
            return ()
        case _:
            return (conversion,)


UNKNOWN = "\0"
"""Stands in place of a default that is not known."""


@dataclass(frozen=True, slots=True)
class ValueRules:
    """How to follow values that existed when a statement ran: `made` returns their conversions in a column that became
    another one; `default` returns what they are in a new column, UNKNOWN if that cannot be known."""

    made: Callable[[Column, Column], Conversions]
    default: Callable[[SchemaFile, Column, Definition], str | None]


def upstream_default(
    statement: SchemaFile, column: Column, definition: Definition, zone: tzinfo, nearly: bool
) -> str | None:
    """Returns what existing rows got in a new column. It is UNKNOWN for the time of the statement unless `nearly`."""
    if definition.generated or (is_moment(column, definition) and not nearly):
        return UNKNOWN
    column = replace(column, elements=definition.elements or column.elements)
    try:
        text = backfill_text(column, definition, statement.version, zone)
        return text if text is None or not column.labelled else number(column, text)
    except (NoExactValue, NoValue):
        return UNKNOWN


def upstream_value_rules(zone: tzinfo, nearly: bool = False) -> ValueRules:
    """Returns the rules of upstream's own values; `zone` is the changefeed's. `nearly`: CURRENT_TIMESTAMP as a
    default counts as the version of its statement, as targets make it; TiDB's own moment differs from that by a
    second or so."""
    return ValueRules(upstream_conversions, partial(upstream_default, zone=zone, nearly=nearly))


def mode_column_positions(mode: TableMode | None, target: LoadTarget) -> Mapping[int, int]:
    """Returns by position in the target the index, in the mode's list, of the added column that is there."""
    indexes = {} if mode is None else {same_name(mode.name(indexes)): index for index, indexes in enumerate(mode.usual)}
    named = ((position, indexes.get(same_name(column.name))) for position, column in enumerate(target.columns))
    return {position: index for position, index in named if index is not None}


def upstream_key(mode: TableMode | None, target: LoadTarget) -> tuple[int, ...]:
    """Returns the positions in the target of upstream's key."""
    mode_columns = mode_column_positions(mode, target)
    return tuple(position for position in target.key if position not in mode_columns)


def current_origins(
    mode: TableMode | None, target: LoadTarget, columns: Iterable[Column], stayed: Collection[str] = ()
) -> ColumnOrigins:
    """Returns the origins of the columns as the table is now; upstream's table has `columns`. A column that upstream's
    table does not have is NULL, as for the other tables that are merged with it. Columns that have `stayed` when
    upstream dropped them are not NULL but unknown."""
    if mode is None:
        return ColumnOrigins.now(target.columns)
    mode_columns = mode_column_positions(mode, target)
    upstream_names = {same_name(mode.called(column.name)): column.name for column in columns if mode.keeps(column.name)}
    names = tuple(upstream_names.get(same_name(column.name), "") for column in target.columns)
    names = tuple("" if position in mode_columns else name for position, name in enumerate(names))
    without = [n for n, name in enumerate(names) if not name and n not in mode_columns and mode.merges]
    stayed_names = {same_name(mode.called(name)) for name in stayed}
    unknown = {n for n in without if same_name(target.columns[n].name) in stayed_names}
    made = tuple(None if n in unknown else () for n in range(len(names)))
    return ColumnOrigins(names, made, {n: None for n in without if n not in unknown})


def modes_of(mode: TableMode | None, target: LoadTarget, statements: Sequence[SchemaFile]) -> Modes | None:
    """Returns what the buckets need to know of the table's mode, None for a mirror. `statements` are those that the
    table has seen."""
    if mode is None:
        return None
    emptied = [file for file in statements if file.action is Action.TRUNCATE_TABLE] if mode.keeps_ended else []
    ends = tuple((file.version, str(file.name)) for file in sorted(emptied, key=lambda file: file.version))
    return Modes(mode.kind, upstream_key(mode, target), mode_column_positions(mode, target), ends)
