"""What the operator's settings say of tables, and of how much is processed at a time. The values are passed on
whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.model.bad_rows import STOP, BadRowAction
from consumer.model.columns import Column
from consumer.model.ddl_policy import PolicyOf, evolve
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.rules import NO_STARTS, NONE_NAMED, Consistency, NamedTables, ShapingOf, Starts, unshaped


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules for each table of upstream."""

    wanted: Callable[[TableName], bool]
    """Returns whether the table filter includes the table."""
    naming: Naming = SAME
    """The tables' names in the target and their table modes."""
    shaping_of: ShapingOf = unshaped
    policy_of: PolicyOf = evolve
    """Returns the policy by [consumer.ddl], and by the event filters that ignore statements."""
    bad_row_action: Callable[[TableName], BadRowAction] = lambda _: STOP
    starts: Starts = NO_STARTS
    """Which tables begin at a moment of their own."""
    accept_gap: Callable[[TableName], bool] = lambda _: False
    """Returns whether missing files are accepted."""
    never_split: Callable[[TableName], bool] = lambda _: False
    """Returns whether no two writers share a table without a key."""
    named: NamedTables = NONE_NAMED
    """The tables that rules give by their full names."""
    selected: Callable[[TableName, Sequence[Column]], tuple[Column, ...]] = lambda _, columns: tuple(columns)
    """Returns which of a table's columns TiCDC writes."""
    filter: tuple[str, ...] = ()
    """The rules of the table filter, as they are given."""
    asked_for: Callable[[TableName], bool] = lambda _: True
    """Returns whether one of them asks for the table, though another one may exclude it."""
    hides: Callable[[str], bool] = lambda _: False
    """Returns whether the table filter excludes tables of this name in databases that the storage may not show."""


@dataclass(frozen=True, slots=True)
class Batches:
    """How much is read and published at a time, in bytes of change files."""

    round_bytes: int
    """The most that one load of a table reads."""
    memory_limit: int = 8 << 30
    """The most of all loads that run at a time."""
    consistency: Consistency = Consistency.ROW
    """Which rows readers see at once."""
    publish_bytes: int = 128 << 20
    """About the most that is published at once."""

    @property
    def published_bytes(self) -> int:
        """About the most whose rows readers see in one transaction; 0: row by row."""
        return 0 if self.consistency is Consistency.ROW else self.publish_bytes

    @property
    def load_bytes(self) -> int:
        """The most that a table's load reads if it does not go together with others."""
        return min(self.round_bytes, self.published_bytes or self.memory_limit)
