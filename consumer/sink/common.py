"""What every target says and does alike: refusals, and what a TRUNCATE does to a table that is no mirror."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import tzinfo

from consumer.errors import BadConfig, CannotBeExact, Code, DdlRefused, TableMissing
from consumer.model.columns import Column
from consumer.model.hints import RESYNC, load_export_command
from consumer.model.load import LoadOutcome
from consumer.model.names import NAME_LIMIT, TableName
from consumer.model.progress import AuditRow
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import (
    COMMIT_TS,
    DELETED_AT,
    IS_CURRENT,
    OP,
    TABLE,
    VALID_TO,
    VERSION,
    ModeDdl,
    ModeKind,
)
from consumer.model.times import tso_to_text, zone_of
from consumer.target import LoadRequest


def check_consumer_name(name: str) -> None:
    """Raises BadConfig for one that the progress cannot hold."""
    if not 0 < len(name) <= NAME_LIMIT:
        raise BadConfig(f"the consumer name {name!r} must have 1 to {NAME_LIMIT} characters")


def zone_given(name: str) -> tzinfo:
    """The changefeed's time zone. Raises BadConfig."""
    try:
        return zone_of(name)
    except ValueError as error:
        raise BadConfig(f"the time zone is refused: {error}") from error


def own_database(request: LoadRequest, database: str) -> CannotBeExact:
    """The error of a table in `database`, which the target keeps for itself."""
    return CannotBeExact(
        f"the database {database} is the target's own",
        hint="route or filter it in the changefeed",
        table=str(request.table),
    )


def nothing_beside(table: TableName) -> TableMissing:
    """The error where what was to take the place of `table` is gone, as somebody has dropped it."""
    return TableMissing(
        f"the table that was loaded beside {table} is gone from the target, before it could take its place",
        hint="load it again: " + RESYNC,
    )


def table_missing(request: LoadRequest, create: str) -> TableMissing:
    """It is never created from its rows, because earlier rows would be missing. `create` is the CREATE TABLE that the
    schema file allows, in the target's words."""
    return TableMissing(
        f"the target has no table {request.name}: it is older than the changefeed, or it was dropped there",
        hint="load it from an export: "
        + load_export_command(table=request.table)
        + f"; or create it empty where it was empty upstream:\n{create};",
        table=str(request.table),
    )


def completed_row(outcome: LoadOutcome, defaulted: int) -> Iterator[AuditRow]:
    """None where there are none."""
    if defaulted:
        target, window = outcome.task.target, outcome.task.window
        text = f"rows new in the target, with its defaults in: {', '.join(target.own)}"
        yield AuditRow("complete", target.table, window.after, window.end, puts=defaulted, statement=text)


def merge_conflict(step: ApplyDdl, why: str) -> DdlRefused:
    """The error of a table that is not like those that it is to be merged with; without the statement's text."""
    return DdlRefused(
        f"{step.table} cannot be merged into {step.name}: {why}",
        hint=f"leave {step.table} out of the route or give it another target's name there, and run again; or leave it"
        " out with --tables",
        code=Code.RULES_CONFLICT,
    )


def rows_there(step: ApplyDdl, delete: str) -> DdlRefused:
    """The error of a new table of which rows are there; `delete` is the statement that removes them."""
    return DdlRefused(
        f"{step.name} of the target has rows of {step.table} already, from before its CREATE TABLE",
        hint=f"delete them by hand and run again: {delete}",
    )


def only_own_rows(step: ApplyDdl) -> str:
    """The note of a statement that removes a table upstream, or all of its rows."""
    return f"only the rows of {step.table} are removed from {step.name}"


_RANK = "__storage_consumer_last"

Text = Callable[[str], str]


def closing_statement(
    mode_ddl: ModeDdl,
    there: str,
    table: TableName,
    version: int,
    quote: Text,
    literal: Text,
    own: Callable[[Column], str],
    stays: Sequence[str] = (),
) -> str:
    """The statement that ends the rows of `there`, a table's name in SQL, at `version`; `table` is upstream's name. It
    can run again. `own` writes a column of the key so that the target tells its values apart as they are;
    `stays` are the assignments that keep columns as they are which the target would change by itself."""
    mode = mode_ddl.mode
    names = {usual: quote(mode.name(usual)) for usual in mode.usual}
    also = f"{''.join(f', {assigned}' for assigned in stays)} WHERE"
    if mode.kind is ModeKind.SOFT_DELETE:
        deleted = names[DELETED_AT]
        return f"UPDATE {there} SET {deleted} = {literal(tso_to_text(version))}{also} {deleted} IS NULL"
    if mode.kind is ModeKind.HISTORY:
        ended, current = names[VALID_TO], names[IS_CURRENT]
        return f"UPDATE {there} SET {ended} = {literal(tso_to_text(version))}, {current} = 0{also} {ended} IS NULL"
    upstream = [quote(column.name) for column in mode_ddl.after[: -len(mode.added)]]
    key = ", ".join(own(column) for column in mode_ddl.after if column.name in mode_ddl.key)
    gone = f"{names[OP]} = 'D'"
    # At one commit-ts a row comes behind the one that gave it its key.
    ranked = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {names[COMMIT_TS]} DESC, {gone}) AS {_RANK}"
    return (
        f"INSERT INTO {there} ({', '.join([*upstream, *(names[each] for each in (OP, COMMIT_TS, TABLE, VERSION))])})"
        f" SELECT {', '.join(upstream)}, 'D', {version}, {literal(str(table))}, {version}"
        f" FROM (SELECT t.*, {ranked} FROM {there} t) l WHERE {_RANK} = 1 AND NOT {gone}"
    )
