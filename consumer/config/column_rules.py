"""[[consumer.columns]]: which columns tables of the target have, and under which names. The first rule that fits
decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from consumer.config.rule_values import Rules, TableRule, check_keys, names_just, names_of, rules_of, tables_of
from consumer.model.names import NAME_LIMIT, TableName, same_names
from consumer.model.table_modes import Chosen, in_order

_KEYS = ("tables", "include", "exclude", "rename")


@dataclass(frozen=True)
class ColumnRule(TableRule):
    chosen: Chosen


@dataclass(frozen=True)
class ColumnRules(Rules[ColumnRule]):
    def of(self, table: TableName, case_sensitive: bool) -> Chosen | None:
        """The columns of `table`, None for all."""
        found = next(iter(self.fitting(table, case_sensitive)), None)
        if found is None or not names_just(found.tables, table, case_sensitive):
            return None if found is None else found.chosen
        return _with_named(found.chosen)


def column_rules(value: object) -> ColumnRules:
    """The file's tables. Raises ValueError."""
    if isinstance(value, ColumnRules):
        return value
    return ColumnRules(tuple(_rule(rule, place) for rule, place in rules_of(value, "columns")))


def _rule(rule: Mapping[str, object], place: str) -> ColumnRule:
    check_keys(rule, _KEYS, place)
    if not {"include", "exclude", "rename"}.intersection(rule):
        raise ValueError(f"{place}give include, exclude or rename")
    include, exclude = (in_order(names_of(rule, key, place, optional=True)) for key in ("include", "exclude"))
    return ColumnRule(tables_of(rule, "tables", place), Chosen(include, exclude, _renames(rule, place)))


def _renames(rule: Mapping[str, object], place: str) -> tuple[tuple[str, str], ...]:
    found = rule.get("rename", {})
    if not isinstance(found, Mapping) or not all(isinstance(new, str) for new in found.values()):
        raise ValueError(f'{place}rename must be a table of names, as {{ mail = "email" }}')
    for old, new in found.items():
        if not old or "*" in old or not new or len(new) > NAME_LIMIT or new != new.rstrip():
            raise ValueError(
                f"{place}rename: '{old}' to '{new}': both are whole names, the new one of 1 to {NAME_LIMIT} characters"
                " with no blank at its end"
            )
    for names in (found.keys(), found.values()):
        if len(same_names(map(str, names))) < len(found):
            raise ValueError(f"{place}rename has a name twice")
    return tuple(sorted((str(old), str(new)) for old, new in found.items()))


def _with_named(chosen: Chosen) -> Chosen:
    whole = [name for name in (*chosen.include, *chosen.exclude) if "*" not in name]
    renamed = [old for old, _ in chosen.renames]
    return Chosen(chosen.include, chosen.exclude, chosen.renames, tuple(dict.fromkeys((*whole, *renamed))))
