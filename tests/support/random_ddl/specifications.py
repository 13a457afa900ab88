"""Random specifications of an ALTER TABLE: columns, defaults, indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.random_ddl.definitions import COLUMNS, Definitions
from tests.support.random_ddl.events import Manner
from tests.support.random_ddl.index_names import EXPRESSION, free_name
from tests.support.random_ddl.original import Index, Shape, quoted
from tests.support.random_ddl.proposal import Change, Table


@dataclass(frozen=True)
class Specification:
    """Of an ALTER TABLE, or a whole statement about {own}. `direct` and `change` are as in a Proposal; what keeps book
    by a `change` stands alone in its statement."""

    action: Action
    text: str
    direct: str
    change: Change | None = None

    @property
    def is_statement(self) -> bool:
        return "{own}" in self.text


def _plain(action: Action, text: str) -> Specification:
    return Specification(action, text, text)


@dataclass(frozen=True)
class Specifications:
    """Draws specifications for one table. Where the changefeed is `keyless`, it may lose its last key."""

    random: Random
    manner: Manner
    whole: Table

    @property
    def _draw(self) -> Definitions:
        return Definitions(self.random)

    def drawn(self) -> Iterator[Specification]:
        """Specifications about different columns, in random order."""
        table = self.whole.shape
        kinds: list[Callable[[Shape, Column | None], Specification | None]] = [
            self._add_column, self._drop_column, self._rename_column, self._modify, self._modify, self._set_default,
            self._add_index, self._drop_index, self._rename_index,
        ]  # fmt: skip
        fixed = () if self.manner.keyless else table.key
        columns = [c for c in table.columns if not c.name.startswith("id") and c.name not in fixed]
        self.random.shuffle(columns)
        self.random.shuffle(kinds)
        used: set[str] = set()
        for at, kind in enumerate(kinds):
            column = columns[at] if at < len(columns) else None
            found = kind(table, column)
            if found is not None and found.text not in used:
                used.add(found.text)
                yield found

    def _add_column(self, table: Shape, column: Column | None) -> Specification | None:
        there = {column.name.lower() for column in table.columns}
        free = [name for name in COLUMNS if name.lower() not in there]
        if not free:
            return None
        definition = self._draw.column(self.random.choice(free))
        some = self.random.choice(("", "", "IF NOT EXISTS "))
        return _plain(Action.ADD_COLUMN, f"ADD COLUMN {some}{definition}{self._position(table, '')}")

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
        return _plain(Action.DROP_COLUMN, f"DROP COLUMN {some}{quoted(column.name)}")

    def _rename_column(self, table: Shape, column: Column | None) -> Specification | None:
        there = {column.name.lower() for column in table.columns}
        free = [name for name in COLUMNS if name.lower() not in there]
        if column is None or not free:
            return None
        new = self.random.choice(free)
        if self.random.random() < 0.5:
            return _plain(Action.MODIFY_COLUMN, f"RENAME COLUMN {quoted(column.name)} TO {quoted(new)}")
        definition = self._draw.column(new, self._draw.wider(column), column.nullable)
        return _plain(Action.MODIFY_COLUMN, f"CHANGE COLUMN {quoted(column.name)} {definition}")

    def _modify(self, table: Shape, column: Column | None) -> Specification | None:
        if column is None:
            return None
        definition = self._draw.column(column.name, self._draw.wider(column), column.nullable)
        return _plain(Action.MODIFY_COLUMN, f"MODIFY COLUMN {definition}{self._position(table, column.name)}")

    def _set_default(self, table: Shape, column: Column | None) -> Specification | None:
        if column is None or column.type in ("TEXT", "DATETIME", "TIMESTAMP"):
            return None
        if self.random.random() < 0.3:
            return _plain(Action.SET_DEFAULT_VALUE, f"ALTER COLUMN {quoted(column.name)} DROP DEFAULT")
        default = self._draw.default(column.type)
        return _plain(Action.SET_DEFAULT_VALUE, f"ALTER COLUMN {quoted(column.name)} SET DEFAULT {default}")

    def _add_index(self, table: Shape, column: Column | None) -> Specification | None:
        ignored, draw = "add-index" in self.manner.ignores, self.random.random()
        expression = draw < 0.25
        if column is None or column.type == "TEXT":
            return None
        columns = quoted(column.name) + self.random.choice(("", ",`id`"))
        columns = EXPRESSION if expression else "`id`" if ignored else columns
        taken = self.whole.index_names
        name = next(name for name in ("i", "I2", "in`dex", "i4", "i5", "i6", "i7") if name.lower() not in taken)
        unique = self.random.choice(("", "", "UNIQUE "))
        left_out = ignored or (expression and not self.manner.expressions)
        if left_out and not any(i.unique and i.whole and i.columns == ("id",) for i in table.indexes):
            unique = ""  # rows may have the same id
        if self.random.random() < 0.3:
            direct = text = f"CREATE {unique}INDEX {quoted(name)} ON {{own}} ({columns})"
        elif self.random.random() < 0.5:
            name = free_name(columns, taken)
            text, direct = f"ADD {unique or 'INDEX '}({columns})", f"ADD {unique}INDEX {quoted(name)}({columns})"
        else:
            direct = text = f"ADD {unique}INDEX {quoted(name)}({columns})"
        if not left_out:
            return Specification(Action.ADD_INDEX, text, direct)
        index = Index(name, bool(unique), () if expression else ("id",), whole=False, expression=expression)
        return self._of_left_out(Action.ADD_INDEX, text, (*self.whole.left_out, index))

    def _drop_index(self, table: Shape, column: Column | None) -> Specification | None:
        keys = [index for index in table.indexes if index.unique and index.whole]
        free = [i for i in table.indexes if i.name != "PRIMARY" and (self.manner.keyless or keys != [i])]
        if not free:
            return None
        index = self.random.choice(free)
        if self.random.random() < 0.3:
            text = f"DROP INDEX {quoted(index.name)} ON {{own}}"
        else:
            text = f"DROP INDEX {self.random.choice(('', 'IF EXISTS '))}{quoted(index.name)}"
        if index not in self.whole.left_out:
            return _plain(Action.DROP_INDEX, text)
        return self._of_left_out(Action.DROP_INDEX, text, tuple(i for i in self.whole.left_out if i != index))

    def _rename_index(self, table: Shape, column: Column | None) -> Specification | None:
        free = [index for index in table.indexes if index.name != "PRIMARY"]
        if not free:
            return None
        old = self.random.choice(free)
        new = replace(old, name=old.name[:20] + "r")
        if new.name.lower() in self.whole.index_names:
            return None
        text = f"RENAME INDEX {quoted(old.name)} TO {quoted(new.name)}"
        if old not in self.whole.left_out:
            return _plain(Action.RENAME_INDEX, text)
        return self._of_left_out(Action.RENAME_INDEX, text, tuple(new if i == old else i for i in self.whole.left_out))

    def _of_left_out(self, action: Action, text: str, left_out: tuple[Index, ...]) -> Specification:
        def change(table: Table) -> None:
            table.left_out = left_out

        return Specification(action, text, "", change)
