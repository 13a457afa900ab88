"""`verify` of the target: it finds nothing where the target is right, and what was damaged by hand; the repair makes
that right, and touches no right row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from consumer import app
from consumer.model.check import Counted, Repairing, TableCheck
from consumer.model.names import TableName
from consumer.spark.in_process import InProcessLoader
from tests.simulate.checks import is_between_moments
from tests.simulate.machine import Failure
from tests.simulate.readers.asking import READ, REFUSED, may_refuse
from tests.simulate.rows import image
from tests.simulate.world import World
from tests.support.inline_loader import InlineLoader
from tests.support.memory.store import Row, Tables, copied
from tests.support.observers import Recorder

SHOWN = 1000
STRANGE = "987654"
"""A value that upstream never has."""


@dataclass(frozen=True)
class Damage:
    """What was done to a `row` of `table` by hand. `counted`: how many rows are missing, too many, and differ then, as
    a reader may see it. `column` is the one that was changed, "" for a row that came or went. `is_told`: a change in
    the storage has left the row."""

    table: TableName
    text: str
    row: Row
    counted: tuple[tuple[int, int, int], ...]
    column: str = ""
    is_told: bool = False

    def is_found(self, check: TableCheck, counted: tuple[int, int, int]) -> bool:
        """Whether it was found, or the rest of it is in what was not compared."""
        partly = bool(check.notes) and (0, 1, 0) in self.counted  # a row that came can be one of which nobody knows
        partly = partly or self.column in check.counted.unknown
        partly = partly or bool(
            check.counted.unsure or check.gone_ts or (check.counted.unknown_rows and not self.is_told)
        )
        some = (all(n <= whole for n, whole in zip(counted, of_all, strict=True)) for of_all in self.counted)
        return counted in self.counted or self.is_of_unknown_key(check, counted) or (partly and any(some))

    def is_of_unknown_key(self, check: TableCheck, counted: tuple[int, int, int]) -> bool:
        """Whether the row was given a key of which the files tell nothing: its own key is missing, and the row that is
        there now can be an older one."""
        return bool(check.counted.unknown_rows) and (1, 1, 0) in self.counted and counted == (1, 0, 0)


def check_target(world: World, random: Random) -> None:
    """Raises Failure unless `verify` finds nothing in a right target, or exactly what was damaged, and makes that
    right. Not where a table is stopped within a load: it is not what it was at its place, and `verify` says so."""
    tables = world.server.store.tables
    if any(is_between_moments(world, name) for name in tables):
        return
    right = copied(tables)
    damage = (
        _damage(random, tables, world.original.left_over)
        if random.random() < 0.7 and any(t.rows for t in tables.values())
        else None
    )
    if damage is None:
        for check in _verified(world, random, Repairing()):
            _check_found(world, check, None)
        return
    world.machine.tell(f"by hand: {damage.text}")
    damage = replace(damage, is_told=_is_told(world, damage))
    wanted = copied(tables)
    for check in _verified(world, random, Repairing(write=True)):
        own = damage if check.table == damage.table else None
        _check_found(world, check, own)
        if own is not None and _is_repaired(world, check):
            wanted = copied(right)
            if own.is_of_unknown_key(check, _counted(check)):
                wanted[own.table].rows.append(own.row | {own.column: STRANGE})
    _check_tables(world, wanted, f"differ behind the repair, where {damage.text}")
    world.server.store.tables = right


def _verified(world: World, random: Random, repairing: Repairing) -> tuple[TableCheck, ...]:
    world.machine.now += 60.0  # a consumer that has died holds the target for a while
    loader = InlineLoader(3) if random.random() < 0.05 else InProcessLoader()
    return app.verify(world.settings, Recorder(), show=SHOWN, loader=loader, repairing=repairing).tables


def _check_found(world: World, check: TableCheck, damage: Damage | None) -> None:
    """What was found before anything was made right, and nothing behind that."""
    happened, where = world.machine.happened, "" if damage is None else f", where {damage.text}"
    happened[f"verify {READ}"] += 1
    if check.error is not None:
        if not (world.excuses or may_refuse(world, check.error)):
            raise Failure(f"verify does not compare {check.table}, of which the files tell enough: {check.error}")
        happened[f"verify {REFUSED}"] += 1
        happened[f"verify {REFUSED}: {type(check.error).__name__}"] += 1
        world.machine.tell(f"verify does not compare {check.table}: {check.error.message}")
        return
    counted = _counted(check)
    if not damage.is_found(check, counted) if damage is not None else counted != (0, 0, 0):
        raise Failure(f"verify finds {counted} in {check.table}{where}: {_shown(check.repaired or check.counted)}")
    if check.repaired is not None and check.counted.differences:
        raise Failure(f"{check.table} still differs behind the repair{where}: {_shown(check.counted)}")


def _counted(check: TableCheck) -> tuple[int, int, int]:
    """How many rows were missing, too many, and differing before anything was made right."""
    first = check.repaired or check.counted
    return first.missing, first.extra, first.differing


def _is_repaired(world: World, check: TableCheck) -> bool:
    """Whether the damaged row was found and made right. Raises Failure where it was left and nobody says why."""
    happened = world.machine.happened
    if check.error is not None or not (check.repaired or check.counted).differences:
        return False
    happened[f"repair {READ}"] += 1
    if check.repaired is None:
        notes = [note for note in check.notes if note.startswith("not made right")]
        if not notes:
            raise Failure(f"{check.table} is not made right, and nobody says why")
        world.machine.tell(f"{check.table} is {notes[0]}")
        happened[f"repair {REFUSED}"] += 1
    return check.repaired is not None


def _check_tables(world: World, wanted: Tables, how: str) -> None:
    held = world.server.store.tables
    for name in wanted.keys() | held.keys():
        rows, found = (Counter(map(_sorted, tables[name].rows)) for tables in (wanted, held))
        if rows != found:
            lost, more = (list((one - other).elements()) for one, other in ((rows, found), (found, rows)))
            raise Failure(f"rows of {name} {how}: missing {lost}, too many {more}")


def _sorted(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))


def _damage(random: Random, tables: Tables, left_over: Mapping[str, Collection[str]]) -> Damage:
    """Not in columns that only the target has: nothing is known of them."""
    name = random.choice([name for name, table in sorted(tables.items()) if table.rows])
    table, kind = tables[name], random.choice(("change", "remove", "add"))
    place = random.randrange(len(table.rows))
    row = table.rows[place]
    if kind == "remove":
        del table.rows[place]
        return Damage(name, f"{row} of {name} is removed", row, ((1, 0, 0),))
    if kind == "add":
        new = {column.name: STRANGE if column.name in ("id", "v") else row[column.name] for column in table.columns}
        table.rows.append(new)
        return Damage(name, f"{new} comes into {name}", new, ((0, 1, 0),))
    told = [column for column in table.columns if column.name not in left_over.get(name.table, ())]
    column = random.choice([column.name for column in told if not column.is_pk] or [told[0].name])
    table.rows[place] = new = row | {column: STRANGE}
    return Damage(name, f"{row} of {name} becomes {new}", row, ((0, 0, 1), (1, 1, 0)), column)


def _is_told(world: World, damage: Damage) -> bool:
    life = world.original.lives_at(world.original.now).get(damage.table.table)
    own = (c for c in world.original.changes if c.life == life and c.ts > world.given and c.new is not None)
    return any(image(c.columns, c.new) == damage.row for c in own if c.new is not None)


def _shown(counted: Counted) -> str:
    return "; ".join(map(str, counted.shown)) or str(counted)
