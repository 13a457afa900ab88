"""Refuses statements with names without a database if upstream's session is not known: such a name can also mean an
idle table that is older than the changefeed. The storage does not show this table, and the target has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumer.ddl.changes import statement_changes
from consumer.ddl.references import ambiguous_names
from consumer.errors import Code, DdlRefused
from consumer.model.hints import skip_ddl_command, statement_refused
from consumer.model.names import TableName, same_names
from consumer.model.texts import shortened
from consumer.plan.assembly import Assembly
from consumer.plan.statement import Statement
from consumer.target import Sink

_REFERRING = frozenset({"from", "foreign"})
_COPYING = frozenset({"like", "old"})


def session_refusal(
    statement: Statement, assembly: Assembly, sink: Sink, hides: Callable[[str], bool]
) -> DdlRefused | None:
    """Returns why `statement` must not run: its names can belong to more than one database, and the target needs to
    know to which. `hides` returns whether the table rules exclude tables of that name. The target is asked only if the
    statement does not determine the database."""
    session = statement.session
    if session is None or not session.having or not statement.executed:
        return None
    roles = {name.role for name in ambiguous_names(statement_changes(statement.file).names, statement.file.name)}
    if roles <= _REFERRING and not sink.refers:
        return None
    same = not roles.isdisjoint(_COPYING)
    idle = {
        table: {*databases, *_idle(table, statement, assembly, sink, same)}
        for table, databases in session.having.items()
    }
    in_storage = frozenset.intersection(*session.having.values())
    databases_meant = sorted({*session.databases, *(set.intersection(*idle.values()) - in_storage)})
    hidden = "old" in roles and all(map(hides, idle))
    if len(databases_meant) + hidden <= 1:
        return None
    file, names = statement.file, ", ".join(f"`{table}`" for table in idle)
    tables = " or ".join(", ".join(f"{database}.{table}" for table in idle) for database in databases_meant)
    tables += " or one that the table rules leave out" if hidden else ""
    return statement_refused(
        file,
        f"it names {names} without a database, and does not tell which one is meant, {tables}: {shortened(file.query)}",
        hint="do by hand what it did upstream, then: " + skip_ddl_command(file.name, file.version),
        code=Code.NAME_UNTOLD,
    )


def _idle(table: str, statement: Statement, assembly: Assembly, sink: Sink, same: bool) -> Iterator[str]:
    """Yields the databases in which the target has such a table, and which the storage shows only after the statement,
    or not at all. A target's table that the storage's table of another name is routed to is not such a table. With
    `same` the table must have the columns in the statement's file; the target can lack virtual ones, or have additional
    ones."""
    naming, others = assembly.naming, sink.of_others()
    name_of = {name.folded: name for name in assembly.catalog.by_table}
    theirs = {naming.target(name).folded: name.folded for name in name_of.values() if assembly.wanted(name)}
    for target, column_names in sink.called(lambda name: naming.databases(table, name)).items():
        target_columns = same_names(column_names)
        for database in naming.databases(table, target) if target not in others else ():
            name = TableName(database, table)
            if theirs.get(target.folded, name.folded) != name.folded:
                continue
            upstream = name_of.get(name.folded)
            older = None if upstream is None else assembly.history.at(upstream, statement.version - 1)
            if upstream is not None and (older is None or older.files[0].version <= statement.version):
                continue
            mode = naming.mode(name)
            columns = same_names(
                column.name if mode is None else mode.called(column.name)
                for column in statement.file.columns
                if mode is None or mode.keeps(column.name)
            )
            if not same or target_columns <= columns or columns <= target_columns:
                yield database if upstream is None else upstream.database
