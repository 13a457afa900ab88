"""Merges what writers staged for one table into it, in one commit."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from consumer.errors import CannotBeExact
from consumer.model.hints import load_again
from consumer.model.load import Ending, LoadTarget
from consumer.model.texts import count_text
from consumer.model.times import LOGICAL_BITS
from consumer.sink.lake.formats import Commit, TableFormat
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import bound_literal, spark_name, spark_type
from consumer.sink.lake.writer import LOST
from consumer.target import ArrowTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGED, _NET = "storage_consumer_staged", "storage_consumer_net"

_FEW = 8 << 20
"""The bytes of staged files up to which adaptive planning of a job, from the results of the previous one, costs more
than it saves."""


@dataclass(frozen=True, slots=True)
class Merging:
    """One load into `table`, by a session that no other thread uses. `paths` is empty if the load leaves the rows as
    they are although they may have differed in between (changes that cancel each other out, or quarantined rows only).
    An empty commit records that."""

    spark: SparkSession
    tables: TableFormat
    table: LakeTable
    target: LoadTarget
    paths: Sequence[str]
    left_out: Collection[int] = ()

    def publish(self, commit: Commit) -> None:
        """Makes `commit` of the load. Raises CannotBeExact if a row to remove from a table with no key does not exist,
        ProgressMoved."""
        if not self.paths:
            with self.tables.committing(self.spark, self.table.location, commit) as change:
                change.append(self.tables.frame(self.spark, self.table.location).limit(0))
            return
        few = sum(map(os.path.getsize, self.paths)) <= _FEW
        keyed = bool(self.target.key)
        new = keyed and self.target.ending is None and self.tables.is_empty(self.spark, self.table.location)
        rows = self._appended() if few and (new or not keyed) else None
        if rows is not None and self.tables.add(self.table.location, rows, commit):
            return
        self.spark.conf.set("spark.sql.adaptive.enabled", "false" if few else "true")
        self.spark.conf.set("spark.sql.shuffle.partitions", "2" if few else "8")
        staged = self._staged()
        staged.createOrReplaceTempView(_STAGED)
        if keyed:
            self._keyed(staged, commit, new)
        else:
            self._multiset(staged, commit)

    def _appended(self) -> ArrowTable | None:
        """Returns the rows to append if the load only appends: to an empty table, or to a table with no key. Returns
        None otherwise. The rows are held in memory."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        keyed = bool(self.target.key)
        staged = pa.concat_tables(pq.read_table(path) for path in self.paths)
        if not keyed and ("copies" in staged.column_names or (pc.min(staged["n"]).as_py() or 0) < 0):
            return None
        if self.left_out:
            staged = staged.filter(pc.invert(pc.is_in(staged["row"], pa.array(self._left_out(), pa.int64()))))
        if keyed:
            staged = staged.filter(staged["put"])
        else:
            staged = staged.take(pa.array(np.repeat(np.arange(staged.num_rows), staged["n"].to_numpy())))
        rows = staged.select([f"c{n}" for n in range(len(self.target.columns))])
        return rows.rename_columns(list(self.target.names))

    def lost_dates(self) -> int:
        """Returns how many dates became NULL because they do not exist, such as 0000-00-00."""
        import pyarrow.parquet as pq

        return sum(int((pq.read_schema(path).metadata or {}).get(LOST, 0)) for path in self.paths)

    def _staged(self) -> DataFrame:
        import pyarrow.parquet as pq

        kinds = {f"c{n}": spark_type(column) for n, column in enumerate(self.target.columns)}
        has = pq.read_schema(self.paths[0]).names
        marks = {"put": "BOOLEAN", "n": "BIGINT", "copies": "BIGINT", "row": "BIGINT"}
        schema = ", ".join(f"{name} {kind}" for name, kind in {**kinds, **marks}.items() if name in has)
        staged = self.spark.read.schema(schema).parquet(*(f"file://{path}" for path in self.paths))
        names = {f"c{n}": name for n, name in enumerate(self.target.names)}
        staged = self.tables.guarded(self.spark, self.table.location, staged, names)
        if not self.left_out:
            return staged
        return staged.where(f"row NOT IN ({', '.join(map(str, self._left_out()))})")

    def _left_out(self) -> list[int]:
        """Returns the row ids as signed numbers, as in the staged rows."""
        return [row - (1 << 64) if row >> 63 else row for row in self.left_out]

    def _keyed(self, staged: DataFrame, commit: Commit, new: bool) -> None:
        """Applies keyed changes. With `new` the table is empty, so they are only appended."""
        tables, location = self.tables, self.table.location
        if new:
            columns = [f"c{n} AS {spark_name(name)}" for n, name in enumerate(self.target.names)]
            with tables.committing(self.spark, location, commit) as change:
                change.append(staged.where("put").selectExpr(*columns))
            return
        statement = self._ending(self.target.ending) if self.target.ending is not None else self._merge()
        with tables.committing(self.spark, location, commit) as change:
            change.run(statement)

    def _merge(self) -> str:
        target = self.target
        same = self._same(target.key)
        return (
            f"MERGE INTO {self.tables.sql(self.table.location)} t USING {_STAGED} s ON {same} "
            f"WHEN MATCHED AND NOT s.put THEN DELETE WHEN MATCHED THEN UPDATE SET {self._assigned()} "
            f"WHEN NOT MATCHED AND s.put THEN INSERT {self._inserted()}"
        )

    def _ending(self, ending: Ending) -> str:
        """Returns the MERGE for a table of versions: a delete ends the version that is current before it, and that
        version stays."""
        target = self.target
        began, ended, current = (
            f"t.{spark_name(target.names[n])}" for n in (ending.began, ending.ended, ending.current)
        )
        others = [n for n in target.key if n != ending.began]
        same = self._same(others)
        keys = ", ".join(f"c{n}" for n in others)
        ends = f"SELECT {keys}, min(c{ending.began}) AS c{ending.began} FROM {_STAGED} WHERE NOT put GROUP BY {keys}"
        names = ", ".join(f"c{n}" for n in range(len(target.columns)))
        empty = (f"c{n}" if n in target.key else f"CAST(NULL AS {spark_type(c)})" for n, c in enumerate(target.columns))
        source = (
            f"SELECT true AS put, {names} FROM {_STAGED} WHERE put "
            f"UNION ALL SELECT false, {', '.join(empty)} FROM ({ends})"
        )
        time = f"CAST(timestamp_micros((CAST(s.c{ending.began} AS BIGINT) >> {LOGICAL_BITS}) * 1000) AS TIMESTAMP_NTZ)"
        return (
            f"MERGE INTO {self.tables.sql(self.table.location)} t USING ({source}) s ON {same} AND "
            f"CASE WHEN s.put THEN {began} = s.c{ending.began} "
            f"ELSE {began} < s.c{ending.began} AND {ended} IS NULL END "
            f"WHEN MATCHED AND NOT s.put THEN UPDATE SET {ended} = {time}, {current} = 0 "
            f"WHEN MATCHED THEN UPDATE SET {self._assigned()} "
            f"WHEN NOT MATCHED AND s.put THEN INSERT {self._inserted()}"
        )

    def _same(self, key: Sequence[int]) -> str:
        """Returns the condition that a row of the table has the key of a staged one. It includes the bounds of the
        staged keys, so files and partitions outside them are not read."""
        import pyarrow.parquet as pq

        files = [pq.read_metadata(path) for path in self.paths]
        groups = [file.row_group(number) for file in files for number in range(file.num_row_groups)]
        conditions = [f"t.{spark_name(self.target.names[n])} = s.c{n}" for n in key]
        for n in key:
            column_index = files[0].schema.names.index(f"c{n}")
            statistics = [group.column(column_index).statistics for group in groups]
            if statistics and all(statistic is not None and statistic.has_min_max for statistic in statistics):
                bounds = [
                    bound_literal(min(statistic.min for statistic in statistics)),
                    bound_literal(max(statistic.max for statistic in statistics)),
                ]
                if all(bounds):
                    conditions.append(f"t.{spark_name(self.target.names[n])} BETWEEN {' AND '.join(bounds)}")
        return " AND ".join(conditions)

    def _assigned(self) -> str:
        return ", ".join(f"t.{spark_name(name)} = s.c{n}" for n, name in enumerate(self.target.names))

    def _inserted(self) -> str:
        columns = ", ".join(map(spark_name, self.target.names))
        return f"({columns}) VALUES ({', '.join(f's.c{n}' for n in range(len(self.target.names)))})"

    def _multiset(self, staged: DataFrame, commit: Commit) -> None:
        """Equal rows cannot be distinguished. So all rows of an image are removed if some are to go, and the remaining
        ones are inserted again."""
        spark, tables, location = self.spark, self.tables, self.table.location
        columns = [f"c{n}" for n in range(len(self.target.names))]
        listed = ", ".join(columns)
        counted = "copies" in staged.columns
        firsts = ", ".join(f"first({c}) AS {c}" for c in columns)
        grouped = ", ".join(f"{c} AS k{n}" for n, c in enumerate(columns))
        number = "copies" if counted else "n"
        keys = ", ".join(f"k{n}" for n in range(len(columns)))
        net = spark.sql(
            f"SELECT sum({number}) AS n, {firsts} FROM (SELECT *, {grouped} FROM {_STAGED}) GROUP BY {keys}"
        )
        only_adds = not counted and not staged.where("n < 0").limit(1).collect()
        if only_adds:
            added = staged.where("n > 0").selectExpr(*columns, "explode(array_repeat(1, CAST(n AS INT))) AS copy")
            written = added.selectExpr(
                *(f"{c} AS {spark_name(name)}" for c, name in zip(columns, self.target.names, strict=True))
            )
            with tables.committing(spark, location, commit) as change:
                change.append(written)
            return
        net.createOrReplaceTempView(_NET)
        same_image = " AND ".join(f"t.{c} <=> s.{c}" for c in columns)
        held = f"SELECT s.*, t.held FROM {_NET} s LEFT JOIN ({self._held()}) t ON {same_image}"
        wanted = "n" if counted else "n + coalesce(held, 0)"
        needed = spark.sql(f"SELECT {listed}, n, coalesce(held, 0) AS held, {wanted} AS stay FROM ({held})").persist()
        try:
            lacking = needed.where("stay < 0").selectExpr("sum(-n)", "sum(held)").collect()[0]
            if lacking[0]:
                raise CannotBeExact(
                    f"{count_text(lacking[0], 'row is', 'rows are')} to be removed from {self.target.table}, a table"
                    f" with no key, but only {count_text(lacking[1], 'is', 'are')} there",
                    hint=load_again(self.target.table),
                    table=str(self.target.table),
                )
            needed.createOrReplaceTempView(_NET)
            goes = f"SELECT true AS gone, {listed} FROM {_NET} WHERE held > 0 AND stay <> held"
            stays = (
                f"SELECT false AS gone, {listed} FROM {_NET} "
                "LATERAL VIEW explode(array_repeat(1, CAST(stay AS INT))) c AS copy WHERE stay <> held"
            )
            named = zip(columns, self.target.names, strict=True)
            same = " AND ".join(f"t.{spark_name(name)} <=> s.{c}" for c, name in named)
            with tables.committing(spark, location, commit) as change:
                change.run(
                    f"MERGE INTO {tables.sql(location)} t USING ({goes} UNION ALL {stays}) s ON s.gone AND {same} "
                    f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND NOT s.gone THEN INSERT {self._inserted()}"
                )
        finally:
            needed.unpersist()

    def _held(self) -> str:
        """Returns the query for how many rows of each image the table has, without the table's own column names."""
        names = ", ".join(f"{spark_name(name)} AS c{n}" for n, name in enumerate(self.target.names))
        listed = ", ".join(f"c{n}" for n in range(len(self.target.names)))
        rows = f"SELECT {names} FROM {self.tables.sql(self.table.location)}"
        return f"SELECT {listed}, count(*) AS held FROM ({rows}) GROUP BY {listed}"
