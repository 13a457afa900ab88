"""What readers must give: rows and changes of a table by upstream's own past, in each form in which a reader may tell
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from consumer.model.columns import Column
from consumer.model.times import LOGICAL_BITS
from tests.simulate.machine import Failure
from tests.simulate.original import Original
from tests.simulate.rows import changes_a_key, image, keys_of
from tests.simulate.shaping import MASK, Ruled, Rules, fits
from tests.simulate.style import Style
from tests.simulate.world import World
from tests.support.upstream import Change, Row

Values = tuple[str | None, ...]
"""Of a row, in the order of the table's columns."""


@dataclass(frozen=True)
class Told:
    """A change as a reader gives it: what it was (I, U or D), its commit-ts, and its values. `before`: what it found,
    None where it found nothing, or nobody is told."""

    op: str
    ts: int
    values: Values
    before: Values | None = None

    def __str__(self) -> str:
        return f"{self.op} {self.values}{f' from {self.before}' if self.before else ''} at {self.ts}"


Forms = list[list[Told]]
"""In which something may be told: one of them is."""


@dataclass(frozen=True)
class Truth:
    """Of the table with a `life`, which is called `name` at the moment `end`. Values that `rules` have ever masked stay
    masked, and rows that they have left out are left out. The storage has what was committed after `since`."""

    original: Original
    style: Style
    rules: Rules
    since: int
    life: int
    name: str
    end: int

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.original.shape(self.life, self.end).columns)

    @cached_property
    def ruled(self) -> Ruled:
        return Ruled.of(self.rules, self.original, self.life, self.end)

    @property
    def rows(self) -> Counter[Values]:
        """At the end. Raises Failure where the rules do not say which there are."""
        shape = self.original.shape(self.life, self.end)
        full = [image(shape.columns, side) for side in self.original.at(self.end)[self.name].items()]
        rows = [tuple(row[name] for name in self.columns) for row in full]
        if self.ruled.filters:
            places = [place for place, number in enumerate(shape.numbers) if number in self.ruled.numbers]
            if len(places) != 1:
                raise Failure(f"{self.name} is read, and nothing shows which of its rows")
            rows = [row for row in rows if fits(row[places[0]])]
        return Counter(map(self._masked, rows))

    def moments(self) -> list[int]:
        """Those at which it was called so."""
        pairs = zip(self.original.states, self.original.lives, strict=True)
        return [ts for (ts, _), lives in pairs if ts <= self.end and lives.get(self.name) == self.life]

    def committed(self, first: int, upto: int) -> list[Change]:
        """What was committed to it behind `first` and up to a moment, as far as the storage is to have it."""
        own = (change for change in self.original.changes if change.life == self.life)
        return [c for c in own if first < self.seen(c) and self.since < c.ts <= upto]

    def check(self, found: Iterable[Told], first: int, before: bool, upto: int | None = None) -> None:
        """Raises Failure unless `found` are its changes behind `first`, each once, in the columns of the end. `before`:
        with what they found; `upto`: not up to the end."""
        if self.ruled.filters:
            raise Failure("changes of a table with a filter are given")
        left, missing = Counter(found), list[str]()
        for _, changes in groupby(self.committed(first, self.end if upto is None else upto), key=self.seen):
            tries = [_taken(left, way, before) for way in self._ways(list(changes))]
            left, lacks = min(tries, key=lambda tried: len(tried[1]))
            missing += lacks
        if missing or left:
            raise Failure(f"missing {missing}, too many {[str(told) for told in left.elements()]}")

    def seen(self, change: Change) -> int:
        """Its time as the files have it."""
        return change.ts if self.style.commit_ts else change.ts >> LOGICAL_BITS << LOGICAL_BITS

    def _ways(self, changes: Sequence[Change]) -> list[list[Forms]]:
        """In which a transaction may be told: rows that went to other keys by these keys, or by themselves."""
        if not any(map(changes_a_key, changes)):
            return [list(map(self._whole, changes))]
        plain = [c for c in changes if c.kind == "UPDATE" and not changes_a_key(c)]
        others = [c for c in changes if c not in plain]
        return [[*map(self._whole, plain), *forms] for forms in (self._by_key(others), map(self._whole, others))]

    def _whole(self, change: Change) -> Forms:
        """A row by itself."""
        ts = self.seen(change)
        old, new = (None if side is None else self._values(change, side) for side in (change.old, change.new))
        if old is None or new is None:
            return [[Told("I", ts, new)]] if new is not None else [[Told("D", ts, old or (), old)]]
        forms = [[Told("U", ts, new, old if self.style.tells_old_values else None)]]
        keyed = self.original.shape(self.life, change.ts).keys and self.original.shape(self.life, self.end).keys
        return forms if keyed else [*forms, [Told("D", ts, old, old), Told("I", ts, new)]]

    def _by_key(self, changes: Sequence[Change]) -> Iterator[Forms]:
        """Where a row goes and another one comes under its key, these may be one change."""
        ts, (names, *_) = self.seen(changes[0]), keys_of(changes[0].columns, changes[0].uniques)

        def by_key(sides: Iterable[tuple[Change, tuple[int, Row] | None]]) -> dict[Values, Values]:
            there = ((change, side, image(change.columns, side)) for change, side in sides if side is not None)
            return {tuple(row[name] for name in names): self._values(change, side) for change, side, row in there}

        gone, came = by_key((c, c.old) for c in changes), by_key((c, c.new) for c in changes)
        for each in gone.keys() | came.keys():
            went = [Told("D", ts, old, old)] if (old := gone.get(each)) is not None else []
            if (new := came.get(each)) is None:
                yield [went]
            else:
                ops = ("I", "U")
                both = [[*went, Told(op, ts, new, found)] for op in ops for found in dict.fromkeys((None, old))]
                yield [*both, [Told("U", ts, new, old)], [Told("U", ts, new)]]

    def _values(self, change: Change, side: tuple[int, Row]) -> Values:
        return self.as_now(change.ts, change.columns, side)

    def as_now(self, ts: int, columns: Sequence[Column], side: tuple[int, Row]) -> Values:
        """A row of that moment in the columns of the end: what came later has what the statement gave it."""
        then, original = self.original.shape(self.life, ts), self.original
        row = image(columns, side)
        known = {number: row[column.name] for number, column in zip(then.numbers, then.columns, strict=True)}
        numbers = original.shape(self.life, self.end).numbers
        values = tuple(known[number] if number in known else original.made[number] for number in numbers)
        return self._masked(values)

    def _masked(self, values: Values) -> Values:
        numbers = self.original.shape(self.life, self.end).numbers
        return tuple(MASK if n in self.ruled.masked else value for n, value in zip(numbers, values, strict=True))


def are_written(world: World, changes: Iterable[Change]) -> bool:
    """Whether the storage has all of them."""
    there = {id(change) for rows in world.changefeed.written.values() for change in rows}
    return all(id(change) in there for change in changes)


def _taken(found: Counter[Told], way: Iterable[Forms], before: bool) -> tuple[Counter[Told], list[str]]:
    """What is left of `found` without these, and what is not there."""
    left, missing = found.copy(), list[str]()
    for forms in way:
        wanted = [Counter(form if before else (replace(told, before=None) for told in form)) for form in forms]
        form = next((form for form in wanted if form <= left), None)
        if form is None:
            missing.append(" and ".join(map(str, forms[0])))
        else:
            left -= form
    return left, missing
