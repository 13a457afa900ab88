"""What tells that a statement has not run, though the definition of its table is another one than before it.

Somebody else can have changed that, between the intent of a statement and the next run. It is asked only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pymysql

from consumer.ddl.changes import changes_of, counts_partitions
from consumer.ddl.indexes import IndexChanges, after
from consumer.ddl.partitions import PartitionClause, PartitionedTable, altered
from consumer.model.actions import CREATE_ACTIONS, DATABASE_ACTIONS, DROP_ACTIONS, RENAME_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.names import TableName, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import Partition, TableIndexes
from consumer.sink.mysql.tables.describe import describe, has_row
from consumer.sink.mysql.tables.indexes import table_indexes

_REPEATED = frozenset(
    {
        Action.TRUNCATE_TABLE,
        Action.TRUNCATE_PARTITION,
        Action.SET_DEFAULT_VALUE,
        Action.REBASE_AUTO_ID,
        Action.MODIFY_TABLE_COMMENT,
        Action.MODIFY_TABLE_CHARSET,
        Action.ALTER_INDEX_VISIBILITY,
    }
)
"""These come to the same however often they run. Rows above their version are never there before they are recorded."""
_MODIFY = frozenset({Action.MODIFY_COLUMN, Action.MULTI_SCHEMA_CHANGE})
"""So do these, where no name comes or goes, and none moves to another column."""
_TOLD_OTHERWISE = (
    CREATE_ACTIONS | DROP_ACTIONS | RENAME_ACTIONS | DATABASE_ACTIONS | frozenset({Action.EXCHANGE_PARTITION})
)
_Names = frozenset[tuple[str, str]]
"""Names of columns, indexes, foreign keys and partitions, in lower case, each behind what it is a name of."""


def may_run(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    """Whether `step`, one statement about a table whose definition is another one than before it, is to be executed:
    it comes to the same however often it runs, or surely has not run, as a name that it makes is not there, or one
    that it takes is."""
    if step.file.type in _REPEATED:
        return True
    if step.formed is not None or step.file.type in _TOLD_OTHERWISE:
        return False
    indexes = table_indexes(cursor, step.standing)
    there = _names_there(cursor, step.standing, indexes)
    said = changes_of(step.statement).indexes
    untold = not step.known.indexes.whole and _leaves_names_open(said)
    comes, goes = _names_moved(step, indexes, there, untold)
    if comes or goes:
        return not comes <= there or not goes.isdisjoint(there)
    moves = bool(said.renamed) or any(loss.renamed_to is not None for loss in said.losses)
    return step.file.type in _MODIFY and not moves and not untold


def is_anothers(cursor: pymysql.cursors.Cursor, step: ApplyDdl) -> bool:
    """Whether the table that `step` creates is there, and surely was made by somebody else: it has rows."""
    if step.file.type not in (Action.CREATE_TABLE, Action.CREATE_TABLES):
        return False
    return has_row(cursor, step.name)


def _leaves_names_open(said: IndexChanges) -> bool:
    """Whether a statement makes an index or a foreign key without a name: it gets one that no other has. What it got is
    not known where the others of that time are not."""
    return any(index.name is None for index in said.defined) or any(name is None for name, _ in said.foreign_keys)


def _names_moved(step: ApplyDdl, indexes: TableIndexes, there: _Names, untold: bool) -> tuple[_Names, _Names]:
    """Those that the statement makes, and those that it takes. The target has these `indexes` and names now. `untold`:
    nothing is known of the names of indexes."""
    changes = changes_of(step.statement)
    before = {*_of_columns(step.known.columns or ())}
    later = set() if step.known.columns is None else {*_of_columns(step.file.columns)}
    if not untold:
        known = step.known.indexes if step.known.indexes.whole else step.known.indexes.beside(indexes)
        before |= {*_of_indexes(known)}
        later |= {*_of_indexes(after(known, changes.indexes, step.file.version))}
    for clause in changes.partitions.clauses:
        later |= {*_named("partition", (part.name for part in _defined(clause)))}
        before |= {*_named("partition", clause.names)}
        if clause.verb == "REMOVE PARTITIONING":
            before |= {name for name in there if name[0] == "partition"}
    if counts_partitions(step.statement):
        known_parts = PartitionedTable(step.known.partitioning)
        before |= {*_of_partitions(known_parts)}
        later |= {*_of_partitions(altered(known_parts, changes.partitions))}
    return frozenset(later - before), frozenset(before - later)


def _names_there(cursor: pymysql.cursors.Cursor, table: TableName, indexes: TableIndexes) -> _Names:
    found = describe(cursor, [table]).get(table)
    cursor.execute(
        "SELECT partition_name FROM information_schema.partitions"
        " WHERE table_schema = %s AND table_name = %s AND partition_name IS NOT NULL",
        (table.database, table.table),
    )
    parts = _named("partition", (name for (name,) in cursor.fetchall()))
    columns = _named("column", (column.name for column in found.columns) if found else ())
    return frozenset([*columns, *_of_indexes(indexes), *parts])


def _defined(clause: PartitionClause) -> Iterable[Partition]:
    return (*clause.added, *(clause.by.partitions if clause.by is not None else ()))


def _of_columns(columns: Iterable[Column]) -> Iterator[tuple[str, str]]:
    return _named("column", (column.name for column in columns if not column.hidden))


def _of_partitions(table: PartitionedTable) -> Iterator[tuple[str, str]]:
    return _named("partition", (part.name for part in table.partitioning.partitions) if table.partitioning else ())


def _of_indexes(indexes: TableIndexes) -> Iterator[tuple[str, str]]:
    yield from _named("index", (index.name for index in indexes.indexes))
    yield from _named("foreign key", (key.there for key in indexes.foreign_keys))


def _named(kind: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((kind, same_name(name)) for name in names)
