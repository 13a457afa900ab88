"""What the storage says of a column of an older row, after statements that changed the column; and which of upstream's
columns a table has that is no mirror.

One rule: a value in a row holds until a statement changes its column. A change that keeps every value as it is written
is followed. What the server itself made of a value, by a cast or by a default, is known only where it is NULL or a
whole number; else nobody but the server knows it, so it is counted and not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from consumer.ddl.changes import changes_of
from consumer.ddl.declared import Definition
from consumer.model.actions import Action
from consumer.model.check import Modes
from consumer.model.columns import Column, Family
from consumer.model.files import SchemaFile
from consumer.model.load import LoadTarget
from consumer.model.names import by_name, same_name
from consumer.model.table_modes import TableMode

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_SIZES = ("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
_TEXTS = ("TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT")
_BLOBS = ("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB")


@dataclass(frozen=True, slots=True)
class Known:
    """For each column that the table has now, the name that it had in an era ("" for none), whether its value is known,
    and the values of those that came later."""

    names: tuple[str, ...]
    known: tuple[bool, ...]
    added: Mapping[int, str | None] = field(default_factory=dict)

    @classmethod
    def now(cls, columns: Sequence[Column]) -> Known:
        return cls(tuple(column.name for column in columns), (True,) * len(columns))

    def before(self, statement: SchemaFile, columns: Sequence[Column], rules: Followed) -> Known:
        """As it was before `statement`, where the table had `columns`. One without text has changed nothing by name."""
        parsed = changes_of(statement).columns
        new = by_name(statement.columns)
        old = by_name(columns)
        names, known, added = list(self.names), list(self.known), dict(self.added)
        for position, name in enumerate(self.names):
            if not name:
                continue
            column = new.get(same_name(name))
            former = old.get((parsed.old_name(name) or "") if statement.query else same_name(name))
            if former is None or column is None:
                names[position] = ""
                value: str | None = UNKNOWN
                if column is not None:
                    value = rules.default(statement, column, parsed.columns.get(same_name(name), Definition()))
                if known[position] and value is not UNKNOWN:
                    added[position] = value
                else:
                    known[position] = False
                continue
            names[position] = former.name
            known[position] = known[position] and rules.keeps(former, column, position)
        return Known(tuple(names), tuple(known), added)


def keeps(old: Column, new: Column) -> bool:
    """Whether every value of `old` is the same text as a value of `new`."""
    if old.nullable and not new.nullable:
        return False
    if (old.type, old.unsigned, old.length, old.scale, old.elements) == (
        new.type, new.unsigned, new.length, new.scale, new.elements,
    ):  # fmt: skip
        return not (old.labelled and not old.elements and old.default != new.default)
    match old.family, new.family:
        case (Family.INTEGER, Family.INTEGER):
            wider = _SIZES.index(new.type) - _SIZES.index(old.type)
            return wider >= 0 if old.unsigned == new.unsigned else old.unsigned and wider > 0
        case (Family.DECIMAL, Family.DECIMAL):
            return old.unsigned == new.unsigned and _wider_decimal(old, new)
        case (Family.TEXT, Family.TEXT):
            return _longer(old, new, _TEXTS, ("VARCHAR", "VAR_STRING")) or (
                old.type == "CHAR" and new.type == "VARCHAR" and (old.length or 0) <= (new.length or 0)
            )
        case (Family.BINARY, Family.BINARY):
            return _longer(old, new, _BLOBS, ("VARBINARY",))
        case (Family.BIT, Family.BIT):
            return (old.length or 1) <= (new.length or 1)
        case (Family.YEAR, Family.YEAR) | (Family.JSON, Family.JSON) | (Family.DATE, Family.DATE):
            return True
        case (Family.ENUM, Family.ENUM) | (Family.SET, Family.SET):
            return bool(old.elements) and new.elements[: len(old.elements)] == old.elements
        case _:
            return False


def _wider_decimal(old: Column, new: Column) -> bool:
    (digits, scale), (more, same) = old.digits, new.digits
    return scale == same and digits <= more


def _longer(old: Column, new: Column, sizes: Sequence[str], counted: Sequence[str]) -> bool:
    if old.type in sizes and new.type in sizes:
        return sizes.index(old.type) <= sizes.index(new.type)
    if old.type in counted and new.type in counted:
        return (old.length or 0) <= (new.length or 0)
    return False


def _default(statement: SchemaFile, column: Column, definition: Definition) -> str | None:
    """What rows of a target that are there get for a new column. A default in parentheses is an expression."""
    if definition.computed or definition.virtual:
        return UNKNOWN
    if column.default is None:
        return None if column.nullable and definition.literal is None else UNKNOWN
    is_whole = column.family is Family.INTEGER and _WHOLE.fullmatch(column.default)
    return column.default if is_whole else UNKNOWN


UNKNOWN = "\0"
"""In place of a default: not known."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is known of values that were there when a statement ran: whether they are the same after a column has
    become another one, which is at that position now, and what they are in a new column, UNKNOWN where nobody can
    tell."""

    keeps: Callable[[Column, Column, int], bool]
    default: Callable[[SchemaFile, Column, Definition], str | None]


IN_A_TARGET = Followed(lambda old, new, position: keeps(old, new), _default)
"""Its server executed the statements."""


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
    known = tuple(n not in unknown for n in range(len(names)))
    return Known(names, known, {n: None for n in without if n not in unknown})


def modes_of(mode: TableMode | None, target: LoadTarget, statements: Sequence[SchemaFile]) -> Modes | None:
    """What the buckets must know of the table's mode; `statements` are those that it has seen."""
    if mode is None:
        return None
    emptied = [file for file in statements if file.action is Action.TRUNCATE_TABLE] if mode.keeps_ended else []
    ends = tuple((file.version, str(file.name)) for file in sorted(emptied, key=lambda file: file.version))
    return Modes(mode.kind, upstream_key(mode, target), added_places(mode, target), ends)
