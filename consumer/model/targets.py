"""What upstream's tables and databases are in the target: their names, and their forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from consumer.model.names import TableName
from consumer.model.progress import DdlState, ProgressChange
from consumer.model.table_modes import TableMode


@dataclass(frozen=True, slots=True)
class Naming:
    """`rename` gives the target's name for an upstream's, of a table or of a database; None: they are the same. It is
    the same for names that differ only in case. The plan applies it to what it hands to the target. Progress, the
    storage and messages go by the upstream's names. `routes` is what the progress keeps of it, as JSON;
    `unused` are those that have fitted no name so far. `leads_to`: whether tables can come by a route to the target's
    database of this name. `forms` gives the form of an upstream's table that is no mirror in the target; None: all
    are."""

    rename: Callable[[TableName], TableName] | None = None
    routes: str = ""
    unused: Collection[str] = ()
    leads_to: Callable[[str], bool] = lambda database: False
    modes: Callable[[TableName], TableMode | None] | None = None

    def target(self, name: TableName) -> TableName:
        return name if self.rename is None else self.rename(name)

    def targets(self, names: Iterable[TableName]) -> tuple[TableName, ...]:
        return tuple(names) if self.rename is None else tuple(map(self.rename, names))

    def mode(self, name: TableName) -> TableMode | None:
        """The form of a table, None for a mirror, or a database."""
        return None if self.modes is None or not name.table else self.modes(name)

    def keeps_ended(self, name: TableName) -> bool:
        """Whether rows of the table stay that upstream has no more."""
        mode = self.mode(name)
        return mode is not None and mode.keeps_ended

    def merges(self, name: TableName) -> bool:
        """Whether the target's table has rows of other tables too."""
        mode = self.mode(name)
        return mode is not None and mode.merges

    def other(self, name: TableName) -> str:
        """The target's name where it is another than upstream's, else ""."""
        target = self.target(name)
        return "" if target == name else str(target)

    def shown(self, name: TableName) -> str:
        """The target's name, for messages: with the upstream's where that is another."""
        other = self.other(name)
        return f"{other} (upstream's {name})" if other else str(name)

    def by_hand(self, change: ProgressChange) -> ProgressChange:
        """`change` with the tables about which it records that a person did a statement, or that nobody did."""
        skipped = (TableName(*record.id[:2]) for record in change.ddls if record.state is DdlState.SKIPPED)
        return replace(change, by_hand=self.targets(dict.fromkeys(skipped)))


SAME = Naming()
