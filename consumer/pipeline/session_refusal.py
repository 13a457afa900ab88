"""Names without a database whose statement does not tell which one upstream's session used: they can mean a table too
that is older than the changefeed, and idle. The storage does not tell of it, and the target has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from consumer.ddl.changes import changes_of
from consumer.ddl.references import untold
from consumer.errors import Code, DdlRefused
from consumer.model.hints import skip_ddl_command, statement_refused
from consumer.model.names import TableName, same_names
from consumer.model.texts import cut
from consumer.plan.assembly import Assembly
from consumer.plan.statement import Statement
from consumer.target import Sink

_REFERRING = frozenset({"from", "foreign"})
_COPYING = frozenset({"like", "old"})


def session_refusal(
    statement: Statement, assembly: Assembly, sink: Sink, hides: Callable[[str], bool]
) -> DdlRefused | None:
    """Why `statement` is not to run: its names can be of more than one database, and the target needs to know of which.
    `hides`: the table rules leave out tables of that name. Asks the target only about a statement that does not
    tell."""
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
    hidden = "old" in roles and all(map(hides, idle))
    if len(found) + hidden <= 1:
        return None
    file, names = statement.file, ", ".join(f"`{table}`" for table in idle)
    tables = " or ".join(", ".join(f"{database}.{table}" for table in idle) for database in found)
    tables += " or one that the table rules leave out" if hidden else ""
    return statement_refused(
        file,
        f"it names {names} without a database, and does not tell which one is meant, {tables}: {cut(file.query)}",
        hint="do by hand what it did upstream, then: " + skip_ddl_command(file.name, file.version),
        code=Code.NAME_UNTOLD,
    )


def _idle(table: str, statement: Statement, assembly: Assembly, sink: Sink, same: bool) -> Iterator[str]:
    """The databases in which the target has such a table, and the storage tells of it only behind the statement, or not
    at all. A table of the target that the storage's table of another name goes to is that one. `same`: with the columns
    that the statement's file tells; the target can lack virtual ones, or have some of its own."""
    naming, others = assembly.naming, sink.of_others()
    known = {name.folded: name for name in assembly.catalog.by_table}
    theirs = {naming.target(name).folded: name.folded for name in known.values() if assembly.wanted(name)}
    for target, found in sink.called(lambda name: naming.databases(table, name)).items():
        there = same_names(found)
        for database in naming.databases(table, target) if target not in others else ():
            name = TableName(database, table)
            if theirs.get(target.folded, name.folded) != name.folded:
                continue
            upstream = known.get(name.folded)
            older = None if upstream is None else assembly.history.at(upstream, statement.version - 1)
            if upstream is not None and (older is None or older.files[0].version <= statement.version):
                continue
            mode = naming.mode(name)
            columns = same_names(
                column.name if mode is None else mode.called(column.name)
                for column in statement.file.columns
                if mode is None or mode.keeps(column.name)
            )
            if not same or there <= columns or columns <= there:
                yield database if upstream is None else upstream.database
