"""Table modes: what a table of the target keeps of upstream's changes and columns, if it is not a mirror."""

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
    """Which columns a table has in the target. `include` (() for all) and `exclude` are names of columns, with ``*`` as
    wildcard; `renames` are upstream's and the target's names. Case does not matter. `named` are full names that rules
    for just this table give: if the table lacks one it was mistyped, and an unwanted column would exist. They do not
    change which columns are chosen."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    named: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        """Returns a text that is the same for the same rules; the progress keeps it."""
        parts = (
            f"only {_listed(self.include)}" if self.include else "",
            f"without {_listed(self.exclude)}" if self.exclude else "",
            ", ".join(f"{json.dumps(old)} as {json.dumps(new)}" for old, new in self.renames),
        )
        return "; ".join(filter(None, parts))

    def keeps(self, column: str) -> bool:
        """Returns whether the target has upstream's `column`."""
        return (not self.include or _fits(self.include, column)) and not _fits(self.exclude, column)

    def name(self, column: str) -> str:
        """Returns the name of upstream's `column` in the target."""
        return next((new for old, new in self.renames if same_name(old) == same_name(column)), column)

    def lacking(self, columns: Collection[str]) -> list[str]:
        """Returns those of the `named` columns that none of `columns` is."""
        existing = {same_name(column) for column in columns}
        return [name for name in self.named if same_name(name) not in existing]


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Returns `names` without those that mean the same as another one, sorted."""
    return tuple(sorted({same_name(name): name for name in names}.values(), key=same_name))


def _listed(names: tuple[str, ...]) -> str:
    """Returns the names as a text that does not depend on their order or case."""
    return ", ".join(sorted({json.dumps(same_name(name)) for name in names}))


def _fits(names: tuple[str, ...], column: str) -> bool:
    return any(wildcard(name).fullmatch(column) for name in names)


@cache
def wildcard(name: str) -> re.Pattern[str]:
    """Returns the expression for a column's name with ``*``. Case does not matter."""
    return re.compile(".*".join(map(re.escape, name.split("*"))), re.IGNORECASE | re.DOTALL)


class ModeKind(enum.StrEnum):
    APPEND = "append"
    """Each change is a row of its own."""
    SOFT_DELETE = "soft-delete"
    """A deleted row stays, with the time of its end."""
    HISTORY = "history"
    """Each version of a row is a row of its own, with the time from which and up to which it was valid."""
    CHOSEN = "columns"
    """Upstream's rows, with some of their columns. It comes from rules about columns, not from a rule about table
    modes."""
    MERGE = "merge"
    """Rows of several tables of upstream, each with the name of its table. It comes from a route, not from a rule about
    modes."""


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
"""The columns that each mode adds, under their usual names. Those with `is_pk` form a key together with upstream's
key."""


@dataclass(frozen=True, slots=True)
class TableMode:
    """The mode of a table. `names` are the names of added columns that differ from the usual ones, as pairs (usual,
    own), sorted. `chosen` are upstream's columns that the table has, None for all."""

    kind: ModeKind
    names: tuple[tuple[str, str], ...] = ()
    chosen: Chosen | None = None

    @property
    def merges(self) -> bool:
        """Whether upstream's rows are kept as they are, together with those of other tables."""
        return self.kind is ModeKind.MERGE

    def __str__(self) -> str:
        names = ", ".join(f"{usual} as {own_name}" for usual, own_name in self.names)
        chosen = "; ".join(filter(None, (names, str(self.chosen or ""))))
        return f"{self.kind} ({chosen})" if chosen else str(self.kind)

    @property
    def keeps_ended(self) -> bool:
        """Whether rows stay that upstream no longer has."""
        return self.kind in (ModeKind.APPEND, ModeKind.SOFT_DELETE, ModeKind.HISTORY)

    @property
    def usual(self) -> tuple[str, ...]:
        """The usual names of the added columns."""
        return tuple(column.name for column in _ADDED[self.kind])

    @property
    def added(self) -> tuple[Column, ...]:
        """The columns that it adds after upstream's."""
        return tuple(replace(column, name=self.name(column.name)) for column in _ADDED[self.kind])

    def keeps(self, column: str) -> bool:
        """Returns whether the target has upstream's `column`."""
        return self.chosen is None or self.chosen.keeps(column)

    def called(self, column: str) -> str:
        """Returns the name of upstream's `column` in the target."""
        return column if self.chosen is None else self.chosen.name(column)

    def name(self, usual: str) -> str:
        """Returns the name of an added column."""
        return dict(self.names).get(usual, usual)


def source_of(table: TableName) -> str:
    """Returns the value in the added column of a merged table's rows. TiDB takes names that differ only in case for the
    same. Two tables have two texts unless a name has a dot in it."""
    return str(table.folded)


@dataclass(frozen=True, slots=True)
class ModeDdl:
    """A statement about a table with a mode: the columns of the target's table `before` (none for a CREATE TABLE) and
    `after` it, the added ones at their end. Its primary key are those with `is_pk`."""

    mode: TableMode
    before: tuple[Column, ...]
    after: tuple[Column, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Upstream's key."""
        added = {column.name for column in self.mode.added}
        return tuple(column.name for column in self.after if column.is_pk and column.name not in added)
