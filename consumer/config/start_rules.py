"""start-ts: the moment that the target's tables are of before the first run, and those of single tables. Of these the
last rule that matches decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from consumer.config import moments
from consumer.config.rule_values import names_just
from consumer.config.table_filter import TableFilter, table_filter
from consumer.model.names import TableName
from consumer.model.rules import NOW, Starts

_NOW = "now"


@dataclass(frozen=True, slots=True)
class StartRules:
    """`whole` is the moment of all tables; `rules` are table rules with their moments, in order."""

    whole: str | None = None
    rules: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return ""

    def starts(self, tso_of: Callable[[str], int], case_sensitive: bool) -> Starts:
        """The compiled form of `rules`; `tso_of` gives the TSO of a moment."""
        if not self.rules:
            return Starts()
        found = [
            _Rule(table_filter((rule,), case_sensitive), NOW if moment == _NOW else tso_of(moment), rule, moment)
            for rule, moment in self.rules
        ]

        @cache
        def deciding(table: TableName) -> _Rule | None:
            return next((rule for rule in reversed(found) if rule.fits.matches(table)), None)

        def is_just(rule: _Rule, table: TableName) -> bool:
            return names_just((rule.tables,), table, case_sensitive)

        def of(table: TableName) -> int | None:
            return None if (rule := deciding(table)) is None else rule.ts

        def just(table: TableName) -> str:
            return str(rule) if (rule := deciding(table)) is not None and is_just(rule, table) else ""

        def has_effect(rule: _Rule, table: TableName) -> bool:
            """Of a pattern: or will have, as later tables can fit it."""
            return rule.fits.matches(table) and (deciding(table) is rule or not is_just(rule, table))

        def unfit(names: Iterable[TableName]) -> Sequence[str]:
            known = list(names)
            return [str(rule) for rule in found if not any(has_effect(rule, name) for name in known)]

        return Starts(of, unfit, just)


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    fits: TableFilter
    ts: int
    tables: str
    moment: str

    def __str__(self) -> str:
        return f"{self.tables}={self.moment}"


def start_rules(value: object) -> StartRules:
    """A moment, a list of moments and ``RULE=MOMENT``, text with these divided by ``;``, or a table of the file with
    rules and moments. Raises ValueError."""
    if value is None or isinstance(value, StartRules):
        return value or StartRules()
    if isinstance(value, Mapping):
        return StartRules(rules=tuple(_rule(str(rule), str(moment)) for rule, moment in value.items()))
    entries = str(value).split(";") if isinstance(value, str) or not isinstance(value, Sequence) else value
    pairs = [str(entry).strip().rpartition("=") for entry in entries if str(entry).strip()]
    whole = list(dict.fromkeys(moment for _, equals, moment in pairs if not equals))
    if len(whole) > 1:
        raise ValueError(f"it gives two moments for all tables, {whole[0]} and {whole[1]}")
    rules = tuple(_rule(rule, moment) for rule, equals, moment in pairs if equals)
    return StartRules(moments.moment(whole[0]) if whole else None, rules)


def _rule(rule: str, moment: str) -> tuple[str, str]:
    rule, moment = rule.strip(), moment.strip()
    if rule.startswith("!"):
        raise ValueError(f"{rule!r} leaves tables out; give the others a rule with the moment")
    TableFilter((rule,))
    return rule, moment if moment == _NOW else str(moments.moment(moment))
