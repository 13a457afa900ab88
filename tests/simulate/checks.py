"""What must hold after every run, and in the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from consumer.errors import ConsumerError, Retryable, TargetBusy
from consumer.model.names import TableName
from consumer.model.progress import DdlState, State
from consumer.results import RunResult
from tests.simulate.machine import Failure
from tests.simulate.original import DATABASE
from tests.simulate.rows import image
from tests.simulate.shaping import Rules
from tests.simulate.style import touches
from tests.simulate.world import MORE_FILES, World
from tests.support.observers import Recorder
from tests.support.upstream import NAMES, Statement

Rows = dict[Any, int]


def check_run(world: World, result: RunResult | None, error: ConsumerError | None, observer: Recorder) -> None:
    """`result` None: the run ended by `error`."""
    alone = world.history.setup.consistency != "snapshot"
    if alone and isinstance(error, TargetBusy) and set(world.trouble) == {"lock"}:
        raise Failure(f"one busy table ends the run: {error}")
    if error is not None and not (isinstance(error, Retryable) and world.trouble):
        if "metadata" not in world.bucket.objects:
            return
        raise Failure(f"a run that nothing disturbed ends with {type(error).__name__}: {error}")
    for injected in ("outage", "storage", "cut", "busy"):
        # "outage" may fall where nobody asks.
        if injected in ("cut", "busy") and injected in world.trouble and error is None and not observer.retries:
            raise Failure(f"nothing was told of the {injected}")
    ended = result is not None and not world.trouble
    if ended and result is not None:
        # A run that broke off wrote rows before their progress; where `metadata` then went back, none comes to them.
        ended = result.checkpoint_ts >= world.reached
    check_target(world, ended)
    if result is not None:
        _check_result(world, result)


def _check_result(world: World, result: RunResult) -> None:
    states = {name: table.state for name, table in result.tables.items()}
    stopped = [n for n, s in states.items() if s == "stopped"]
    expected = 0 if not stopped and "waits" not in states.values() else None
    away = result.exit_code == Retryable.exit_code and result.error is not None  # a `run` that was ended then
    if (expected == 0 and result.exit_code != 0 and not away) or (
        expected is None and result.exit_code not in (3, 4, 5)
    ):
        raise Failure(f"exit code {result.exit_code} with tables {sorted(set(states.values()))}")
    for name, table in sorted(result.tables.items(), key=lambda one: one[1].state):
        if table.state in ("stopped", "waits"):
            if not table.error:
                raise Failure(f"{name} is {table.state}, and nobody says why")
            if ("clean-up" in table.error or "is gone before" in table.error) and world.may_have_lost_files():
                world.excuses.append("clean-up")
            if "other rows between the same statements" in table.error and world.original.took_columns:
                world.excuses.append("columns that went without a statement")
            if "gave that key away within one millisecond" in table.error and not world.history.setup.style.commit_ts:
                world.excuses.append("a key given away within one millisecond")
            if world.history.setup.rules and ("mask" in table.error or "filter" in table.error):
                world.excuses.append("a statement that does not keep the rules")
            # A table that is ahead of a checkpoint that went back is not tried again: what stopped it stays recorded.
            ahead = table.watermark > result.checkpoint_ts
            if not (world.excuses or set(world.trouble) - {MORE_FILES} or world.damaged or ahead):
                raise Failure(f"{name} is {table.state} without a cause: {table.error}")


def check_target(world: World, ended: bool) -> None:
    """Every table that is in order holds what upstream held when it was where the progress says. `ended`: no run was
    broken off, which leaves rows before their progress where writers write into the tables at once, or where a table's
    commit does not say how far it is."""
    untold = world.server.by_table and world.history.setup.style.timeless
    if (world.server.direct or world.server.by_itself or untold) and not ended:
        return
    progress = world.server.progress
    if world.given and not progress.start_ts:
        return  # as it was given
    names = {name for name in world.server.store.tables if name.table in NAMES}
    names |= {world.name(table) for table in world.original.at(progress.applied_ts)}
    for name in sorted(names):
        if progress.table(name).state in (State.OK, State.DROPPED):
            _compare(world, name)


def is_between_moments(world: World, name: TableName) -> bool:
    """Whether a table is stopped within a load: writers that write into it at once have left rows from behind its
    place."""
    if world.server.progress.table(name).state is not State.STOPPED:
        return False
    try:
        _compare(world, name)
    except Failure:
        return True
    return False


def behind(world: World) -> set[TableName]:
    """The tables that lack rows from before the moment that those in order are at."""
    progress = world.server.progress
    places = {name: place.applied_ts for name, place in progress.tables.items() if place.state is State.OK}
    moment = max([progress.applied_ts, *places.values()])
    found = set()
    for change in world.original.changes:
        name = world.name(change.table)
        if progress.table(name).applied_ts < change.ts <= moment:
            found.add(name)
    return found


def check_end(world: World, before: RunResult | None, result: RunResult | None) -> None:
    """`before`: of the run in front of the last one; what that one left can be the last one's."""
    if result is None:
        raise Failure("the last run broke off")
    rows = sum(table.rows for table in result.tables.values())
    nothing_new = before is not None and not before.exit_code
    if rows and nothing_new and world.history.setup.style.commit_ts:  # else the last millisecond is applied again
        raise Failure(f"a run with nothing new writes {rows} rows")
    check_target(world, ended=True)
    if world.excuses:
        return
    if result.exit_code or result.checkpoint_ts != world.changefeed.checkpoint:
        raise Failure(f"the end is not reached: exit {result.exit_code}, {_errors(result)}")
    truth = world.original.at(world.original.now)
    held = {name.table for name in world.server.store.tables if name.database == DATABASE}
    if held != set(truth):
        raise Failure(f"the target has the tables {sorted(held)}, upstream {sorted(truth)}")
    _check_growth(world)


def _check_growth(world: World) -> None:
    """The progress does not remember more folders that are gone than one a version and partition."""
    there = {path.rpartition("/")[0] for path in world.changefeed.written}
    gone = Counter(
        (folder.root, folder.version, folder.partition)
        for folder in world.server.progress.folders
        if "/".join(filter(None, (folder.root, str(folder.version), folder.partition, folder.date))) not in there
    )
    if any(count > 1 for count in gone.values()):
        raise Failure(f"the progress remembers folders that are gone: {dict(gone)}")


def check_waiting(world: World, checkpoint: int) -> None:
    """Nothing but one slow statement is under way: every table that waits for none must be where the round ends."""
    progress = world.server.progress
    pending = [s for s in world.original.statements if s.ts <= checkpoint and not _has_run(world, s)]
    for table in world.original.at(checkpoint):
        place = progress.table(world.name(table))
        due = any(c.table == table and place.applied_ts < c.ts <= checkpoint for c in world.original.changes)
        if due and place.state is State.OK and not any(touches(s, table) for s in pending):
            raise Failure(f"d.{table} waits at {place.applied_ts} for a statement of another table")


def _errors(result: RunResult) -> str:
    return "; ".join(f"{name}: {table.error}" for name, table in result.tables.items() if table.error)


def _compare(world: World, name: TableName) -> None:
    said = world.server.said(name)
    ran = int(said.statement.partition(" ")[0] or 0)
    at = max(world.server.progress.table(name).applied_ts, said.applied.get(name, 0), ran)
    own = [_has_run(world, s) for s in world.original.statements if s.ts == at and touches(s, name.table)]
    if any(own) and not all(own):
        return  # tables exchange their names, and it is not known whose this is
    if own and ran < at and not any(own):
        at -= 1
    truth = world.original.at(at).get(name.table)
    table = world.server.store.tables.get(name)
    if table is None and "dropped by hand" in world.excuses:
        return  # where no rows came since, nobody looked
    if (truth is None) != (table is None):
        raise Failure(f"at {at} {name} is {'not ' * (truth is None)}upstream, and {'not ' * (table is None)}there")
    if truth is None or table is None:
        return
    columns = world.original.shape(world.original.lives_at(at)[name.table], at).columns
    rules = Rules(world.history.setup.rules)
    shaped = (rules.shaped(name.table, image(columns, side)) for side in truth.items())
    wanted = Counter(_row(row) for row in shaped if row is not None)
    known = {column.name for column in columns}
    found = Counter(_row({n: value for n, value in row.items() if n in known}) for row in table.rows)
    if wanted != found:
        missing, extra = (sorted(map(dict, (one - other).elements()), key=str) for one, other in
                          ((wanted, found), (found, wanted)))  # fmt: skip
        raise Failure(f"{name} at {at} differs: missing {missing}, too many {extra}")


def _row(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(row.items()))


def _has_run(world: World, statement: Statement) -> bool:
    return statement.ts <= world.given or any(
        (ddl.version, ddl.table) == (statement.ts, statement.table)
        and record.state in (DdlState.DONE, DdlState.SKIPPED)
        for ddl, record in world.server.progress.ddls.items()
    )
