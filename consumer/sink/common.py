"""Messages that all targets share, and what a TRUNCATE does to a table that is not a mirror."""

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
    """Raises BadConfig for a name that the progress cannot hold."""
    if not 0 < len(name) <= NAME_LIMIT:
        raise BadConfig(f"the consumer name {name!r} must have 1 to {NAME_LIMIT} characters")


def changefeed_zone(name: str) -> tzinfo:
    """Returns the changefeed's time zone. Raises BadConfig."""
    try:
        return zone_of(name)
    except ValueError as error:
        raise BadConfig(f"the time zone is refused: {error}") from error


def reserved_database(request: LoadRequest, database: str) -> CannotBeExact:
    """Returns the error for a table in `database`, which is reserved for the target's own tables."""
    return CannotBeExact(
        f"the database {database} is the target's own",
        hint="route or filter it in the changefeed",
        table=str(request.table),
    )


def parallel_table_missing(table: TableName) -> TableMissing:
    """Returns the error for the case that somebody has dropped the table that was to replace `table`."""
    return TableMissing(
        f"the table that was loaded beside {table} is gone from the target, before it could take its place",
        hint="load it again: " + RESYNC,
    )


def table_missing(request: LoadRequest, create: str) -> TableMissing:
    """Returns the error for a table that the target lacks. Rows never create a table, because earlier rows would be
    missing. `create` is the CREATE TABLE that the schema file allows, in the target's SQL."""
    return TableMissing(
        f"the target has no table {request.name}: it is older than the changefeed, or it was dropped there",
        hint="load it from an export: "
        + load_export_command(table=request.table)
        + f"; or create it empty where it was empty upstream:\n{create};",
        table=str(request.table),
    )


def completed_row(outcome: LoadOutcome, defaulted: int) -> Iterator[AuditRow]:
    """Yields an audit row for `defaulted` new rows, and nothing when `defaulted` is 0."""
    if defaulted:
        target, window = outcome.task.target, outcome.task.window
        text = f"rows new in the target, with its defaults in: {', '.join(target.extra_columns)}"
        yield AuditRow("complete", target.table, window.after, window.end, puts=defaulted, statement=text)


def merge_conflict(step: ApplyDdl, why: str) -> DdlRefused:
    """Returns the error for a table that differs from the tables it is to be merged with. The error does not contain
    the statement's text."""
    return DdlRefused(
        f"{step.table} cannot be merged into {step.name}: {why}",
        hint=f"leave {step.table} out of the route or give it another target's name there, and run again; or leave it"
        " out with --tables",
        code=Code.RULES_CONFLICT,
    )


def rows_exist(step: ApplyDdl, delete: str) -> DdlRefused:
    """Returns the error for a new table of which the target already has rows. `delete` is the statement that removes
    them."""
    return DdlRefused(
        f"{step.name} of the target has rows of {step.table} already, from before its CREATE TABLE",
        hint=f"delete them by hand and run again: {delete}",
    )


def only_own_rows(step: ApplyDdl) -> str:
    """Returns the note for a statement that removes a table, or all rows of a table, upstream."""
    return f"only the rows of {step.table} are removed from {step.name}"


_RANK = "__storage_consumer_last"

Text = Callable[[str], str]


def closing_statement(
    mode_ddl: ModeDdl,
    table_sql: str,
    table: TableName,
    version: int,
    quote: Text,
    literal: Text,
    key_expression: Callable[[Column], str],
    stays: Sequence[str] = (),
) -> str:
    """Returns the statement that ends the rows of a table at `version`. It can be repeated.

    `table_sql` is the target table's name in SQL, `table` the upstream name. `key_expression` returns the SQL of a key
    column in a form by which the target compares its values exactly. `stays` are assignments for columns that the
    target would otherwise change by itself; they keep the values.
    """
    mode = mode_ddl.mode
    names = {usual: quote(mode.name(usual)) for usual in mode.usual}
    also = f"{''.join(f', {assigned}' for assigned in stays)} WHERE"
    if mode.kind is ModeKind.SOFT_DELETE:
        deleted = names[DELETED_AT]
        return f"UPDATE {table_sql} SET {deleted} = {literal(tso_to_text(version))}{also} {deleted} IS NULL"
    if mode.kind is ModeKind.HISTORY:
        ended, current = names[VALID_TO], names[IS_CURRENT]
        return f"UPDATE {table_sql} SET {ended} = {literal(tso_to_text(version))}, {current} = 0{also} {ended} IS NULL"
    upstream = [quote(column.name) for column in mode_ddl.after[: -len(mode.added)]]
    key = ", ".join(key_expression(column) for column in mode_ddl.after if column.name in mode_ddl.key)
    is_delete = f"{names[OP]} = 'D'"
    # At one commit-ts, a put sorts after the delete of the row that gave up this key.
    ranked = f"ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {names[COMMIT_TS]} DESC, {is_delete}) AS {_RANK}"
    return (
        f"INSERT INTO {table_sql} ({', '.join([*upstream, *(names[n] for n in (OP, COMMIT_TS, TABLE, VERSION))])})"
        f" SELECT {', '.join(upstream)}, 'D', {version}, {literal(str(table))}, {version}"
        f" FROM (SELECT t.*, {ranked} FROM {table_sql} t) l WHERE {_RANK} = 1 AND NOT {is_delete}"
    )
