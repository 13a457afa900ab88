"""Bringing a stopped table back by hand: reload it from its CREATE on, or record a statement as done."""

from __future__ import annotations

from dataclasses import replace

from consumer.ddl.references import exchange_table
from consumer.errors import BadConfig, CannotBeExact, GapFound
from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, Progress, ProgressChange, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.plan.assembly import Assembly
from consumer.plan.gaps import find_gap
from consumer.plan.statement import action_of


def start_over(table: TableName, assembly: Assembly, progress: Progress, accept_gap: bool) -> ProgressChange:
    """The progress of a table that was never read: its statements from its last CREATE on are pending again.

    Raises BadConfig for a table that is unknown, left out or dropped, CannotBeExact where the storage does not hold the
    table from its beginning, GapFound where the head of its files was cleaned up.
    """
    # Nothing above the checkpoint is due: not a statement that was never executed, not a CREATE yet to come.
    history = [f for f in assembly.catalog.by_table.get(table, ()) if f.query and f.version <= assembly.checkpoint]
    _check_name(table, assembly)
    birth = _birth(table, history)
    _check_exchanges(table, birth, assembly)
    files = [file for file in assembly.files.get(table, ()) if file.folder.version >= birth.version]
    listed = {file.folder for file in assembly.files.get(table, ())}
    read = [folder for folder in progress.folders if assembly.catalog.owner(folder) == table]
    gone = any(folder.version >= birth.version and folder not in listed for folder in read)
    if not accept_gap and (gone or find_gap(table, files, {}) is not None):
        raise GapFound(
            "some of its files are gone from the storage, so it cannot be loaded from the start",
            hint="start from a snapshot, or accept the loss with --accept-gap",
            table=str(table),
        )
    return ProgressChange(
        tables={table: TableProgress(birth.version - 1)},
        folders=dict.fromkeys(read),
        forget_ddls=tuple(ddl for ddl in map(ddl_id, history) if ddl.version >= birth.version and ddl in progress.ddls),
        rewind=True,
    )


def _check_name(table: TableName, assembly: Assembly) -> None:
    if table not in assembly.catalog.by_table:
        raise BadConfig(f"there is no table {table} in the storage", hint="names are case-sensitive; see status")
    if not assembly.wanted(table):
        raise BadConfig(f"the table filter leaves {table} out", hint="let it through with --tables")
    if table not in assembly.timeline.upstream:
        raise BadConfig(
            f"{table} was dropped or renamed upstream: it would come alive again",
            hint="what is left of it in the target can be dropped by hand",
        )


def _check_exchanges(table: TableName, birth: SchemaFile, assembly: Assembly) -> None:
    """Rows that EXCHANGE PARTITION moved lie in the files of the table that they came from."""
    for file in assembly.catalog.files:
        other = exchange_table(file.query) if birth.version < file.version <= assembly.checkpoint else None
        if other is None:
            continue
        moved = (file.database, file.table), (other.database or file.database, other.table)
        if (table.database.lower(), table.table.lower()) in {(d.lower(), t.lower()) for d, t in moved}:
            raise CannotBeExact(
                f"{file.query} moved rows between it and another table, so its rows are not all under its name",
                hint="run the whole storage into an empty target with backfill",
                table=str(table),
            )


def _birth(table: TableName, history: list[SchemaFile]) -> SchemaFile:
    births = [file for file in history if action_of(file) in CREATE_ACTIONS | RENAME_ACTIONS]
    if not births:
        raise CannotBeExact(
            "the storage holds no CREATE TABLE for it: the table is older than the changefeed",
            hint="copy the table from upstream as of a TSO, then start a consumer under a new name with --start-ts",
            table=str(table),
        )
    if action_of(births[-1]) in RENAME_ACTIONS or " LIKE " in births[-1].query:
        raise CannotBeExact(
            f"it began as a copy or under another name ({births[-1].query}), so its rows are not all under this one",
            hint="run the whole storage into an empty target with backfill",
            table=str(table),
        )
    return births[-1]


def record_as_done(
    table: TableName, version: int, reason: str, assembly: Assembly, progress: Progress
) -> ProgressChange:
    """The progress once a person has seen to a pending statement. Raises BadConfig where there is none, or while rows
    below it are still to be applied."""
    for statement in assembly.timeline.pending:
        if statement.file.name != table or statement.version != version:
            continue
        behind = [
            name
            for name in statement.touches
            if progress.table(name).applied_ts < version
            and (name == table or progress.table(name).state is not State.DROPPED)
        ]
        if behind:
            raise BadConfig(
                f"rows of {behind[0]} below version {version} are not applied yet, so the statement is not due",
                hint="run once first; skip-ddl is for a statement that a run has stopped at",
            )
        step = statement.step(progress)
        record = DdlRecord(step.id, DdlState.SKIPPED, reason=reason)
        return replace(step.before.merged(step.after), ddls=(record,))
    pending = sorted({f"{s.file.name} {s.version}" for s in assembly.timeline.pending})
    raise BadConfig(
        f"no statement of {table} with version {version} is pending",
        hint="pending: " + (", ".join(pending) or "none"),
    )
