"""Upstream's statements on the target: intent, execution, fact.

MySQL commits a statement by itself, so a crash can fall between the statement and its record. The intent holds what
the touched tables looked like before; who finds an intent with no fact looks at them and knows whether it ran.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue

import pymysql

from consumer.ddl.tokens import split_statements
from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.progress import AuditRow, DdlId, DdlRecord, DdlState, ProgressChange
from consumer.model.steps import ApplyDdl
from consumer.ports import DdlOutcome
from consumer.sink.mysql.connection import FlavorName, connect, quote
from consumer.sink.mysql.ddl_state import BeforeState, before_state, look_again, wait_for_running
from consumer.sink.mysql.ddl_text import ServerNames, rewritten
from consumer.sink.mysql.errors import ALREADY_SO, MISSING, errno, translate
from consumer.sink.mysql.schema import is_reserved
from consumer.sink.mysql.settings import MySqlSettings

SaveIntent = Callable[[pymysql.cursors.Cursor, DdlRecord], None]
"""Writes one intent and commits, on the cursor's own connection."""

_STATEMENT_SHOWN = 1000
_DATABASE_EXISTS = 1007
_CREATE_DATABASE = re.compile(
    r"\s*CREATE\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:`(?:[^`]|``)+`|\S+)", re.I
)
_TIDB_DEFAULTS = "CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin"


@dataclass(frozen=True, slots=True)
class PlannedDdl:
    """A step on its way. `statements` is its query as the target takes it; `resumed`: its intent is older;
    `timestamp` is the moment, in seconds, that its CURRENT_TIMESTAMP means."""

    step: ApplyDdl
    statements: tuple[str, ...]
    before: BeforeState
    resumed: bool
    note: str = ""
    timestamp: float | None = None

    def intent(self) -> DdlRecord:
        return DdlRecord(self.step.id, DdlState.INTENT, self.before.dump())


def plan_ddls(
    cursor: pymysql.cursors.Cursor,
    steps: Sequence[ApplyDdl],
    open_intents: Mapping[DdlId, DdlRecord],
    flavor: FlavorName,
) -> list[PlannedDdl | DdlOutcome]:
    """Look at what the steps touch; a step that cannot be is answered at once. pymysql's errors pass through, but for
    those that say what is wrong with one step (a name that the server cannot hold)."""
    server = ServerNames.ask(cursor, flavor)
    plans: list[PlannedDdl | DdlOutcome] = []
    for step in steps:
        try:
            plans.append(_planned(cursor, step, open_intents.get(step.id), server))
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
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, intent: DdlRecord | None, server: ServerNames
) -> PlannedDdl | DdlOutcome:
    if is_reserved(step.file.database):
        return DdlOutcome(step, _refused(step, f"the database {step.file.database} is the target's own"))
    try:
        text = rewritten(cursor, step, server)
    except DdlRefused as error:
        return DdlOutcome(step, _refused(step, error.message))
    statements, note = tuple(split_statements(text.text)), "; ".join(text.notes)
    if intent is not None:
        return PlannedDdl(step, statements, BeforeState.parse(intent.before), True, note, text.timestamp)
    before = before_state(cursor, step, server.flavor)
    if step.file.type in CREATE_ACTIONS - {Action.CREATE_VIEW} and before.exists(step.file.name):
        return DdlOutcome(step, _refused(step, "a table of this name is there"))
    return PlannedDdl(step, statements, before, False, note, text.timestamp)


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
        if plan.resumed:
            wait_for_running(cursor, before.tables, flavor)
            now = look_again(cursor, before, before.at, flavor)
            if now == before:
                uncertain = before.at
            else:
                before = replace(now, at=before.at + 1)
        _use(cursor, step)
        if plan.timestamp is not None:
            cursor.execute(f"SET timestamp = {plan.timestamp!r}")
        note = ""
        for number in range(before.at, len(plan.statements)):
            if number > plan.before.at:
                save(cursor, DdlRecord(step.id, DdlState.INTENT, look_again(cursor, before, number, flavor).dump()))
            note = _execute(cursor, step, plan.statements[number], number == uncertain) or note
        if plan.timestamp is not None:
            cursor.execute("SET timestamp = DEFAULT")
    except pymysql.MySQLError as error:
        raise _translated(error, step) from error
    return note


def _use(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> None:
    """Select the database that unqualified names mean: the file's, but a rename is read in the old name's."""
    if step.file.type in DATABASE_ACTIONS:
        return
    if step.file.type in CREATE_ACTIONS | RENAME_ACTIONS:
        _enter_or_create(cursor, step.file.database)
    if step.file.type in RENAME_ACTIONS and step.old_name is not None:
        cursor.execute(f"USE {quote(step.old_name.database)}")
    elif step.file.type not in CREATE_ACTIONS | RENAME_ACTIONS:
        _enter(cursor, step)


def _enter_or_create(cursor: pymysql.cursors.Cursor, database: str) -> None:
    try:
        cursor.execute(f"USE {quote(database)}")
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING:
            raise
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quote(database)} {_TIDB_DEFAULTS}")
        cursor.execute(f"USE {quote(database)}")


def _enter(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> None:
    try:
        cursor.execute(f"USE {quote(step.file.database)}")
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING or step.file.type not in DROP_ACTIONS:
            raise


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
            return _adopt_database(cursor, step, statement)
        raise
    return ""


def _adopt_database(cursor: pymysql.cursors.Cursor, step: ApplyDdl, statement: str) -> str:
    """A database that is there already gets upstream's defaults: tables that name no character set take them."""
    options = _CREATE_DATABASE.sub("", statement, count=1).strip(" ;\r\n") or _TIDB_DEFAULTS
    cursor.execute(f"ALTER DATABASE {quote(step.file.database)} {options}")
    return f"the database {step.file.database} was there already; it has upstream's character set now"


def _translated(error: pymysql.MySQLError, step: ApplyDdl) -> ConsumerError:
    known = translate(error, "ddl")
    if isinstance(known, DdlRefused):
        return _refused(step, known.message)
    known.table, known.version = str(step.file.name), step.file.version
    return known


def _refused(step: ApplyDdl, reason: str) -> DdlRefused:
    name, version = step.file.name, step.file.version
    shown = step.file.query if len(step.file.query) <= _STATEMENT_SHOWN else step.file.query[:_STATEMENT_SHOWN] + " ..."
    return DdlRefused(
        f"{reason}; the statement: {shown}",
        hint=f"mend the target and run again, or do by hand what the statement means and then: "
        f"storage-consumer skip-ddl --table {name} --version {version}",
        table=str(name),
        path=step.file.path,
        version=version,
    )


def _audit(step: ApplyDdl) -> AuditRow:
    return AuditRow("ddl", step.file.name, step.file.version, step.file.version, statement=step.file.query)
