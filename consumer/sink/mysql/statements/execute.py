"""Executes upstream's statements on the target: intent, execution, fact.

MySQL commits a statement by itself, so a crash can fall between the statement and its record. The intent holds the
definitions of the touched tables before the statement. A later run that finds an intent without a fact compares them
with the present ones, and so learns whether the statement ran.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pymysql

from consumer.ddl.definitions import statement_of
from consumer.ddl.tidb_syntax import ComputedClause, computed_clauses, leave_out_computed
from consumer.ddl.tokens import Edits
from consumer.errors import ConsumerError, DdlRefused
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.hints import forget_command
from consumer.model.json_texts import tidb_json
from consumer.model.names import TableName, quote
from consumer.model.progress import DdlRecord, DdlState, is_parallel_load
from consumer.model.steps import ApplyDdl
from consumer.model.types.values import NoValue
from consumer.sink.mysql.progress.store import ServerTables
from consumer.sink.mysql.server.connection import FlavorName
from consumer.sink.mysql.server.errors import ALREADY_DONE, MISSING, NOT_COMPUTED, errno
from consumer.sink.mysql.server.statement_connections import StatementConnections
from consumer.sink.mysql.statements.evidence import (
    BeforeState,
    current_state,
    has_taken_effect,
    may_run,
    wait_for_running,
    was_made_by_others,
)
from consumer.sink.mysql.statements.operations import (
    TIDB_DEFAULTS,
    Operations,
    about_step,
    adoption_note,
    adoption_statement,
    refused_statement,
    table_exists,
    values_unknown,
)
from consumer.sink.mysql.statements.planned import PlannedDdl, Records, step_error
from consumer.sink.mysql.statements.table_modes import Merged, run_merged
from consumer.sink.mysql.statements.trash import has_table, remaining_statements
from consumer.sink.mysql.statements.zone import UNKNOWN_ZONE, UTC
from consumer.sink.mysql.tables.describe import has_row, null_columns
from consumer.sink.progress_sql import parallel_load
from consumer.target import DdlOutcome

_DATABASE_EXISTS = 1007
_KEY_EXISTS = frozenset({1005, 1022, 1823, 1826})
"""Among other errors, these mean that a foreign key of this name exists."""
_TIME_IS_SECURED = frozenset({1227, 1290})
"""The user lacks the right to set the time, or a server option forbids it."""
_SIDE_BY_SIDE = 2
"""The threads of one call, which is one of several calls. A long statement does not hold up the others."""


def execute_ddls(
    connections: StatementConnections, planned: Sequence[PlannedDdl], flavor: FlavorName, records: Records
) -> list[DdlOutcome]:
    """Runs the statements, in several threads if there are several steps. An error stays in the outcome of its step."""
    waiting = deque(planned)

    def run() -> list[DdlOutcome]:
        outcomes: list[DdlOutcome] = []
        while (plan := _next(waiting)) is not None:
            outcomes += _in_one_session(connections, plan, waiting, flavor, records)
        return outcomes

    if len(planned) <= 1:
        return run()
    running = [_in_thread(run) for _ in range(_SIDE_BY_SIDE)]
    wait(running)
    outcomes = {outcome.step.id: outcome for future in running for outcome in future.result()}
    return [outcomes[plan.step.id] for plan in planned]


def _in_thread(run: Callable[[], list[DdlOutcome]]) -> Future[list[DdlOutcome]]:
    """Runs `run` in a thread and returns its future. The thread does not keep the process alive, because a statement
    can take hours."""
    result: Future[list[DdlOutcome]] = Future()

    def call() -> None:
        try:
            result.set_result(run())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=call, name="ddl", daemon=True).start()
    return result


def _next(waiting: deque[PlannedDdl]) -> PlannedDdl | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _in_one_session(
    connections: StatementConnections,
    plan: PlannedDdl | None,
    waiting: deque[PlannedDdl],
    flavor: FlavorName,
    records: Records,
) -> list[DdlOutcome]:
    """Returns the outcomes of `plan` and of the steps taken from `waiting`, until one fails. Its session is not used
    again. The proof at the end covers all that ran. If it cannot be written, every outcome gets the error, and the
    target must be asked again what ran."""
    ran: list[DdlOutcome] = []
    proven = False
    try:
        with connections.cursor() as cursor:
            try:
                while plan is not None:
                    if plan.resumed:
                        connections.wait_for_lost(cursor)
                    records.check(cursor, plan.step.id)
                    with connections.waiting_longer(cursor) if plan.resumed else nullcontext():
                        note = "; ".join(filter(None, (plan.operations.note, _run(cursor, plan, flavor, records))))
                    ran.append(DdlOutcome(plan.step, note=note))
                    plan = _next(waiting)
            finally:
                if ran:
                    records.prove(cursor)
                proven = True
    except ConsumerError as error:
        outcomes = ran if proven else [DdlOutcome(outcome.step, error) for outcome in ran]
        return outcomes if plan is None else [*outcomes, DdlOutcome(plan.step, error)]
    return ran


def _run(cursor: pymysql.cursors.Cursor, plan: PlannedDdl, flavor: FlavorName, records: Records) -> str:
    """Executes what has not yet been executed of the step, and returns a note. Raises ConsumerError."""
    step, before, done = plan.step, plan.before, plan.operations
    try:
        if done.trash is not None:
            return _move(cursor, plan, done.trash, flavor, records)
        ran = False
        if plan.resumed:
            wait_for_running(cursor, before.tables, flavor)
            # A merged table is also changed by the statements of its other sources, so its definition proves nothing.
            now = before if done.merged else current_state(cursor, before, before.number, flavor)
            ran = done.merged is None and has_taken_effect(step, before, now)
            if ran and was_made_by_others(cursor, step):
                raise about_step(step, table_exists(step))
            if ran and not (len(done.statements) == 1 and may_run(cursor, step, flavor)):
                before = replace(now, number=before.number + 1)
        if not use_database(cursor, step) and step.name_before == step.name:
            return _was_not_there(step)
        with _session(cursor, step, done):
            if done.merged is not None:
                return _merge(cursor, done.merged, lambda: records.check(cursor, step.id))
            if done.converted and not ran and not before.number:
                from consumer.sink.mysql.statements.converting import (
                    prepare_conversion,  # imports Arrow, which few rounds need here
                )

                prepare_conversion(cursor, step.name, done.converted, flavor)
            return _run_from(cursor, plan, before, flavor, records)
    except NoValue as error:
        raise values_unknown(step, str(error)) from error
    except pymysql.MySQLError as error:
        raise step_error(error, step) from error


def _run_from(
    cursor: pymysql.cursors.Cursor, plan: PlannedDdl, before: BeforeState, flavor: FlavorName, records: Records
) -> str:
    """Executes the statements, beginning with the one before which `before` was recorded."""
    step, note, first = plan.step, "", plan.before.number
    for number, statement in enumerate(plan.operations.statements[before.number :], before.number):
        if plan.resumed or number > first:  # it may have waited long since the last check
            records.check(cursor, step.id)
        if number > first:
            records.save(
                cursor, DdlRecord(step.id, DdlState.INTENT, current_state(cursor, before, number, flavor).dump())
            )
        try:
            note = "; ".join(filter(None, (note, _execute(cursor, step, statement))))
        except pymysql.MySQLError as error:
            if number > first or not _ended_since(cursor, plan, error, flavor):
                raise
    if rewritten := [column for column in plan.operations.converted if column.rewritten_after(flavor)]:
        from consumer.sink.mysql.statements.converting import rewrite_texts

        for column in rewritten:
            records.check(cursor, step.id)
            rewrite_texts(cursor, step.name, column.after, tidb_json)
    return note


@contextmanager
def _session(cursor: pymysql.cursors.Cursor, step: ApplyDdl, done: Operations) -> Iterator[None]:
    """Sets the session as the operations need it, and resets it afterwards. After an error it stays set, because the
    session is not used again."""
    if done.time_zone != UTC:
        _set_zone(cursor, done.time_zone, step)
    if done.timestamp is not None:
        _set_time(cursor, done.timestamp, step)
    if done.strict:
        cursor.execute("SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')")
    yield
    if done.timestamp is not None:
        cursor.execute("SET timestamp = DEFAULT")
    if done.strict:
        cursor.execute("SET SESSION sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', '')")
    if done.time_zone != UTC:
        _set_zone(cursor, UTC, step)


def _merge(cursor: pymysql.cursors.Cursor, merged: Merged, check: Callable[[], None]) -> str:
    check()
    try:
        return run_merged(cursor, merged, check)
    except DdlRefused as error:
        raise about_step(merged.step, error) from error


def _set_zone(cursor: pymysql.cursors.Cursor, zone: str, step: ApplyDdl) -> None:
    reason = f"the statement turns times of {zone} into others, and the target does not know that zone"
    hint = "load the zone tables into the target, with mysql_tzinfo_to_sql or mariadb-tzinfo-to-sql, and run again"
    with _refused_for({UNKNOWN_ZONE}, step, reason, hint):
        cursor.execute("SET time_zone = %s", (zone,))


def _set_time(cursor: pymysql.cursors.Cursor, timestamp: float, step: ApplyDdl) -> None:
    reason = "the statement fills rows with its own time, and the target lets no session set that"
    hint = "let the target's user set the time (secure_timestamp of MariaDB), and run again"
    with _refused_for(_TIME_IS_SECURED, step, reason, hint):
        cursor.execute(f"SET timestamp = {timestamp!r}")


@contextmanager
def _refused_for(numbers: Collection[int], step: ApplyDdl, reason: str, hint: str) -> Iterator[None]:
    """Turns a server error with one of these `numbers` into a refusal of the step."""
    try:
        yield
    except pymysql.MySQLError as error:
        if errno(error) not in numbers:
            raise
        raise refused_statement(step, reason, hint) from error


def _move(
    cursor: pymysql.cursors.Cursor, plan: PlannedDdl, trash: TableName, flavor: FlavorName, records: Records
) -> str:
    """Moves the table to the trash or back, and returns a note."""
    name = plan.step.name
    if plan.resumed:
        wait_for_running(cursor, plan.before.tables, flavor)
        records.check(cursor, plan.step.id)
    use_database(cursor, plan.step)
    remaining = remaining_statements(cursor, plan.step, trash, flavor)
    for statement in remaining:
        cursor.execute(statement)
    if plan.step.file.type == Action.RECOVER_TABLE:
        return f"{name} came back from {trash}"
    if plan.step.file.type != Action.DROP_SCHEMA and not has_table(cursor, trash, flavor):
        return "" if remaining else f"{name} was to be dropped and was not there"
    return f"{name} is kept as {trash}"


def _ended_since(
    cursor: pymysql.cursors.Cursor, plan: PlannedDdl, error: pymysql.MySQLError, flavor: FlavorName
) -> bool:
    """Returns whether an earlier run's statement, which the server finished only after it was looked for, has already
    done this. The error alone proves nothing: the target may have been like that before."""
    if not plan.resumed or errno(error) not in ALREADY_DONE:
        return False
    return has_taken_effect(plan.step, plan.before, current_state(cursor, plan.before, plan.before.number, flavor))


def _shared_key(cursor: pymysql.cursors.Cursor, step: ApplyDdl, statement: str) -> DdlRefused | None:
    """Returns the error for a statement about a parallel table if a parallel table of another database has a foreign
    key of the same name. Both are in one database until their loads end. None if there is no such key."""
    for key in statement_of(statement).foreign_keys if is_parallel_load(step.name) else ():
        cursor.execute(
            "SELECT table_name FROM information_schema.table_constraints WHERE constraint_schema = %s"
            " AND constraint_type = 'FOREIGN KEY' AND constraint_name = %s AND table_name <> %s LIMIT 1",
            (step.name.database, key.name, step.name.table),
        )
        for (table,) in cursor.fetchall():
            consumer, other = parallel_load(ServerTables(cursor), TableName(step.name.database, table))
            reason = (
                f"foreign key {quote(key.name or '')}: {other} has one of this name, and is being loaded, too (under"
                f" {consumer!r}); until both are at their ends, they are in one database of the target"
            )
            hint = f"let that load end, or run it again, or give it up; then load {step.table} again: "
            return refused_statement(step, reason, hint + forget_command(consumer))
    return None


def _was_not_there(step: ApplyDdl) -> str:
    return f"{step.name} was to be dropped and was not there"


def _execute(cursor: pymysql.cursors.Cursor, step: ApplyDdl, statement: str) -> str:
    statement, notes = _without_null_readers(cursor, step, statement)
    try:
        cursor.execute(statement)
    except pymysql.MySQLError as error:
        number = errno(error)
        if number in MISSING and step.file.type in DROP_ACTIONS | {Action.DROP_SCHEMA}:
            return _was_not_there(step)
        if number == _DATABASE_EXISTS and step.file.type == Action.CREATE_SCHEMA:
            cursor.execute(adoption_statement(step, statement))
            return adoption_note(step)
        if number in _KEY_EXISTS and (shared := _shared_key(cursor, step, statement)) is not None:
            raise shared from error
        less, more = (
            _without_uncomputable(cursor, step, statement, error) if number in NOT_COMPUTED else (statement, ())
        )
        if less == statement:
            raise
        return "; ".join(filter(None, (*notes, *more, _execute(cursor, step, less))))
    return "; ".join(notes)


def _without_null_readers(cursor: pymysql.cursors.Cursor, step: ApplyDdl, text: str) -> tuple[str, Sequence[str]]:
    """Returns the statement without the generated columns that read a column which `_without_uncomputable` made NULL in
    an earlier statement: the server would compute them from that NULL. Returns notes, too."""
    statement, edits = statement_of(text), Edits()
    if not statement.is_alter or not any(item.generated for item in computed_clauses(statement)):
        return text, ()
    nulls = null_columns(cursor, step.old_name or step.name)
    notes = list(leave_out_computed(statement, edits, lambda _: False, nulls=nulls))
    return edits.apply(text), notes


def _without_uncomputable(
    cursor: pymysql.cursors.Cursor, step: ApplyDdl, text: str, error: pymysql.MySQLError
) -> tuple[str, Sequence[str]]:
    """Returns the statement without the defaults and generated columns that the server cannot compute, and a note for
    each. Only the server knows which functions it has, and where it accepts them: it names the column, or refuses the
    expression."""
    statement, server_text, edits = statement_of(text), str(error.args[-1]), Edits()
    columns = ", ".join(f"NULL AS {quote(column.name)}" for column in statement.columns) or "NULL"

    def refused_statement(item: ComputedClause) -> bool:
        if any(quoted in server_text for quoted in (f" {quote(item.column)}", f" '{item.column}'")):
            return True
        expression = text[item.expression[0].start : item.expression[-1].end]
        try:
            cursor.execute(f"SELECT ({expression}) FROM (SELECT {columns}) AS t LIMIT 0")
        except pymysql.MySQLError as why:
            return errno(why) in NOT_COMPUTED
        return False

    filled = any(item.added for item in computed_clauses(statement)) and has_row(cursor, step.name)
    notes = list(leave_out_computed(statement, edits, refused_statement, filled))
    return edits.apply(text), notes


def use_database(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    """Selects the database for unqualified names: the schema file's, or the old name's for a rename. Returns False if
    the database of a table to be dropped no longer exists: unqualified names would be resolved in an earlier
    statement's."""
    if step.file.type in DATABASE_ACTIONS:
        return True
    if step.file.type in CREATE_ACTIONS | RENAME_ACTIONS:
        _enter_or_create(cursor, step.name.database)
    if step.file.type in RENAME_ACTIONS and step.old_name is not None:
        cursor.execute(f"USE {quote(step.old_name.database)}")
    elif step.file.type not in CREATE_ACTIONS | RENAME_ACTIONS:
        return _enter(cursor, step)
    return True


def _enter_or_create(cursor: pymysql.cursors.Cursor, database: str) -> None:
    try:
        cursor.execute(f"USE {quote(database)}")
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING:
            raise
        cursor.execute(f"CREATE DATABASE IF NOT EXISTS {quote(database)} {TIDB_DEFAULTS}")
        cursor.execute(f"USE {quote(database)}")


def _enter(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    try:
        cursor.execute(f"USE {quote(step.name.database)}")
    except pymysql.MySQLError as error:
        if errno(error) not in MISSING or step.file.type not in DROP_ACTIONS:
            raise
        return False
    return True
