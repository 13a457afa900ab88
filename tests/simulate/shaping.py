"""Masks and filters in the program's settings, and what they mean for the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulate.original import DATABASE, Original
from tests.support.upstream import Row

MASK = "777777"
"""Stands in place of each value that is masked."""
COLUMN, LEAST = "v", 40
"""The column that rules name, and what it must be above where they choose rows."""
KINDS = ("a mask of a table", "masks of all tables", "a filter of a table")


@dataclass(frozen=True)
class Rules:
    """One of KINDS, "" for none."""

    kind: str = ""

    @property
    def toml(self) -> str:
        if not self.kind:
            return ""
        tables = f'tables = ["{DATABASE}.{"*" if "all" in self.kind else "a"}"]'
        if "filter" in self.kind:
            return f'[[consumer.rows]]\n{tables}\nwhere = "{COLUMN} > {LEAST}"\n'
        return f'[[consumer.masks]]\n{tables}\ncolumns = ["{COLUMN}"]\nmask = "fixed"\nvalue = "{MASK}"\n'

    def are_for(self, table: str) -> bool:
        return bool(self.kind) and (table == "a" or "all" in self.kind)

    def shaped(self, table: str, row: Row) -> Row | None:
        """As the target has it, None if it has no such row."""
        if not self.are_for(table) or COLUMN not in row:
            return row
        if "filter" in self.kind:
            return row if fits(row[COLUMN]) else None
        return row | {COLUMN: MASK}


@dataclass(frozen=True)
class Ruled:
    """What rules have meant for a table up to a moment, under all its names: the `numbers` of the columns that they
    were about, and whether they were about the table at all."""

    rules: Rules
    numbers: frozenset[int]
    is_ruled: bool

    @classmethod
    def of(cls, rules: Rules, original: Original, life: int, end: int) -> Ruled:
        moments = zip(original.states, original.lives, strict=True)
        named = [ts for (ts, _), lives in moments if ts <= end and life in map(lives.get, filter(rules.are_for, lives))]
        shapes = (original.shape(life, ts) for ts in named)
        pairs = (pair for shape in shapes for pair in zip(shape.columns, shape.numbers, strict=True))
        return cls(rules, frozenset(number for column, number in pairs if column.name == COLUMN), bool(named))

    @property
    def masked(self) -> frozenset[int]:
        return frozenset() if self.filters else self.numbers

    @property
    def filters(self) -> bool:
        return self.is_ruled and "filter" in self.rules.kind


def fits(value: str | None) -> bool:
    return value is not None and int(value) > LEAST
