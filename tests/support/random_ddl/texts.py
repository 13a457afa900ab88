"""The texts of schema files: names as people type them, and as TiCDC writes them again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

from consumer.model.actions import Action
from consumer.model.names import TableName
from tests.support.random_ddl.original import quoted
from tests.support.random_ddl.proposal import Proposal, Tables

REBUILT = (Action.DROP_TABLE, Action.DROP_VIEW, Action.EXCHANGE_PARTITION)
"""TiCDC writes these with all names qualified."""


@dataclass(frozen=True)
class Texts:
    """`tables` and `databases` are those before the statement, `new` is the architecture."""

    random: Random
    new: bool
    tables: Tables
    databases: Collection[str]

    def of(self, proposal: Proposal) -> list[tuple[TableName, Action, str]]:
        """The schema files that the statement leaves: table, type and query."""
        action = proposal.action
        if len(proposal.renames) > 1 or (proposal.renames and self.new):
            end = ";" if len(proposal.renames) > 1 and self.new else ""
            return [(new, action, f"RENAME TABLE {_full(old)} TO {_full(new)}{end}") for old, new in proposal.renames]
        if proposal.renames:
            return [(proposal.own, action, self._rename(*proposal.renames[0]))]
        files = [(proposal.own, action, self._typed(proposal))]
        if action is Action.EXCHANGE_PARTITION:
            files.append((proposal.names["other"], Action.NONE, ""))
        return files

    def _typed(self, proposal: Proposal) -> str:
        own = proposal.own
        use = own.database if self.random.random() < 0.7 else self.random.choice(sorted(self.databases))
        names, told = {}, False
        for at, name in sorted(proposal.names.items(), key=lambda item: item[1] != own):  # its own tells what `use` was
            is_new = name == own and proposal.action in (Action.CREATE_TABLE, Action.CREATE_VIEW)
            spelled = name if is_new or proposal.action in REBUILT else self._spelled(name)
            alone = name.database == use and (name == own or self._can_stand_alone(name, told))
            alone = alone and proposal.action not in REBUILT and self.random.random() < 0.8
            told = told or (alone and name == own)
            names[at] = quoted(spelled.table) if alone else _full(spelled)
        return proposal.template.format(**names)

    def _can_stand_alone(self, name: TableName, told: bool) -> bool:
        """Whether schema files tell which table is meant: by another name in the text, as `told` says, or as there is
        only one."""
        same = [other for other in self.tables if other.table.lower() == name.table.lower()]
        return told or (same == [name] and self.tables[name].known)

    def _rename(self, old: TableName, new: TableName) -> str:
        """The classic architecture leaves the text as typed, and names only the new database."""
        use = self.random.choice((old.database, new.database))
        new_text = quoted(new.table) if use == new.database and self.random.random() < 0.8 else _full(new)
        relative = use == old.database and (new_text != _full(new) or self._is_only_one(old, new))
        old_text = quoted(old.table) if relative and self.random.random() < 0.8 else _full(old)
        if self.random.random() < 0.5:
            return f"RENAME TABLE {old_text} TO {new_text}"
        if old_text == _full(old):
            new_text = _full(new)
        return f"ALTER TABLE {old_text} RENAME {self.random.choice(('', 'TO ', 'AS '))}{new_text}"

    def _is_only_one(self, old: TableName, new: TableName) -> bool:
        """Whether the old name and the columns tell which table was renamed. A table with more or fewer columns can be
        meant too: a changefeed's event filters leave out statements that change them."""
        has = self._column_names(old)
        same = []
        for name in self.tables:
            had = self._column_names(name)
            if name.table.lower() == old.table.lower() and name != new and (had <= has or has <= had):
                same.append(name)
        return same == [old] and self.tables[old].known

    def _column_names(self, table: TableName) -> set[str]:
        return {column.name.lower() for column in self.tables[table].columns}

    def _spelled(self, name: TableName) -> TableName:
        """Upstream compares names without case."""
        return TableName(name.database, name.table.swapcase()) if self.random.random() < 0.1 else name


def _full(name: TableName) -> str:
    return quoted(name.database, name.table)
