"""Names without a database whose statement does not tell which one upstream's session used: they can mean a table too
that is older than the changefeed, and idle. The storage does not tell of it, and the target has it."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.ddl.changes import changes_of
from consumer.ddl.references import untold
from consumer.errors import DdlRefused
from consumer.model.hints import skip_ddl_command, statement_refused
from consumer.model.names import same_names
from consumer.model.texts import cut
from consumer.plan.assembly import Assembly
from consumer.plan.statement import Statement
from consumer.target import Sink

_REFERRING = frozenset({"from", "foreign"})
_COPYING = frozenset({"like", "old"})


def session_refusal(statement: Statement, assembly: Assembly, sink: Sink) -> DdlRefused | None:
    """Why `statement` is not to run: its names can be of more than one database, and the target needs to know of which.
    Asks the target only about a statement that does not tell."""
    session = statement.session
    if session is None or not session.having or not statement.executed:
        return None
    roles = {name.role for name in untold(changes_of(statement.file).names, statement.file.name)}
    if roles <= _REFERRING and not sink.refers:
        return None
    same = not roles.isdisjoint(_COPYING)
    idle = {
        table: {*databases, *_idle(table, statement, assembly, sink, same)}
        for table, databases in session.having.items()
    }
    told = frozenset.intersection(*session.having.values())
    found = sorted({*session.databases, *(set.intersection(*idle.values()) - told)})
    if len(found) <= 1:
        return None
    file, names = statement.file, ", ".join(f"`{table}`" for table in idle)
    tables = " or ".join(", ".join(f"{database}.{table}" for table in idle) for database in found)
    return statement_refused(
        file,
        f"it names {names} without a database, and does not tell which one is meant, {tables}: {cut(file.query)}",
        hint=f"do by hand what it did upstream, then: {skip_ddl_command(file.name, file.version)}",
    )


def _idle(table: str, statement: Statement, assembly: Assembly, sink: Sink, same: bool) -> Iterator[str]:
    """The databases in which the target has such a table, and the storage tells of it only behind the statement, or not
    at all. `same`: with the columns that the statement's file tells; the target can lack virtual ones, or have some of
    its own."""
    known = {assembly.naming.target(name).folded: name for name in assembly.catalog.by_table}
    columns, others = same_names(column.name for column in statement.file.columns), sink.of_others()
    for name, found in sink.called(table).items():
        upstream = known.get(name.folded)
        older = None if upstream is None else assembly.history.at(upstream, statement.version - 1)
        told = upstream is not None and (older is None or older.files[0].version <= statement.version)
        if told or name in others:
            continue
        there = same_names(found)
        if not same or there <= columns or columns <= there:
            yield name.database if upstream is None else upstream.database
