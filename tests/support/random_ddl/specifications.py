"""Random specifications of an ALTER TABLE: columns, defaults, indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.random_ddl.definitions import COLUMNS, Definitions
from tests.support.random_ddl.original import Shape, quoted

Specification = tuple[Action, str]


@dataclass(frozen=True)
class Specifications:
    """Draws specifications. `keyless`: a table may lose its last key."""

    random: Random
    keyless: bool

    @property
    def _draw(self) -> Definitions:
        return Definitions(self.random)

    def drawn(self, table: Shape) -> Iterator[Specification]:
        """Specifications about different columns, in random order."""
        kinds: list[Callable[[Shape, Column | None], Specification | None]] = [
            self._add_column, self._drop_column, self._rename_column, self._modify, self._modify, self._set_default,
            self._add_index, self._drop_index, self._rename_index,
        ]  # fmt: skip
        fixed = () if self.keyless else table.key
        columns = [c for c in table.columns if not c.name.startswith("id") and c.name not in fixed]
        self.random.shuffle(columns)
        self.random.shuffle(kinds)
        used: set[str] = set()
        for at, kind in enumerate(kinds):
            column = columns[at] if at < len(columns) else None
            found = kind(table, column)
            if found is not None and found[1] not in used:
                used.add(found[1])
                yield found

    def _add_column(self, table: Shape, column: Column | None) -> Specification | None:
        there = {column.name.lower() for column in table.columns}
        free = [name for name in COLUMNS if name.lower() not in there]
        if not free:
            return None
        definition = self._draw.column(self.random.choice(free))
        some = self.random.choice(("", "", "IF NOT EXISTS "))
        return Action.ADD_COLUMN, f"ADD COLUMN {some}{definition}{self._position(table, '')}"

    def _position(self, table: Shape, but: str) -> str:
        others = [column.name for column in table.columns if column.name != but]
        draw = self.random.random()
        if draw < 0.6 or not others:
            return ""
        return " FIRST" if draw < 0.7 else f" AFTER {quoted(self.random.choice(others))}"

    def _drop_column(self, table: Shape, column: Column | None) -> Specification | None:
        if column is None or any(column.name in i.columns and len(i.columns) > 1 for i in table.indexes):
            return None
        some = self.random.choice(("", "", "IF EXISTS "))
        return Action.DROP_COLUMN, f"DROP COLUMN {some}{quoted(column.name)}"

    def _rename_column(self, table: Shape, column: Column | None) -> Specification | None:
        there = {column.name.lower() for column in table.columns}
        free = [name for name in COLUMNS if name.lower() not in there]
        if column is None or not free:
            return None
        new = self.random.choice(free)
        if self.random.random() < 0.5:
            return Action.MODIFY_COLUMN, f"RENAME COLUMN {quoted(column.name)} TO {quoted(new)}"
        definition = self._draw.column(new, self._draw.wider(column), column.nullable)
        return Action.MODIFY_COLUMN, f"CHANGE COLUMN {quoted(column.name)} {definition}"

    def _modify(self, table: Shape, column: Column | None) -> Specification | None:
        if column is None:
            return None
        definition = self._draw.column(column.name, self._draw.wider(column), column.nullable)
        return Action.MODIFY_COLUMN, f"MODIFY COLUMN {definition}{self._position(table, column.name)}"

    def _set_default(self, table: Shape, column: Column | None) -> Specification | None:
        if column is None or column.type in ("TEXT", "DATETIME", "TIMESTAMP"):
            return None
        if self.random.random() < 0.3:
            return Action.SET_DEFAULT_VALUE, f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT"
        return (
            Action.SET_DEFAULT_VALUE,
            f"ALTER COLUMN {quoted(column.name)} SET DEFAULT {self._draw.default(column.type)}",
        )

    def _add_index(self, table: Shape, column: Column | None) -> Specification | None:
        if column is None or column.type == "TEXT":
            return None
        taken = {index.name.lower() for index in table.indexes}
        name = next(name for name in ("i", "I2", "in`dex", "i4", "i5", "i6", "i7") if name.lower() not in taken)
        unique = self.random.choice(("", "", "UNIQUE "))
        columns = quoted(column.name) + self.random.choice(("", ",`id`"))
        if self.random.random() < 0.3:
            return Action.ADD_INDEX, f"CREATE {unique}INDEX {quoted(name)} ON {{own}} ({columns})"
        if self.random.random() < 0.5:
            return Action.ADD_INDEX, f"ADD {unique or 'INDEX '}({columns})"
        return Action.ADD_INDEX, f"ADD {unique}INDEX {quoted(name)}({columns})"

    def _drop_index(self, table: Shape, column: Column | None) -> Specification | None:
        keys = [index for index in table.indexes if index.unique and index.whole]
        free = [i for i in table.indexes if i.name != "PRIMARY" and (self.keyless or keys != [i])]
        if not free:
            return None
        name = quoted(self.random.choice(free).name)
        if self.random.random() < 0.3:
            return Action.DROP_INDEX, f"DROP INDEX {name} ON {{own}}"
        return Action.DROP_INDEX, f"DROP INDEX {self.random.choice(('', 'IF EXISTS '))}{name}"

    def _rename_index(self, table: Shape, column: Column | None) -> Specification | None:
        free = [index.name for index in table.indexes if index.name != "PRIMARY"]
        if not free:
            return None
        old = self.random.choice(free)
        return Action.RENAME_INDEX, f"RENAME INDEX {quoted(old)} TO {quoted(old[:20] + 'r')}"
