"""What is to be done of upstream's statements, given what the target is like and what earlier runs recorded of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pymysql

from consumer.ddl.tokens import tokenize
from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, Action
from consumer.model.ddl_policy import trash_taken
from consumer.model.hints import not_kept_hint, statement_refused, table_there_hint
from consumer.model.names import TableName, qualified
from consumer.model.progress import DdlId, DdlRecord, DdlState
from consumer.model.steps import ApplyDdl
from consumer.model.texts import cut
from consumer.sink.mysql.progress.schema import is_reserved
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.statements.hash_partitions import misplaced
from consumer.sink.mysql.statements.merged import Merged
from consumer.sink.mysql.statements.state import BeforeState, before_state, look_again
from consumer.sink.mysql.statements.text import ServerNames, TargetNow, text_of
from consumer.sink.mysql.statements.trash import is_taken, is_there
from consumer.sink.mysql.statements.zone import UTC
from consumer.target import DdlOutcome

_LAST = "\uffff"
"""The last character of 3 bytes."""


@dataclass(frozen=True, slots=True)
class PlannedDdl:
    """A step on its way. `statements` is its query as the target takes it; `resumed`: an earlier run had the intent
    and may have executed it; `timestamp` is the moment, in seconds, that its CURRENT_TIMESTAMP means. `trash`: nothing
    of that, the table is moved there, or back from there. `time_zone` is the session's, which is `strict`. `merged`:
    others are merged with the table, and the target decides which of `statements` it needs."""

    step: ApplyDdl
    statements: tuple[str, ...]
    before: BeforeState
    resumed: bool
    note: str = ""
    timestamp: float | None = None
    trash: TableName | None = None
    time_zone: str = UTC
    strict: bool = False
    merged: Merged | None = None

    def intent(self) -> DdlRecord:
        return DdlRecord(self.step.id, DdlState.INTENT, self.before.dump())


def plan_ddls(
    cursor: pymysql.cursors.Cursor,
    steps: Sequence[ApplyDdl],
    unfinished: Mapping[DdlId, DdlRecord],
    flavor: FlavorName,
    zone: str,
) -> list[PlannedDdl | DdlOutcome]:
    """Look at what the steps touch; a step that cannot be is answered at once. pymysql's errors pass through, but for
    those that say what is wrong with one step (a name that the server cannot hold). `zone` is the changefeed's."""
    server = ServerNames(cursor, flavor)
    plans: list[PlannedDdl | DdlOutcome] = []
    for step in steps:
        try:
            plans.append(_planned(cursor, step, unfinished.get(step.id), server, zone))
        except pymysql.MySQLError as error:
            refusal = translated(error, step)
            if not isinstance(refusal, DdlRefused):
                raise
            plans.append(DdlOutcome(step, refusal))
    return plans


def _planned(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, record: DdlRecord | None, server: ServerNames, zone: str
) -> PlannedDdl | DdlOutcome:
    if is_reserved(step.name.database):
        return DdlOutcome(step, refused(step, f"the database {step.name.database} is the target's own"))
    if server.flavor != "tidb" and (odd := _unspelled(step)):
        return DdlOutcome(step, refused(step, f"no name on this server can have a character of 4 bytes, as {odd} has"))
    resumed = record is not None and record.state is DdlState.INTENT
    before = _before(cursor, step, record, server.flavor)
    if not resumed and (obstacle := _obstacle(cursor, step, before, server.flavor)):
        return DdlOutcome(step, refused(step, *obstacle))
    if not resumed and step.trash is not None and is_taken(cursor, step, step.trash, server.flavor):
        return DdlOutcome(step, refused(step, *trash_taken(step.trash)))
    if step.trash is not None and _uses_trash(cursor, step, step.trash, resumed, server.flavor):
        return PlannedDdl(step, (), before, resumed, trash=step.trash)
    if step.standing != step.name:
        dropped = (f"DROP TABLE {qualified(step.standing.database, step.standing.table)}",)
        return PlannedDdl(step, dropped, before, resumed, f"{step.name} was called {step.standing} in the target")
    try:
        text = text_of(step, server, TargetNow(cursor), zone=zone)
    except DdlRefused as error:
        lost = step.file.type == Action.RECOVER_TABLE
        hint = not_kept_hint(step.table, step.file.version) if lost else ""
        return DdlOutcome(step, refused(step, error.message, hint))
    note = "; ".join(text.notes)
    return PlannedDdl(
        step,
        text.statements,
        before,
        resumed,
        note,
        text.timestamp,
        time_zone=text.time_zone,
        strict=text.strict,
        merged=text.merged,
    )


def _before(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, record: DdlRecord | None, flavor: FlavorName
) -> BeforeState:
    """The state before `step`: what the intent says. A refused one starts from the state as it is now, with the
    statement that was refused."""
    if record is None:
        return before_state(cursor, step, flavor)
    known = BeforeState.parse(record.before)
    if record.state is DdlState.INTENT:
        return known
    if step.file.type not in DATABASE_ACTIONS and step.name not in known.tables:
        return before_state(cursor, step, flavor)  # routes call it otherwise by now
    return look_again(cursor, known, known.at, flavor)


def _unspelled(step: ApplyDdl) -> str:
    """A name of the statement that MySQL takes for another one, with ? for each such character; "" for none."""
    text = step.statement.query
    names = (token.name for token in tokenize(text) if token.is_name) if max(text, default="") > _LAST else ()
    return next((name for name in names if max(name, default="") > _LAST), "")


def _obstacle(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, before: BeforeState, flavor: FlavorName
) -> tuple[str, str] | None:
    """Why a step that has not begun cannot be executed, and what to do ("": the same as of any refused statement)."""
    creates = step.file.type in CREATE_ACTIONS - {Action.CREATE_VIEW} and before.at == 0
    if creates and before.exists(step.name) and step.merged is None:
        return table_exists(step)
    reason = misplaced(cursor, step, flavor)
    return (reason, "") if reason else None


def table_exists(step: ApplyDdl) -> tuple[str, str]:
    """The reason and the hint where a table that `step` creates is there, and not of it."""
    return "a table of this name exists", table_there_hint(step.table, step.file.version)


def _uses_trash(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, trash: TableName, resumed: bool, flavor: FlavorName
) -> bool:
    """A table comes back from the trash when it is there, or came back from it before this run died."""
    if step.file.type != Action.RECOVER_TABLE:
        return True
    return is_there(cursor, trash, flavor) or (resumed and is_there(cursor, step.name, flavor))


def translated(error: pymysql.MySQLError, step: ApplyDdl) -> ConsumerError:
    known = translate(error, "ddl")
    if isinstance(known, DdlRefused):
        return refused(step, known.message, known.hint)
    known.table, known.version = str(step.table), step.file.version
    return known


def refused(step: ApplyDdl, reason: str, hint: str = "") -> DdlRefused:
    return statement_refused(step.file, f"{reason}; the statement: {cut(step.file.query)}", hint=hint)
