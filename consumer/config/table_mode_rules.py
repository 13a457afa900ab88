"""[[consumer.forms]]: what tables of the target keep of upstream's changes. The first rule that matches decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consumer.config.rule_values import Rules, TableRule
from consumer.config.table_filter import TableFilter
from consumer.model.names import NAME_LIMIT, TableName, same_names
from consumer.model.table_modes import ModeKind, TableMode

_MIRROR = "mirror"
_FORMS = (_MIRROR, ModeKind.APPEND, ModeKind.SOFT_DELETE, ModeKind.HISTORY)
_KEYS = ("tables", "form", "columns")


@dataclass(frozen=True)
class FormRule(TableRule):
    """`form` is None for a mirror."""

    form: TableMode | None

    def __str__(self) -> str:
        return f"{', '.join(self.tables)} = {self.form or _MIRROR}"


class FormRules(Rules[FormRule]):
    def of(self, table: TableName, case_sensitive: bool) -> TableMode | None:
        """The form of `table`, None for a mirror."""
        found = next(iter(self.fitting(table, case_sensitive)), None)
        return None if found is None else found.form


def form_rules(value: object) -> FormRules:
    """``RULE = FORM`` entries: a list, text with these divided by ``;``, or the file's tables with `tables`, `form` and
    `columns`. Raises ValueError."""
    if isinstance(value, FormRules):
        return value
    entries = value.split(";") if isinstance(value, str) else value
    if not isinstance(entries, Sequence):
        raise ValueError("give a list of forms")
    return FormRules(tuple(map(_rule, (entry for entry in entries if not _is_blank(entry)))))


def _is_blank(entry: object) -> bool:
    return isinstance(entry, str) and not entry.strip()


def _rule(entry: object) -> FormRule:
    if isinstance(entry, Mapping):
        return _of_table(entry)
    rule, equals, form = str(entry).rpartition("=")
    if not equals:
        raise ValueError(f"{str(entry)!r} is not a form of tables; give RULE = FORM, as shop.* = append")
    return FormRule(_checked([rule.strip()]), _form(form.strip(), {}))


def _of_table(entry: Mapping[str, object]) -> FormRule:
    for key in entry:
        if key not in _KEYS:
            raise ValueError(f"{key} is not a key of a form; known are {', '.join(_KEYS)}")
    tables, columns = entry.get("tables"), entry.get("columns", {})
    if not isinstance(tables, list) or not tables or not all(isinstance(rule, str) for rule in tables):
        raise ValueError("a form has tables, a list of table rules")
    if not isinstance(columns, Mapping):
        raise ValueError('columns of a form is a table of names, as { _op = "change" }')
    return FormRule(_checked(tables), _form(entry.get("form"), columns))


def _checked(rules: Sequence[str]) -> tuple[str, ...]:
    TableFilter(rules)
    return tuple(rules)


def _form(kind: object, columns: Mapping[str, object]) -> TableMode | None:
    if kind not in _FORMS:
        raise ValueError(f"form {kind!r} is not known; give {', '.join(_FORMS)}")
    if kind == _MIRROR:
        if columns:
            raise ValueError("a mirror has no columns of its own to name")
        return None
    usual = TableMode(ModeKind(str(kind))).usual
    for name, own in columns.items():
        if name not in usual:
            raise ValueError(f"{name} is no column that the form {kind} adds; it adds {', '.join(usual)}")
        if not isinstance(own, str) or not own or len(own) > NAME_LIMIT or own != own.rstrip():
            raise ValueError(f"the name of {name} must be a text of 1 to {NAME_LIMIT} characters, no blank at its end")
    found = TableMode(
        ModeKind(str(kind)), tuple(sorted((name, str(own)) for name, own in columns.items() if own != name))
    )
    names = [column.name for column in found.added]
    if len(same_names(names)) < len(names):
        raise ValueError(f"two columns of the form {kind} have one name: {', '.join(names)}")
    return found
