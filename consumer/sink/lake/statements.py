"""What an upstream statement does to a lake. What it means is said for DuckDB's replicas (`operations`); here it
becomes commits: one of the progress where names change, one of the table where its rows or columns do."""

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
from consumer.sink.columnar.casts import functions_there
from consumer.sink.columnar.reshape import Change, functions_of
from consumer.sink.columnar.statements import Operations, action_of, not_converted, operations, refused, trashed
from consumer.sink.columnar.table import TEXT, ReplicaTable, Upstream, duckdb_type, quote
from consumer.sink.columnar.taken import ALL, condition_of, known, strange_rows, taking_clause
from consumer.sink.common import closing_statement
from consumer.sink.lake.failures import is_refusal, not_converted_there, not_made, text_of
from consumer.sink.lake.formats import Alteration, Rewrite, TableFormat, Unfit, new_place
from consumer.sink.lake.names import Names
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import DAYS, as_duck, declared, from_duck, literal, nullable, quoted, spark_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Tables = Mapping[TableName, LakeTable]
"""By names in lower case."""


@dataclass(frozen=True, slots=True)
class Effect:
    """`there` are the tables that are others behind the statement, by name: None for one that is gone. `gone` are
    places of tables that are in no list any more: they are removed once that is recorded."""

    there: Mapping[TableName, LakeTable | None] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    note: str = ""


def planned(step: ApplyDdl, tables: Tables, zone: tzinfo, filled: bool) -> Operations:
    """What the statement means where there are `tables`; `filled`: its own may have rows. Raises DdlRefused."""
    replicas = {name: table.replica for name, table in tables.items()}
    there = _Named(replicas)
    action = action_of(step)
    if step.merged is not None:
        raise refused(step, "a lake does not hold the rows of several tables in one: leave them out of the route")
    if action == Action.DROP_SCHEMA:
        return _dropped(step, replicas)
    if step.trash is not None and (away := trashed(step, step.trash, there, filled)) is not None:
        return away
    done = operations(step, there, zone)
    if done.moved is not None and done.moved[1] in there and done.moved[0].folded != done.moved[1].folded:
        raise refused(step, f"the table {done.moved[1]} exists already", code=Code.TABLE_EXISTS)
    return done


class _Named(dict[TableName, ReplicaTable]):
    """Tables by a name in any case."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, TableName) and super().__contains__(name.folded)

    def __getitem__(self, name: TableName) -> ReplicaTable:
        return super().__getitem__(name.folded)

    def get(self, name: TableName, default: Any = None) -> Any:
        return super().get(name.folded, default)


def _dropped(step: ApplyDdl, replicas: Mapping[TableName, ReplicaTable]) -> Operations:
    """A database, whose tables go to the trash where there is one."""
    database = same_name(step.name.database)
    own = [table for name, table in replicas.items() if name.database == database]
    there: dict[TableName, ReplicaTable | None] = {table.name: None for table in own}
    if step.trash is None:
        return Operations(there=there)
    kept = {TableName(step.trash.database, table.name.table): table for table in own}
    there |= {name: replace(table, name=name) for name, table in kept.items()}
    return Operations(there=there, note=f"{step.name.database} is kept as {step.trash}" if own else "")


@dataclass(frozen=True, slots=True)
class Executing:
    """`known` are the tables of the lake."""

    spark: SparkSession
    tables: TableFormat
    known: Tables
    layouts: Layouts
    names: Names

    def run(self, step: ApplyDdl, done: Operations, said: Mapping[str, object]) -> Effect:
        """Do to rows and columns what `done` says; names change with the record of it. What a table's newest commit
        says is done already is not done again. `said`: what the commit says, but for the statement."""
        there: dict[TableName, LakeTable | None] = {}
        if step.mode_ddl is not None and ends_rows(step):
            return Effect({step.name: self._closed(step, step.mode_ddl, said)}, note=done.note)
        moved = moved_tables(step, done, self.known)
        for name, replica in done.there.items():
            if replica is None:
                there.setdefault(name.folded, None)
            elif name in moved:
                there[name] = replace(moved[name], replica=replica)
            elif name.folded not in self.known or done.moved is not None:
                there[name] = self._created(step, replica)
            else:
                there[name] = self._altered(step, done, replica, said)
        kept = {table.place for table in there.values() if table is not None}
        places = (self.known[name].place for name, table in there.items() if table is None and name in self.known)
        return Effect(there, tuple(place for place in places if place not in kept), done.note)

    def check_trash(self, step: ApplyDdl) -> None:
        """Raises DdlRefused where the place in the trash holds other rows than the table that is to go there. Those
        that an earlier execution put there, before a resync, are the same."""
        if step.trash is None or step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE):
            return
        own, kept = (self.known.get(name.folded) for name in (step.name_before, step.trash))
        if own is None or kept is None:
            return
        one, other = (self.tables.frame(self.spark, table.place) for table in (own, kept))
        same = one.dtypes == other.dtypes and not one.exceptAll(other).union(other.exceptAll(one)).limit(1).collect()
        if not same:
            raise refused(step, *trash_taken(step.trash))

    def _created(self, step: ApplyDdl, replica: ReplicaTable) -> LakeTable:
        table = LakeTable(lake_replica(replica, None), "")
        self._check_names(step, table)
        layout = fitted(step, self.layouts, table, self.tables)
        place = new_place(self.tables, replica.name)
        try:
            columns = [declared(column) for column in table.columns]
            self.tables.create(self.spark, place, columns, layout, key_of(table))
        except Exception as error:
            if layout == Layout() or not is_refusal(error):
                raise
            raise _unfit(step, text_of(error)) from error
        return replace(table, place=place)

    def _check_names(self, step: ApplyDdl, table: LakeTable) -> None:
        """Raises DdlRefused."""
        layout = self.layouts.of(step.table)
        if kept := self.names.kept(self.spark, table.replica.types, layout, self.known.values()):
            hint = "give it another name in the lake, or leave it out: [[consumer.columns]] (docs/shaping.md)"
            raise refused(
                step, f"Spark or the lake's format keeps the name of the column {', '.join(kept)} for itself", hint
            )

    def _closed(self, step: ApplyDdl, mode_ddl: ModeDdl, said: Mapping[str, object]) -> LakeTable:
        """A TRUNCATE of a table that keeps rows that have ended: it ends them."""
        before = self.known[step.name.folded]
        number = statement_text(step)
        if before.newest.statement == number or self.tables.is_empty(self.spark, before.place):
            return before
        commit = before.newest.following(**said, statement=number)
        kind = "" if mode_ddl.mode.kind is ModeKind.APPEND else "TIMESTAMP_NTZ "
        name, version = self.tables.sql(before.place), step.file.version
        statement = closing_statement(
            mode_ddl,
            name,
            step.table,
            version,
            quoted,
            lambda text: f"{kind}{literal(text)}",
            lambda column: quoted(column.name),
        )
        with self.tables.committing(self.spark, before.place, commit) as change:
            change.run(statement)
        return replace(before, newest=commit)

    def _altered(
        self, step: ApplyDdl, done: Operations, replica: ReplicaTable, said: Mapping[str, object]
    ) -> LakeTable:
        before = self.known[replica.name.folded]
        changes = done.columns or ()
        after = LakeTable(lake_replica(replica, before), before.place, before.newest)
        after = replace(after, lost=not done.emptied and (before.lost or _makes_days(changes, after)))
        number = statement_text(step)
        if before.newest.statement == number:
            return after
        self._check_names(step, after)
        commit = before.newest.following(**said, statement=number)
        taken = self._taken(step, before)
        if before.lost and not done.emptied and (days := _days_read(changes, before, after)):
            self._check_days(step, before, days)
        fixed = partial(self.tables.laid_out_by, self.spark, before.place)
        alteration = None if taken else in_place(changes, before, after, fixed)
        rekeyed = self.tables.tells_key and key_of(before) != key_of(after)
        same = alteration is not None and not alteration.clauses() and not rekeyed
        if same and (not done.emptied or self.tables.is_empty(self.spark, before.place)):
            return after
        try:
            with self.tables.committing(self.spark, before.place, commit) as change:
                if same:
                    change.clear()
                elif alteration is not None and not done.emptied:
                    change.alter(alteration)
                else:
                    rows = self.tables.frame(self.spark, before.place)
                    self._check_columns(step, before, rows)
                    made = rebuilt(rows.limit(0) if done.emptied else rows, changes, before, after, taken)
                    kept = {change.old: change.name for change in changes if change.old is not None}
                    keys = [column.name for column in after.columns if column.is_pk and not nullable(column)]
                    required = [name for name in keys if name in kept.values()]
                    change.replace(Rewrite(made, kept, required, key_of(after), rows.columns))
        except Unfit as error:
            raise refused(
                step,
                f"the table is laid out by [[consumer.lake-tables]], which does not fit it any more: {error}",
                "mend the rule, then load the table again: " + resync_command(step.table),
            ) from error
        except Exception as error:
            if why := not_converted_there(error):
                raise not_converted(step, why) from error
            if why := not_made(error):
                raise refused(step, why) from error
            raise
        return replace(after, newest=commit)

    def _check_columns(self, step: ApplyDdl, table: LakeTable, rows: DataFrame) -> None:
        """Raises DdlRefused where `rows`, which are to be written anew, have columns that somebody else has made."""
        own = {same_name(column.name) for column in table.columns}
        if strange := [name for name in rows.columns if same_name(name) not in own]:
            raise refused(
                step,
                f"it writes the table's rows anew, without the columns that somebody has added: {', '.join(strange)}",
                "drop them, and add them again behind the statement",
            )

    def _taken(self, step: ApplyDdl, table: LakeTable) -> str:
        """The condition, in DuckDB's SQL, for the rows of partitions that the statement takes away; "" for none. Raises
        DdlRefused."""
        if step.file.type not in PARTITION_ACTIONS or self.tables.is_empty(self.spark, table.place):
            return ""
        try:
            clause = taking_clause(step)
            if clause is None:
                return ""
            if clause.verb == "EXCHANGE":
                raise refused(step, "a lake cannot exchange the rows of two tables in one commit")
            replica = known(table.replica, step)
            condition = condition_of(step, clause, replica)
            rows = self.tables.frame(self.spark, table.place)
            if condition != ALL and (strange := unsure_rows(rows, table, condition)):
                raise NotUnderstood(strange_rows(strange, table.replica.name))
        except NotUnderstood as error:
            raise refused(step, f"cannot tell which rows are in the partition: {error}") from error
        if table.lost and condition != ALL and step.known.partitioning is not None:
            read = set(columns_read(step.known.partitioning))
            self._check_days(step, table, [name for name in _days(table) if same_name(name) in read])
        return condition

    def _check_days(self, step: ApplyDdl, table: LakeTable, names: Collection[str]) -> None:
        """Raises DdlRefused where one of these columns of days has NULL."""
        found = [f"{quoted(name)} IS NULL" for name in names]
        rows = self.tables.frame(self.spark, table.place)
        if found and (count := rows.where(" OR ".join(found)).count()):
            raise refused(
                step,
                f"{count_text(count, 'row has', 'rows have')} NULL in {', '.join(names)}, which can be a day that no"
                " calendar has, and what the statement makes of it is not known",
            )


def fitted(step: ApplyDdl, layouts: Layouts, table: LakeTable, tables: TableFormat) -> Layout:
    """How the new table is laid out, in its own names of columns. Raises DdlRefused where it cannot be."""
    layout = layouts.of(step.table)
    own = {same_name(name): name for name in table.replica.types}
    if lacking := [name for name in layout.columns if same_name(name) not in own]:
        raise _unfit(step, f"the table has no column {', '.join(lacking)}")
    parts = (replace(part, column=own[same_name(part.column)]) for part in layout.partition_by)
    found = replace(layout, partition_by=tuple(parts), cluster_by=tuple(own[same_name(n)] for n in layout.cluster_by))
    if why := tables.unfit({column.name: spark_type(column) for column in table.columns}, found):
        raise _unfit(step, why)
    return found


def key_of(table: LakeTable) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.is_pk)


def _unfit(step: ApplyDdl, why: str) -> DdlRefused:
    return refused(
        step, f"[[consumer.lake-tables]] does not fit it: {why}", "mend the rule: the next run makes the table"
    )


def ends_rows(step: ApplyDdl) -> bool:
    """Whether it is a TRUNCATE of a table that keeps rows that have ended."""
    keeps = step.mode_ddl is not None and step.mode_ddl.mode.keeps_ended
    return keeps and step.trash is None and step.file.type == Action.TRUNCATE_TABLE


def statement_text(step: ApplyDdl) -> str:
    return f"{step.file.version} {step.file.checksum} {step.table}"


def moved_tables(step: ApplyDdl, done: Operations, known: Tables) -> dict[TableName, LakeTable]:
    """By its new name, the table that has it then."""
    if done.moved is not None:
        old, new = done.moved
        return {new: known[old.folded]}
    if step.trash is not None and done.there:
        return {
            name: known[TableName(step.name.database, name.table).folded]
            for name, table in done.there.items()
            if table is not None and name.database == step.trash.database
        }
    return {}


def lake_replica(replica: ReplicaTable, before: LakeTable | None) -> ReplicaTable:
    """`replica` with the types that a lake has for its columns; a column that upstream's statement does not know stays
    as it was."""
    assert replica.upstream is not None
    known = {same_name(column.name): column for column in replica.upstream.columns}
    old = {same_name(column.name): column for column in before.columns} if before is not None else {}
    kept = [old[same_name(name)] for name in replica.types if same_name(name) not in known]
    upstream = Upstream((*replica.upstream.columns, *kept), replica.upstream.virtual)
    columns = old | known
    types = {name: duckdb_type(columns[same_name(name)]) for name in replica.types}
    return replace(replica, types=types, upstream=upstream)


def in_place(
    changes: Sequence[Change], before: LakeTable, after: LakeTable, fixed: Callable[[], Collection[str]]
) -> Alteration | None:
    """What brings the table to its new columns without a row, by one clause or none; None where the rows must be
    written anew. `fixed` tells by which columns the table is laid out."""
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in after.columns}
    kept = [change for change in changes if change.old is not None]
    added = [change for change in changes if change.old is None]
    gone = [name for name in old if name not in {change.old for change in kept}]
    other = [
        change
        for change in kept
        if change.value.sql != quote(change.old or "")
        or spark_type(old[change.old or ""]) != spark_type(new[change.name])
        or (change.old != change.name and same_name(change.old or "") == same_name(change.name))  # Delta refuses it
    ]
    order = [change.old for change in kept] != [name for name in old if name not in gone]
    empty = all(change.value.null and nullable(new[change.name]) for change in added)
    if other or order or not empty:
        return None
    found = Alteration(
        gone,
        [
            (change.name, spark_type(new[change.name]), changes[at - 1].name if at else "")
            for at, change in enumerate(changes)
            if change.old is None
        ],
        [(change.old or "", change.name) for change in kept if change.old != change.name],
        [change.name for change in kept if nullable(new[change.name]) and not nullable(old[change.old or ""])],
        key_of(after),
    )
    if len(found.clauses()) > 1:
        return None
    moving = {*found.dropped, *(old for old, _ in found.renamed)}
    return None if moving and not moving.isdisjoint(fixed()) else found


def _days_read(changes: Sequence[Change], before: LakeTable, after: LakeTable) -> set[str]:
    """The columns of days of which a value of another kind is made."""
    old, new = _days(before), _days(after)
    return {change.old for change in changes if change.old is not None and change.old in old and change.name not in new}


def _makes_days(changes: Sequence[Change], after: LakeTable) -> bool:
    """Whether a day that no calendar has comes into a new column, as NULL."""
    new = [change for change in changes if change.old is None and change.name in _days(after)]
    return any(change.value.type == TEXT for change in new)


def _days(table: LakeTable) -> set[str]:
    return {column.name for column in table.columns if column.family in DAYS}


def rebuilt(
    rows: DataFrame, changes: Sequence[Change], before: LakeTable, after: LakeTable, taken: str = ""
) -> DataFrame:
    """The table's rows as they are to be then, but for those of which the condition `taken` is true."""
    new = {column.name: column for column in after.columns}
    selected = ", ".join(f"{from_duck(new[c.name], c.value.sql)} AS v{n}" for n, c in enumerate(changes))
    where = f" WHERE ({taken}) IS NOT TRUE" if taken else ""
    return _through(rows, before, selected, where, [new[change.name] for change in changes], functions_of(changes))


def unsure_rows(rows: DataFrame, table: LakeTable, condition: str) -> int:
    """Of how many rows `condition` is NULL."""
    one = Column("rows", "BIGINT", nullable=False)
    counted = _through(rows, table, "count(*) AS v0", f" WHERE ({condition}) IS NULL", [one])
    return int(counted.selectExpr("coalesce(sum(`rows`), 0)").collect()[0][0])


def _through(
    rows: DataFrame,
    table: LakeTable,
    selected: str,
    where: str,
    new: Sequence[Column],
    functions: Mapping[str, Conversion] = MappingProxyType({}),
) -> DataFrame:
    """`selected` of the rows of each batch, as expressions of DuckDB over the columns of `table`, which can call the
    `functions`."""
    from pyspark.sql.types import StructType

    old = table.columns
    columns = ", ".join(f"{as_duck(column, f'v{n}')} AS {quote(column.name)}" for n, column in enumerate(old))
    query = f"SELECT {selected} FROM (SELECT {columns} FROM batch){where}"
    schema = StructType.fromDDL(", ".join(f"{quoted(column.name)} {spark_type(column)}" for column in new))
    made = partial(_through_duckdb, query=query, old=old, new=tuple(new), functions=dict(functions))
    named = (f"{quoted(column.name)} AS v{n}" for n, column in enumerate(old))  # Spark misreads names with ` or . here
    return rows.selectExpr(*named).mapInArrow(made, schema)


def _through_duckdb(
    batches: Iterator[pa.RecordBatch],
    query: str,
    old: Sequence[Column],
    new: Sequence[Column],
    functions: Mapping[str, Conversion],
) -> Iterator[pa.RecordBatch]:
    """On an executor: rows as the expressions of DuckDB make them anew. Raises RowRefused."""
    import duckdb
    import pyarrow as pa

    from consumer.sink.lake.types import duck_columns, lake_schema

    connection, schema = duckdb.connect(), lake_schema(new)
    for batch in batches:
        connection.register("batch", duck_columns(pa.Table.from_batches([batch]), old))
        try:
            with functions_there(connection, functions):
                rows = connection.sql(query).to_arrow_table()
        except NoValue as error:
            raise RowRefused(str(error)) from error
        columns = [
            (values if values.type == kind.type else values.cast(kind.type))
            for values, kind in zip(rows.columns, schema, strict=True)
        ]
        names = [column.name for column in new]
        yield from pa.table(columns, names=names).to_batches()
