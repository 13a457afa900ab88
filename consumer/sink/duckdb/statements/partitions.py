"""The effect of DROP, TRUNCATE and EXCHANGE PARTITION on rows. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from consumer.ddl.changes import statement_changes
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.partitions import PartitionClause
from consumer.model.columns import Column
from consumer.model.names import TableName, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.texts import count_text
from consumer.sink.columnar.table import TEXT, WIDENING, ReplicaTable, quote_name, text_expression
from consumer.sink.columnar.taken import ALL, condition_of, strange_rows, taking_clause, with_upstream
from consumer.sink.duckdb.connection import qualified_name
from consumer.sink.duckdb.tables import has_rows, replica_tables

Tables = Mapping[TableName, ReplicaTable]

_MOVED = "__storage_consumer_moved"


def take_rows(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables) -> Tables:
    """Deletes or moves the rows of the partitions that the statement empties or exchanges. Most statements do neither.
    Returns the tables of which a column has got another type.

    Raises NotUnderstood if it is not certain which rows those are, unless there are no rows at all.
    """
    table = tables.get(step.name)
    try:
        clause = taking_clause(step)
    except NotUnderstood:
        if any(has_rows(connection, each.name) for each in tables.values()):
            raise
        return {}
    if clause is not None:
        if clause.verb == "EXCHANGE":
            return _exchange(connection, step, clause, tables)
        if table is not None and has_rows(connection, table.name):
            where = _where(connection, step, clause, with_upstream(table, step))
            connection.execute(f"DELETE FROM {qualified_name(connection, table.name)} WHERE {where}")
    return {}


def _where(
    connection: duckdb.DuckDBPyConnection,
    step: ApplyDdl,
    clause: PartitionClause,
    table: ReplicaTable,
) -> str:
    """Returns the condition for the rows of the partitions that `clause` names, tested on every row of `table`."""
    condition = condition_of(step, clause, table)
    if condition != ALL and (strange := _count(connection, table, f"({condition}) IS NULL")):
        raise NotUnderstood(strange_rows(strange, table.name))
    return condition


def _exchange(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, clause: PartitionClause, tables: Tables) -> Tables:
    """Moves the partition's rows to the plain table, and all rows of the plain table to the partitioned one."""
    names = (step.name, _plain_table(step))
    missing = [name for name in names if name not in tables]
    if missing:
        raise NotUnderstood(f"the rows of {missing[0]}: the replica does not have it")
    columns = _unified(connection, *(with_upstream(tables[name], step) for name in names))
    unified = replica_tables(connection, names)
    changed = {name: table for name, table in unified.items() if table.types != tables[name].types}
    partitioned, plain = (with_upstream(unified[name], step) for name in names)
    if not (has_rows(connection, partitioned.name) or has_rows(connection, plain.name)):
        return changed
    where = _where(connection, step, clause, partitioned)
    if where != ALL and (
        strange := _count(connection, plain, f"({_where(connection, step, clause, plain)}) IS NOT TRUE")
    ):
        raise NotUnderstood(
            f"{count_text(strange, 'row')} of {plain.name} came into a partition where they do not belong"
        )
    partitioned_sql, plain_sql = qualified_name(connection, partitioned.name), qualified_name(connection, plain.name)
    partitioned_columns = ", ".join(quote_name(str(partitioned.spelled(column))) for column in columns)
    plain_columns = ", ".join(quote_name(str(plain.spelled(column))) for column in columns)
    for statement in (
        f"CREATE TEMP TABLE {_MOVED} AS SELECT {partitioned_columns} FROM {partitioned_sql} WHERE {where}",
        f"DELETE FROM {partitioned_sql} WHERE {where}",
        f"INSERT INTO {partitioned_sql} ({partitioned_columns}) SELECT {plain_columns} FROM {plain_sql}",
        f"DELETE FROM {plain_sql}",
        f"INSERT INTO {plain_sql} ({plain_columns}) SELECT {partitioned_columns} FROM temp.main.{_MOVED}",
        f"DROP TABLE temp.main.{_MOVED}",
    ):
        connection.execute(statement)
    return changed


def _plain_table(step: ApplyDdl) -> TableName:
    """Returns the table of the exchange. Raises NotUnderstood if the consumer does not keep it."""
    named = statement_changes(step.statement).named("exchange")
    if named is None:
        raise NotUnderstood("the table that the partition is exchanged with")
    wanted = named.within(step.name.database).folded
    touched = (name for name in step.touches if name.folded == wanted)
    name = next(touched, None)
    if name is None:
        raise NotUnderstood(f"the rows of {named.table}: the table filter leaves it out, or nothing is known of it")
    return name


def _unified(connection: duckdb.DuckDBPyConnection, first: ReplicaTable, second: ReplicaTable) -> list[str]:
    """Returns the columns of both tables, after giving each one type in both: text if one table holds it as text for
    values that are no date, or no JSON. Raises NotUnderstood for tables with different columns."""
    pairs = list(zip(_stored(first), _stored(second), strict=False))
    if len(_stored(first)) != len(_stored(second)) or any(
        same_name(mine.name) != same_name(its.name) for mine, its in pairs
    ):
        raise NotUnderstood(f"the columns of {second.name}, which are not those of {first.name}")
    for mine, its in pairs:
        if mine.labelled and mine.elements != its.elements:
            raise NotUnderstood(f"the labels of column {mine.name}, which are not known of both tables")
        types = [table.types[str(table.spelled(mine.name))] for table in (first, second)]
        if types[0] == types[1]:
            continue
        if TEXT not in types or mine.family not in WIDENING or mine.family is not its.family:
            raise NotUnderstood(f"column {mine.name}, which is {types[0]} in one table and {types[1]} in the other")
        _make_text(connection, (first, second)[types.index(TEXT) == 0], mine)
    return [column.name for column in _stored(first)]


def _stored(table: ReplicaTable) -> tuple[Column, ...]:
    return () if table.upstream is None else table.upstream.stored


def _make_text(connection: duckdb.DuckDBPyConnection, table: ReplicaTable, column: Column) -> None:
    spelled = quote_name(str(table.spelled(column.name)))
    connection.execute(
        f"ALTER TABLE {qualified_name(connection, table.name)} ALTER {spelled} TYPE {TEXT}"
        f" USING {text_expression(column, spelled)}"
    )


def _count(connection: duckdb.DuckDBPyConnection, table: ReplicaTable, condition: str) -> int:
    query = f"SELECT count(*) FROM {qualified_name(connection, table.name)} WHERE {condition}"
    return int(connection.execute(query).fetchall()[0][0])
