"""Turns upstream's statements into operations on this server. `plan` prints them, a run executes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pymysql

from consumer.ddl.changes import statement_changes
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.resolve import StatementNames
from consumer.ddl.rewrite_mysql import RewriteContext, rewrite_statement
from consumer.ddl.tokens import tokenize
from consumer.errors import Code, DdlRefused
from consumer.layout.schema_file import is_view
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, INDEX_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.hints import UNKNOWN_VALUES, not_kept_hint, statement_refused, table_there_hint, values_hint
from consumer.model.names import TableName, qualified, quote, same_names
from consumer.model.steps import ApplyDdl, TargetDdl
from consumer.model.table_definition import PartitionKind
from consumer.model.texts import shortened
from consumer.sink.mysql.progress.schema import is_name_reserved
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import server_error
from consumer.sink.mysql.statements.conversions import ConvertedColumn, column_conversions
from consumer.sink.mysql.statements.table_modes import Merged, mode_statements
from consumer.sink.mysql.statements.target_now import OtherTables, PlannedTarget, TargetNow
from consumer.sink.mysql.statements.zone import UTC, agreed_zone, offset_at, session_zone
from consumer.sink.mysql.tables.checks import type_of

_LAST = "\uffff"
"""The last character of at most 3 bytes in UTF-8."""
_CREATE_DATABASE = re.compile(
    r"\s*CREATE\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:`(?:[^`]|``)+`|\S+)", re.I
)
TIDB_DEFAULTS = "CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin"


@dataclass(frozen=True, slots=True)
class Operations:
    """The statements that a step executes, and the session that they need."""

    statements: tuple[str, ...] = ()
    note: str = ""
    """What the target does not express. Its rows are still right."""
    timestamp: float | None = None
    """The time, in seconds, of CURRENT_TIMESTAMP in `statements`."""
    time_zone: str = UTC
    strict: bool = False
    """The statement fails if it would change a value."""
    merged: Merged | None = None
    """The table is merged with others. The target decides which of `statements` it needs."""
    converted: tuple[ConvertedColumn, ...] = ()
    """The columns that are converted. Their values are checked before `statements`."""
    trash: TableName | None = None
    """The place in the trash. There are no `statements`: the table is moved there or back, by what remains to be done
    then."""
    collations: tuple[str, ...] = ()
    """The parts of `note` about character sets and collations."""


def check_names(step: ApplyDdl, flavor: FlavorName) -> None:
    """Raises DdlRefused for names that the target reserves for itself, or cannot hold."""
    if is_name_reserved(step.table, step.name):
        raise DdlRefused(f"the database {step.name.database} is the target's own")
    if flavor != "tidb" and (odd := _unspelled(step)):
        raise DdlRefused(f"no name on this server can have a character of 4 bytes, as {odd} has")


def operations(step: ApplyDdl, now: TargetNow, zone: str, resumed: bool = False) -> Operations:
    """Returns the operations for `step`. `zone` is the changefeed's. `resumed` says that an earlier run may have
    executed the step. Raises DdlRefused, without the statement's text, if the statement has no right form on this
    server."""
    if step.trash is not None and _uses_trash(step, step.trash, now, resumed):
        return Operations(trash=step.trash)
    if (nothing := _left_out(step, now)) is not None:
        return nothing
    if step.name_before != step.name:
        dropped = f"DROP TABLE {qualified(step.name_before.database, step.name_before.table)}"
        return Operations((dropped,), f"{step.name} was called {step.name_before} in the target")
    try:
        done = _written(step, now, zone)
        if step.file.type == Action.CREATE_SCHEMA and now.has_database(step.name.database):
            return replace(done, statements=(adoption_statement(step, done.statements[0]),), note=adoption_note(step))
        return done
    except DdlRefused as error:
        lost = step.file.type == Action.RECOVER_TABLE
        hint = not_kept_hint(step.table, step.file.version) if lost else ""
        raise DdlRefused(error.message, hint=hint, code=error.code) from error


def adoption_statement(step: ApplyDdl, statement: str) -> str:
    """Returns the statement that gives an existing database upstream's defaults. Tables that name no character set
    inherit them. `statement` would have created the database."""
    options = _CREATE_DATABASE.sub("", statement, count=1).strip(" ;\r\n") or TIDB_DEFAULTS
    return f"ALTER DATABASE {quote(step.name.database)} {options}"


def adoption_note(step: ApplyDdl) -> str:
    """Returns the note about a database that existed already."""
    return f"the database {step.name.database} existed already; it has upstream's character set now"


def table_exists(step: ApplyDdl) -> DdlRefused:
    """Returns the error for a table that `step` cannot create: it exists, and was not created by this step."""
    hint = table_there_hint(step.table, step.file.version)
    return DdlRefused("a table of this name exists", hint=hint, code=Code.TABLE_EXISTS)


def preview_statements(
    cursor: pymysql.cursors.Cursor, steps: Sequence[ApplyDdl], flavor: FlavorName, zone: str
) -> Iterator[TargetDdl]:
    """Yields the operations of `steps`, each for the target as the earlier ones leave it. pymysql's errors pass
    through, except those about a single statement."""
    target = PlannedTarget(cursor, flavor)
    for step in steps:
        try:
            yield _previewed(step, target, zone)
        except DdlRefused as refusal:
            yield TargetDdl(error=refusal.message)
        except pymysql.MySQLError as error:
            translated = server_error(error, "ddl")
            if not isinstance(translated, DdlRefused):
                raise
            yield TargetDdl(error=translated.message)
        target.touched(step)


def _previewed(step: ApplyDdl, target: PlannedTarget, zone: str) -> TargetDdl:
    check_names(step, target.flavor)
    if (nothing := _left_out(step, target)) is not None:
        return TargetDdl(note=nothing.note)
    if (missing := target.lacking(step)) is not None:
        return TargetDdl(error=f"the target has no table {missing}")
    done = operations(step, target, zone)
    if step.file.type in CREATE_ACTIONS - {Action.CREATE_VIEW} and step.merged is None and target.holds(step.name):
        raise table_exists(step)
    if done.trash is not None:
        return TargetDdl(tuple(target.moves(step, done.trash)), done.note)
    target.follow(step, done.statements)
    first = [
        f"writes the texts of column {quote(column.before)} as upstream reads them"
        for column in done.converted
        if column.rewritten_before
    ]
    then = [
        f"writes the values of column {quote(column.after)} again, as TiDB writes JSON"
        for column in done.converted
        if column.rewritten_after(target.flavor)
    ]
    return TargetDdl((*first, *done.statements, *then), done.note, collations=done.collations)


def _left_out(step: ApplyDdl, now: TargetNow) -> Operations | None:
    """Returns no operations, with a note, for the RENAME of a view that the target does not have: a table there can
    have its name. None for all other steps."""
    old = step.old_name if step.table_before.is_view else None
    return None if old is None or now.has_view(old) else Operations(note=f"{old} is a view upstream, and none here")


def _uses_trash(step: ApplyDdl, trash: TableName, now: TargetNow, resumed: bool) -> bool:
    """Returns whether the step moves a table to the trash or back. RECOVER TABLE does if the table is in the trash, or
    came back from it before an earlier run died."""
    if step.file.type != Action.RECOVER_TABLE:
        return True
    return now.holds(trash) or (resumed and now.holds(step.name))


def _unspelled(step: ApplyDdl) -> str:
    """Returns a name of the statement that MySQL would change, with ? for each character of 4 bytes. "" if there is
    none."""
    text = step.statement.query
    names = (token.name for token in tokenize(text) if token.is_name) if max(text, default="") > _LAST else ()
    return next((name for name in names if max(name, default="") > _LAST), "")


def _written(step: ApplyDdl, now: TargetNow, zone: str) -> Operations:
    """Returns upstream's statement rewritten for the server, or the statements for a table that is not a mirror."""
    file, action = step.file, step.action
    statement = statement_of(step.statement.query)
    zone = agreed_zone(step, statement, zone, lambda: now.nodes_in_utc)
    session = session_zone(step, statement, zone)
    converted = _converted(step, now) if statement.is_alter and step.merged is None else ()
    if step.mode_ddl is not None:
        statements_of_mode = tuple(mode_statements(step, step.mode_ddl, zone, now.flavor))
        merged = None if step.merged is None else Merged(step, step.merged, zone)
        # Rows that upstream no longer has may hold values that do not fit a changed column.
        return Operations(statements_of_mode, time_zone=session, strict=True, merged=merged, converted=converted)
    before, server_indexes = step.table_before.indexes, None
    if action in INDEX_ACTIONS and (not before.complete or before.skips):
        server_indexes = now.indexes(step.name)
        before = before if before.complete else before.completed_by(server_indexes)
    context = RewriteContext(
        flavor=now.flavor,
        names=StatementNames(
            OtherTables(now, step.name), step.name, step.old_name, {*step.touches} - {step.name, *step.follows}
        ),
        version=file.version,
        collations=now.collations,
        before=before,
        there=server_indexes,
        charset=step.table_before.charset,
        key_partitioned=_by_key(step, action, now),
        columns_before=_columns_before(step, statement, now),
        columns=file.columns,
        offset=offset_at(step, zone),
    )
    done = rewrite_statement(statement, action, context)
    statements, notes = [text.strip() for text in done.statements], list(done.notes)
    for column in () if now.flavor == "tidb" else _unnamed(step, statement):
        statements.append(f"ALTER TABLE {qualified(*step.name)} ADD COLUMN {quote(column.name)} {type_of(column)} NULL")
        notes.append(
            f"column {column.name} is hidden upstream; here it is a plain column, because the rows carry its values"
        )
    return Operations(
        tuple(statements),
        "; ".join(notes),
        done.timestamp,
        session,
        strict=bool(converted),
        converted=converted,
        collations=done.collations,
    )


def _converted(step: ApplyDdl, now: TargetNow) -> tuple[ConvertedColumn, ...]:
    before = step.mode_ddl.before if step.mode_ddl else step.table_before.columns
    converted = column_conversions(step, now.declared(step.name) if before is None else before)
    if now.flavor == "tidb":  # converts as upstream did, except where upstream's session decided
        return tuple(column for column in converted if column.conversion.by_clock or column.conversion.by_mode)
    return converted


def _unnamed(step: ApplyDdl, statement: ParsedStatement) -> list[Column]:
    """Returns the columns that the schema file has and the statement does not name."""
    definitions, before, after = (
        statement_changes(step.statement).columns,
        step.table_before.columns,
        step.file.columns or (),
    )
    if statement.kind == "CREATE TABLE":
        return definitions.unnamed(None, after) if statement.members else []
    altered = step.file.type not in CREATE_ACTIONS | DROP_ACTIONS | DATABASE_ACTIONS
    return definitions.unnamed(before, after) if altered and before is not None and not is_view(after) else []


def _columns_before(step: ApplyDdl, statement: ParsedStatement, now: TargetNow) -> frozenset[str] | None:
    if now.flavor != "mysql" or not any(token.word == "EXISTS" for token in statement.tokens):
        return None
    columns = step.table_before.columns
    return now.columns(step.name) if columns is None else same_names(column.name for column in columns)


def _by_key(step: ApplyDdl, action: Action, now: TargetNow) -> bool:
    if action not in (Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION):
        return False
    partitioning = step.table_before.partitioning
    return now.by_key(step.name) if partitioning is None else partitioning.kind is PartitionKind.KEY


def values_unknown(step: ApplyDdl, why: str) -> DdlRefused:
    """Returns the error for a statement that would leave a value that upstream does not have, or that nobody knows."""
    return refused_statement(step, f"{UNKNOWN_VALUES}: {why}", values_hint(step.file))


def refused_statement(step: ApplyDdl, reason: str, hint: str = "", code: Code | None = None) -> DdlRefused:
    return statement_refused(step.file, f"{reason}; the statement: {shortened(step.file.query)}", hint, code)


def about_step(step: ApplyDdl, error: DdlRefused) -> DdlRefused:
    """Returns `error`, which only says what is wrong, with the statement and what to do."""
    return refused_statement(step, error.message, error.hint, error.code)
