"""What the tables of rules in the file have in common. All raise ValueError."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from consumer.config.table_filter import TableFilter, table_filter, whole_name
from consumer.model.names import TableName
from consumer.model.rules import NamedTable


@dataclass(frozen=True)
class TableRule:
    """A rule for the tables that the table rules `tables` let through."""

    tables: tuple[str, ...]


_R = TypeVar("_R", bound=TableRule)


@dataclass(frozen=True)
class Rules(Generic[_R]):
    """In the order of the file."""

    rules: tuple[_R, ...] = ()

    def __str__(self) -> str:
        return ""

    def fitting(self, table: TableName, case_sensitive: bool) -> list[_R]:
        """Those for `table`."""
        return [rule for rule in self.rules if table_filter(rule.tables, case_sensitive).matches(table)]


def rules_of(value: object, name: str) -> list[tuple[Mapping[str, object], str]]:
    """The tables ``[[consumer.NAME]]``, or JSON of them, each with what messages about it begin with."""
    value = from_json(value)
    if not isinstance(value, Sequence) or not all(isinstance(r, Mapping) for r in value):
        raise ValueError(f"give tables in the file, each written [[consumer.{name}]], or a list of them as JSON")
    return [(rule, f"rule {number}: ") for number, rule in enumerate(value, 1)]


def from_json(value: object) -> object:
    """A text of the environment as what the file would have."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def check_keys(rule: Iterable[str], known: Sequence[str], place: str) -> None:
    for key in rule:
        if key not in known:
            raise ValueError(f"{place}{key} is not a key; known are {', '.join(known)}")


def names_of(rule: Mapping[str, object], key: str, place: str, optional: bool = False) -> list[str]:
    """A list of texts; [] for an optional key that is not there. An empty list would mean nothing, and is refused."""
    if optional and key not in rule:
        return []
    value: Any = rule.get(key)
    end = ", or left out" if optional else ""
    if not isinstance(value, list) or not value or not all(isinstance(entry, str) for entry in value):
        raise ValueError(f"{place}{key} must be a list of texts, with one at least{end}")
    return list(value)


def tables_of(rule: Mapping[str, object], key: str, place: str, optional: bool = False) -> tuple[str, ...]:
    """Table rules, checked; () for an optional key that is not there."""
    found = tuple(names_of(rule, key, place, optional))
    try:
        TableFilter(found)
    except ValueError as problem:
        raise ValueError(f"{place}{key}: {problem}") from None
    return found


def names_just(rules: Sequence[str], table: TableName, case_sensitive: bool) -> bool:
    """Whether one of the table rules is the name of `table`, without any wildcard."""
    named = (rule for rule in rules if whole_name(rule) is not None)
    return any(table_filter((rule,), case_sensitive).matches(table) for rule in named)


def named_tables(setting: str, rules: Sequence[str]) -> Iterator[NamedTable]:
    """The tables that some of the rules of `setting` give without any wildcard."""
    for rule in rules:
        if (table := whole_name(rule)) is not None:
            yield NamedTable(setting, rule, table)
