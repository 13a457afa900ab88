"""Tables that the table rules take from now on: where they begin, and which statements of theirs no longer matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from consumer.model.actions import Action
from consumer.model.ddl_policy import DdlPolicy, PolicyOf
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.plan.assembly import Assembly
from consumer.plan.lives import Life, all_lives, lives_at

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
    target = {name: life for name, life in target.items() if not _was_passed_over(life, progress)}
    begins: defaultdict[TableName, list[int]] = defaultdict(list)
    alive: set[str] = set()
    for life in upstream.values():
        alive.update(file.path for file in life.statements)
        for name, version in zip(life.names, life.since, strict=True):
            begins[name].append(version)
    there = {name: life for name, life in target.items() if assembly.wanted(name) or _was_followed(life, progress)}
    gone: list[SchemaFile] = []
    for database in [name for name in back if not name.table]:
        overtaken, left = _overtaken(assembly, database, there)
        gone += overtaken
        back |= {name: progress.table(name) for name in left}
        there = {name: life for name, life in there.items() if name not in left}
        target = {name: life for name, life in target.items() if name not in left}
    new = {name for name in back if name not in target and name.table}
    for file in _of_tables_there(assembly, there):
        alive.add(file.path)
        begins[file.name].append(file.version)
    gone += _of_tables_gone(assembly, progress, new, alive)
    starts = {name: max(place.applied_ts, min(begins[name], default=0) - 1) for name, place in back.items()}
    tables = {n: TableProgress(starts[n] if n in new else place.applied_ts) for n, place in back.items()}
    for name in _left_over(assembly, progress, {name: back[name].applied_ts for name in new}):
        if policy_of(Action.DROP_TABLE, name) is DdlPolicy.EVOLVE:
            tables[name] = replace(tables[name], state=State.EMPTYING)
    return ProgressChange(
        tables=tables,
        ddls=tuple(
            DdlRecord(ddl_id(file), DdlState.SKIPPED, reason=_GONE) for file in gone if not _is_settled(file, progress)
        ),
    )


def _is_settled(file: SchemaFile, progress: Progress) -> bool:
    """What was executed stays so: whose table the target has is told by it."""
    record = progress.ddls.get(ddl_id(file))
    return record is not None and record.state in (DdlState.DONE, DdlState.SKIPPED)


def _left_over(assembly: Assembly, progress: Progress, places: Mapping[TableName, int]) -> Iterator[TableName]:
    """Which names still have the table in the target that they had when they were left out, at `places`: it is gone
    upstream, and its end was passed over while nobody followed it."""
    for name, life in lives_at(places, assembly.statements_due(progress), assembly.timeline.origins):
        if _was_followed(life, progress):
            yield name


def _was_followed(life: Life, progress: Progress) -> bool:
    """Whether its last name was given in the target too: under other rules others are given only upstream."""
    return any(reason != _GONE for reason in _naming(life, progress))


def _was_passed_over(life: Life, progress: Progress) -> bool:
    """Whether its last name was not given in the target, as it was gone when the rules took it: what has the name there
    is another table."""
    return any(reason == _GONE for reason in _naming(life, progress))


def _naming(life: Life, progress: Progress) -> Iterator[str]:
    """The reasons recorded with the statement that gave the table its last name; none where nothing is recorded."""
    given = (progress.ddls.get(ddl_id(file)) for file in life.statements if file.version == life.since[-1])
    return (record.reason for record in given if record is not None)


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


def _of_tables_gone(
    assembly: Assembly, progress: Progress, new: Collection[TableName], alive: Collection[str]
) -> Iterator[SchemaFile]:
    """The statements about tables that are gone, but for those of `alive`: they had one of the `new` names. What such a
    table went through under others is not executed either, as it was never made."""
    origins = assembly.timeline.origins
    waiting = {statement.file.path for statement in assembly.timeline.pending}
    due = assembly.statements_due(progress)
    found = {
        file.path: file
        for file in due
        if file.table and file.query and file.path not in alive
        if file.name in new or origins.get(file.path) in new
    }
    for life in all_lives(due, origins):
        own = [file for file in life.statements if file.path in waiting and file.path not in alive]
        if any(file.path in found for file in own) and life.birth in own:
            found |= {file.path: file for file in own}
    yield from found.values()


def _overtaken(
    assembly: Assembly, database: TableName, there: Mapping[TableName, Life]
) -> tuple[list[SchemaFile], set[TableName]]:
    """The statements of a database up to its last DROP DATABASE, where one of `there`, the tables that the target has,
    came into it after that; and those of its tables from before it, which are still to go."""
    files = list(_due(assembly, database))
    last = max((file.version for file in files if file.type == Action.DROP_SCHEMA), default=0)
    own = {name: life for name, life in there.items() if name.database == database.database}
    if not any(life.since[-1] > last for life in own.values()):
        return [], set()
    moved = {s.old_name for s in assembly.timeline.pending if s.version < last}
    left = {name for name, life in own.items() if life.since[-1] < last and name not in moved}
    return [file for file in files if file.version <= last], left
