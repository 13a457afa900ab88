"""The rows that a statement about partitions removes, as a condition in DuckDB's SQL."""

from __future__ import annotations

from dataclasses import replace

from consumer.ddl.changes import statement_changes
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.partitions import TAKES_ROWS, PartitionClause, positions
from consumer.model.actions import PARTITION_ACTIONS, Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.model.texts import count_text
from consumer.sink.columnar.partitions import members
from consumer.sink.columnar.table import ReplicaTable, Upstream, visible_columns

ALL = "TRUE"
"""The condition for every row."""


def taking_clause(step: ApplyDdl) -> PartitionClause | None:
    """Returns the clause that removes rows of partitions, None if no clause does. Raises NotUnderstood."""
    if step.file.type not in PARTITION_ACTIONS:
        return None
    changes = statement_changes(step.file).partitions
    clauses = changes.clauses
    if changes.misread:
        raise NotUnderstood(changes.misread)
    if step.file.type != Action.MULTI_SCHEMA_CHANGE and not clauses:
        raise NotUnderstood("a statement that names no partition")
    taking = [clause for clause in clauses if clause.verb in TAKES_ROWS]
    if len(clauses) > 1 and taking:
        raise NotUnderstood("several clauses about partitions in one statement")
    return taking[0] if taking else None


def condition_of(step: ApplyDdl, clause: PartitionClause, table: ReplicaTable) -> str:
    """Returns a condition: true for rows of the partitions that `clause` names, NULL for a row of which that cannot be
    decided. Raises NotUnderstood."""
    if clause.all_of_them:
        return ALL
    if step.table_before.partitioning is None:
        raise NotUnderstood("how the table is partitioned: no statement in the storage defines it clearly")
    chosen = positions(step.table_before.partitioning, clause)
    if len(chosen) == len(step.table_before.partitioning.partitions):
        return ALL
    return members(step.table_before.partitioning, chosen, table)


def strange_rows(count: int, table: TableName) -> str:
    rows = count_text(count, f"row of {table} is", f"rows of {table} are")
    return f"{rows} in no partition that its statements define for certain"


def with_upstream(table: ReplicaTable, step: ApplyDdl) -> ReplicaTable:
    """Returns `table`. If no rows came yet to a table of a snapshot, it gets upstream's columns from the statement's
    schema file. Both tables of an EXCHANGE have the same."""
    if table.upstream is not None:
        return table
    columns = visible_columns(step.table_before.columns or step.file.columns)
    virtual = frozenset(column.name for column in columns if table.spelled(column.name) is None)
    return replace(table, upstream=Upstream(columns, virtual))
