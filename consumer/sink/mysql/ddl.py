"""Upstream's statements on the target: intent, execution, fact.

MySQL commits a statement by itself, so a crash can fall between the statement and its record. The intent holds what
the touched tables looked like before; who finds an intent with no fact looks at them and knows whether it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

import pymysql

from consumer.ddl.recover import not_kept_hint
from consumer.ddl.tokens import split_statements
from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DROP_ACTIONS, Action
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, DdlId, DdlRecord, DdlState, ProgressChange
from consumer.model.steps import ApplyDdl
from consumer.ports import DdlOutcome
from consumer.sink.mysql.connection import FlavorName, connect
from consumer.sink.mysql.databases import adopt_database, use_database
from consumer.sink.mysql.ddl_state import BeforeState, before_state, look_again, wait_for_running
from consumer.sink.mysql.ddl_text import ServerNames, rewritten
from consumer.sink.mysql.ddl_zone import UNKNOWN_ZONE, UTC, session_zone
from consumer.sink.mysql.errors import ALREADY_SO, MISSING, errno, translate
from consumer.sink.mysql.hash_partitions import misplaced
from consumer.sink.mysql.schema import is_reserved
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.trash import is_there, left_to_do

SaveIntent = Callable[[pymysql.cursors.Cursor, DdlRecord], None]
"""Writes one intent and commits, on the cursor's own connection."""

_STATEMENT_SHOWN = 1000
_DATABASE_EXISTS = 1007


@dataclass(frozen=True, slots=True)
class PlannedDdl:
    """A step on its way. `statements` is its query as the target takes it; `resumed`: its intent is older;
    `timestamp` is the moment, in seconds, that its CURRENT_TIMESTAMP means. `trash`: nothing of that, the table is
    moved there, or back from there. `time_zone` is the session's."""

    step: ApplyDdl
    statements: tuple[str, ...]
    before: BeforeState
    resumed: bool
    note: str = ""
    timestamp: float | None = None
    trash: TableName | None = None
    time_zone: str = UTC

    def intent(self) -> DdlRecord:
        return DdlRecord(self.step.id, DdlState.INTENT, self.before.dump())


def plan_ddls(
    cursor: pymysql.cursors.Cursor,
    steps: Sequence[ApplyDdl],
    open_intents: Mapping[DdlId, DdlRecord],
    flavor: FlavorName,
    zone: str,
) -> list[PlannedDdl | DdlOutcome]:
    """Look at what the steps touch; a step that cannot be is answered at once. pymysql's errors pass through, but for
    those that say what is wrong with one step (a name that the server cannot hold). `zone` is the changefeed's."""
    server = ServerNames.ask(cursor, flavor)
    plans: list[PlannedDdl | DdlOutcome] = []
    for step in steps:
        try:
            plans.append(_planned(cursor, step, open_intents.get(step.id), server, zone))
        except pymysql.MySQLError as error:
            refusal = _translated(error, step)
            if not isinstance(refusal, DdlRefused):
                raise
            plans.append(DdlOutcome(step, refusal))
    return plans


def intents(planned: Sequence[PlannedDdl]) -> ProgressChange:
    """What must be durable before the statements run."""
    change = ProgressChange(ddls=tuple(plan.intent() for plan in planned))
    for plan in planned:
        change = change.merged(plan.step.before)
    return change


def facts(outcomes: Sequence[DdlOutcome]) -> ProgressChange:
    """What is true once they ran: of those that did."""
    done = [outcome.step for outcome in outcomes if outcome.error is None]
    change = ProgressChange(
        ddls=tuple(DdlRecord(step.id, DdlState.DONE) for step in done),
        audit=tuple(_audit(step) for step in done),
    )
    for step in done:
        change = change.merged(step.after)
    return change


def execute_ddls(
    settings: MySqlSettings, planned: Sequence[PlannedDdl], flavor: FlavorName, save: SaveIntent
) -> list[DdlOutcome]:
    """Run the statements, those of several steps side by side. An error stays in its step's outcome."""
    connections = _Connections(settings)
    try:
        if len(planned) <= 1:
            return [_outcome(connections, plan, flavor, save) for plan in planned]
        with ThreadPoolExecutor(min(settings.worker_count, len(planned)), "ddl") as pool:
            return list(pool.map(lambda plan: _outcome(connections, plan, flavor, save), planned))
    finally:
        connections.close()


class _Connections:
    """The idle connections of one batch, for any number of threads. One that met an error is not used again."""

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings
        self._idle: SimpleQueue[pymysql.Connection] = SimpleQueue()

    @contextmanager
    def cursor(self) -> Iterator[pymysql.cursors.Cursor]:
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = connect(self._settings, "ddl", autocommit=True)
        try:
            with connection.cursor() as cursor:
                yield cursor
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get_nowait().close()


def _planned(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, intent: DdlRecord | None, server: ServerNames, zone: str
) -> PlannedDdl | DdlOutcome:
    if is_reserved(step.file.database):
        return DdlOutcome(step, _refused(step, f"the database {step.file.database} is the target's own"))
    before = BeforeState.parse(intent.before) if intent else before_state(cursor, step, server.flavor)
    if intent is None and step.file.type in CREATE_ACTIONS - {Action.CREATE_VIEW} and before.exists(step.file.name):
        return DdlOutcome(step, _refused(step, "a table of this name is there"))
    if intent is None and (reason := misplaced(cursor, step, server.flavor)):
        return DdlOutcome(step, _refused(step, reason))
    if step.trash is not None and _uses_trash(cursor, step, step.trash, intent is not None, server.flavor):
        return PlannedDdl(step, (), before, intent is not None, trash=step.trash)
    try:
        text = rewritten(cursor, step, server, zone=zone)
    except DdlRefused as error:
        lost = step.file.type == Action.RECOVER_TABLE
        hint = not_kept_hint(step.file.name, step.file.version) if lost else ""
        return DdlOutcome(step, _refused(step, error.message, hint))
    statements, note = tuple(split_statements(text.text)), "; ".join(text.notes)
    return PlannedDdl(
        step, statements, before, intent is not None, note, text.timestamp, time_zone=session_zone(step, zone)
    )


def _uses_trash(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, trash: TableName, resumed: bool, flavor: FlavorName
) -> bool:
    """A table comes back from the trash when it is there, or came back from it before this run died."""
    if step.file.type != Action.RECOVER_TABLE:
        return True
    return is_there(cursor, trash, flavor) or (resumed and is_there(cursor, step.file.name, flavor))


def _outcome(connections: _Connections, plan: PlannedDdl, flavor: FlavorName, save: SaveIntent) -> DdlOutcome:
    try:
        with connections.cursor() as cursor:
            return DdlOutcome(plan.step, note=_run(cursor, plan, flavor, save) or plan.note)
    except ConsumerError as error:
        return DdlOutcome(plan.step, error)


def _run(cursor: pymysql.cursors.Cursor, plan: PlannedDdl, flavor: FlavorName, save: SaveIntent) -> str:
    """Execute what of the step has not been executed; returns a note. Raises ConsumerError."""
    step, before = plan.step, plan.before
    uncertain = None
    try:
        if plan.trash is not None:
            return _move(cursor, plan, plan.trash, flavor)
        if plan.resumed:
            wait_for_running(cursor, before.tables, flavor)
            now = look_again(cursor, before, before.at, flavor)
            if now == before:
                uncertain = before.at
            else:
                before = replace(now, at=before.at + 1)
        use_database(cursor, step)
        _set_zone(cursor, plan.time_zone, step)
        if plan.timestamp is not None:
            cursor.execute(f"SET timestamp = {plan.timestamp!r}")
        note = ""
        for number in range(before.at, len(plan.statements)):
            if number > plan.before.at:
                save(cursor, DdlRecord(step.id, DdlState.INTENT, look_again(cursor, before, number, flavor).dump()))
            note = _execute(cursor, step, plan.statements[number], number == uncertain) or note
        if plan.timestamp is not None:
            cursor.execute("SET timestamp = DEFAULT")
        _set_zone(cursor, UTC, step)
    except pymysql.MySQLError as error:
        raise _translated(error, step) from error
    return note


def _set_zone(cursor: pymysql.cursors.Cursor, zone: str, step: ApplyDdl) -> None:
    try:
        cursor.execute("SET time_zone = %s", (zone,))
    except pymysql.MySQLError as error:
        if errno(error) != UNKNOWN_ZONE:
            raise
        raise _refused(
            step,
            f"the statement turns times of {zone} into others, and the target does not know that zone",
            "load the zone tables into the target, with mysql_tzinfo_to_sql or mariadb-tzinfo-to-sql, and run again",
        ) from error


def _move(cursor: pymysql.cursors.Cursor, plan: PlannedDdl, trash: TableName, flavor: FlavorName) -> str:
    """The table goes to the trash, or comes back; returns a note."""
    name = plan.step.file.name
    if plan.resumed:
        wait_for_running(cursor, plan.before.tables, flavor)
    use_database(cursor, plan.step)
    left = left_to_do(cursor, plan.step, trash, flavor)
    for statement in left:
        cursor.execute(statement)
    if plan.step.file.type == Action.RECOVER_TABLE:
        return f"{name} came back from {trash}"
    if left or plan.resumed:
        return f"{name} is kept as {trash}"
    return f"{name} was to be dropped and was not there"


def _execute(cursor: pymysql.cursors.Cursor, step: ApplyDdl, statement: str, tolerant: bool) -> str:
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        number = errno(error)
        if tolerant and number in ALREADY_SO:
            return ""
        if number in MISSING and step.file.type in DROP_ACTIONS | {Action.DROP_SCHEMA}:
            return f"{step.file.name} was to be dropped and was not there"
        if number == _DATABASE_EXISTS and step.file.type == Action.CREATE_SCHEMA:
            return adopt_database(cursor, step, statement)
        raise
    return ""


def _translated(error: pymysql.MySQLError, step: ApplyDdl) -> ConsumerError:
    known = translate(error, "ddl")
    if isinstance(known, DdlRefused):
        return _refused(step, known.message)
    known.table, known.version = str(step.file.name), step.file.version
    return known


def _refused(step: ApplyDdl, reason: str, hint: str = "") -> DdlRefused:
    name, version = step.file.name, step.file.version
    shown = step.file.query if len(step.file.query) <= _STATEMENT_SHOWN else step.file.query[:_STATEMENT_SHOWN] + " ..."
    return DdlRefused(
        f"{reason}; the statement: {shown}",
        hint=hint
        or f"mend the target and run again, or do by hand what the statement means and then: "
        f"storage-consumer skip-ddl --table {name} --version {version}",
        table=str(name),
        path=step.file.path,
        version=version,
    )


def _audit(step: ApplyDdl) -> AuditRow:
    return AuditRow("ddl", step.file.name, step.file.version, step.file.version, statement=step.file.query)
