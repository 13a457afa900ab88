"""on-bad-row: which tables stop at a bad row, and which go on without it. The last rule that matches decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consumer.config.table_filter import TableFilter, table_filter
from consumer.model.bad_rows import STOP, BadRowAction
from consumer.model.names import TableName

_STOP, _QUARANTINE = _ACTIONS = ("stop", "quarantine")


@dataclass(frozen=True, slots=True)
class BadRowRules:
    """Table rules with their actions, in order."""

    rules: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return _STOP

    @property
    def any(self) -> bool:
        """Whether rows of some table can be quarantined."""
        return any(action == _QUARANTINE for _, action in self.rules)

    def action_of(self, table: TableName, case_sensitive: bool, most: int) -> BadRowAction:
        """What `table` does, where at `most` so many rows of one may be quarantined."""
        fitting = [action for rule, action in self.rules if table_filter((rule,), case_sensitive).matches(table)]
        return BadRowAction(most) if fitting[-1:] == [_QUARANTINE] else STOP


def bad_row_rules(value: object) -> BadRowRules:
    """An action for all tables, a list of ``RULE=ACTION``, text with these divided by ``;``, or a table of the file.
    Raises ValueError."""
    if isinstance(value, BadRowRules):
        return value
    if isinstance(value, Mapping):
        return BadRowRules(tuple(_rule(str(rule), action) for rule, action in value.items()))
    entries = value.split(";") if isinstance(value, str) else value
    if not isinstance(entries, Sequence) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError("give stop, quarantine, or a table of rules and actions")
    pairs = (entry.strip().rpartition("=") for entry in entries if entry.strip())
    return BadRowRules(tuple(_rule(rule if equals else "*.*", action) for rule, equals, action in pairs))


def _rule(rule: str, action: object) -> tuple[str, str]:
    if action not in _ACTIONS:
        raise ValueError(f"{action!r} is not allowed; give {' or '.join(_ACTIONS)}, for some tables as shop.*=stop")
    if rule.startswith("!"):
        raise ValueError(f"{rule!r} leaves tables out; give those a rule with the other action")
    TableFilter((rule,))
    return rule.strip(), str(action)
