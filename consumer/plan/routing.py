"""Checks names in the target: no two tables get the same name, and a table keeps the name that it has."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from shlex import quote

from consumer.ddl.changes import written_tables
from consumer.errors import BadConfig, Code, DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.hints import skip_ddl_command, statement_refused
from consumer.model.names import TableName, same_name
from consumer.model.naming import Naming, naming_from
from consumer.model.progress import DdlState, Progress, State
from consumer.plan.assembly import Assembly
from consumer.plan.statement import Statement
from consumer.plan.table_modes import check_modes


def begun_names(assembly: Assembly, progress: Progress) -> Iterator[TableName]:
    """Yields the tables, and databases, of which a statement ran or rows were read, and the tables that the target
    already held. A name can come several times."""
    yield from written_names(assembly, progress)
    yield from progress.starts


def written_names(assembly: Assembly, progress: Progress) -> Iterator[TableName]:
    """Yields those of them in which this consumer has changed something."""
    done = (i for i, record in progress.ddls.items() if record.state is not DdlState.REFUSED)
    yield from (TableName(i.database, i.table) for i in done if not progress.was_preloaded(i))
    yield from map(assembly.catalog.owner, progress.folders)


def check_routes(naming: Naming, progress: Progress, tables: Iterable[TableName]) -> None:
    """Raises BadConfig if one of `tables` has another name in the target than `naming` gives it."""
    if progress.routes == naming.routes:
        return
    before = naming_from(progress.routes)
    for name in tables:
        if progress.table(name).state is not State.DROPPED and before.target(name) != naming.target(name):
            routes = json.loads(progress.routes or "[]")
            had = " ".join(f"--route {quote(route)}" for route in routes) or "no --route"
            old, new = before.target(name), naming.target(name)
            raise BadConfig(
                f"the routes call {name} {new} in the target, where it is {old} already",
                hint=f"give what the target was filled with, {had}, and routes for new tables after that; where known"
                " tables must move, fill them again under another --name",
            )


def check_begun(naming: Naming, assembly: Assembly, progress: Progress) -> None:
    """Checks routes for what has been written to, and the same for table modes. Raises BadConfig."""
    # If tables exchange their names, one has an intermediate name that no file has, and of which nothing is recorded.
    names = [name for name in begun_names(assembly, progress) if name in assembly.catalog.by_table]
    check_routes(naming, progress, names)
    merged = (name for name in assembly.catalog.by_table if naming.merges(name) and assembly.wanted(name))
    if progress.start_ts and (name := next(merged, None)) is not None:
        raise BadConfig(
            f"this consumer began with --start-ts, and a route merges {name} with others: which rows of it the target"
            " has is not known",
            hint="leave that route out, or fill the target from the storage under another --name",
        )
    if naming.modes is not None or progress.modes:
        living = (name for name in names if progress.table(name).state is not State.DROPPED)
        check_modes(naming, progress.modes, living)


class SharedNames:
    """The names of tables in the target, for one round. If several of upstream's tables get one name, the table that
    has been written to continues; the others are not begun. If none was written to, none is begun."""

    def __init__(self, naming: Naming, assembly: Assembly, progress: Progress) -> None:
        self._naming, self._assembly, self._progress = naming, assembly, progress

    def error(self, name: TableName) -> DdlRefused | None:
        """Returns why nothing is done in the target under the name of `name`, None if it may be."""
        if self._naming.rename is None:
            return None
        sharing = (other for other in self._tables_by_target.get(self._key(name), ()) if other.folded != name.folded)
        mode = self._naming.mode(name) if self._naming.merges(name) else None
        others = [other for other in sharing if mode is None or self._naming.mode(other) != mode]
        if not others or (name.folded in self._begun and self._begun.isdisjoint(other.folded for other in others)):
            return None
        return DdlRefused(
            f"the routes call it {self._naming.target(name)} in the target, and {others[0]} too",
            hint="give one of the two another name with --route, or leave it out with --tables; tables are merged by"
            " routes that give them one column (docs/shaping.md)",
            table=str(name),
            code=Code.RULES_CONFLICT,
        )

    def refusal(self, statement: Statement) -> DdlRefused | None:
        """Returns why `statement` must not run: it would do to one table what upstream did to another."""
        if self._naming.rename is None or not statement.executed:
            return None
        if statement.action in DATABASE_ACTIONS:
            return self._drops_others(statement) if statement.action is Action.DROP_SCHEMA else None
        file = statement.file
        former = (former_name.name for former_name in statement.former)
        touched = (name for name in (*statement.touches, *statement.drops, statement.old_name) if name and name.table)
        return next(
            filter(None, map(self.error, dict.fromkeys((file.name, *touched, *former, *written_tables(file))))), None
        )

    def _drops_others(self, statement: Statement) -> DdlRefused | None:
        database, version = statement.file.name, statement.version
        target_database = same_name(self._naming.target(database).database)
        tables = (
            name
            for (target_name, _), names in self._tables_by_target.items()
            if target_name == target_database
            for name in names
        )
        other = min((name for name in tables if same_name(name.database) != same_name(database.database)), default=None)
        return None if other is None else statement_refused(
            statement.file,
            f"it would also drop {self._naming.shown(other)}: {statement.file.query}",
            hint=f"drop the tables of {database} by hand in the target, then: " + skip_ddl_command(database, version),
        )  # fmt: skip

    @cached_property
    def _begun(self) -> frozenset[TableName]:
        names = set(begun_names(self._assembly, self._progress))
        return frozenset(name.folded for name in names if self._progress.table(name).state is not State.DROPPED)

    @cached_property
    def _tables_by_target(self) -> dict[tuple[str, str], list[TableName]]:
        """By the target's name, the tables that have it or get it."""
        assembly, progress, here = self._assembly, self._progress, {*self._assembly.tables}
        tables: defaultdict[tuple[str, str], list[TableName]] = defaultdict(list)
        for name in sorted({*assembly.catalog.by_table, *assembly.files, *progress.tables, *assembly.timeline.live}):
            has_ended = progress.table(name).state is State.DROPPED and name not in here
            if name.table and not has_ended and (assembly.wanted(name) or name.folded in self._begun):
                tables[self._key(name)].append(name)
        return dict(tables)

    def _key(self, name: TableName) -> tuple[str, str]:
        target = self._naming.target(name)
        return same_name(target.database), same_name(target.table)
