"""What the storage says of a column of an older row, after statements that changed the column; and which of upstream's
columns a table has that is no mirror.

One rule: a value in a row holds until a statement changes its column. What upstream made of it then is what the one
table of conversions says (`model.types`), in each target too. A row that was there when a column came has its default
there. What no file tells is counted and not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial

from consumer.ddl.changes import changes_of
from consumer.ddl.declared import Definition, NotExact, backfill_text, is_moment
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

Made = tuple[Conversion, ...] | None
"""What has become of a value, one conversion behind the other; None: that is not known."""


@dataclass(frozen=True, slots=True)
class Known:
    """For each column that the table has now, the name that it had in an era ("" for none), what has become of its
    values since, and the values of those that came later."""

    names: tuple[str, ...]
    made: tuple[Made, ...]
    added: Mapping[int, Value | None] = field(default_factory=dict)

    @classmethod
    def now(cls, columns: Sequence[Column]) -> Known:
        return cls(tuple(column.name for column in columns), ((),) * len(columns))

    def before(self, statement: SchemaFile, columns: Sequence[Column], rules: Followed) -> Known:
        """As it was before `statement`, where the table had `columns`. One without text has changed nothing by name."""
        parsed = changes_of(statement).columns
        new = by_name(statement.columns)
        old = by_name(columns)
        names, made, added = list(self.names), list(self.made), dict(self.added)
        for position, (name, since) in enumerate(zip(self.names, self.made, strict=True)):
            if not name:
                continue
            column, definition = new.get(same_name(name)), parsed.columns.get(same_name(name), Definition())
            former = old.get((parsed.old_name(name) or "") if statement.query else same_name(name))
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
            if column.labelled and former.family is column.family:  # labels stay where none are declared
                column = replace(column, elements=column.elements or definition.elements or former.elements)
            then = None if since is None else rules.made(former, column)
            made[position] = None if since is None or then is None else (*then, *since)
        return Known(tuple(names), tuple(made), added)


def _now(value: Value | None, made: Made) -> Value | None:
    """What has become of a new column's value since, UNKNOWN where nobody can tell."""
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


def made_upstream(old: Column, new: Column) -> Made:
    """What became of the values of `old`."""
    conversion = Conversion(old, new)
    match conversion.way:
        case Way.UNKNOWN:
            return None
        case Way.KEPT if not conversion.refuses_null:
            return ()
        case _:
            return (conversion,)


UNKNOWN = "\0"
"""In place of a default: not known."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is known of values that were there when a statement ran: what became of them in a column that became
    another one, and what they are in a new column, UNKNOWN where nobody can tell."""

    made: Callable[[Column, Column], Made]
    default: Callable[[SchemaFile, Column, Definition], str | None]


def upstream_default(
    statement: SchemaFile, column: Column, definition: Definition, zone: tzinfo, nearly: bool
) -> str | None:
    """What rows that are there got in a new column. UNKNOWN for the time of the statement unless `nearly`."""
    if definition.generated or (is_moment(column, definition) and not nearly):
        return UNKNOWN
    column = replace(column, elements=definition.elements or column.elements)
    try:
        text = backfill_text(column, definition, statement.version, zone)
        return text if text is None or not column.labelled else number(column, text)
    except (NotExact, NoValue):
        return UNKNOWN


def followed_upstream(zone: tzinfo, nearly: bool = False) -> Followed:
    """What is known of upstream's own values; `zone` is the changefeed's. `nearly`: CURRENT_TIMESTAMP as a default is
    the version of its statement, as targets make it; TiDB's own moment was another one, by a second or so."""
    return Followed(made_upstream, partial(upstream_default, zone=zone, nearly=nearly))


def added_places(mode: TableMode | None, target: LoadTarget) -> Mapping[int, int]:
    """By position in the target, which of the columns that the mode adds is there."""
    usual = {} if mode is None else {same_name(mode.name(usual)): at for at, usual in enumerate(mode.usual)}
    named = ((position, usual.get(same_name(column.name))) for position, column in enumerate(target.columns))
    return {position: at for position, at in named if at is not None}


def upstream_key(mode: TableMode | None, target: LoadTarget) -> tuple[int, ...]:
    """The positions in the target of upstream's key."""
    added = added_places(mode, target)
    return tuple(position for position in target.key if position not in added)


def known_now(
    mode: TableMode | None, target: LoadTarget, columns: Iterable[Column], stayed: Collection[str] = ()
) -> Known:
    """What rows have as the table is now, where upstream's has `columns`. What upstream's does not have is NULL, as it
    is of other tables that are merged with it, but not in columns that have `stayed` when upstream dropped them."""
    if mode is None:
        return Known.now(target.columns)
    added = added_places(mode, target)
    called = {same_name(mode.called(column.name)): column.name for column in columns if mode.keeps(column.name)}
    names = tuple(called.get(same_name(column.name), "") for column in target.columns)
    names = tuple("" if position in added else name for position, name in enumerate(names))
    without = [n for n, name in enumerate(names) if not name and n not in added and mode.merges]
    there = {same_name(mode.called(name)) for name in stayed}
    unknown = {n for n in without if same_name(target.columns[n].name) in there}
    made = tuple(None if n in unknown else () for n in range(len(names)))
    return Known(names, made, {n: None for n in without if n not in unknown})


def modes_of(mode: TableMode | None, target: LoadTarget, statements: Sequence[SchemaFile]) -> Modes | None:
    """What the buckets must know of the table's mode; `statements` are those that it has seen."""
    if mode is None:
        return None
    emptied = [file for file in statements if file.action is Action.TRUNCATE_TABLE] if mode.keeps_ended else []
    ends = tuple((file.version, str(file.name)) for file in sorted(emptied, key=lambda file: file.version))
    return Modes(mode.kind, upstream_key(mode, target), added_places(mode, target), ends)
