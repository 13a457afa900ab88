"""Upstream: the tables of tests.support.upstream, and more of what happens to tables."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import partial
from random import Random

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.times import ms_to_tso
from tests.simulate.rows import keys_of
from tests.support.build import VALUE
from tests.support.upstream import DATABASE, State, Table, Upstream

BEGINNING = ms_to_tso(1_767_225_600_000)
"""2026-01-01 00:00 UTC"""
DAY = ms_to_tso(86_400_000)


@dataclass(frozen=True)
class Shape:
    """The columns of a table from `ts` on, and those of its keys, first of the one that tells rows apart. `numbers`
    tell columns apart whatever their names are: one that is dropped and comes again is another one."""

    ts: int
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]


@dataclass
class Original(Upstream):
    """`random` is set again for every event. `keyless`: some tables have no key. `whole_milliseconds`: each transaction
    has a millisecond of its own. `own_tables`: no statement touches two tables."""

    now: int = BEGINNING
    keyless: bool = False
    whole_milliseconds: bool = False
    own_tables: bool = False
    without_key: set[str] = field(default_factory=set)
    left_over: dict[str, set[str]] = field(default_factory=dict)
    """By table, columns that only the target has."""
    took_columns: bool = False
    filtered: list[tuple[int, str]] = field(default_factory=list)
    """Statements that the changefeed's filter took out: nothing of them is written."""
    shapes: dict[int, list[Shape]] = field(default_factory=dict)
    """By the life of a table."""
    made: list[str | None] = field(default_factory=list)
    """By the number of a column, what rows have there that are older than it."""
    former: dict[str, str] = field(default_factory=dict)
    """The name before of a column that the statement of this moment has renamed."""
    lives: list[dict[str, int]] = field(default_factory=list)
    """For each of `states`, the tables that have the names."""
    _rows: int = 0

    def act(self, random: Random, steps: int, statements: float) -> None:
        """`steps` transactions or statements."""
        self.random = random
        for _ in range(steps):
            self._go_on()
            if not self.tables or random.random() < statements:
                self._statement()
            else:
                self._transaction()
            self._keep_state()

    def detour(self, random: Random) -> str | None:
        """Rows come to lie in folders that are older than a TRUNCATE."""
        tables = sorted((name, table) for name, table in self.tables.items() if name not in self.left_over)
        name = next((name for name, table in tables if not table.numbered and len(table.columns) == 2), None)
        if name is None:
            return None
        self.random = random
        for step in (self._add_nullable, self._bare_transaction, self._truncate, self._loses, self._bare_transaction):
            self._go_on()
            step(name)
            self._keep_state()
        return name

    def _add_nullable(self, name: str) -> None:
        self.tables[name].columns += (Column("w", "INT"),)
        for row in self.tables[name].rows.values():
            row["w"] = None
        self._add(name, Action.ADD_COLUMN, f"ALTER TABLE `{name}` ADD COLUMN `w` INT")

    def _bare_transaction(self, name: str) -> None:
        every, self.tables = self.tables, {name: self.tables[name]}
        super()._transaction()
        self.tables = every

    def _loses(self, name: str) -> None:
        self.filtered.append((self.now, name))
        table = self.tables[name]
        gone, table.columns = table.columns[-1], table.columns[:-1]
        for row in table.rows.values():
            del row[gone.name]
        self.left_over.setdefault(name, set()).add(gone.name)
        self.took_columns = True

    def filter_out(self, random: Random) -> str | None:
        """A statement that nobody will hear of: an index, or a column that goes and stays in the target."""
        if not self.tables:
            return None
        self.random = random
        self._go_on()
        name = random.choice(sorted(self.tables))
        table = self.tables[name]
        gone = table.columns[-1]
        has_key = name not in self.without_key and keys_of(table.columns, table.uniques)  # else all columns identify
        if gone.name in ("w", "x") and gone.nullable and has_key and random.random() < 0.7:
            self._loses(name)
        else:
            self.filtered.append((self.now, name))
        self._keep_state()
        return name

    def rotate(self, random: Random, times: int) -> None:
        """A table is renamed back and forth."""
        self.random = random
        if not self.tables or not self._free():
            return
        name = random.choice(sorted(self.tables))
        for _ in range(times):
            self._go_on()
            new = self._free()[0]
            self._rename_to(name, new)
            self._keep_state()
            name = new

    def rename_away(self, random: Random) -> str | None:
        """A table gets a name that nobody has."""
        self.random = random
        if not self.tables or not self._free():
            return None
        self._go_on()
        name = random.choice(sorted(self.tables))
        self._rename_to(name, random.choice(self._free()))
        self._keep_state()
        return name

    def rest(self) -> None:
        """A millisecond in which nothing happens."""
        self.now += 1 << 18
        self._keep_state()

    def _rename_to(self, name: str, new: str) -> None:
        self.tables[new] = self.tables.pop(name)
        self._add(new, Action.RENAME_TABLE, f"RENAME TABLE `{DATABASE}`.`{name}` TO `{DATABASE}`.`{new}`")
        self._take_along({name: new})

    def _take_along(self, names: dict[str, str]) -> None:
        """What is known of tables by their names, to the names that they have now."""
        self.left_over = {names.get(name, name): columns for name, columns in self.left_over.items()}
        self.without_key = {names.get(name, name) for name in self.without_key}

    def at(self, ts: int) -> State:
        place = self._place(ts)
        return self.states[place - 1][1] if place else {}

    def lives_at(self, ts: int) -> dict[str, int]:
        """The tables that have the names then."""
        place = self._place(ts)
        return self.lives[place - 1] if place else {}

    def shape(self, life: int, ts: int) -> Shape:
        shapes = self.shapes[life]
        return shapes[bisect_right(shapes, ts, key=lambda shape: shape.ts) - 1]

    def _place(self, ts: int) -> int:
        return bisect_right(self.states, ts, key=lambda state: state[0])

    def _keep_state(self) -> None:
        super()._keep_state()
        self.lives.append({name: table.life for name, table in self.tables.items()})
        for table in self.tables.values():
            shapes, keys = self.shapes.setdefault(table.life, []), keys_of(table.columns, table.uniques)
            if not shapes or (shapes[-1].columns, shapes[-1].keys) != (table.columns, keys):
                known = dict(zip(map(_name, shapes[-1].columns), shapes[-1].numbers, strict=True)) if shapes else {}
                numbers = tuple(map(partial(self._number, known), table.columns))
                shapes.append(Shape(self.now, table.columns, keys, numbers))
        self.former.clear()

    def _number(self, known: dict[str, int], column: Column) -> int:
        name = self.former.get(column.name, column.name)
        if name in known:
            return known[name]
        self.made.append(column.default)
        return len(self.made) - 1

    def _go_on(self) -> None:
        self.now += (5 << 18) + self.random.randrange(9) if self.whole_milliseconds else self.random.choice(self.steps)

    def _statement(self) -> None:
        if self.own_tables and self.tables:
            name = self.random.choice(sorted(self.tables))
            self.random.choice((self._truncate, self._drop, self._create_one, self._add_column, self._drop_column))(
                name
            )
        else:
            super()._statement()

    def _create_one(self, _: str) -> None:
        self._create()

    def _create(self) -> None:
        free = self._free()
        if not (free and self.keyless and self.random.random() < 0.5):
            super()._create()
            return
        name = self.random.choice(free)
        self._begun(name, Table((VALUE,), numbered=True))
        self.without_key.add(name)
        self._add(name, Action.CREATE_TABLE, f"CREATE TABLE `{name}` (`v` INT)")

    def _drop(self, name: str) -> None:
        super()._drop(name)
        self.without_key.discard(name)
        self.left_over.pop(name, None)

    def _make_database_anew(self) -> None:
        super()._make_database_anew()
        self.without_key.clear()
        self.left_over.clear()

    def _rename(self, name: str) -> None:
        if free := self._free():
            self._rename_to(name, self.random.choice(free))

    def _add_column(self, name: str) -> None:
        if not self.left_over.get(name):
            super()._add_column(name)

    def _drop_column(self, name: str) -> None:
        if name not in self.without_key and not self.left_over.get(name):
            super()._drop_column(name)

    def _transaction(self) -> None:
        keyed = [name for name, table in self.tables.items() if not table.numbered]
        bare = sorted(self.tables.keys() - set(keyed))
        if bare and (not keyed or self.random.random() < 0.5):
            self._bare_rows(self.random.choice(bare))
        elif keyed:
            every, self.tables = self.tables, {name: self.tables[name] for name in keyed}
            super()._transaction()
            self.tables = every

    def _bare_rows(self, name: str) -> None:
        """Equal rows are several rows: they have numbers that nobody sees."""
        rows = self.tables[name].rows
        old_ones = self.random.sample(sorted(rows), min(len(rows), 3))  # a transaction changes a row once
        for _ in range(self.random.randint(1, 3)):
            chance = self.random.random()
            number = old_ones.pop() if old_ones else 0
            if not number or chance < 0.6:
                self._rows += 1
                rows[self._rows] = self._values(name)
                self._change(name, "INSERT", None, (self._rows, rows[self._rows]))
            elif chance < 0.8:
                self._change(name, "DELETE", (number, rows.pop(number)), None)
            else:
                old, rows[number] = rows[number], self._values(name)
                self._change(name, "UPDATE", (number, old), (number, rows[number]))

    def _values(self, name: str) -> dict[str, str | None]:
        return {column.name: str(self.random.randrange(3)) for column in self.tables[name].columns}


def _name(column: Column) -> str:
    return column.name


__all__ = ["DATABASE", "DAY", "Original", "Shape"]
