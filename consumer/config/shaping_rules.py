"""[[consumer.event-filters]] and [[consumer.rows]]: which changes are dropped, and which rows the replica has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from consumer.config.event_names import DML, KINDS_OF, ignored_kinds
from consumer.config.rule_values import Rules, TableRule, check_keys, names_of, rules_of, tables_of
from consumer.model.actions import Action
from consumer.model.ddl_policy import NEVER_IGNORED, DdlPolicy, PolicyOf, kind_of
from consumer.model.names import TableName
from consumer.model.rules import EventFilter, Shaping

_EXPRESSIONS = {
    "ignore-insert-value-expr": "insert",
    "ignore-update-old-value-expr": "update_old",
    "ignore-update-new-value-expr": "update_new",
    "ignore-delete-value-expr": "delete",
}
_EVENT_KEYS = ("matcher", "ignore-event", "ignore-sql", *_EXPRESSIONS, "collation")
_ROW_KEYS = ("tables", "where", "collation")


@dataclass(frozen=True)
class EventFilterRule(TableRule):
    """`tables` are what its `matcher` says; a database fits if some table of it does, as in TiCDC. `statements` are the
    kinds of statements that are ignored, `sql` a regular expression for their text."""

    changes: EventFilter
    statements: frozenset[str] = frozenset()
    sql: str = ""

    @cached_property
    def _text(self) -> re.Pattern[str] | None:
        return re.compile(self.sql, re.IGNORECASE) if self.sql else None

    def ignores(self, kind: str, query: str) -> bool:
        """Whether a statement of this kind and text is ignored."""
        return kind in self.statements or (self._text is not None and self._text.search(query) is not None)


@dataclass(frozen=True)
class EventFilters(Rules[EventFilterRule]):
    def policy_of(self, others: PolicyOf, case_sensitive: bool) -> PolicyOf:
        """`others`, but for the statements that a filter ignores. One that must not be ignored stops its tables."""
        if not any(rule.statements or rule.sql for rule in self.rules):
            return others

        def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
            kind = kind_of(action)
            if any(rule.ignores(kind, query) for rule in self.fitting(table, case_sensitive)):
                return DdlPolicy.FAIL if kind in NEVER_IGNORED else DdlPolicy.IGNORE
            return others(action, table, query)

        return policy


@dataclass(frozen=True)
class RowFilterRule(TableRule):
    where: str
    collation: str = ""


@dataclass(frozen=True)
class RowFilters(Rules[RowFilterRule]):
    """The first that fits decides."""


def shaping_of(events: EventFilters, rows: RowFilters, case_sensitive: bool) -> Callable[[TableName], Shaping | None]:
    """The rules of each table."""

    def shaping(table: TableName) -> Shaping | None:
        found = (rule.changes for rule in events.fitting(table, case_sensitive))
        changes = tuple(change for change in found if change.kinds or change.expressions)
        row = next(iter(rows.fitting(table, case_sensitive)), None)
        if row is None:
            return Shaping(changes) if changes else None
        return Shaping(changes, row.where, row.collation)

    return shaping


def event_filter_rules(value: object) -> EventFilters:
    """The file's tables, with TiCDC's keys. Raises ValueError."""
    if isinstance(value, EventFilters):
        return value
    return EventFilters(tuple(_event_filter(rule, place) for rule, place in rules_of(value, "event-filters")))


def row_filter_rules(value: object) -> RowFilters:
    """The file's tables. Raises ValueError."""
    if isinstance(value, RowFilters):
        return value
    return RowFilters(tuple(_row_filter(rule, place) for rule, place in rules_of(value, "rows")))


def _event_filter(rule: Mapping[str, object], place: str) -> EventFilterRule:
    check_keys(rule, _EVENT_KEYS, place)
    names = names_of(rule, "ignore-event", place, optional=True)
    events = [kind for name in names for kind in _event(name, place)]
    patterns = names_of(rule, "ignore-sql", place, optional=True)
    collation = _collation(rule, place)
    texts = {field: _expression(rule, key, place, collation) for key, field in _EXPRESSIONS.items() if key in rule}
    if not (events or patterns or texts):
        raise ValueError(f"{place}it ignores nothing; give one of {', '.join(_EVENT_KEYS[1:-1])}")
    changes = EventFilter(tuple(kind for kind in DML if kind in events), **texts, collation=collation)
    return EventFilterRule(
        tables_of(rule, "matcher", place), changes, frozenset(events) - {*DML}, _pattern(patterns, place)
    )


def _row_filter(rule: Mapping[str, object], place: str) -> RowFilterRule:
    check_keys(rule, _ROW_KEYS, place)
    if "where" not in rule:
        raise ValueError(f"{place}where is missing; give a condition such as region = 'eu'")
    collation = _collation(rule, place)
    return RowFilterRule(tables_of(rule, "tables", place), _expression(rule, "where", place, collation), collation)


def _event(name: str, place: str) -> tuple[str, ...]:
    found = ignored_kinds(name)
    if not found:
        close = difflib.get_close_matches(name.lower(), KINDS_OF, n=1)
        meant = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(KINDS_OF)}"
        raise ValueError(f"{place}ignore-event: '{name}' is not an event of TiCDC; {meant}")
    if len(found) == 1 and found[0] in NEVER_IGNORED:
        raise ValueError(f"{place}ignore-event: {name} cannot be ignored: {NEVER_IGNORED[found[0]]}")
    return found


def _pattern(patterns: Sequence[str], place: str) -> str:
    """One pattern for all, each checked alone."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise ValueError(f"{place}ignore-sql: '{pattern}' is not a regular expression ({problem})") from None
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def _expression(rule: Mapping[str, object], key: str, place: str, collation: str) -> str:
    from consumer.shaping.collations import Collation  # the parser is loaded only where there are rules
    from consumer.shaping.expressions import is_condition, parsed

    text = rule[key]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{place}{key} must be an expression, as a text")
    try:
        tree = parsed(text.strip())
        if collation:
            Collation.of(collation)
    except ValueError as problem:
        raise ValueError(f"{place}{key}: {problem}") from None
    if not is_condition(tree):
        raise ValueError(f"{place}{key}: {text!r} is a value and not a condition; write {text.strip()} <> 0")
    return text.strip()


def _collation(rule: Mapping[str, object], place: str) -> str:
    found = rule.get("collation", "")
    if not isinstance(found, str):
        raise ValueError(f"{place}collation must be a name, such as utf8mb4_bin")
    return found.lower()
