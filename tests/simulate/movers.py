"""Upstream with what users do less often: the key of a table moves to other columns, comes or goes; several tables get
other names at once; a column is renamed, an index made; a row goes to another key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.simulate.original import DATABASE, Original
from tests.simulate.rows import keys_of
from tests.support.upstream import Row, Table

_COLUMNS = Column("id", "INT", nullable=False), Column("v", "INT", nullable=False)
_KEYS = ("id",), ("v",), ("id", "v")
_KEY_VALUES, _VALUES, _MOST_ROWS = 30, 4, 10
"""How many values a column has that is of a key, and one that is not; how many rows a table has."""
Key = tuple[str | None, ...]


@dataclass
class Mover(Original):
    """`more`: what of that is done: words, with spaces between them. `classic`: as the old architecture, which cannot
    follow tables that exchange their names."""

    more: str = ""
    classic: bool = True

    def _statement(self) -> None:
        steps = list(self._statements())
        if steps and self.random.random() < 0.5:
            step, names = self.random.choice(steps)
            step(self.random.choice(names))
        else:
            super()._statement()

    def _statements(self) -> Iterator[tuple[Callable[[str], None], list[str]]]:
        """What can be done, and to which tables."""
        every = sorted(self.tables)
        moving = [name for name in every if self.tables[name].numbered and name not in self.without_key]
        renamed = [name for name in every if not self.tables[name].numbered and name not in self.left_over]
        found = {
            "keys": (self._move_key, moving),
            "names": (self._rename_several, every if len(every) > 1 else []),
            "columns": (self._rename_column, renamed),
            "indexes": (self._add_index, every),
        }
        yield from (pair for word, pair in found.items() if word in self.more.split() and pair[1])

    def _add_index(self, name: str) -> None:
        column = self.tables[name].columns[-1].name
        self._add(name, Action.ADD_INDEX, f"ALTER TABLE `{name}` ADD INDEX `i_{self.now}`(`{column}`)")

    def _rename_column(self, name: str) -> None:
        """The values stay, under another name."""
        table = self.tables[name]
        old = table.columns[1]
        new = replace(old, name="u" if old.name == "v" else "v")
        table.columns = tuple(new if column is old else column for column in table.columns)
        table.rows = {
            key: {new.name if column == old.name else column: value for column, value in row.items()}
            for key, row in table.rows.items()
        }
        self.former[new.name] = old.name
        self._add(name, Action.MODIFY_COLUMN, f"ALTER TABLE `{name}` RENAME COLUMN `{old.name}` TO `{new.name}`")

    # Names

    def _rename_several(self, _: str) -> None:
        """By one statement, of which there is a file for each table, in no order. Where tables exchange their names,
        one goes over a name that is free again behind it: its first file is written over."""
        names = self.random.sample(sorted(self.tables), self.random.randint(2, len(self.tables)))
        free = self._free()
        if free and (self.classic or self.random.random() < 0.5):
            old, new, between = names[:2], [free[0], names[0]], []
        elif not self.classic:
            old, new, between = names, [*names[1:], names[0]], [names[0]]
        else:
            return
        moved = [self.tables.pop(name) for name in old]
        self.tables.update(zip(new, moved, strict=True))
        self._take_along(dict(zip(old, new, strict=True)))
        end = "" if self.classic else ";"
        for from_name, to_name in zip(old, new, strict=True):
            by = "between" if from_name in between else from_name
            text = f"RENAME TABLE `{DATABASE}`.`{by}` TO `{DATABASE}`.`{to_name}`{end}"
            self._add(to_name, Action.RENAME_TABLE, text)

    # Keys of rows

    def _transaction(self) -> None:
        tables = [name for name, table in sorted(self.tables.items()) if not table.numbered and table.rows]
        if "ids" in self.more.split() and tables and self.random.random() < 0.4:
            self._to_other_keys(self.random.choice(tables))
        else:
            super()._transaction()

    def _to_other_keys(self, name: str) -> None:
        """Rows go to keys that nobody has."""
        table = self.tables[name]
        free = self.random.sample([key for key in range(8) if key not in table.rows], 8 - len(table.rows))
        for key in self.random.sample(sorted(table.rows), self.random.randint(1, len(table.rows))):
            if not free:
                break
            old, new = (key, table.rows.pop(key)), (free.pop(), self._row(name))
            if table.partition(old[0]) == table.partition(new[0]):
                self._change(name, "UPDATE", old, new)
            else:
                self._change(name, "DELETE", old, None)
                self._change(name, "INSERT", None, new)
            table.rows[new[0]] = new[1]

    # Keys

    def _create(self) -> None:
        free = self._free()
        if "keys" not in self.more or not free or self.random.random() < 0.3:
            super()._create()
            return
        name, key = self.random.choice(free), self.random.choice(_KEYS)
        kind = self.random.choice(("PRIMARY KEY", "PRIMARY KEY", "UNIQUE KEY", *[""] * self.keyless))
        table = self._begun(name, Table(_COLUMNS, numbered=True))
        text = ",".join(f"`{column.name}` INT NOT NULL" for column in _COLUMNS)
        if kind == "PRIMARY KEY":
            table.columns = _with_key(_COLUMNS, key)
            text += f",PRIMARY KEY({_listed(key)}) /*T![clustered_index] NONCLUSTERED */"
        elif kind:
            table.uniques = (key,)
            text += f",UNIQUE KEY `{_index(key)}`({_listed(key)})"
        self._add(name, Action.CREATE_TABLE, f"CREATE TABLE `{name}` ({text})")

    def _move_key(self, name: str) -> None:
        """To other columns; or one comes, or goes, where rows may be without one."""
        table = self.tables[name]
        primary = any(column.is_pk for column in table.columns)
        steps = [self._add_unique]
        if table.uniques and (primary or len(table.uniques) > 1 or self.keyless):
            steps.append(self._drop_unique)
        if not primary:
            steps.append(self._add_primary)
        elif self.keyless or table.uniques:
            steps.append(self._drop_primary)
        else:
            steps.append(self._change_primary)
        self.random.choice(steps)(name)

    def _change_primary(self, name: str) -> None:
        """No row is changed in between."""
        key = self.random.choice([key for key in _KEYS if key != _primary(self.tables[name])])
        self._make_unique(name, key)
        self._drop_primary(name)
        self._keep_state()
        self._go_on()
        self._set_primary(name, key)

    def _add_primary(self, name: str) -> None:
        key = self.random.choice(_KEYS)
        self._make_unique(name, key)
        self._set_primary(name, key)

    def _set_primary(self, name: str, key: tuple[str, ...]) -> None:
        self.tables[name].columns = _with_key(self.tables[name].columns, key)
        self._add(name, Action.ADD_PRIMARY_KEY, f"ALTER TABLE `{name}` ADD PRIMARY KEY({_listed(key)}) NONCLUSTERED")

    def _drop_primary(self, name: str) -> None:
        self.tables[name].columns = _with_key(self.tables[name].columns, ())
        self._add(name, Action.DROP_PRIMARY_KEY, f"ALTER TABLE `{name}` DROP PRIMARY KEY")

    def _add_unique(self, name: str) -> None:
        table = self.tables[name]
        free = [key for key in _KEYS if key not in keys_of(table.columns, table.uniques)]
        if free:
            key = self.random.choice(free)
            self._make_unique(name, key)
            table.uniques += (key,)
            text = f"ALTER TABLE `{name}` ADD UNIQUE INDEX `{_index(key)}`({_listed(key)})"
            self._add(name, Action.ADD_INDEX, text)

    def _drop_unique(self, name: str) -> None:
        table = self.tables[name]
        gone = self.random.choice(table.uniques)
        table.uniques = tuple(key for key in table.uniques if key != gone)
        self._add(name, Action.DROP_INDEX, f"ALTER TABLE `{name}` DROP INDEX `{_index(gone)}`")

    def _make_unique(self, name: str, key: tuple[str, ...]) -> None:
        """A transaction gives rows other values, where several have the same in these columns."""
        table = self.tables[name]
        taken, seen = _Taken(table, key), set[Key]()
        for number, row in sorted(table.rows.items()):
            if _of(row, key) in seen:
                others = (row | {key[0]: str(value)} for value in range(_KEY_VALUES) if str(value) != row[key[0]])
                self._put(name, number, next(other for other in others if taken.takes(other, row)))
            seen.add(_of(row, key))
        if seen and len(seen) < len(table.rows):
            self._keep_state()
            self._go_on()

    # Rows

    def _bare_rows(self, name: str) -> None:
        """At most one change of a row, and none gives a row what another one has or had in a key; but two rows may
        exchange that."""
        table = self.tables[name]
        if name in self.without_key:
            super()._bare_rows(name)
            return
        keys, old_ones = keys_of(table.columns, table.uniques), self.random.sample(sorted(table.rows), len(table.rows))
        if len(old_ones) > 1 and keys and self.random.random() < 0.15:
            self._exchange(name, old_ones[:2], self.random.choice(keys))
            return
        taken = _Taken(table)
        for _ in range(self.random.randint(1, 4)):
            number = old_ones.pop() if old_ones and self.random.random() < 0.6 else None
            if number is not None and self.random.random() < 0.3:
                self._change(name, "DELETE", (number, table.rows.pop(number)), None)
                continue
            old = None if number is None else table.rows[number]
            moves = old is None or self.random.random() < 0.4
            tries = (self._drawn(table, old, moves) for _ in range(20))
            new = next((row for row in tries if taken.takes(row, old)), None)
            if new is not None and (number is not None or len(table.rows) < _MOST_ROWS):
                self._put(name, number, new)

    def _exchange(self, name: str, numbers: list[int], key: tuple[str, ...]) -> None:
        rows = [self.tables[name].rows[number] for number in numbers]
        for number, row, other in zip(numbers, rows, reversed(rows), strict=True):
            self._put(name, number, row | {column: other[column] for column in key})

    def _put(self, name: str, number: int | None, row: Row) -> None:
        rows = self.tables[name].rows
        if number is None:
            self._rows += 1
            self._change(name, "INSERT", None, (self._rows, row))
        else:
            self._change(name, "UPDATE", (number, rows[number]), (number, row))
        rows[number or self._rows] = row

    def _drawn(self, table: Table, old: Row | None, moves: bool) -> Row:
        """Another row; a row under the same keys, unless it `moves`."""
        keyed = {column for key in keys_of(table.columns, table.uniques) for column in key}
        new: Row = {}
        for column in table.columns:
            if old is not None and column.name in keyed and not moves:
                new[column.name] = old[column.name]
            elif column.nullable and self.random.random() < 0.2:
                new[column.name] = None
            else:
                new[column.name] = str(self.random.randrange(_KEY_VALUES if column.name in keyed else _VALUES))
        return new


class _Taken:
    """What rows have in the keys of a table, and in `more` columns that are to become one."""

    def __init__(self, table: Table, more: tuple[str, ...] = ()) -> None:
        keys = (*keys_of(table.columns, table.uniques), *filter(None, (more,)))
        self._taken = {key: {_of(row, key) for row in table.rows.values()} for key in keys}

    def takes(self, new: Row, old: Row | None) -> bool:
        """Whether a row may become `new`: its values are taken then."""
        others = {key: _of(new, key) for key in self._taken if old is None or _of(old, key) != _of(new, key)}
        if any(value in self._taken[key] for key, value in others.items()):
            return False
        for key, value in others.items():
            self._taken[key].add(value)
        return True


def _of(row: Row, key: tuple[str, ...]) -> Key:
    return tuple(row[column] for column in key)


def _primary(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.is_pk)


def _with_key(columns: tuple[Column, ...], key: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(replace(column, is_pk=column.name in key) for column in columns)


def _listed(key: tuple[str, ...]) -> str:
    return ",".join(f"`{column}`" for column in key)


def _index(key: tuple[str, ...]) -> str:
    return f"u_{'_'.join(key)}"
