"""Which statements do to rows what no change shows, so that whoever keeps a copy of a table has to execute them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from consumer.ddl.changes import statement_changes
from consumer.history.history import History
from consumer.history.incarnations import Incarnation
from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.verify.sources import TableStatements, takes_rows_away


class Unshown(NamedTuple):
    """What happened to rows at the commit-ts `version`, with the statement of the schema file at `path` ("": none). If
    the table `begins` with it, there is nothing before it that could be read."""

    version: int
    path: str
    what: str
    begins: bool = False


def unshown_effects(statements: TableStatements, history: History) -> list[Unshown]:
    """Returns what happened to the table's rows without a change that shows it, in the order of versions."""
    return sorted([*_of_rows(history, statements.table, statements.end), *_of_values(statements)])


def files_that_move_rows(history: History, table: Incarnation, end: int) -> list[SchemaFile]:
    """Returns the schema files, up to `end`, of the statements that took rows of the table away or brought some."""
    files = [file for file in table.statements if file.action is Action.TRUNCATE_TABLE or takes_rows_away(file)]
    return [file for file in (*files, *history.exchanges_of(table, end)) if file.version <= end]


def _of_rows(history: History, table: Incarnation, end: int) -> Iterator[Unshown]:
    for file in files_that_move_rows(history, table, end):
        yield _effect(file, "took rows away, or brought some")
    birth = table.birth
    if birth is not None and birth.action is Action.RECOVER_TABLE:
        yield _effect(birth, "brought rows back")._replace(begins=True)
    if birth is None and table.files:
        yield Unshown(1, "", "the table is older than the storage's changes", begins=True)


def _of_values(statements: TableStatements) -> Iterator[Unshown]:
    table = statements.table
    for file in table.files:
        if file is table.birth or file.version > statements.end:
            continue
        if statements.moves_key(file):
            yield _effect(file, "changed the key")
        elif columns := statements.remade_columns(file):
            yield _effect(file, f"can have made other values of {', '.join(columns)}")
        elif file is table.files[0] and _changes_what_was_there(file):
            yield _effect(file, "changed columns or indexes that no earlier file shows")


def _effect(file: SchemaFile, did: str) -> Unshown:
    return Unshown(file.version, file.path, f"the statement of version {file.version} {did}")


def _changes_what_was_there(file: SchemaFile) -> bool:
    changes = statement_changes(file)
    indexes = changes.indexes
    return bool(changes.columns.columns.keys() - changes.columns.added or indexes.losses or indexes.defined)
