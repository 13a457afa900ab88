"""Table modes: what a table of the target keeps of upstream's changes and columns, where it is not a mirror."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cache

from consumer.model.columns import Column
from consumer.model.names import TableName, same_name


@dataclass(frozen=True, slots=True)
class Chosen:
    """`include` (() for all) and `exclude` are names of columns, with ``*`` as wildcard; `renames` are upstream's and
    the target's names. Case does not matter. `named` are whole names that rules for just this table give: one that the
    table does not have was mistyped, and a column would be there that nobody wants. They make no other rule."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    named: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """The same for the same rules; the progress keeps it."""
        parts = (
            f"only {_listed(self.include)}" if self.include else "",
            f"without {_listed(self.exclude)}" if self.exclude else "",
            ", ".join(f"{json.dumps(old)} as {json.dumps(new)}" for old, new in self.renames),
        )
        return "; ".join(filter(None, parts))

    def keeps(self, column: str) -> bool:
        """Whether the target has upstream's `column`."""
        return (not self.include or _fits(self.include, column)) and not _fits(self.exclude, column)

    def name(self, column: str) -> str:
        """What upstream's `column` is called in the target."""
        return next((new for old, new in self.renames if same_name(old) == same_name(column)), column)

    def lacking(self, columns: Collection[str]) -> list[str]:
        """Of the whole names that must be there, those that none of `columns` has."""
        there = {same_name(column) for column in columns}
        return [name for name in self.named if same_name(name) not in there]


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """`names` without those that mean the same as another one."""
    return tuple(sorted({same_name(name): name for name in names}.values(), key=same_name))


def _listed(names: tuple[str, ...]) -> str:
    """The order of the names that are kept or left out means nothing, nor does their case."""
    return ", ".join(sorted({json.dumps(same_name(name)) for name in names}))


def _fits(names: tuple[str, ...], column: str) -> bool:
    return any(wildcard(name).fullmatch(column) for name in names)


@cache
def wildcard(name: str) -> re.Pattern[str]:
    """The expression for a column's name with ``*``. Case does not matter."""
    return re.compile(".*".join(map(re.escape, name.split("*"))), re.IGNORECASE | re.DOTALL)


class ModeKind(enum.StrEnum):
    APPEND = "append"
    """Each change is a row of its own."""
    SOFT_DELETE = "soft-delete"
    """A deleted row stays, with the time of its end."""
    HISTORY = "history"
    """Each version of a row is a row of its own, with the time from which and up to which it held."""
    CHOSEN = "columns"
    """Upstream's rows, with some of its columns. Rules about columns give it, no rule about table modes."""
    MERGE = "merge"
    """Rows of several tables of upstream, each with the name of its table. A route gives it, no rule about modes."""


OP, COMMIT_TS, TABLE, VERSION, DELETED_AT = "_op", "_commit_ts", "_table", "_version", "_deleted_at"
VALID_FROM, VALID_TO, IS_CURRENT = "_valid_from", "_valid_to", "_is_current"
SOURCE = "_source"

_ADDED = {
    ModeKind.APPEND: (
        Column(OP, "CHAR", length=1, nullable=False, is_pk=True),
        Column(COMMIT_TS, "BIGINT", unsigned=True, nullable=False, is_pk=True),
        Column(TABLE, "VARCHAR", length=129),
        Column(VERSION, "BIGINT", unsigned=True),
    ),
    ModeKind.SOFT_DELETE: (Column(DELETED_AT, "DATETIME", scale=6),),
    ModeKind.HISTORY: (
        Column(VALID_FROM, "DATETIME", scale=6),
        Column(VALID_TO, "DATETIME", scale=6),
        Column(IS_CURRENT, "TINYINT", length=1),
        Column(COMMIT_TS, "BIGINT", unsigned=True, nullable=False, is_pk=True),
    ),
    ModeKind.CHOSEN: (),
    ModeKind.MERGE: (Column(SOURCE, "VARCHAR", length=129, nullable=False, is_pk=True),),
}
"""The columns that each mode adds, under their usual names. Those of a key make one with upstream's."""


@dataclass(frozen=True, slots=True)
class TableMode:
    """`names` are those of the added columns that are not the usual ones: usual and own, sorted. `chosen` are
    upstream's columns that the table has, None for all."""

    kind: ModeKind
    names: tuple[tuple[str, str], ...] = ()
    chosen: Chosen | None = None

    @property
    def merges(self) -> bool:
        """Whether upstream's rows are kept as they are, beside those of other tables."""
        return self.kind is ModeKind.MERGE

    def __str__(self) -> str:
        names = ", ".join(f"{usual} as {own}" for usual, own in self.names)
        chosen = "; ".join(filter(None, (names, str(self.chosen or ""))))
        return f"{self.kind} ({chosen})" if chosen else str(self.kind)

    @property
    def keeps_ended(self) -> bool:
        """Whether rows stay that upstream has no more."""
        return self.kind in (ModeKind.APPEND, ModeKind.SOFT_DELETE, ModeKind.HISTORY)

    @property
    def usual(self) -> tuple[str, ...]:
        """The usual names of the added columns."""
        return tuple(column.name for column in _ADDED[self.kind])

    @property
    def added(self) -> tuple[Column, ...]:
        """The columns that it adds behind upstream's."""
        return tuple(replace(column, name=self.name(column.name)) for column in _ADDED[self.kind])

    def keeps(self, column: str) -> bool:
        """Whether the target has upstream's `column`."""
        return self.chosen is None or self.chosen.keeps(column)

    def called(self, column: str) -> str:
        """What upstream's `column` is called in the target."""
        return column if self.chosen is None else self.chosen.name(column)

    def name(self, usual: str) -> str:
        """What an added column is called."""
        return dict(self.names).get(usual, usual)


def source_of(table: TableName) -> str:
    """What the rows of a merged table have in their added column: TiDB takes names that differ only in case for the
    same. Two tables have two texts unless a name has a dot in it."""
    return str(table.folded)


@dataclass(frozen=True, slots=True)
class ModeDdl:
    """A statement about a table with a mode: the columns of the target's table `before` (of a CREATE TABLE: none) and
    `after` it, the added ones at their end. Its primary key are those with `is_pk`."""

    mode: TableMode
    before: tuple[Column, ...]
    after: tuple[Column, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Upstream's key."""
        added = {column.name for column in self.mode.added}
        return tuple(column.name for column in self.after if column.is_pk and column.name not in added)
