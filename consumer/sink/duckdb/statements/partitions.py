"""What DROP, TRUNCATE and EXCHANGE PARTITION do to the rows. The caller owns the transaction."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from consumer.ddl.changes import changes_of
from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.partitions import PartitionClause
from consumer.model.columns import Column
from consumer.model.names import TableName, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.texts import count_text
from consumer.sink.columnar.table import TEXT, WIDENING, ReplicaTable, quote, text_of
from consumer.sink.columnar.taken import ALL, condition_of, known, strange_rows, taking_clause
from consumer.sink.duckdb.connection import qualified
from consumer.sink.duckdb.tables import describe, has_rows

Tables = Mapping[TableName, ReplicaTable]

_MOVED = "__storage_consumer_moved"


def take_rows(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, tables: Tables) -> Tables:
    """Delete or move the rows of the partitions that the statement empties or exchanges; most do neither. Returns the
    tables of which a column has another type then.

    Raises NotUnderstood where it is not certain which rows those are, unless there are no rows at all.
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
            where = _where(connection, step, clause, known(table, step))
            connection.execute(f"DELETE FROM {qualified(connection, table.name)} WHERE {where}")
    return {}


def _where(
    connection: duckdb.DuckDBPyConnection,
    step: ApplyDdl,
    clause: PartitionClause,
    table: ReplicaTable,
) -> str:
    """The condition for the rows of the partitions that `clause` names, tried on every row of `table`."""
    condition = condition_of(step, clause, table)
    if condition != ALL and (strange := _count(connection, table, f"({condition}) IS NULL")):
        raise NotUnderstood(strange_rows(strange, table.name))
    return condition


def _exchange(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, clause: PartitionClause, tables: Tables) -> Tables:
    """The partition's rows go to the plain table, all of whose rows go to the partitioned one."""
    names = (step.name, _plain_table(step))
    missing = [name for name in names if name not in tables]
    if missing:
        raise NotUnderstood(f"the rows of {missing[0]}: the replica does not have it")
    columns = _unified(connection, *(known(tables[name], step) for name in names))
    unified = describe(connection, names)
    changed = {name: table for name, table in unified.items() if table.types != tables[name].types}
    one, other = (known(unified[name], step) for name in names)
    if not (has_rows(connection, one.name) or has_rows(connection, other.name)):
        return changed
    where = _where(connection, step, clause, one)
    if where != ALL and (
        strange := _count(connection, other, f"({_where(connection, step, clause, other)}) IS NOT TRUE")
    ):
        raise NotUnderstood(
            f"{count_text(strange, 'row')} of {other.name} came into a partition where they do not belong"
        )
    here, there = qualified(connection, one.name), qualified(connection, other.name)
    own = ", ".join(quote(str(one.spelled(column))) for column in columns)
    its = ", ".join(quote(str(other.spelled(column))) for column in columns)
    for statement in (
        f"CREATE TEMP TABLE {_MOVED} AS SELECT {own} FROM {here} WHERE {where}",
        f"DELETE FROM {here} WHERE {where}",
        f"INSERT INTO {here} ({own}) SELECT {its} FROM {there}",
        f"DELETE FROM {there}",
        f"INSERT INTO {there} ({its}) SELECT {own} FROM temp.main.{_MOVED}",
        f"DROP TABLE temp.main.{_MOVED}",
    ):
        connection.execute(statement)
    return changed


def _plain_table(step: ApplyDdl) -> TableName:
    """Raises NotUnderstood for a table that the consumer does not keep."""
    named = changes_of(step.statement).named("exchange")
    if named is None:
        raise NotUnderstood("the table that the partition is exchanged with")
    wanted = named.within(step.name.database).folded
    found = (name for name in step.touches if name.folded == wanted)
    name = next(found, None)
    if name is None:
        raise NotUnderstood(f"the rows of {named.table}: the table filter leaves it out, or nothing is known of it")
    return name


def _unified(connection: duckdb.DuckDBPyConnection, one: ReplicaTable, other: ReplicaTable) -> list[str]:
    """The columns of both tables, once each has one type in both: text where one holds it for values that are no date,
    or no JSON. Raises NotUnderstood for tables that do not have the same columns."""
    pairs = list(zip(_stored(one), _stored(other), strict=False))
    if len(_stored(one)) != len(_stored(other)) or any(
        same_name(mine.name) != same_name(its.name) for mine, its in pairs
    ):
        raise NotUnderstood(f"the columns of {other.name}, which are not those of {one.name}")
    for mine, its in pairs:
        if mine.labelled and mine.elements != its.elements:
            raise NotUnderstood(f"the labels of column {mine.name}, which are not known of both tables")
        types = [table.types[str(table.spelled(mine.name))] for table in (one, other)]
        if types[0] == types[1]:
            continue
        if TEXT not in types or mine.family not in WIDENING or mine.family is not its.family:
            raise NotUnderstood(f"column {mine.name}, which is {types[0]} in one table and {types[1]} in the other")
        _make_text(connection, (one, other)[types.index(TEXT) == 0], mine)
    return [column.name for column in _stored(one)]


def _stored(table: ReplicaTable) -> tuple[Column, ...]:
    return () if table.upstream is None else table.upstream.stored


def _make_text(connection: duckdb.DuckDBPyConnection, table: ReplicaTable, column: Column) -> None:
    spelled = quote(str(table.spelled(column.name)))
    connection.execute(
        f"ALTER TABLE {qualified(connection, table.name)} ALTER {spelled} TYPE {TEXT} USING {text_of(column, spelled)}"
    )


def _count(connection: duckdb.DuckDBPyConnection, table: ReplicaTable, condition: str) -> int:
    query = f"SELECT count(*) FROM {qualified(connection, table.name)} WHERE {condition}"
    return int(connection.execute(query).fetchall()[0][0])
