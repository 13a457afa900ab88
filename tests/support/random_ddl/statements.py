"""Random statements about the tables that are there, as templates: where tables are named, how is for others to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from consumer.model.actions import Action
from consumer.model.names import TableName
from tests.support.random_ddl.creations import PARTITIONED, Creations
from tests.support.random_ddl.events import Manner
from tests.support.random_ddl.original import quoted
from tests.support.random_ddl.proposal import Change, Proposal, Table, Tables, base_tables
from tests.support.random_ddl.specifications import Specification, Specifications


@dataclass(frozen=True)
class Proposals:
    """Draws proposals."""

    random: Random
    manner: Manner

    @property
    def _creations(self) -> Creations:
        return Creations(self.random, self.manner)

    def create(self, name: TableName, tables: Tables) -> Proposal:
        return self._creations.table_or_view(name, tables)

    def change(self, name: TableName, tables: Tables, free: Sequence[TableName]) -> Proposal | None:
        """A statement about a table that is there, or None where the drawn one makes no sense."""
        table = tables[name]
        likely = base_tables(tables)
        if table.is_view and likely and self.random.random() < 0.4:
            return self._creations.view(name, tables, "CREATE OR REPLACE ")
        if table.is_view:
            return Proposal(Action.DROP_VIEW, "DROP VIEW {own}", name, {"own": name})
        draw = self.random.random()
        if draw < 0.07:
            return Proposal(Action.DROP_TABLE, "DROP TABLE {own}", name, {"own": name})
        if draw < 0.14:
            return Proposal(Action.TRUNCATE_TABLE, "TRUNCATE TABLE {own}", name, {"own": name}, empties="*")
        if draw < 0.30:
            return self._rename(name, tables, free)
        if draw < 0.44 and table.partitions:
            return self._partition(name, tables)
        if draw < 0.34 and self.manner.partitions and not table.partitions:
            template = f"ALTER TABLE {{own}}{self.random.choice(PARTITIONED)}"
            return Proposal(Action.ALTER_TABLE_PARTITIONING, template, name, {"own": name}, empties="*")
        if draw < 0.40:
            text = f"COMMENT = '{self.random.choice(('x', 'y; z'))}'"
            ignored = "modify-table-comment" in self.manner.ignores
            return self._alter(name, Action.MODIFY_TABLE_COMMENT, text, "" if ignored else text)
        if draw < 0.44 and not table.partitions:
            return self._foreign_key(name, table, likely)
        if draw < 0.52 and table.nonclustered:
            return self._primary_key(name, table)
        specifications = list(Specifications(self.random, self.manner, table).drawn())
        if not specifications:
            return None
        first = specifications[0]
        if first.is_statement:
            return Proposal(first.action, first.text, name, {"own": name}, direct=first.direct, change=first.change)
        others = [s for s in specifications[1:] if _fit_together(first, s)]
        if others and self.random.random() < 0.2:
            direct = f"{first.direct}, {others[0].direct}"
            return self._alter(name, Action.MULTI_SCHEMA_CHANGE, f"{first.text}, {others[0].text}", direct)
        return self._alter(name, first.action, first.text, first.direct, first.change)

    def exchange(self, tables: Tables) -> Proposal | None:
        pairs = [
            (name, other)
            for name, table in tables.items()
            for other, plain in tables.items()
            if table.shape.bounds and table.shape.bounds[0][1] is not None
            and table.body and table.body == plain.body and not plain.partitions
        ]  # fmt: skip
        if not pairs or not self.manner.exchanges:
            return None
        name, other = self.random.choice(pairs)
        part, _ = self.random.choice(tables[name].shape.bounds)
        template = f"ALTER TABLE {{own}} EXCHANGE PARTITION {quoted(part)} WITH TABLE {{other}}"
        return Proposal(Action.EXCHANGE_PARTITION, template, name, {"own": name, "other": other}, empties=part)

    def _alter(
        self, name: TableName, action: Action, text: str, direct: str | None = None, change: Change | None = None
    ) -> Proposal:
        executed = f"ALTER TABLE {{own}} {direct}" if direct else direct
        return Proposal(action, f"ALTER TABLE {{own}} {text}", name, {"own": name}, direct=executed, change=change)

    def _rename(self, name: TableName, tables: Tables, free: Sequence[TableName]) -> Proposal | None:
        if not free:
            return None
        others = [other for other in base_tables(tables) if other != name]
        self.random.shuffle(others)
        pairs = [(name, self.random.choice(free))]
        # Where one statement renames a table and another one with a foreign key to it, a TiDB does not always follow.
        related = self.manner.tidb and any(table.foreign_keys for table in tables.values())
        while others and not related and self.random.random() < 0.4:  # the next takes a name that became free, mostly
            left = [new for new in free if new not in {pair[1] for pair in pairs}]
            new = self.random.choice(left) if left and self.random.random() < 0.3 else pairs[-1][0]
            pairs.append((others.pop(), new))
        names = {f"{side}{at}": pair[side == "new"] for at, pair in enumerate(pairs) for side in ("old", "new")}
        listed = ", ".join(f"{{old{at}}} TO {{new{at}}}" for at in range(len(pairs)))
        return Proposal(Action.RENAME_TABLE, f"RENAME TABLE {listed}", pairs[0][1], names, renames=tuple(pairs))

    def _partition(self, name: TableName, tables: Tables) -> Proposal | None:
        bounds = tables[name].shape.bounds
        if self.random.random() < 0.2:
            return self._alter(name, Action.REMOVE_PARTITIONING, "REMOVE PARTITIONING")
        if bounds[0][1] is None:
            return None
        part = self.random.choice(bounds)[0]
        match self.random.randrange(3):
            case 0:
                bound = max(bound or 0 for _, bound in bounds) + 5
                text = f"ADD PARTITION (PARTITION `p{bound}` VALUES LESS THAN ({bound}))"
                return self._alter(name, Action.ADD_PARTITION, text)
            case 1 if len(bounds) > 1:
                return self._alter(name, Action.DROP_PARTITION, f"DROP PARTITION {quoted(part)}")
        template = f"ALTER TABLE {{own}} TRUNCATE PARTITION {quoted(part)}"
        return Proposal(Action.TRUNCATE_PARTITION, template, name, {"own": name}, empties=part)

    def _primary_key(self, name: TableName, table: Table) -> Proposal | None:
        if all(index.name != "PRIMARY" for index in table.shape.indexes):
            return self._alter(
                name, Action.ADD_PRIMARY_KEY, "ADD PRIMARY KEY(`id`) /*T![clustered_index] NONCLUSTERED */"
            )
        other_key = [i for i in table.shape.indexes if i.unique and i.whole and i.name != "PRIMARY"]
        if not (self.manner.keyless or other_key):
            return None
        return self._alter(name, Action.DROP_PRIMARY_KEY, "DROP PRIMARY KEY")

    def _foreign_key(self, name: TableName, table: Table, likely: Sequence[TableName]) -> Proposal | None:
        if table.foreign_keys and self.random.random() < 0.6:
            told, own = self.random.choice(list(table.foreign_keys.items()))
            direct = f"DROP FOREIGN KEY {quoted(own)}" if own else ""
            return self._alter(
                name, Action.DROP_FOREIGN_KEY, f"DROP FOREIGN KEY {quoted(told)}", direct,
                lambda table: _forget(table, told),
            )  # fmt: skip
        number = table.foreign_ids
        label = "" if number is not None and self.random.random() < 0.5 else f"fk{self.random.randrange(10**9)}"
        told, own = label or f"fk_{(number or 0) + 1}", label or f"own{self.random.randrange(10**9)}"
        own = told if self.manner.tidb else own  # as it calls the keys of each table
        own = "" if "add-foreign-key" in self.manner.ignores else own
        leading = [i for i in table.shape.indexes if i.columns[:1] == ("id",)]
        if (leading and all(i in table.left_out for i in leading)) or (not leading and not own):
            return None  # upstream and a server differ in whether they need another index
        columns = "FOREIGN KEY (`id`) REFERENCES {other}(`id`)"
        index = "" if leading else f"ADD INDEX {quoted(told)}(`id`), "
        direct = f"ALTER TABLE {{own}} {index}ADD CONSTRAINT {quoted(own)} {columns}" if own else ""
        text = f"ALTER TABLE {{own}} ADD CONSTRAINT {quoted(label) if label else ''} {columns}"
        names = {"own": name, "other": self.random.choice(likely)}
        return Proposal(
            Action.ADD_FOREIGN_KEY, text, name, names, direct=direct, change=lambda table: _refer(table, told, own)
        )


def _refer(table: Table, told: str, own: str) -> None:
    table.foreign_keys[told] = own
    table.foreign_ids = None if table.foreign_ids is None else table.foreign_ids + 1


def _forget(table: Table, told: str) -> None:
    del table.foreign_keys[told]


def _fit_together(first: Specification, other: Specification) -> bool:
    """Of what keeps book there is one in a statement, and a name that one part gives is not free for the other."""
    if first.change is not None or other.change is not None or other.is_statement:
        return False
    return Action.RENAME_INDEX not in (first.action, other.action)
