"""Turns a statement of upstream into a step in the target, or into the reason why it must not be executed."""

from __future__ import annotations

from consumer.ddl.resolve import routed_file, with_session
from consumer.ddl.text_check import check_text
from consumer.errors import Code, DdlRefused
from consumer.history.renames import rename_pairs
from consumer.model.ddl_policy import DdlPolicy, kind_of
from consumer.model.files import SchemaFile
from consumer.model.hints import skip_ddl_command, statement_refused
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import ModeDdl
from consumer.model.texts import shortened
from consumer.plan.statement import Statement, UnreadTable
from consumer.plan.table_modes import check_mode_statement, mode_ddl

_UNRECORDED = ProgressChange()


def ddl_step(
    statement: Statement,
    before: ProgressChange = _UNRECORDED,
    after: ProgressChange = _UNRECORDED,
    *,
    called: TableName | None = None,
    complete: bool = True,
) -> ApplyDdl:
    """Returns the statement as a step in the target's names, with what is recorded of it. `called` is the name that its
    table still has in the target, if a RENAME never ran. `complete` is false if the table lacks rows. Raises
    DdlRefused."""
    naming, old_name = statement.naming, called or statement.old_name
    lacking = statement.policy is DdlPolicy.RENAME and statement.file.table and not complete
    query, change = _written(statement)
    return ApplyDdl(
        statement.file,
        naming.targets(statement.tables),
        before,
        after,
        old_name=None if old_name is None else naming.target(old_name),
        table_before=statement.table_before,
        trash=statement.kept_as(complete=False) if lacking else statement.trash,
        follows=naming.targets(statement.follows),
        routed=query,
        mode_ddl=change,
    )


def _written(statement: Statement) -> tuple[SchemaFile | None, ModeDdl | None]:
    """Returns `routed` and `mode_ddl` of the step. Raises DdlRefused if the text differs from what its file says, or
    cannot be written in the target's names, or cannot be applied to tables with a mode."""
    if not statement.executed:
        return None, None
    try:
        check_text(statement.file, statement.action)
        named = {*statement.touches, *statement.drops} - {*statement.follows}
        file = with_session(statement.file, statement.session.database if statement.session else None)
        query = routed_file(file, statement.naming, named, statement.old_name) or (
            file if file != statement.file else None
        )
        check_mode_statement(statement)
        return query, mode_ddl(statement)
    except DdlRefused as error:
        raise cannot_be_executed(statement, error) from error


def statement_refusal(statement: Statement) -> DdlRefused | None:
    """Returns the error of a statement that must not be executed; None if it is executed or ignored."""
    if statement.policy is DdlPolicy.FAIL:
        return refused_by_policy(statement)
    if statement.lacks_old_name:
        return lacks_old_name(statement)
    if statement.not_read is not None:
        return moves_rows_not_read(statement, statement.not_read)
    try:
        _ = _written(statement)
    except DdlRefused as error:
        return error
    return None


def moves_rows_not_read(statement: Statement, lost: UnreadTable) -> DdlRefused:
    """Returns the error of a statement that moves rows that were never read."""
    name = statement.file.name
    way = "copy the wanted table from upstream as of"
    if lost.begins_at:
        return statement_refused(
            statement.file,
            f"{lost.name} begins at --start-ts {lost.begins_at}, so the target does not have it as it was before this"
            f" statement: {shortened(statement.file.query)}",
            hint=f"{way} {statement.version} into the target, then: " + skip_ddl_command(name, statement.version),
        )
    if lost.never_made:
        why = f"the table rules left out {lost.name} when it was there, so the target has no such table"
    else:
        why = f"the table rules leave out {lost.name}"
        way = f"let the table rules take {lost.name} too and run again, or {way}"
    return statement_refused(
        statement.file,
        f"{why}, whose rows it moves and which were never read: {shortened(statement.file.query)}",
        hint=f"{way} {statement.version} into the target, then: " + skip_ddl_command(name, statement.version),
    )


def cannot_be_executed(statement: Statement, error: DdlRefused) -> DdlRefused:
    """Returns the error of a statement that cannot be written in the target's names, or be applied to tables with a
    mode."""
    return statement_refused(
        statement.file,
        f"{error.message}; the statement: {shortened(statement.file.query)}",
        hint=error.hint,
        code=error.code,
    )


def lacks_old_name(statement: Statement) -> DdlRefused:
    """Returns the error of a rename whose source is unknown."""
    name = statement.file.name
    itself = any(pair.old == name == pair.new for pair in rename_pairs(statement.file))
    why = (
        "the statement renames it to itself, as TiCDC has lost the old name" if itself else "the old name is not known"
    )
    return DdlRefused(
        f"cannot tell which table was renamed to {name}: {why}: {statement.file.query}",
        hint="rename it by hand, then: " + skip_ddl_command(statement.file.name, statement.version),
        version=statement.version,
        code=Code.NAME_UNTOLD,
    )


def refused_by_policy(statement: Statement) -> DdlRefused:
    """Returns the error of a statement whose policy is `fail`."""
    kind = kind_of(statement.action)
    return DdlRefused(
        f"the policy for {kind} is fail: {shortened(statement.file.query)}",
        hint=f"set another action for {kind} in [consumer.ddl] or for the table in [[consumer.event-filters]] and run"
        " again, or do by hand what the statement means and then:"
        " " + skip_ddl_command(statement.file.name, statement.version),
        table=str(statement.file.name),
        version=statement.version,
        code=Code.POLICY_FAILS,
    )
