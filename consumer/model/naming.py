"""Maps upstream's tables and databases to names in the target, by routes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from consumer.model.names import NAME_LIMIT, TableName, qualified, same_name
from consumer.model.progress import DdlState, ProgressChange, is_parallel_load
from consumer.model.table_modes import SOURCE, ModeKind, TableMode


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of upstream's tables and databases in the target.

    - `rename` returns the target's name for an upstream's name of a table or of a database; None: they are the same. It
      returns the same for names that differ only in case. The plan applies it to what it passes to the target.
      Progress, storage and messages use the upstream's names.
    - `routes` is what the progress keeps of it, as JSON.
    - `unused` are the routes that have matched no name so far.
    - `leads_to(database)` returns whether tables can come by a route to the target's database of this name.
    - `databases(table, target)` returns the upstream databases from which a table called `table` would become `target`,
      with a * if a route merges those of several.
    - `modes` returns the mode of an upstream's table that is no mirror in the target; None: all are mirrors.
    """

    rename: Callable[[TableName], TableName] | None = None
    routes: str = ""
    unused: Collection[str] = ()
    leads_to: Callable[[str], bool] = lambda database: False
    modes: Callable[[TableName], TableMode | None] | None = None
    databases: Callable[[str, TableName], Collection[str]] = lambda table, target: (
        [target.database] if same_name(table) == same_name(target.table) else []
    )

    final: Naming | None = None
    """The final names of tables that are being loaded to replace others."""

    def target(self, name: TableName) -> TableName:
        return name if self.rename is None else self.rename(name)

    def targets(self, names: Iterable[TableName]) -> tuple[TableName, ...]:
        return tuple(names) if self.rename is None else tuple(map(self.rename, names))

    def mode(self, name: TableName) -> TableMode | None:
        """Returns the mode of a table, None for a mirror or a database."""
        return None if self.modes is None or not name.table else self.modes(name)

    def keeps_ended(self, name: TableName) -> bool:
        """Returns whether rows of the table stay that upstream no longer has."""
        mode = self.mode(name)
        return mode is not None and mode.keeps_ended

    def merges(self, name: TableName) -> bool:
        """Returns whether the target's table also has rows of other tables."""
        mode = self.mode(name)
        return mode is not None and mode.merges

    def other_name(self, name: TableName) -> str:
        """Returns the target's name if it differs from upstream's, else "". It is for people: a table that is being
        loaded to replace another one has its final name."""
        target = (self.final or self).target(name)
        return "" if target == name else str(target)

    def shown(self, name: TableName) -> str:
        """Returns the target's name for messages, with the upstream's if that differs."""
        other = self.other_name(name)
        return f"{other} (upstream's {name})" if other else str(name)

    def by_hand(self, change: ProgressChange) -> ProgressChange:
        """Returns `change` with the tables whose statements it records as done by a person, or as skipped."""
        skipped = (TableName(*record.id[:2]) for record in change.ddls if record.state is DdlState.SKIPPED)
        return replace(change, by_hand=self.targets(dict.fromkeys(skipped)))


SAME = Naming()


_PART = r"(?:`(?:[^`]|``)+`|[0-9A-Za-z_$*\-\u0080-\U0010ffff]+)"
_ROUTE = rf"\s*({_PART})\.({_PART})\s+->\s+({_PART})\.({_PART})(?:\s+merge\s+({_PART}))?\s*"
"""Compiled for the first route: that takes 10 ms, and most starts have none."""

_Part = tuple[str, ...]
"""A part of a name: the texts around its wildcards."""
_Side = tuple[_Part, _Part]
_ANY = ("", "")
_OWN = "storage_consumer"
"""The database of the progress, on every target."""


@dataclass(frozen=True, slots=True)
class Route:
    """``DB.TABLE -> DB.TABLE``. In each part of the left name one ``*`` stands for any text; those of the right name
    stand for the same texts, in the same order. Case does not matter, as in TiDB's names.

    ``DB.TABLE -> DB.TABLE merge COLUMN``: tables that get one name are merged, with that column. There a ``*`` of the
    right name stands for the text of the same part of the left one.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def sides(self) -> tuple[_Side, _Side]:
        """Upstream's name and the target's. Raises ValueError for a text that is no route from one table to one, or
        from several that are merged."""
        parts = [_part(text) for text in self._found.groups()[:4]]
        before, after = (parts[0], parts[1]), (parts[2], parts[3])
        if any(len(part) > 2 for part in before):
            raise ValueError(f"'{self.text}' has more than one * in a part of its left name")
        if self.merge:
            if any(len(target_part) > len(part) for part, target_part in zip(before, after, strict=True)):
                raise ValueError(
                    f"'{self.text}' has a * in the right name that stands for nothing in the same part of the left one"
                )
        elif _wildcards(after) < _wildcards(before):
            raise ValueError(
                f"'{self.text}' gives several tables one name; merge them with a column that says which table a row is"
                f" of, as in '{self.text} merge _source', or have each * of the left name in the right one"
            )
        elif _wildcards(after) > _wildcards(before):
            raise ValueError(f"'{self.text}' has a * in the right name that stands for nothing in the left one")
        return before, after

    @property
    def merge(self) -> str:
        """The column that it adds to the tables that it merges, "" if it merges none. Raises ValueError."""
        written = self._found[5]
        if written is None:
            return ""
        name = "".join(_part(written))
        if "*" in written and not written.startswith("`"):
            raise ValueError(f"'{self.text}' has a * in the name of the column")
        if len(name) > NAME_LIMIT or name != name.rstrip():
            raise ValueError(f"'{self.text}': the column's name has 1 to {NAME_LIMIT} characters, no blank at its end")
        return name

    @property
    def _found(self) -> re.Match[str]:
        match = re.fullmatch(_ROUTE, self.text)
        if match is None:
            raise ValueError(
                f"'{self.text}' is not a route; give DB.TABLE -> DB.TABLE with * as wildcard, as shop.* -> replica.*;"
                " names with other characters stand in backticks"
            )
        return match


def routes_of(texts: Sequence[str]) -> tuple[Route, ...]:
    """Returns the checked routes. Raises ValueError."""
    routes = tuple(Route(text.strip()) for text in texts)
    by_left_side: dict[str, Route] = {}
    for route in routes:
        if same_name("".join(route.sides[1][0])) == _OWN:
            raise ValueError(f"'{route}' leads to the database {_OWN}, in which the target keeps the progress")
        before = same_name(str(route.sides[0]))
        if before in by_left_side:
            raise ValueError(
                f"'{route}' is never used: '{by_left_side[before]}' has the same tables, which get one name only"
            )
        by_left_side[before] = route
    return routes


def naming_of(routes: Sequence[Route]) -> Naming:
    """Returns the naming by which the first matching route maps a name. A route that would make an empty name does not
    match. All other names stay. A database gets the name that a route gives to it with all of its tables, unless the
    route merges them."""
    if not routes:
        return SAME
    compiled = [_Compiled.of(route) for route in routes]
    unused, goals = {route.text for route in routes}, [_pattern(route.sides[1][0]) for route in routes]

    @cache
    def mapped(name: TableName) -> tuple[TableName, TableMode | None]:
        for route in compiled:
            if (target := route.target(name)) is not None:
                unused.discard(route.text)
                return target, route.mode
        return name, None

    def databases(table: str, target: TableName) -> set[str]:
        candidates = {name for route in compiled for name in route.databases(table, target)} | {target.database}
        return {name for name in candidates if "*" in name or _renamed(TableName(name, table)).folded == target.folded}

    def _renamed(name: TableName) -> TableName:
        """Returns the new name without counting a route as used."""
        return next((new for route in compiled if (new := route.target(name)) is not None), name)

    def leads_to(database: str) -> bool:
        return any(_matched(goal, database) is not None for goal in goals)

    return Naming(
        lambda name: mapped(name)[0],
        json.dumps([route.text for route in routes]),
        unused,
        leads_to,
        (lambda name: mapped(name)[1]) if any(route.mode for route in compiled) else None,
        databases,
    )


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A route by its patterns. `whole` means that it is for a database with all of its tables; `mode` is that of its
    tables."""

    text: str
    before: _Side
    database: re.Pattern[str]
    table: re.Pattern[str]
    after: _Side
    whole: bool
    mode: TableMode | None

    @classmethod
    def of(cls, route: Route) -> _Compiled:
        before, after = route.sides
        database, table = before
        whole_database = not route.merge and table == _ANY and len(database) == len(after[0])
        names = ((SOURCE, route.merge),) if route.merge != SOURCE else ()
        mode = TableMode(ModeKind.MERGE, names) if route.merge else None
        return cls(route.text, before, _pattern(database), _pattern(table), after, whole_database, mode)

    def target(self, name: TableName) -> TableName | None:
        """Returns the target's name, None if the route does not match."""
        first, second = _matched(self.database, name.database), _matched(self.table, name.table)
        if first is None or second is None or not (name.table or self.whole):
            return None
        texts = iter((*first, *second))
        database = _filled(self.after[0], iter(first) if self.mode else texts)
        table = _filled(self.after[1], iter(second) if self.mode else texts) if name.table else ""
        return TableName(database, table) if database and bool(table) == bool(name.table) else None

    def databases(self, table: str, target: TableName) -> Iterator[str]:
        """Yields the upstream's database whose `table` the route can map to `target`, with its * if that stands for any
        text."""
        if (second := _matched(self.table, table)) is None:
            return
        first = [None] * self.database.groups
        texts = iter((*first, *second))
        database = _partly(self.after[0], iter(first) if self.mode else texts)
        parts = (database, _partly(self.after[1], iter(second) if self.mode else texts))
        matches = [_matched(_pattern(part), text) for part, text in zip(parts, target, strict=True)]
        if None not in matches:
            stands_for = [text for texts in matches for text in texts or ()]
            yield _filled(self.before[0], iter(stands_for)) if stands_for or not first else "*".join(self.before[0])


def naming_from(recorded: str) -> Naming:
    """Returns the naming of the routes in `recorded`, the text of a `Naming`."""
    routes = [Route(text) for text in json.loads(recorded or "[]")]
    final = [route for route in routes if not is_parallel_load(TableName(*map("*".join, route.sides[1])))]
    naming = naming_of(routes)
    return naming if len(final) == len(routes) else replace(naming, final=naming_of(final))


def naming_with_places(naming: Naming, places: Mapping[TableName, TableName]) -> Naming:
    """Returns `naming`, except that the target has the tables in `places` under these names until all of their rows are
    there."""
    moved = {name.folded: place for name, place in places.items()}
    former = {place: name.database for name, place in places.items()}
    routes = [f"{qualified(*name)} -> {qualified(*place)}" for name, place in places.items()]
    return replace(
        naming,
        rename=lambda name: moved.get(name.folded) or naming.target(name),
        final=naming.final or naming,
        routes=json.dumps([*routes, *json.loads(naming.routes or "[]")]),
        databases=lambda table, target: [former[target]] if target in former else naming.databases(table, target),
    )


def _part(text: str) -> _Part:
    return (text[1:-1].replace("``", "`"),) if text.startswith("`") else tuple(text.split("*"))


def _wildcards(side: _Side) -> int:
    return sum(len(part) - 1 for part in side)


def _pattern(part: _Part) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(same_name(text)) for text in part), re.DOTALL)


def _matched(pattern: re.Pattern[str], name: str) -> list[str] | None:
    """Returns the texts that the wildcards stand for in `name`, as that is spelled; None if the pattern does not
    match."""
    match = pattern.fullmatch(same_name(name))
    return None if match is None else [name[slice(*match.span(group))] for group in range(1, pattern.groups + 1)]


def _partly(part: _Part, texts: Iterator[str | None]) -> _Part:
    """Returns the part with the known texts in place of their wildcards."""
    parts = [part[0]]
    for text in part[1:]:
        if (filled := next(texts)) is None:
            parts.append(text)
        else:
            parts[-1] += filled + text
    return tuple(parts)


def _filled(part: _Part, texts: Iterator[str]) -> str:
    return part[0] + "".join(next(texts) + text for text in part[1:])
