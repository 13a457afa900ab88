"""Reads tables of a lake as they were at one moment of upstream: ``from consumer import lake``. docs/lakes.md says
which moments a lake has."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING

from consumer.config.values import moment as written
from consumer.config.values import tso_of
from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.sink import sink_for
from consumer.spark.shared import GivenSpark
from consumer.target import TargetOptions, Versioned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TableName", "at"]


def at(
    spark: SparkSession, uri: str, moment: int | str | datetime, tables: Collection[TableName] | None = None
) -> dict[TableName, DataFrame]:
    """Returns all tables of the lake at `uri`, or `tables`, with exactly the rows that upstream's had at `moment`, by
    the names that they had then. A moment is a TSO, or a time with its zone. `spark` is a session that knows the
    format; the names of an Iceberg lake become a catalog of this session, as the URI calls it. Nothing is read before
    the DataFrames are.

    Raises BadConfig if a table has no version that is proven to have these rows, SchemaDrift if somebody has replaced
    this program's newest table.
    """
    try:
        tso = tso_of(str(written(moment)), "System")
    except ValueError as problem:
        raise BadConfig(f"the moment is refused: {problem}") from None
    wanted = None if tables is None else {name.folded for name in tables}
    sink = sink_for(uri, TargetOptions("lake", "UTC", spark=GivenSpark(spark)))
    if not isinstance(sink, Versioned):
        raise BadConfig(f"{uri} is no lake", hint="give the --downstream-uri of one: delta:// or iceberg://")
    try:
        found = sink.tables_at(tso, None if wanted is None else wanted.__contains__)
        tables_at = {table.name: table for table in found}
        if wanted is not None and (missing := wanted - {name.folded for name in tables_at}):
            raise BadConfig(f"the lake had no table {', '.join(map(str, sorted(missing)))} at the moment {tso}")
        return {name: sink.frame(table) for name, table in tables_at.items()}
    finally:
        sink.close()
