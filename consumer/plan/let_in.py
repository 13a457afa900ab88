"""Tables that the table rules take from now on: where they begin, and which statements of theirs no longer matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.plan.assembly import Assembly
from consumer.plan.lives import Life

_GONE = "its table was gone before the table rules took it"


def let_in(assembly: Assembly, progress: Progress) -> ProgressChange | None:
    """What to record before a round in which names are no longer left out; None where there are none.

    A name that the target has no table of begins where a table that still exists upstream took it. Statements about
    tables that are gone since are not executed: some of what they need may have run, under other rules. Names of tables
    that the target has stay where they were.
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
    origins = assembly.timeline.origins
    gone = [
        file
        for file in assembly.catalog.files
        if file.table and file.query and file.version <= assembly.checkpoint and file.path not in alive
        if file.name in new or origins.get(file.path) in new
    ]
    for database in (name for name in back if not name.table):
        gone += _overtaken(
            assembly, database, [life for name, life in target.items() if name.database == database.database]
        )
    starts = {name: max(place.applied_ts, min(begins[name], default=0) - 1) for name, place in back.items()}
    return ProgressChange(
        tables={n: TableProgress(starts[n] if n in new else place.applied_ts) for n, place in back.items()},
        ddls=tuple(DdlRecord(ddl_id(file), DdlState.SKIPPED, reason=_GONE) for file in gone),
    )


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
