"""An upstream: random statements and transactions, run on the original, and what is to be told of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pymysql

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.times import tso_to_ms
from tests.support.random_ddl.events import WAITS, Change, Manner, SchemaText, Statement
from tests.support.random_ddl.original import DATABASES, PREFIX, Original, Shape, Snapshot, quoted
from tests.support.random_ddl.proposal import Body, Proposal, Table, base_tables
from tests.support.random_ddl.statements import Proposals
from tests.support.random_ddl.texts import Texts
from tests.support.random_ddl.transactions import Transactions

TABLES = ("t", "o`dd", "select", "T2")
ALIVE = (3, 5)
"""How many tables there are at most at one time: in some histories few, in others more."""
START = 470_000_000_000_000_000
KEEPS_BODY = (
    Action.CREATE_TABLE,
    Action.RENAME_TABLE,
    Action.TRUNCATE_TABLE,
    Action.ADD_PARTITION,
    Action.DROP_PARTITION,
    Action.TRUNCATE_PARTITION,
    Action.EXCHANGE_PARTITION,
)
VERBS = {Action.CREATE_SCHEMA: "CREATE", Action.DROP_SCHEMA: "DROP", Action.MODIFY_SCHEMA_CHARSET: "ALTER"}
COLLATED = {
    Action.CREATE_SCHEMA: ("", "", " DEFAULT CHARACTER SET utf8mb4", " COLLATE utf8mb4_general_ci"),
    Action.MODIFY_SCHEMA_CHARSET: (" COLLATE = utf8mb4_general_ci", " DEFAULT COLLATE utf8mb4_bin"),
}
"""What a database's statements say of its collation; nothing: TiDB's default, utf8mb4_bin."""
FILTERED = (Action.MODIFY_TABLE_COMMENT, Action.SET_DEFAULT_VALUE)
"""Statements that an event filter may leave out: rows fit without them."""
NOTHING = Shape((), (), frozenset(), frozenset(), ())


@dataclass
class Upstream:
    """`events` are in the order of time, `log` tells them to people. `loosely` are tables of which a statement was left
    out."""

    original: Original
    random: Random
    manner: Manner
    now: int = START
    tables: dict[TableName, Table] = field(default_factory=dict)
    databases: set[str] = field(default_factory=set)
    events: list[Statement | Change] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    loosely: set[str] = field(default_factory=set)
    alive: int = 3
    older: tuple[str, ...] = ()
    doubted: set[str] = field(default_factory=set)
    """Objects of the replica that it need not have."""
    _physical: int = 100

    @property
    def last(self) -> Statement | Change | None:
        return self.events[-1] if self.events else None

    def begin(self, older: Callable[[str], object] | None) -> None:
        """Databases, and now and then a table that is older than the changefeed, made in the replica by `older`."""
        for database in DATABASES:
            self._database(Action.CREATE_SCHEMA, database)
        if older is not None and self.random.random() < 0.4:
            proposal = self._proposals.create(self.random.choice(self._free()), {})
            assert proposal.body is not None
            if not proposal.body.left_out and self._run(proposal, told=False):
                name = proposal.own
                self.tables[name].foreign_ids = None
                collation = self.original.collation(PREFIX + name.database)
                self.older = (
                    f"CREATE DATABASE IF NOT EXISTS {quoted(name.database)} COLLATE {collation}",
                    (proposal.direct or proposal.template).format(own=quoted(name.database, name.table)),
                )
                for statement in self.older:
                    older(statement)

    def step(self) -> None:
        self.go_on()
        if not base_tables(self.tables) or self.random.random() < 0.4:
            self.statement()
        else:
            self._transaction()

    def go_on(self) -> None:
        small = (1, 3, 1 << 18, 5 << 18) if self.manner.commit_ts else ((1 << 18) + 1, (3 << 18) + 5)
        self.now += self.random.choice(small)

    def waits_at(self, checkpoint: int) -> bool:
        """Whether a statement of this very version is one of those that wait for the next checkpoint."""
        return any(isinstance(e, Statement) and e.ts == checkpoint and e.action in WAITS for e in self.events)

    def snapshot(self) -> Snapshot:
        return self.original.snapshot()

    def statement(self) -> None:
        """One statement, or none where the drawn one was refused."""
        missing = [database for database in DATABASES if database not in self.databases]
        if missing and self.random.random() < 0.4:
            self._database(Action.CREATE_SCHEMA, self.random.choice(missing))
            return
        if self.databases and self.random.random() < 0.04:
            self._database(Action.DROP_SCHEMA, self.random.choice(sorted(self.databases)))
            return
        if self.databases and self.random.random() < 0.03:
            self._database(Action.MODIFY_SCHEMA_CHARSET, self.random.choice(sorted(self.databases)))
            return
        free, names = self._free(), sorted(self.tables)
        proposal: Proposal | None = None
        if free and len(names) < self.alive and (not names or self.random.random() < 0.35):
            proposal = self._proposals.create(self.random.choice(free), self.tables)
        elif names:
            if self.random.random() < 0.15:
                proposal = self._proposals.exchange(self.tables)
            proposal = proposal or self._proposals.change(self.random.choice(names), self.tables, free)
        if proposal is not None:
            self._run(proposal)

    @property
    def _proposals(self) -> Proposals:
        return Proposals(self.random, self.manner)

    def _free(self) -> list[TableName]:
        names = [TableName(database, table) for database in sorted(self.databases) for table in TABLES]
        return [name for name in names if name not in self.tables]

    def _transaction(self) -> None:
        names = base_tables(self.tables)
        transactions = Transactions(self.original, self.random, self.manner)
        for name in self.random.sample(sorted(names), self.random.randint(1, min(2, len(names)))):
            changes = transactions.run(self.now, name, self.tables[name])
            self.events += changes
            self.log += [f"{c.ts}   {name} {c.kind} {c.old or ''} {c.new or ''}" for c in changes]

    def _database(self, action: Action, database: str) -> None:
        verb = VERBS[action]
        options = "" if action is Action.DROP_SCHEMA else self.random.choice(COLLATED[action])
        told = "" if "COLLATE" in options or not options else " COLLATE utf8mb4_bin"  # what TiDB takes for utf8mb4
        self.original.execute(f"{verb} DATABASE {quoted(PREFIX + database)}{options}{told}")
        name = TableName(database, "")
        dropped = action is Action.DROP_SCHEMA
        gone = {table for table in self.tables if table.database == database and dropped}
        text = f"{verb} DATABASE {quoted(database)}{options}"
        self._tell(action, [SchemaText(name, text, int(action))], gone | {name})
        if action is Action.CREATE_SCHEMA:
            self.databases.add(database)
        elif dropped:
            self.databases.remove(database)
            self.tables = {table: kept for table, kept in self.tables.items() if table not in gone}

    def _run(self, proposal: Proposal, told: bool = True) -> bool:
        """False where the server refuses it. `told`: it is after the changefeed's beginning."""
        direct = proposal.template if proposal.direct is None else proposal.direct
        direct = direct.format(**{at: self.original.place(name) for at, name in proposal.names.items()})
        trash = self._keep(proposal)
        try:
            if direct:
                self.original.execute(direct, tso_to_ms(self.now) / 1000)
        except pymysql.MySQLError:
            if trash is not None:
                self.original.execute(f"DROP TABLE {self.original.place(trash)}")
            return False
        texts = Texts(self.random, self.manner.new, self.tables, self.databases).of(proposal)
        gone = self._follow(proposal)
        if told and proposal.action in FILTERED and self.random.random() < 0.4:
            self.loosely.add(str(proposal.own))
            self.tables[proposal.own].known = False
            self.log.append(f"{self.now} left out: {direct}")
        elif told:
            files = [
                SchemaText(name, query, int(action), gone or self.tables[name].columns) for name, action, query in texts
            ]
            self._tell(proposal.action, files, {*proposal.names.values()})
        return True

    def _keep(self, proposal: Proposal) -> TableName | None:
        """What goes to the replica's trash is copied, under the name that it has there."""
        own, emptied = proposal.own, proposal.action is Action.TRUNCATE_TABLE
        if not self.manner.trash or not (emptied or proposal.action is Action.DROP_TABLE):
            return None
        if emptied and not self.original.rows(own, self.tables[own].shape):
            return None
        trash = TableName(own.database, f"__trash_{self.now}_{own.table}")
        self.original.copy(own, trash, self.tables[own].shape)
        self.loosely |= {str(trash)} if str(own) in self.loosely else set()
        return trash

    def _tell(self, action: Action, files: list[SchemaText], tables: set[TableName]) -> None:
        self.events.append(Statement(self.now, action, tuple(files), frozenset(tables)))
        self.log += [f"{self.now} {file.type} {file.name}: {file.query}" for file in files]
        for file in files:
            if file.name in self.tables:
                self.tables[file.name].known = True

    def _follow(self, proposal: Proposal) -> tuple[Column, ...]:
        """Keep book of what the statement has changed; the last columns of a table that it dropped."""
        own, action, source = proposal.own, proposal.action, proposal.names.get("other")
        if action in (Action.DROP_TABLE, Action.DROP_VIEW):
            return self.tables.pop(own).columns
        if action is Action.CREATE_VIEW:
            self.tables[own] = Table(Shape(self.original.view_columns(own), (), frozenset(), frozenset(), ()), self.now)
            return ()
        if action is Action.CREATE_TABLE:
            self.tables[own] = self._created(proposal.body, self.tables.get(source) if source is not None else None)
        self.tables.update([(new, self.tables.pop(old)) for old, new in proposal.renames])
        copied = [(source, own)] if source is not None and action is Action.CREATE_TABLE else []
        self.loosely |= {str(new) for old, new in (*proposal.renames, *copied) if str(old) in self.loosely}
        changed = [new for _, new in proposal.renames] or [own]
        changed += [source] if source is not None and action is Action.EXCHANGE_PARTITION else []
        for name in changed:
            self._look(name, proposal)
        return ()

    @staticmethod
    def _created(body: Body | None, source: Table | None) -> Table:
        """A new table, `source` is the one that it is LIKE."""
        if source is not None:
            left_out, ids = source.left_out, source.foreign_ids
            return Table(NOTHING, 0, {}, source.nonclustered, body, left_out=left_out, foreign_ids=ids)
        assert body is not None
        return Table(NOTHING, 0, {}, body.nonclustered, body, left_out=body.left_out)

    def _look(self, name: TableName, proposal: Proposal) -> None:
        """A table after a statement about it; new partitions have new physical ids."""
        table = self.tables[name]
        if proposal.change is not None:
            proposal.change(table)
        shape = self.original.shape(name)
        table.version, table.shape = self.now, replace(shape, indexes=(*shape.indexes, *table.left_out))
        table.body = table.body if proposal.action in KEEPS_BODY else None
        ids = {}
        for part, _ in table.shape.bounds:
            self._physical += 1
            known = None if proposal.empties in ("*", part) else table.partitions.get(part)
            ids[part] = known or self._physical
        table.partitions = ids
