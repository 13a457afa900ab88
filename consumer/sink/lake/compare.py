"""Reads one table of a lake for a comparison. Both sides are text of the lake's own types. The table's rows are a copy
of one version, as Parquet, which executors read without Spark's SQL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from consumer.errors import BadConfig, RowRefused
from consumer.model.load import LoadTarget
from consumer.sink.columnar.comparer import ColumnarComparer
from consumer.sink.lake.formats import TableFormat
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import spark_name, to_lake
from consumer.target import Only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class LakeComparer(ColumnarComparer):
    """`files` contain the table's rows, with the columns ``c0 .. cN`` of `target`."""

    target: LoadTarget
    files: tuple[str, ...]

    @property
    def ranges(self) -> int:
        return max(1, len(self.files))

    def _expected(self, rows: pa.Table, as_it_is: bool = False) -> pa.Table:
        columns = []
        for position, column in enumerate(self.target.columns):
            values = rows.column(f"c{position}")
            try:
                columns.append(comparison_texts(to_lake(column, values, position in self.target.key)[0]))
            except RowRefused:
                if not as_it_is:
                    raise
                columns.append(comparison_texts(values))
        return pa.table(columns, names=[f"c{position}" for position in range(len(columns))])

    def held(self, number: int) -> Iterator[pa.Table]:
        """Raises BadConfig if this machine does not have the copy."""
        if not self.files:
            return
        try:
            file = pq.ParquetFile(self.files[number])
        except FileNotFoundError as error:
            hint = "use --master local[*], or ?staging= with a folder that all workers share"
            raise BadConfig(f"a Spark worker does not see the file {self.files[number]}", hint=hint) from error
        with file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield pa.table(
                    list(map(comparison_texts, pa.Table.from_batches([batch]).columns)), names=batch.schema.names
                )


def exported(
    spark: SparkSession, tables: TableFormat, table: LakeTable, target: LoadTarget, folder: str, only: Only | None
) -> LakeComparer:
    """Copies the rows into a new folder below `folder`. Raises SchemaDrift if they are not what this program's newest
    commit left, because no repair could be recorded after it."""
    tables.latest(table.location)
    rows = tables.frame(spark, table.location)
    if only is not None:
        column = rows[spark_name(target.names[only.position])]
        rows = rows.where(column.isin(list(only.values)) | column.isNull())
    copy = os.path.join(folder, str(uuid4()))
    chosen = [f"{spark_name(name)} AS c{position}" for position, name in enumerate(target.names)]
    rows.selectExpr(*chosen).write.parquet(f"file://{copy}")
    return LakeComparer(target, tuple(sorted(map(str, Path(copy).glob("*.parquet")))))


def comparison_texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return values.cast(pa.large_binary())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        texts = pc.binary_join(pc.cast(values, pa.list_(pa.string())), ",")
        return pc.binary_join_element_wise("[", texts, "]", "").cast(pa.large_string())
    if pa.types.is_timestamp(kind):
        values = pc.cast(values, pa.timestamp("us"))
    return pc.cast(values, pa.large_string())
