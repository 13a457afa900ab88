"""What upstream's statements come to on this server. `plan` prints them, a run executes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pymysql

from consumer.ddl.changes import changes_of
from consumer.ddl.definitions import ParsedStatement, statement_of
from consumer.ddl.resolve import Names
from consumer.ddl.rewrite_mysql import RewriteContext, rewrite
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
from consumer.sink.mysql.progress.schema import is_kept_from
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.statements.conversions import Converted, converted_columns
from consumer.sink.mysql.statements.table_modes import Merged, mode_statements
from consumer.sink.mysql.statements.target_now import Others, PlannedTarget, TargetNow
from consumer.sink.mysql.statements.zone import UTC, agreed_zone, offset_at, session_zone
from consumer.sink.mysql.tables.checks import type_of

_LAST = "\uffff"
"""The last character of 3 bytes."""
_CREATE_DATABASE = re.compile(
    r"\s*CREATE\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:`(?:[^`]|``)+`|\S+)", re.I
)
TIDB_DEFAULTS = "CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin"


@dataclass(frozen=True, slots=True)
class Operations:
    """What a step executes, and in what session."""

    statements: tuple[str, ...] = ()
    note: str = ""
    """What the target does not express though its rows stay right."""
    timestamp: float | None = None
    """The moment, in seconds, that CURRENT_TIMESTAMP means in `statements`."""
    time_zone: str = UTC
    strict: bool = False
    """Where a value would be changed, the statement fails."""
    merged: Merged | None = None
    """Others are merged with the table, and the target decides which of `statements` it needs."""
    converted: tuple[Converted, ...] = ()
    """The columns that become others, whose values are looked at before `statements`."""
    trash: TableName | None = None
    """No `statements`: the table is moved there, or back from there, by what is left to do then."""
    collations: tuple[str, ...] = ()
    """What `note` says of character sets and collations."""


def check_names(step: ApplyDdl, flavor: FlavorName) -> None:
    """Raises DdlRefused for names that the target keeps for itself, or cannot hold."""
    if is_kept_from(step.table, step.name):
        raise DdlRefused(f"the database {step.name.database} is the target's own")
    if flavor != "tidb" and (odd := _unspelled(step)):
        raise DdlRefused(f"no name on this server can have a character of 4 bytes, as {odd} has")


def operations(step: ApplyDdl, now: TargetNow, zone: str, resumed: bool = False) -> Operations:
    """Raises DdlRefused, without the statement's text, where it has no right form there. `zone` is the changefeed's;
    `resumed`: an earlier run may have executed it."""
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
            return replace(done, statements=(adoption(step, done.statements[0]),), note=adopted(step))
        return done
    except DdlRefused as error:
        lost = step.file.type == Action.RECOVER_TABLE
        hint = not_kept_hint(step.table, step.file.version) if lost else ""
        raise DdlRefused(error.message, hint=hint, code=error.code) from error


def adoption(step: ApplyDdl, statement: str) -> str:
    """A database that is there already gets upstream's defaults: tables that name no character set take them.
    `statement` would have created it."""
    options = _CREATE_DATABASE.sub("", statement, count=1).strip(" ;\r\n") or TIDB_DEFAULTS
    return f"ALTER DATABASE {quote(step.name.database)} {options}"


def adopted(step: ApplyDdl) -> str:
    return f"the database {step.name.database} existed already; it has upstream's character set now"


def table_exists(step: ApplyDdl) -> DdlRefused:
    """Why a table that `step` creates cannot be: it is there, and not of it."""
    hint = table_there_hint(step.table, step.file.version)
    return DdlRefused("a table of this name exists", hint=hint, code=Code.TABLE_EXISTS)


def preview(
    cursor: pymysql.cursors.Cursor, steps: Sequence[ApplyDdl], flavor: FlavorName, zone: str
) -> Iterator[TargetDdl]:
    """The operations of `steps`, each where the earlier ones leave the target. pymysql's errors pass through, but for
    those about a statement alone."""
    target = PlannedTarget(cursor, flavor)
    for step in steps:
        try:
            yield _previewed(step, target, zone)
        except DdlRefused as refusal:
            yield TargetDdl(error=refusal.message)
        except pymysql.MySQLError as error:
            known = translate(error, "ddl")
            if not isinstance(known, DdlRefused):
                raise
            yield TargetDdl(error=known.message)
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
        if column.written_before
    ]
    then = [
        f"writes the values of column {quote(column.behind)} again, as TiDB writes JSON"
        for column in done.converted
        if column.written_behind(target.flavor)
    ]
    return TargetDdl((*first, *done.statements, *then), done.note, collations=done.collations)


def _left_out(step: ApplyDdl, now: TargetNow) -> Operations | None:
    """What the RENAME of a view comes to that the target does not have: a table there can have its name."""
    old = step.old_name if step.known.is_view else None
    return None if old is None or now.has_view(old) else Operations(note=f"{old} is a view upstream, and none here")


def _uses_trash(step: ApplyDdl, trash: TableName, now: TargetNow, resumed: bool) -> bool:
    """A table comes back from the trash when it is there, or came back from it before this run died."""
    if step.file.type != Action.RECOVER_TABLE:
        return True
    return now.holds(trash) or (resumed and now.holds(step.name))


def _unspelled(step: ApplyDdl) -> str:
    """A name of the statement that MySQL takes for another one, with ? for each such character; "" for none."""
    text = step.statement.query
    names = (token.name for token in tokenize(text) if token.is_name) if max(text, default="") > _LAST else ()
    return next((name for name in names if max(name, default="") > _LAST), "")


def _written(step: ApplyDdl, now: TargetNow, zone: str) -> Operations:
    """Upstream's text, rewritten for the server; or what a table that is no mirror needs."""
    file, action = step.file, step.action
    statement = statement_of(step.statement.query)
    zone = agreed_zone(step, statement, zone, lambda: now.nodes_in_utc)
    session = session_zone(step, statement, zone)
    converted = _converted(step, now) if statement.is_alter and step.merged is None else ()
    if step.mode_ddl is not None:
        found = tuple(mode_statements(step, step.mode_ddl, zone, now.flavor))
        merged = None if step.merged is None else Merged(step, step.merged, zone)
        # Rows that upstream no longer has may hold what does not fit a column that it changes.
        return Operations(found, time_zone=session, strict=True, merged=merged, converted=converted)
    before, there = step.known.indexes, None
    if action in INDEX_ACTIONS and (not before.whole or before.skips):
        there = now.indexes(step.name)
        before = before if before.whole else before.beside(there)
    place = RewriteContext(
        now.flavor,
        Names(Others(now, step.name), step.name, step.old_name, {*step.touches} - {step.name, *step.behind}),
        file.version,
        now.collations,
        before,
        there,
        step.known.charset,
        _by_key(step, action, now),
        _columns_before(step, statement, now),
        file.columns,
        offset_at(step, zone),
    )
    done = rewrite(statement, action, place)
    statements, notes = [text.strip() for text in done.statements], list(done.notes)
    for column in () if now.flavor == "tidb" else _unnamed(step, statement):
        statements.append(f"ALTER TABLE {qualified(*step.name)} ADD COLUMN {quote(column.name)} {type_of(column)} NULL")
        notes.append(f"column {column.name} is hidden upstream and a plain one here, as the rows carry it")
    return Operations(
        tuple(statements),
        "; ".join(notes),
        done.timestamp,
        session,
        strict=bool(converted),
        converted=converted,
        collations=done.collations,
    )


def _converted(step: ApplyDdl, now: TargetNow) -> tuple[Converted, ...]:
    before = step.mode_ddl.before if step.mode_ddl else step.known.columns
    found = converted_columns(step, now.declared(step.name) if before is None else before)
    if now.flavor == "tidb":  # converts as upstream did, but for what its session said
        return tuple(column for column in found if column.conversion.by_clock or column.conversion.by_mode)
    return found


def _unnamed(step: ApplyDdl, statement: ParsedStatement) -> list[Column]:
    """The columns that the schema file has and the statement does not name."""
    definitions, before, after = changes_of(step.statement).columns, step.known.columns, step.file.columns or ()
    if statement.kind == "CREATE TABLE":
        return definitions.unnamed(None, after) if statement.members else []
    altered = step.file.type not in CREATE_ACTIONS | DROP_ACTIONS | DATABASE_ACTIONS
    return definitions.unnamed(before, after) if altered and before is not None and not is_view(after) else []


def _columns_before(step: ApplyDdl, statement: ParsedStatement, now: TargetNow) -> frozenset[str] | None:
    if now.flavor != "mysql" or not any(token.word == "EXISTS" for token in statement.tokens):
        return None
    known = step.known.columns
    return now.columns(step.name) if known is None else same_names(column.name for column in known)


def _by_key(step: ApplyDdl, action: Action, now: TargetNow) -> bool:
    if action not in (Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION):
        return False
    known = step.known.partitioning
    return now.by_key(step.name) if known is None else known.kind is PartitionKind.KEY


def not_converted(step: ApplyDdl, why: str) -> DdlRefused:
    """The error of a statement that would leave a value that upstream does not have, or of which nobody knows it."""
    return refused(step, f"{UNKNOWN_VALUES}: {why}", values_hint(step.file))


def refused(step: ApplyDdl, reason: str, hint: str = "", code: Code | None = None) -> DdlRefused:
    return statement_refused(step.file, f"{reason}; the statement: {shortened(step.file.query)}", hint, code)


def about_step(step: ApplyDdl, error: DdlRefused) -> DdlRefused:
    """`error`, which knows only what is wrong, with the statement and what to do."""
    return refused(step, error.message, error.hint, error.code)
