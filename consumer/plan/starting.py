"""Begins tables at a moment of their own (--start-ts RULE=MOMENT): the target already holds them as upstream had them
then. Earlier statements are not repeated, and statements that need the tables as they were before are not executed at
all."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cached_property

from consumer.errors import BadConfig, CheckpointBehind
from consumer.history.history import exchanged_tables
from consumer.history.incarnations import Incarnation
from consumer.history.target_tables import TargetTables, is_settled, was_executed
from consumer.model.actions import Action
from consumer.model.combinations import Feature, forbidden_combination
from consumer.model.ddl_policy import DdlPolicy, PolicyOf
from consumer.model.events import Note, NoteKind
from consumer.model.files import Folder, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import (
    LEFT_UNDONE,
    DdlId,
    DdlKind,
    DdlRecord,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
from consumer.model.rules import NO_STARTS, NOW, ShapingOf, Starts
from consumer.model.steps import ddl_id
from consumer.model.times import time_text, tso_to_ms
from consumer.plan.assembly import Assembly
from consumer.plan.late import LEFT_OVER


def starting_change(
    assembly: Assembly, progress: Progress, starts: Starts, shaping_of: ShapingOf, policy_of: PolicyOf
) -> ProgressChange | None:
    """Returns what to record before a round in which tables begin where `starts` says; None if there are none.

    A table begins so if it is new to this consumer, or was excluded until now, and existed upstream at that moment.
    Raises BadConfig for a moment that it cannot have.
    """
    if starts == NO_STARTS:
        return None
    wanted = (name for name in assembly.catalog.by_table if name.table and assembly.wanted(name))
    moments = ((name, starts.of(name)) for name in wanted)
    asked = {name: ts for name, ts in moments if ts is not None and _has_effect(name, ts, progress)}
    if not asked:
        return None
    beginnings = _Starting(assembly, progress, asked)
    begins = {name: ts for name in sorted(asked) if (ts := beginnings.moment(name)) is not None}
    for name, ts in begins.items():
        _check(name, ts, assembly, progress, shaping_of)
    return beginnings.change(begins, policy_of) if begins else None


def preloaded_tables_change(
    assembly: Assembly, progress: Progress, moments: Mapping[TableName, int], policy_of: PolicyOf
) -> ProgressChange:
    """Returns what to record of tables that the target already holds as of these moments. They count as excluded until
    now."""
    beginnings = _Starting(assembly, progress, moments)
    in_storage = {name: ts for name, ts in moments.items() if name in assembly.catalog.by_table}
    # The storage has nothing of the other tables: no rows of theirs are anywhere.
    rest = ProgressChange(tables=dict.fromkeys(moments.keys() - in_storage), starts=dict(moments))
    return beginnings.change(in_storage, policy_of).merged(rest)


def check_moment(flag: str, ts: int, checkpoint: int) -> None:
    """Raises BadConfig for a beginning in the future, CheckpointBehind for one that the storage has not reached: rows
    in between would count as applied."""
    if ts <= checkpoint:
        return
    above = f"{flag} is {time_text(ts)} ({ts}), above the storage's checkpoint of {time_text(checkpoint)}"
    if tso_to_ms(ts) > time.time() * 1000:
        raise BadConfig(f"{above}, and in the future", hint="check the date")
    raise CheckpointBehind(above, hint="check the date; if it is right, run again once TiCDC is past it")


def start_notes(change: ProgressChange) -> Iterator[Note]:
    """Yields a note for each table that begins, with its moment."""
    for name, ts in change.starts.items():
        text = f"{name} begins at --start-ts {ts}: the target must have it as upstream had it then"
        yield Note(NoteKind.START, text, name)


def idle_notes(assembly: Assembly, progress: Progress, starts: Starts) -> Iterator[Note]:
    """Yields notes about rules that match no table, and about rules for just one table on which they have no effect.
    `progress` has what `starting_change` recorded."""
    if starts == NO_STARTS:
        return
    names = [name for name in assembly.catalog.by_table if name.table]
    tables = list(filter(assembly.wanted, names))
    for rule in starts.unfit(tables) if names else ():
        yield Note(NoteKind.START, f"--start-ts '{rule}' says nothing of any table of the storage that is selected")
    for name in tables:
        ts, begun = starts.of(name), progress.starts.get(name)
        if (rule := starts.just(name)) and begun != ts and (ts != NOW or begun is None):
            text = (
                f"--start-ts '{rule}' has no effect: {name} has begun already, or is another table than at that moment"
            )
            yield Note(NoteKind.START, text, name)


def check_exchanged(assembly: Assembly, progress: Progress) -> None:
    """Raises BadConfig if a table lacks rows that an EXCHANGE PARTITION gave it, because the statement is not repeated
    for the sake of the other table, which has begun after it."""
    history = assembly.history
    for file in (file for file in history.exchanges if progress.was_preloaded(ddl_id(file))):
        moved = {name.folded for name in exchanged_tables(file)}
        for table in history.alive.values():
            earlier_names = (n for n, since in zip(table.names, table.since, strict=True) if since < file.version)
            name = table.name
            if not assembly.wanted(name) or moved.isdisjoint(n.folded for n in earlier_names):
                continue
            if max(map(progress.start_of, table.names)) < file.version:
                raise BadConfig(
                    f"{name} exchanged a partition with a table that begins after that, by --start-ts: {file.query}"
                    f" (version {file.version})",
                    hint=f"give {name} a --start-ts of its own that is not below {file.version}, or leave it out with"
                    " --tables",
                )


def _has_effect(name: TableName, ts: int, progress: Progress) -> bool:
    """Returns whether the rule can have an effect. NOW is for a first run, and for tables that were excluded: for all
    others every row since the last run counts."""
    if ts == NOW:
        return progress.is_new or progress.table(name).state is State.EXCLUDED
    return progress.starts.get(name) != ts


class _Starting:
    """Finds the tables `asked` for at their moments."""

    def __init__(self, assembly: Assembly, progress: Progress, asked: Mapping[TableName, int]) -> None:
        self._assembly, self._progress, self._asked = assembly, progress, asked
        self._history = assembly.history
        moments = {name: assembly.checkpoint if ts == NOW else ts for name, ts in asked.items()}
        tables = ((name, self._history.at(name, ts)) for name, ts in moments.items())
        self._at = {name: table for name, table in tables if table is not None}

    def moment(self, name: TableName) -> int | None:
        """Returns where the table begins; None if the rule has no effect on it. Raises BadConfig for a table that has
        begun elsewhere."""
        table, place, asked = self._at.get(name), self._progress.table(name), self._asked[name]
        if table is None:
            return None  # the table that has this name is younger, or older
        if place.state is not State.EXCLUDED and self._follows_another(name, table):
            return None  # the end of the other table and the CREATE TABLE of this one are still to run
        begun, left_out = self._has_begun(name, table), place.state in (State.EXCLUDED, State.DROPPED)
        if asked == NOW:
            continues = begun or self._has_begun_elsewhere(table) or self._assembly.checkpoint < place.applied_ts
            return None if continues else self._assembly.checkpoint
        if place.state is State.DROPPED and asked < place.applied_ts:
            return None
        if begun and not (left_out and asked >= place.applied_ts):
            recorded = self._progress.starts.get(name)
            if recorded == 0:
                return None  # it was loaded again from its CREATE TABLE on
            where = f"began at --start-ts {recorded}" if recorded else "began without a --start-ts of its own"
            end = f", and is complete up to {place.applied_ts}" if left_out else ""
            raise _refused(name, f"it {where}{end}, and {asked} is another moment", "to continue")
        return asked

    def _follows_another(self, name: TableName, table: Incarnation) -> bool:
        """Returns whether the target has an older table of the name."""
        target_table = self._target.tables.get(name)
        return target_table is not None and target_table.sure and target_table.table is not table

    @cached_property
    def _target(self) -> TargetTables:
        return TargetTables(self._history, lambda file: was_executed(file, self._progress))

    def _has_begun(self, name: TableName, table: Incarnation) -> bool:
        """Returns whether a statement of the table ran, or rows of it were read."""
        ran = (file for file in table.statements if file.name == name)
        if any(was_executed(file, self._progress) and not self._progress.was_preloaded(ddl_id(file)) for file in ran):
            return True
        return any(self._read(name, table))

    def _has_begun_elsewhere(self, table: Incarnation) -> bool:
        """Returns whether the target already held the table, or followed it under any name."""
        if self._progress.is_new:
            return False
        is_known = table.preloaded_at(self._progress) or self._target.followed_name(table) is not None
        return bool(is_known) or any(any(self._read(name, table)) for name in table.names)

    def _read(self, name: TableName, table: Incarnation) -> Iterator[Folder]:
        """Yields the folders of the table, under that name, that were read."""
        catalog = self._assembly.catalog
        return (f for f in self._progress.folders if catalog.owner(f) == name and catalog.table_of(f) is table)

    def change(self, begins: Mapping[TableName, int], policy_of: PolicyOf) -> ProgressChange:
        """Returns what to record for `begins`."""
        progress = self._progress
        passed: dict[str, tuple[SchemaFile, DdlKind, str]] = {}
        again: list[DdlId] = []
        former: dict[TableName, TableProgress] = {}
        skipped = (DdlKind.PASSED_OVER, LEFT_UNDONE[DdlKind.PASSED_OVER])
        for name, ts in begins.items():
            for table in self._history.tables_named(name, ts):
                is_own = table is self._at[name]
                over = is_own or (table.end is not None and table.end.version <= ts)
                kind, reason = (
                    (DdlKind.GIVEN, f"the target was given its table as of --start-ts {ts}") if is_own else skipped
                )
                passed |= {file.path: (file, kind, reason) for file in _up_to(table, ts, over or name)}
                again += self._done_again(table, ts) if name in progress.starts else []
                if over and (target_name := self._target.followed_name(table)) not in (None, name):
                    former |= self._taken_away(name, target_name, policy_of)
            dropped = self._last_drop(name, ts)
            for file, _ in self._history.followed_files if dropped else ():
                if file.database == name.database and file.version <= dropped:
                    passed.setdefault(file.path, (file, *skipped))
        records = (
            DdlRecord.skipped(ddl_id(file), kind, reason)
            for file, kind, reason in passed.values()
            if file.query and not is_settled(file, progress)
        )
        return ProgressChange(
            tables={**former, **{name: TableProgress(ts) for name, ts in begins.items()}},
            # Files of a table that was excluded can be gone: from its moment on its folders count as new.
            folders={folder: None for name in begins for folder in self._read(name, self._at[name])},
            ddls=tuple(records),
            forget_ddls=tuple(again),
            starts=dict(begins),
            moved_lacks=dict.fromkeys((*begins, *former), ()),
            rewind=any(ts < progress.table(name).applied_ts for name, ts in begins.items()),
        )

    def _done_again(self, table: Incarnation, ts: int) -> list[DdlId]:
        """Returns the statements above `ts` that were skipped, because the table was to begin later."""
        records = (
            (ddl_id(file), self._progress.ddls.get(ddl_id(file))) for file in table.statements if file.version > ts
        )
        again = (DdlKind.GIVEN, DdlKind.PASSED_OVER)
        return [ddl for ddl, record in records if record and record.kind in again]

    def _taken_away(
        self, name: TableName, target_name: TableName, policy_of: PolicyOf
    ) -> dict[TableName, TableProgress]:
        """Returns what becomes of the target's table `target_name`: an older table of the name, or an earlier state of
        the table."""
        policy = policy_of(Action.DROP_TABLE, target_name)
        if policy is DdlPolicy.IGNORE:
            return {}
        if policy is not DdlPolicy.EVOLVE or not self._assembly.wanted(target_name):
            raise _refused(
                name, f"the target has a former state of it as {target_name}, which would have to be dropped"
            )
        return {target_name: TableProgress(self._progress.table(target_name).applied_ts, State.EMPTYING, LEFT_OVER)}

    def _last_drop(self, name: TableName, ts: int) -> int:
        """Returns the version of the last DROP DATABASE up to `ts` that has not run and would drop the table, 0 for
        none."""
        files = self._assembly.catalog.by_table.get(TableName(name.database, ""), ())
        due = [f for f in files if f.action == Action.DROP_SCHEMA and not is_settled(f, self._progress)]
        last = max((file.version for file in due if file.version <= ts), default=0)
        older = ((n, t) for n, t in self._target.tables.items() if n.database == name.database and n != name)
        for other, target_table in older if last else ():
            if target_table.sure and target_table.since < last:
                raise BadConfig(
                    f"{name} begins after a DROP DATABASE that is still to run (version {last}), which takes {other}"
                    " out of the target too",
                    hint=f"leave {name} out with --tables for one run, then let it in with its --start-ts",
                    table=str(name),
                )
        return last


def _up_to(table: Incarnation, ts: int, name: TableName | bool) -> Iterator[SchemaFile]:
    """Yields the statements of the table up to `ts`, its end too: all of them if `name` is True, or only those under
    one name."""
    for file in (*table.statements, *([table.end] if table.end is not None and table.end.table else [])):
        if file.version <= ts and name in (True, file.name):
            yield file


def _check(name: TableName, ts: int, assembly: Assembly, progress: Progress, shaping_of: ShapingOf) -> None:
    check_moment("--start-ts", ts, assembly.checkpoint)
    if ts < progress.start_ts:
        raise _refused(name, f"all tables began at --start-ts {progress.start_ts}, and {ts} is before that")
    rules = shaping_of(name)
    given = {
        Feature.START: True,
        Feature.MERGE: assembly.naming.merges(name),
        Feature.MASK: rules is not None and bool(rules.masks),
    }
    if (misfit := forbidden_combination(given)) is not None:
        raise _refused(name, misfit.why)


def _refused(name: TableName, why: str, end: str = "") -> BadConfig:
    what = f"leave out what --start-ts says of it {end}".rstrip()
    return BadConfig(
        f"--start-ts cannot be followed for {name}: {why}",
        hint=f"{what}, or fill the table again under another --name",
        table=str(name),
    )
