"""[consumer.ddl]: what to do with the upstream's statements, by kind and table. The last rule that matches decides."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from consumer.config.rule_values import check_keys, names_of, tables_of
from consumer.config.table_filter import table_filter
from consumer.model.actions import Action
from consumer.model.ddl_policy import GROUPS, KINDS, NEVER_IGNORED, RENAMED_KINDS, DdlPolicy, PolicyOf, kind_of
from consumer.model.names import TableName

_DEFAULTS = (DdlPolicy.EVOLVE, DdlPolicy.FAIL)
_RULE_KEYS = ("kinds", "tables", "action")


@dataclass(frozen=True, slots=True)
class DdlRule:
    """`action` for statements of `kinds` on the tables that the rules `tables` let through."""

    kinds: frozenset[str]
    tables: tuple[str, ...]
    action: DdlPolicy


@dataclass(frozen=True, slots=True)
class DdlRules:
    """The default, evolve or fail, and the rules in the order of the file."""

    default: DdlPolicy = DdlPolicy.EVOLVE
    rules: tuple[DdlRule, ...] = ()

    def __str__(self) -> str:
        return str(self.default)

    def policy_of(self, case_sensitive: bool) -> PolicyOf:
        """The rules as a function of a statement's kind and table."""
        filters = [(rule, table_filter(rule.tables, case_sensitive)) for rule in self.rules]

        def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
            kind, found = kind_of(action), self.default
            for rule, wanted in filters:
                if kind in rule.kinds and (wanted.matches(table) if table.table else wanted.takes_all(table.database)):
                    found = rule.action
            return found

        return policy


def ddl_rules(value: object) -> DdlRules:
    """The table [consumer.ddl], or its default alone. Raises ValueError."""
    if isinstance(value, DdlRules):
        return value
    if isinstance(value, str):
        return DdlRules(_default(value))
    if not isinstance(value, Mapping):
        raise ValueError("give a table with default and rules, or the default alone")
    check_keys(value, ("default", "rules"), "")
    rules = value.get("rules", [])
    if not isinstance(rules, Sequence) or isinstance(rules, str) or not all(isinstance(r, Mapping) for r in rules):
        raise ValueError("rules are tables, each written [[consumer.ddl.rules]]")
    return DdlRules(
        _default(value.get("default", DdlPolicy.EVOLVE)),
        tuple(_rule(rule, f"rule {number}: ") for number, rule in enumerate(rules, 1)),
    )


def _default(value: object) -> DdlPolicy:
    if value not in _DEFAULTS:
        why = "; the others are for some kinds only, so they need a rule" if value in tuple(DdlPolicy) else ""
        raise ValueError(f"default {value!r} is not allowed; give evolve or fail{why}")
    return DdlPolicy(str(value))


def _rule(rule: Mapping[str, object], place: str) -> DdlRule:
    check_keys(rule, _RULE_KEYS, place)
    action = rule.get("action")
    if action not in tuple(DdlPolicy):
        raise ValueError(f"{place}action {action!r} is not allowed; give {_listed(DdlPolicy)}")
    kinds = [kind for name in names_of(rule, "kinds", place, optional=True) or KINDS for kind in _kinds(name, place)]
    tables = tables_of(rule, "tables", place, optional=True)
    policy = DdlPolicy(str(action))
    for kind in kinds:
        _check_action(kind, policy, place)
    return DdlRule(frozenset(kinds), tables, policy)


def _check_action(kind: str, action: DdlPolicy, place: str) -> None:
    if action is DdlPolicy.IGNORE and kind in NEVER_IGNORED:
        raise ValueError(f"{place}{kind} cannot be ignored: {NEVER_IGNORED[kind]}; give evolve or fail")
    if action is DdlPolicy.RENAME and kind not in RENAMED_KINDS:
        raise ValueError(f"{place}{kind} has no action rename; it is for {', '.join(RENAMED_KINDS)}")


def _kinds(name: str, place: str) -> tuple[str, ...]:
    """The kinds that a name in the file stands for: one, a group, or one in TiDB's own word for a database."""
    kind = name.replace("schema", "database") if name.endswith("-schema") else name
    found = GROUPS.get(kind) or ((kind,) if kind in KINDS else ())
    if not found:
        close = difflib.get_close_matches(name, [*KINDS, *GROUPS], n=1)
        meant = f"did you mean {close[0]}?" if close else f"known are {_listed([*KINDS, *GROUPS])}"
        raise ValueError(f"{place}kinds: {name!r} is not a kind of statement; {meant}")
    return found


def _listed(names: Iterable[str]) -> str:
    return ", ".join(str(name) for name in names)
