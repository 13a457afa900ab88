"""Applies upstream's statements to a lake. Their meaning is defined for DuckDB's replicas (`table_operations`). Here it
becomes commits: one of the progress if names change, one of the table if its rows or columns do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from consumer.ddl.expressions import NotUnderstood
from consumer.ddl.partitions import columns_read
from consumer.errors import Code, DdlRefused, RowRefused
from consumer.model.actions import PARTITION_ACTIONS, Action
from consumer.model.columns import Column
from consumer.model.ddl_policy import trash_taken
from consumer.model.hints import resync_command
from consumer.model.layout import Layout, Layouts
from consumer.model.names import TableName, same_name
from consumer.model.steps import ApplyDdl
from consumer.model.table_modes import ModeDdl, ModeKind
from consumer.model.texts import count_text
from consumer.model.types.conversions import Conversion
from consumer.model.types.values import NoValue
from consumer.sink.columnar.casts import functions_registered
from consumer.sink.columnar.reshape import ColumnChange, functions_of
from consumer.sink.columnar.statements import (
    TableOperations,
    action_of,
    refuse_step,
    refuse_unknown_values,
    table_operations,
    trash_table,
)
from consumer.sink.columnar.table import TEXT, ReplicaTable, Upstream, duckdb_type, quote_name
from consumer.sink.columnar.taken import ALL, condition_of, strange_rows, taking_clause, with_upstream
from consumer.sink.common import closing_statement
from consumer.sink.lake.failures import cause_text, is_refusal, unconvertible_values, unknown_conversion
from consumer.sink.lake.formats import Alteration, Rewrite, TableFormat, Unfit, new_location
from consumer.sink.lake.names import ReservedNames
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import (
    DAYS,
    column_definition,
    from_duckdb,
    nullable,
    spark_literal,
    spark_name,
    spark_type,
    to_duckdb,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Tables = Mapping[TableName, LakeTable]
"""By names in lower case."""


@dataclass(frozen=True, slots=True)
class Effect:
    """`changed_tables` are the tables that differ after the statement, by name, None for a dropped one.
    `removed_locations` are the locations of tables that are in no list any more. They are removed once that is
    recorded."""

    changed_tables: Mapping[TableName, LakeTable | None] = field(default_factory=dict)
    removed_locations: tuple[str, ...] = ()
    note: str = ""


def plan_operations(step: ApplyDdl, tables: Tables, zone: tzinfo, filled: bool) -> TableOperations:
    """Returns what the statement does to `tables`. `filled` says that its own table may have rows. Raises
    DdlRefused."""
    replicas = {name: table.replica for name, table in tables.items()}
    by_any_case = _Named(replicas)
    action = action_of(step)
    if step.merged is not None:
        raise refuse_step(step, "a lake does not hold the rows of several tables in one: leave them out of the route")
    if action == Action.DROP_SCHEMA:
        return _dropped(step, replicas)
    if step.trash is not None and (away := trash_table(step, step.trash, by_any_case, filled)) is not None:
        return away
    done = table_operations(step, by_any_case, zone)
    if done.moved is not None and done.moved[1] in by_any_case and done.moved[0].folded != done.moved[1].folded:
        raise refuse_step(step, f"the table {done.moved[1]} exists already", code=Code.TABLE_EXISTS)
    return done


class _Named(dict[TableName, ReplicaTable]):
    """Tables by a name in any case."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, TableName) and super().__contains__(name.folded)

    def __getitem__(self, name: TableName) -> ReplicaTable:
        return super().__getitem__(name.folded)

    def get(self, name: TableName, default: Any = None) -> Any:
        return super().get(name.folded, default)


def _dropped(step: ApplyDdl, replicas: Mapping[TableName, ReplicaTable]) -> TableOperations:
    """Returns the operations that drop a database. Its tables are moved to the trash if there is one."""
    database = same_name(step.name.database)
    dropped = [table for name, table in replicas.items() if name.database == database]
    changes: dict[TableName, ReplicaTable | None] = {table.name: None for table in dropped}
    if step.trash is None:
        return TableOperations(changed_tables=changes)
    kept = {TableName(step.trash.database, table.name.table): table for table in dropped}
    changes |= {name: replace(table, name=name) for name, table in kept.items()}
    return TableOperations(
        changed_tables=changes, note=f"{step.name.database} is kept as {step.trash}" if dropped else ""
    )


@dataclass(frozen=True, slots=True)
class Executing:
    """`lake_tables` are the tables of the lake."""

    spark: SparkSession
    tables: TableFormat
    lake_tables: Tables
    layouts: Layouts
    names: ReservedNames

    def run(self, step: ApplyDdl, done: TableOperations, said: Mapping[str, object]) -> Effect:
        """Does to rows and columns what `done` says. Names change with the record of it. What a table's newest commit
        already includes is not repeated. `said` are fields of the commit, without the statement."""
        changes: dict[TableName, LakeTable | None] = {}
        if step.mode_ddl is not None and ends_rows(step):
            return Effect({step.name: self._closed(step, step.mode_ddl, said)}, note=done.note)
        moved = moved_tables(step, done, self.lake_tables)
        for name, replica in done.changed_tables.items():
            if replica is None:
                changes.setdefault(name.folded, None)
            elif name in moved:
                changes[name] = replace(moved[name], replica=replica)
            elif name.folded not in self.lake_tables or done.moved is not None:
                changes[name] = self._created(step, replica)
            else:
                changes[name] = self._altered(step, done, replica, said)
        kept = {table.location for table in changes.values() if table is not None}
        places = (
            self.lake_tables[name].location
            for name, table in changes.items()
            if table is None and name in self.lake_tables
        )
        return Effect(changes, tuple(location for location in places if location not in kept), done.note)

    def check_trash(self, step: ApplyDdl) -> None:
        """Raises DdlRefused if the place in the trash holds other rows than the table that is to be moved there. Rows
        that an earlier execution put there, before a resync, are the same."""
        if step.trash is None or step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE):
            return
        table, kept = (self.lake_tables.get(name.folded) for name in (step.name_before, step.trash))
        if table is None or kept is None:
            return
        rows, kept_rows = (self.tables.frame(self.spark, table.location) for table in (table, kept))
        same = (
            rows.dtypes == kept_rows.dtypes
            and not rows.exceptAll(kept_rows).union(kept_rows.exceptAll(rows)).limit(1).collect()
        )
        if not same:
            raise refuse_step(step, *trash_taken(step.trash))

    def _created(self, step: ApplyDdl, replica: ReplicaTable) -> LakeTable:
        table = LakeTable(lake_replica(replica, None), "")
        self._check_names(step, table)
        layout = fitted_layout(step, self.layouts, table, self.tables)
        location = new_location(self.tables, replica.name)
        try:
            columns = [column_definition(column) for column in table.columns]
            self.tables.create(self.spark, location, columns, layout, key_columns(table))
        except Exception as error:
            if layout == Layout() or not is_refusal(error):
                raise
            raise _unfit(step, cause_text(error)) from error
        return replace(table, location=location)

    def _check_names(self, step: ApplyDdl, table: LakeTable) -> None:
        """Raises DdlRefused for a column name that the format or Spark reserves."""
        layout = self.layouts.of(step.table)
        if reserved := self.names.unusable(self.spark, table.replica.types, layout, self.lake_tables.values()):
            hint = "give it another name in the lake, or leave it out: [[consumer.columns]] (docs/shaping.md)"
            raise refuse_step(
                step, f"Spark or the lake's format keeps the name of the column {', '.join(reserved)} for itself", hint
            )

    def _closed(self, step: ApplyDdl, mode_ddl: ModeDdl, said: Mapping[str, object]) -> LakeTable:
        """A TRUNCATE of a table that keeps ended rows ends all rows."""
        before = self.lake_tables[step.name.folded]
        number = statement_text(step)
        if before.newest.statement == number or self.tables.is_empty(self.spark, before.location):
            return before
        commit = before.newest.following(**said, statement=number)
        kind = "" if mode_ddl.mode.kind is ModeKind.APPEND else "TIMESTAMP_NTZ "
        name, version = self.tables.sql(before.location), step.file.version
        statement = closing_statement(
            mode_ddl,
            table_sql=name,
            table=step.table,
            version=version,
            quote=spark_name,
            literal=lambda text: f"{kind}{spark_literal(text)}",
            key_expression=lambda column: spark_name(column.name),
        )
        with self.tables.committing(self.spark, before.location, commit) as change:
            change.run(statement)
        return replace(before, newest=commit)

    def _altered(
        self, step: ApplyDdl, done: TableOperations, replica: ReplicaTable, said: Mapping[str, object]
    ) -> LakeTable:
        before = self.lake_tables[replica.name.folded]
        changes = done.columns or ()
        after = LakeTable(lake_replica(replica, before), before.location, before.newest)
        after = replace(after, lost=not done.emptied and (before.lost or _makes_days(changes, after)))
        number = statement_text(step)
        if before.newest.statement == number:
            return after
        self._check_names(step, after)
        commit = before.newest.following(**said, statement=number)
        taken = self._taken(step, before)
        if before.lost and not done.emptied and (days := _days_read(changes, before, after)):
            self._check_days(step, before, days)
        fixed = partial(self.tables.laid_out_by, self.spark, before.location)
        alteration = None if taken else alteration_in_place(changes, before, after, fixed)
        rekeyed = self.tables.tells_key and key_columns(before) != key_columns(after)
        same = alteration is not None and not alteration.clauses() and not rekeyed
        if same and (not done.emptied or self.tables.is_empty(self.spark, before.location)):
            return after
        try:
            with self.tables.committing(self.spark, before.location, commit) as change:
                if same:
                    change.clear()
                elif alteration is not None and not done.emptied:
                    change.alter(alteration)
                else:
                    rows = self.tables.frame(self.spark, before.location)
                    self._check_columns(step, before, rows)
                    made = rebuilt_rows(rows.limit(0) if done.emptied else rows, changes, before, after, taken)
                    kept = {change.old: change.name for change in changes if change.old is not None}
                    keys = [column.name for column in after.columns if column.is_pk and not nullable(column)]
                    required = [name for name in keys if name in kept.values()]
                    change.replace(Rewrite(made, kept, required, key_columns(after), rows.columns))
        except Unfit as error:
            raise refuse_step(
                step,
                f"the table is laid out by [[consumer.lake-tables]], which does not fit it any more: {error}",
                "correct the rule, then load the table again: " + resync_command(step.table),
            ) from error
        except Exception as error:
            if why := unknown_conversion(error):
                raise refuse_unknown_values(step, why) from error
            if why := unconvertible_values(error):
                raise refuse_step(step, why) from error
            raise
        return replace(after, newest=commit)

    def _check_columns(self, step: ApplyDdl, table: LakeTable, rows: DataFrame) -> None:
        """Raises DdlRefused if `rows`, which are to be rewritten, have columns that somebody else has added."""
        own_columns = {same_name(column.name) for column in table.columns}
        if strange := [name for name in rows.columns if same_name(name) not in own_columns]:
            raise refuse_step(
                step,
                f"it rewrites the table's rows, without the columns that somebody has added: {', '.join(strange)}",
                "drop them, and add them again after the statement",
            )

    def _taken(self, step: ApplyDdl, table: LakeTable) -> str:
        """Returns the condition, in DuckDB's SQL, for the rows of partitions that the statement removes; "" for none.
        Raises DdlRefused."""
        if step.file.type not in PARTITION_ACTIONS or self.tables.is_empty(self.spark, table.location):
            return ""
        try:
            clause = taking_clause(step)
            if clause is None:
                return ""
            if clause.verb == "EXCHANGE":
                raise refuse_step(step, "a lake cannot exchange the rows of two tables in one commit")
            replica = with_upstream(table.replica, step)
            condition = condition_of(step, clause, replica)
            rows = self.tables.frame(self.spark, table.location)
            if condition != ALL and (strange := unsure_rows(rows, table, condition)):
                raise NotUnderstood(strange_rows(strange, table.replica.name))
        except NotUnderstood as error:
            raise refuse_step(step, f"cannot tell which rows are in the partition: {error}") from error
        if table.lost and condition != ALL and step.table_before.partitioning is not None:
            read = set(columns_read(step.table_before.partitioning))
            self._check_days(step, table, [name for name in _days(table) if same_name(name) in read])
        return condition

    def _check_days(self, step: ApplyDdl, table: LakeTable, names: Collection[str]) -> None:
        """Raises DdlRefused if one of these columns of days has NULL."""
        conditions = [f"{spark_name(name)} IS NULL" for name in names]
        rows = self.tables.frame(self.spark, table.location)
        if conditions and (count := rows.where(" OR ".join(conditions)).count()):
            raise refuse_step(
                step,
                f"{count_text(count, 'row has', 'rows have')} NULL in {', '.join(names)}, which can be a day that no"
                " calendar has, and what the statement makes of it is not known",
            )


def fitted_layout(step: ApplyDdl, layouts: Layouts, table: LakeTable, tables: TableFormat) -> Layout:
    """Returns the layout of the new table, with its own names of columns. Raises DdlRefused if it cannot have the
    layout."""
    layout = layouts.of(step.table)
    column_names = {same_name(name): name for name in table.replica.types}
    if lacking := [name for name in layout.columns if same_name(name) not in column_names]:
        raise _unfit(step, f"the table has no column {', '.join(lacking)}")
    parts = (replace(part, column=column_names[same_name(part.column)]) for part in layout.partition_by)
    result = replace(
        layout, partition_by=tuple(parts), cluster_by=tuple(column_names[same_name(n)] for n in layout.cluster_by)
    )
    if why := tables.unfit({column.name: spark_type(column) for column in table.columns}, result):
        raise _unfit(step, why)
    return result


def key_columns(table: LakeTable) -> tuple[str, ...]:
    """Returns the names of the primary key's columns."""
    return tuple(column.name for column in table.columns if column.is_pk)


def _unfit(step: ApplyDdl, why: str) -> DdlRefused:
    return refuse_step(
        step, f"[[consumer.lake-tables]] does not fit it: {why}", "correct the rule: the next run makes the table"
    )


def ends_rows(step: ApplyDdl) -> bool:
    """Returns whether the step is a TRUNCATE of a table that keeps ended rows."""
    keeps = step.mode_ddl is not None and step.mode_ddl.mode.keeps_ended
    return keeps and step.trash is None and step.file.type == Action.TRUNCATE_TABLE


def statement_text(step: ApplyDdl) -> str:
    return f"{step.file.version} {step.file.checksum} {step.table}"


def moved_tables(step: ApplyDdl, done: TableOperations, tables: Tables) -> dict[TableName, LakeTable]:
    """Maps each new name to the table that gets it."""
    if done.moved is not None:
        old, new = done.moved
        return {new: tables[old.folded]}
    if step.trash is not None and done.changed_tables:
        return {
            name: tables[TableName(step.name.database, name.table).folded]
            for name, table in done.changed_tables.items()
            if table is not None and name.database == step.trash.database
        }
    return {}


def lake_replica(replica: ReplicaTable, before: LakeTable | None) -> ReplicaTable:
    """Returns `replica` with the types that a lake has for its columns. A column that upstream's statement does not
    know stays as it was."""
    assert replica.upstream is not None
    upstream_columns = {same_name(column.name): column for column in replica.upstream.columns}
    old = {same_name(column.name): column for column in before.columns} if before is not None else {}
    kept = [old[same_name(name)] for name in replica.types if same_name(name) not in upstream_columns]
    upstream = Upstream((*replica.upstream.columns, *kept), replica.upstream.virtual)
    columns = old | upstream_columns
    types = {name: duckdb_type(columns[same_name(name)]) for name in replica.types}
    return replace(replica, types=types, upstream=upstream)


def alteration_in_place(
    changes: Sequence[ColumnChange], before: LakeTable, after: LakeTable, fixed: Callable[[], Collection[str]]
) -> Alteration | None:
    """Returns what changes the columns of the table without its rows, in at most one clause. None if the rows must be
    rewritten. `fixed` returns the columns by which the table is laid out."""
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    kept = [change for change in changes if change.old is not None]
    added = [change for change in changes if change.old is None]
    dropped = [name for name in old if name not in {change.old for change in kept}]
    other = [
        change
        for change in kept
        if change.value.sql != quote_name(change.old or "")
        or spark_type(old[change.old or ""]) != spark_type(new[change.name])
        or (change.old != change.name and same_name(change.old or "") == same_name(change.name))  # Delta refuses it
    ]
    order = [change.old for change in kept] != [name for name in old if name not in dropped]
    empty = all(change.value.null and nullable(new[change.name]) for change in added)
    if other or order or not empty:
        return None
    alteration = Alteration(
        dropped,
        [
            (change.name, spark_type(new[change.name]), changes[index - 1].name if index else "")
            for index, change in enumerate(changes)
            if change.old is None
        ],
        [(change.old or "", change.name) for change in kept if change.old != change.name],
        [change.name for change in kept if nullable(new[change.name]) and not nullable(old[change.old or ""])],
        key_columns(after),
    )
    if len(alteration.clauses()) > 1:
        return None
    moving = {*alteration.dropped, *(old for old, _ in alteration.renamed)}
    return None if moving and not moving.isdisjoint(fixed()) else alteration


def _days_read(changes: Sequence[ColumnChange], before: LakeTable, after: LakeTable) -> set[str]:
    """Returns the columns of days whose values become values of another kind."""
    old, new = _days(before), _days(after)
    return {change.old for change in changes if change.old is not None and change.old in old and change.name not in new}


def _makes_days(changes: Sequence[ColumnChange], after: LakeTable) -> bool:
    """Returns whether a day that no calendar has enters a new column, as NULL."""
    new = [change for change in changes if change.old is None and change.name in _days(after)]
    return any(change.value.type == TEXT for change in new)


def _days(table: LakeTable) -> set[str]:
    return {column.name for column in table.columns if column.family in DAYS}


def rebuilt_rows(
    rows: DataFrame, changes: Sequence[ColumnChange], before: LakeTable, after: LakeTable, taken: str = ""
) -> DataFrame:
    """Returns the table's future rows, without those for which the condition `taken` is true."""
    new = {column.name: column for column in after.columns}
    selected = ", ".join(f"{from_duckdb(new[c.name], c.value.sql)} AS v{n}" for n, c in enumerate(changes))
    where = f" WHERE ({taken}) IS NOT TRUE" if taken else ""
    return _through(rows, before, selected, where, [new[change.name] for change in changes], functions_of(changes))


def unsure_rows(rows: DataFrame, table: LakeTable, condition: str) -> int:
    """Returns for how many rows `condition` is NULL."""
    count_column = Column("rows", "BIGINT", nullable=False)
    counted = _through(rows, table, "count(*) AS v0", f" WHERE ({condition}) IS NULL", [count_column])
    return int(counted.selectExpr("coalesce(sum(`rows`), 0)").collect()[0][0])


def _through(
    rows: DataFrame,
    table: LakeTable,
    selected: str,
    where: str,
    new: Sequence[Column],
    functions: Mapping[str, Conversion] = MappingProxyType({}),
) -> DataFrame:
    """Returns `selected` for the rows of each batch, as expressions of DuckDB over the columns of `table`, which can
    call the `functions`."""
    from pyspark.sql.types import StructType

    old = table.columns
    columns = ", ".join(f"{to_duckdb(column, f'v{n}')} AS {quote_name(column.name)}" for n, column in enumerate(old))
    query = f"SELECT {selected} FROM (SELECT {columns} FROM batch){where}"
    schema = StructType.fromDDL(", ".join(f"{spark_name(column.name)} {spark_type(column)}" for column in new))
    made = partial(_through_duckdb, query=query, old=old, new=tuple(new), functions=dict(functions))
    # Spark misreads names with ` or . here.
    named = (f"{spark_name(column.name)} AS v{n}" for n, column in enumerate(old))
    return rows.selectExpr(*named).mapInArrow(made, schema)


def _through_duckdb(
    batches: Iterator[pa.RecordBatch],
    query: str,
    old: Sequence[Column],
    new: Sequence[Column],
    functions: Mapping[str, Conversion],
) -> Iterator[pa.RecordBatch]:
    """Runs on an executor: converts rows by expressions of DuckDB. Raises RowRefused."""
    import duckdb
    import pyarrow as pa

    from consumer.sink.lake.types import duck_columns, lake_schema

    connection, schema = duckdb.connect(), lake_schema(new)
    for batch in batches:
        connection.register("batch", duck_columns(pa.Table.from_batches([batch]), old))
        try:
            with functions_registered(connection, functions):
                rows = connection.sql(query).to_arrow_table()
        except NoValue as error:
            raise RowRefused(str(error)) from error
        columns = [
            (values if values.type == kind.type else values.cast(kind.type))
            for values, kind in zip(rows.columns, schema, strict=True)
        ]
        names = [column.name for column in new]
        yield from pa.table(columns, names=names).to_batches()
