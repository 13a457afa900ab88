"""Tables that the table rules take from now on: where they begin, and which statements of theirs no longer matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.model.actions import Action
from consumer.model.ddl_policy import DdlPolicy, PolicyOf
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.plan.assembly import Assembly
from consumer.plan.lives import Life, lives_at

_GONE = "its table was gone before the table rules took it"


def let_in(assembly: Assembly, progress: Progress, policy_of: PolicyOf) -> ProgressChange | None:
    """What to record before a round in which names are no longer left out; None where there are none.

    A name that the target has no table of begins where a table that still exists upstream took it. Statements about
    tables that are gone since are not executed: some of what they need may have run, under other rules. Names of tables
    that the target has stay where they were, and go as they went upstream; what is left of one whose end was passed
    over is taken away, if `policy_of` lets DROP TABLE run.
    """
    back = {n: p for n, p in progress.tables.items() if p.state is State.EXCLUDED and assembly.wanted(n)}
    if not back:
        return None
    upstream, target = assembly.lives(progress)
    begins: defaultdict[TableName, list[int]] = defaultdict(list)
    alive: set[str] = set()
    for life in upstream.values():
        alive.update(file.path for file in life.statements)
        for name, version in zip(life.names, life.since, strict=True):
            begins[name].append(version)
    new = {name for name in back if name not in target and name.table}
    there = {name: life for name, life in target.items() if assembly.wanted(name) or _was_followed(life, progress)}
    for file in _of_tables_there(assembly, there):
        alive.add(file.path)
        begins[file.name].append(file.version)
    origins = assembly.timeline.origins
    gone = [
        file
        for file in assembly.statements_due(progress)
        if file.table and file.query and file.path not in alive
        if file.name in new or origins.get(file.path) in new
    ]
    for database in (name for name in back if not name.table):
        own = [life for name, life in there.items() if name.database == database.database]
        gone += _overtaken(assembly, database, own)
    starts = {name: max(place.applied_ts, min(begins[name], default=0) - 1) for name, place in back.items()}
    tables = {n: TableProgress(starts[n] if n in new else place.applied_ts) for n, place in back.items()}
    for name in _left_over(assembly, progress, {name: back[name].applied_ts for name in new}):
        if policy_of(Action.DROP_TABLE, name) is DdlPolicy.EVOLVE:
            tables[name] = replace(tables[name], state=State.EMPTYING)
    return ProgressChange(
        tables=tables,
        ddls=tuple(DdlRecord(ddl_id(file), DdlState.SKIPPED, reason=_GONE) for file in gone),
    )


def _left_over(assembly: Assembly, progress: Progress, places: Mapping[TableName, int]) -> Iterator[TableName]:
    """Which names still have the table in the target that they had when they were left out, at `places`: it is gone
    upstream, and its end was passed over while nobody followed it."""
    for name, life in lives_at(places, assembly.statements_due(progress), assembly.timeline.origins):
        if _was_followed(life, progress):
            yield name


def _was_followed(life: Life, progress: Progress) -> bool:
    """Whether its last name was given in the target too: under other rules others are given only upstream."""
    given = [progress.ddls.get(ddl_id(file)) for file in life.statements if file.version == life.since[-1]]
    return any(record is not None and record.reason != _GONE for record in given)


def _of_tables_there(assembly: Assembly, there: Collection[TableName]) -> Iterator[SchemaFile]:
    """The pending statements about the tables that the target has, under all names that they are to get: what it has
    must go as it went upstream."""
    names = set(there)
    for statement in assembly.timeline.pending:
        if (statement.old_name or statement.file.name) in names:
            yield statement.file
            names.difference_update(statement.drops)
            names.update([statement.creates] if statement.creates is not None else [])
        elif statement.creates is not None:
            names.discard(statement.creates)


def _due(assembly: Assembly, name: TableName) -> Iterator[SchemaFile]:
    files = assembly.catalog.by_table.get(name, ())
    return (file for file in files if file.query and file.version <= assembly.checkpoint)


def _overtaken(assembly: Assembly, database: TableName, there: Sequence[Life]) -> list[SchemaFile]:
    """The statements of a database up to its last DROP DATABASE, where one of `there`, the tables that the target has
    in it, came after that. Those from before it are still to go with it."""
    files = list(_due(assembly, database))
    last = max((file.version for file in files if file.type == Action.DROP_SCHEMA), default=0)
    later = any(life.since[-1] > last for life in there)
    return [file for file in files if file.version <= last] if later else []
