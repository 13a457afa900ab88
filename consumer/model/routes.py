"""Routes: which tables and databases have another name in the target than upstream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from consumer.model.names import TableName, same_name
from consumer.model.targets import SAME, Naming

_PART = r"(?:`(?:[^`]|``)+`|[0-9A-Za-z_$*\-\u0080-\U0010ffff]+)"
_ROUTE = re.compile(rf"\s*({_PART})\.({_PART})\s+->\s+({_PART})\.({_PART})\s*")

_Part = tuple[str, ...]
"""A part of a name: the texts around its wildcards."""
_Side = tuple[_Part, _Part]
_ANY = ("", "")
_OWN = "storage_consumer"
"""The database of the progress, on every target."""


@dataclass(frozen=True, slots=True)
class Route:
    """``DB.TABLE -> DB.TABLE``. In each part of the left name one ``*`` stands for any text; those of the right name
    stand for the same texts, in the same order. Case does not matter, as in TiDB's names."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def sides(self) -> tuple[_Side, _Side]:
        """Upstream's name and the target's. Raises ValueError for what is no route from one table to one."""
        found = _ROUTE.fullmatch(self.text)
        if found is None:
            raise ValueError(
                f"'{self.text}' is not a route; give DB.TABLE -> DB.TABLE with * as wildcard, as shop.* -> replica.*;"
                " names with other characters stand in backticks"
            )
        parts = [_part(text) for text in found.groups()]
        before, after = (parts[0], parts[1]), (parts[2], parts[3])
        if any(len(part) > 2 for part in before):
            raise ValueError(f"'{self.text}' has more than one * in a part of its left name")
        if _wildcards(after) < _wildcards(before):
            raise ValueError(
                f"'{self.text}' gives several tables one name, and they cannot be merged; each * of the left name must"
                " be in the right one"
            )
        if _wildcards(after) > _wildcards(before):
            raise ValueError(f"'{self.text}' has a * in the right name that stands for nothing in the left one")
        if same_name("".join(after[0])) == _OWN:
            raise ValueError(f"'{self.text}' leads to the database {_OWN}, in which the target keeps the progress")
        return before, after


def routes_of(texts: Sequence[str]) -> tuple[Route, ...]:
    """The checked routes. Raises ValueError."""
    routes = tuple(Route(text.strip()) for text in texts)
    seen: dict[str, Route] = {}
    for route in routes:
        before = same_name(str(route.sides[0]))
        if before in seen:
            raise ValueError(f"'{route}' is never used: '{seen[before]}' has the same tables, which get one name only")
        seen[before] = route
    return routes


def naming_of(routes: Sequence[Route]) -> Naming:
    """What the first of `routes` that fits makes of a name; one that would make an empty name does not fit. All others
    stay. A database gets the name that a route gives to it with all of its tables."""
    if not routes:
        return SAME
    compiled = [
        (route.text, _pattern(database), _pattern(table), after, table == _ANY and len(database) == len(after[0]))
        for route, ((database, table), after) in ((route, route.sides) for route in routes)
    ]
    unused, goals = {route.text for route in routes}, [_pattern(route.sides[1][0]) for route in routes]

    @cache
    def rename(name: TableName) -> TableName:
        for text, database, table, after, whole in compiled:
            first, second = _matched(database, name.database), _matched(table, name.table)
            if first is not None and second is not None and (name.table or whole):
                texts = iter((*first, *second))
                target = TableName(_filled(after[0], texts), _filled(after[1], texts) if name.table else "")
                if target.database and bool(target.table) == bool(name.table):
                    unused.discard(text)
                    return target
        return name

    def leads_to(database: str) -> bool:
        return any(_matched(goal, database) is not None for goal in goals)

    return Naming(rename, json.dumps([route.text for route in routes]), unused, leads_to)


def naming_from(recorded: str) -> Naming:
    """That of the routes as a `Naming` has them as text."""
    return naming_of(routes_of(json.loads(recorded))) if recorded else SAME


def _part(text: str) -> _Part:
    return (text[1:-1].replace("``", "`"),) if text.startswith("`") else tuple(text.split("*"))


def _wildcards(side: _Side) -> int:
    return sum(len(part) - 1 for part in side)


def _pattern(part: _Part) -> re.Pattern[str]:
    return re.compile("(.*)".join(re.escape(same_name(text)) for text in part), re.DOTALL)


def _matched(pattern: re.Pattern[str], name: str) -> list[str] | None:
    """What the wildcard stands for in `name`, as that is spelled; None where the pattern does not fit."""
    found = pattern.fullmatch(same_name(name))
    return None if found is None else [name[slice(*found.span(group))] for group in range(1, pattern.groups + 1)]


def _filled(part: _Part, texts: Iterator[str]) -> str:
    return part[0] + "".join(next(texts) + text for text in part[1:])
