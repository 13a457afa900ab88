"""`undo` of a range of a table's changes: where a person runs its statements, each row of the range has what upstream
had at its beginning, or it is left out by name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from itertools import pairwise
from random import Random

from consumer.errors import CannotBeExact, ConsumerError
from consumer.model.actions import Action
from consumer.results import UndoResult
from consumer.source.undo import undo
from tests.simulate.machine import Failure
from tests.simulate.readers.asking import LOST, READ, refuse
from tests.simulate.readers.truth import Truth, Values, are_written
from tests.simulate.script import key_of, run
from tests.simulate.shaping import COLUMN, LEAST, fits
from tests.simulate.world import World
from tests.support.observers import Recorder
from tests.support.upstream import Change

READER = "undo"
AGAIN = "it was changed again after the range"
LATER = "a later statement changed the table's columns, key or rows"
NO_OLD = "the files do not have its old values"
HELD = "another row, which stays or comes back, has a unique value that it had"
_LEFT_OUT = "-- left out, as "
Rows = dict[Values, Values]
"""By key, in the columns of the end."""


@dataclass(frozen=True)
class Range:
    """What upstream says of the changes of a table behind `first` and up to `last`, of rows of which one `fits` if
    `where`."""

    truth: Truth
    first: int
    last: int
    where: bool

    names: tuple[str, ...] = ()
    """Of the columns of its key: as the statements have it, of several that it may be one."""

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        return self.truth.original.shape(self.truth.life, self.truth.end).keys

    @cached_property
    def key(self) -> tuple[int, ...]:
        return self._places(self.names or self.keys[0])

    @property
    def uniques(self) -> list[tuple[int, ...]]:
        return list(map(self._places, self.keys))

    @property
    def refusal(self) -> str:
        """Why it cannot be taken back, by the docs: no change tells it; "" if it can."""
        truth = self.truth
        if not self.keys:
            return "has no key"
        if truth.rules.are_for(truth.name) and COLUMN in truth.columns:
            return "is masked or filtered"
        return "was emptied" if any(self.first < ts <= self.last for ts in self._truncated) else ""

    @cached_property
    def _truncated(self) -> list[int]:
        original, life = self.truth.original, self.truth.life
        emptied = (s for s in original.statements if s.action is Action.TRUNCATE_TABLE)
        return [s.ts for s in emptied if original.lives_at(s.ts).get(s.table) == life]

    @cached_property
    def _final_after(self) -> int:
        """Changes behind it have the columns and the key of the end, and their rows are there."""
        shapes = [shape for shape in self.truth.original.shapes[self.truth.life] if shape.ts <= self.truth.end]
        pairs = pairwise(shapes)
        moved = (new.ts for old, new in pairs if (old.columns, old.keys[:1]) != (new.columns, new.keys[:1]))
        return max([*moved, *(ts for ts in self._truncated if ts <= self.truth.end)], default=0)

    def at(self, ts: int) -> Rows:
        truth, original = self.truth, self.truth.original
        name = next((name for name, life in original.lives_at(ts).items() if life == truth.life), None)
        if name is None:
            return {}
        columns = original.shape(truth.life, ts).columns
        rows = (truth.as_now(ts, columns, side) for side in original.at(ts)[name].items())
        return {self.key_of(row): row for row in rows}

    @cached_property
    def touched(self) -> set[Values]:
        """The keys of the rows that are to be taken back."""
        place = self.truth.columns.index(COLUMN) if self.where else 0
        rows = self._sides(self.truth.committed(self.first, self.last))
        return {self.key_of(row) for row in rows if not self.where or fits(row[place])}

    @cached_property
    def again(self) -> set[Values]:
        return set(map(self.key_of, self._sides(self.truth.committed(self.last, self.truth.end))))

    @cached_property
    def before_a_statement(self) -> set[Values]:
        changes = self.truth.committed(self.first, self.last)
        return set(map(self.key_of, self._sides(c for c in changes if c.ts <= self._final_after)))

    def _sides(self, changes: Iterable[Change]) -> Iterator[Values]:
        for change in changes:
            sides = (side for side in (change.old, change.new) if side is not None)
            yield from (self.truth.as_now(change.ts, change.columns, side) for side in sides)

    def _places(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.truth.columns.index(name) for name in names)

    def key_of(self, row: Values) -> Values:
        return tuple(row[place] for place in self.key)


def check_undo(world: World, truth: Truth, random: Random) -> None:
    """Raises Failure unless the statements take a range back."""
    if not are_written(world, truth.committed(0, truth.end)):
        world.machine.happened[LOST] += 1
        return
    moments = [ts for ts, _ in truth.original.states if truth.since <= ts <= truth.end]
    if len(moments) < 2:
        return
    first, last = sorted(random.sample(moments[-12:], 2))
    where = truth.style.tells_old_values and COLUMN in truth.columns and random.random() < 0.3
    span, file = Range(truth, first, last, where), BytesIO()
    upto, condition = (None if last == truth.end else last), f"{COLUMN} > {LEAST}" * where
    what = f"{truth.name} from {last} back to {first}{where * ' by a condition'}"
    world.machine.now += 60.0  # a consumer that has died holds the target for a while
    world.machine.happened[f"{READER} {READ}"] += not span.refusal
    try:
        found = undo(world.settings, Recorder(), world.name(truth.name), first, upto, condition, file)
    except ConsumerError as error:
        if not (span.refusal and isinstance(error, CannotBeExact)):
            refuse(world, READER, what, error)
        return
    try:
        if span.refusal:
            raise Failure(f"statements are written, and the table {span.refusal}")
        lines = file.getvalue().decode().splitlines()
        comments = [line.removeprefix(_LEFT_OUT).rpartition(": {") for line in lines if line.startswith(_LEFT_OUT)]
        left_out = [(json.loads("{" + key), reason) for reason, _, key in comments]
        _check(world, span, found, [line for line in lines if line and not line.startswith("--")], left_out)
    except Failure as failure:
        raise Failure(f"undo of {what} is wrong: {failure}") from None


def _check(
    world: World, span: Range, told: UndoResult, lines: list[str], named: list[tuple[dict[str, str | None], str]]
) -> None:
    """`named` are the rows that are left out, by their keys."""
    truth, columns = span.truth, span.truth.columns
    span = replace(span, names=key_of(lines) or tuple(named[0][0] if named else ()))
    left_out = {tuple(key.values()): reason for key, reason in named}
    if Counter(left_out.values()) != told.left_out:
        raise Failure(f"{dict(told.left_out)} are told to be left out, and these are: {left_out}")
    if span.names and sorted(span.names) not in map(sorted, span.keys):
        raise Failure(f"rows are told by {span.names}, and the keys are {span.keys}")
    rows = world.server.store.tables[world.name(truth.name)].rows
    changed = run(lines, map(dict, rows))
    found = {span.key_of(row): row for row in (tuple(map(row.get, columns)) for row in changed)}
    back, now = span.at(span.first), span.at(truth.end)
    for each, reason in left_out.items():
        if each not in span.touched or not _is_left_out(span, each, reason, back, found):
            raise Failure(f"{each} is left out, as {reason}")
    untold = span.before_a_statement  # which may be of rows that had another key
    if more := (span.touched & span.again) - untold - left_out.keys():
        raise Failure(f"{sorted(more)} were changed again, and are taken back")
    for each in found.keys() | back.keys() | now.keys():
        stays = each not in span.touched or each in left_out
        may = [now.get(each)] * (stays or each in untold) + [back.get(each)] * (not stays)
        if found.get(each) not in may:
            raise Failure(f"the row {each} becomes {found.get(each)}, and was {back.get(each)}")
    for places in span.uniques:
        values = [value for row in found.values() if None not in (value := tuple(row[place] for place in places))]
        if len(values) > len(set(values)):
            raise Failure(f"rows have one unique value: {sorted(values)}")
    world.machine.happened["rows that are taken back"] += told.rows
    world.machine.happened["rows that are not taken back"] += len(left_out)


def _is_left_out(span: Range, key: Values, reason: str, back: Rows, found: Rows) -> bool:
    """Whether that is so."""
    if reason == HELD:
        old, others = back.get(key), [row for other, row in found.items() if other != key]
        pairs = ((places, row) for places in span.uniques for row in others)
        return old is not None and any(all(old[at] == row[at] is not None for at in places) for places, row in pairs)
    rows = {AGAIN: span.again, LATER: span.before_a_statement}
    return key in rows[reason] if reason in rows else reason == NO_OLD and not span.truth.style.tells_old_values
