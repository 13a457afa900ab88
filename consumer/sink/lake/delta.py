"""Delta tables. A table is a folder. Its commits carry `userMetadata`, and the number of our commit as a transaction of
its own (`txn`): Delta leaves out a commit whose number is there already, and refuses one that another came before."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from consumer.errors import BadConfig, LeaseHeld
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.sink.columnar.lock import FileLock
from consumer.sink.lake.formats import (
    Alteration,
    Change,
    Commit,
    as_parquet,
    busy,
    check_properties,
    laid_out,
    moved,
    of_parquet,
    segment,
)
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.types import literal, quoted
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APP = "storage-consumer"
_ID, _NUMBER, _SAID = (
    f"spark.databricks.delta.{name}" for name in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata")
)
_OURS = "storage_consumer.table"
_TABLE = {
    _OURS: "true",  # a folder that nobody knows goes away only if it has this
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
}
_NOT_TO_SET = (
    "delta.appendOnly",
    "delta.columnMapping.",
    "delta.coordinatedCommits.",
    "delta.feature.",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.setTransactionRetentionDuration",  # a number that is forgotten would be free for a late writer
)
_LOST_TEXTS = ("", "__HIVE_DEFAULT_PARTITION__")
"""Of a column by which a table is partitioned: Delta would write NULL."""
_CONFLICT = "CONCURRENT"
"""In the class of an error that says that another commit came first."""


class Delta:
    """A `TableFormat`."""

    one_writer = False

    def __init__(self, settings: LakeSettings, files: SparkSource) -> None:
        self._root, self._staging, self._files = settings.root, settings.staging, files

    def prepare(self, spark: SparkSession) -> None:
        if "DeltaSparkSessionExtension" not in (spark.conf.get("spark.sql.extensions", "") or ""):
            raise BadConfig(
                "this process has started Spark without Delta",
                hint="start it with Delta's jars and spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension, or"
                " leave it to this program",
            )

    def called(self, spark: SparkSession) -> str:
        """The format and its release, for messages."""
        return f"Delta tables, by Spark {spark.version},"

    def place(self, name: TableName, number: int = 1) -> str:
        usual = f"{self._root}/{segment(name.database)}/{segment(name.table)}"
        return usual if number == 1 else f"{usual}.{number}"

    def exists(self, place: str) -> bool:
        return self._files.exists(place)

    def check(self, layout: Layout) -> None:
        if made := next((part for part in layout.partition_by if part.transform != "identity"), None):
            raise BadConfig(
                f"[[consumer.lake-tables]] partitions by the {made.transform} of {made.column}, and Delta has no"
                " transforms",
                hint="name the column alone, or give it in cluster-by",
            )
        if layout.partition_by and layout.cluster_by:
            raise BadConfig(
                "[[consumer.lake-tables]] has partition-by and cluster-by, and a Delta table can have one of them",
                hint="leave one out",
            )
        check_properties(layout, _NOT_TO_SET)

    def unfit(self, types: Mapping[str, str], layout: Layout) -> str:
        """Delta writes the values of a partition as texts."""
        parts = (part.column for part in layout.partition_by)
        kinds = (f"the column {name} is {types[name]}, by which Delta cannot partition" for name in parts)
        return next((text for text in kinds if "BINARY" in text or "ARRAY" in text), "")

    def create(self, spark: SparkSession, place: str, columns: Sequence[str], layout: Layout) -> None:
        own = replace(layout, properties=tuple({**_TABLE, **dict(layout.properties)}.items()))
        spark.sql(f"CREATE TABLE {self.sql(place)} ({', '.join(columns)}) USING DELTA{laid_out(own)}")

    def laid_out_by(self, spark: SparkSession, place: str) -> list[str]:
        return [column for columns in self.layout(spark, place) for column in columns]

    def layout(self, spark: SparkSession, place: str) -> tuple[Sequence[str], Sequence[str]]:
        """The columns by which the table is partitioned, and clustered."""
        (detail,) = spark.sql(f"DESCRIBE DETAIL {self.sql(place)}").collect()
        return detail["partitionColumns"], detail["clusteringColumns"] or ()

    def guarded(self, spark: SparkSession, place: str, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        texts = {column for column, kind in rows.dtypes if kind == "string" and column in names}
        if texts:
            kernel, engine = self._kernel()
            parts = set(kernel.Table.forPath(engine, place).getLatestSnapshot(engine).getPartitionColumnNames())
            texts = {column for column in texts if names[column] in parts}
        lost = ", ".join(map(literal, _LOST_TEXTS))

        def checked(column: str) -> str:
            if column not in texts:
                return quoted(column)
            why = literal(f"Delta would make NULL of an empty text in {names[column]}, which partitions the table")
            return f"IF({quoted(column)} IN ({lost}), RAISE_ERROR({why}), {quoted(column)}) AS {quoted(column)}"

        return rows.selectExpr(*map(checked, rows.columns)) if texts else rows

    def sql(self, place: str) -> str:
        return f"delta.`{place.replace('`', '``')}`"

    def version(self, place: str) -> str:
        return next(iter(self._versions(place)), "")

    def few(self, place: str) -> tuple[ArrowTable | None, int]:
        """By Delta's library without Spark: no job runs for them."""
        if not self._files.exists(f"{place}/_delta_log"):
            return None, 0
        kernel, engine = self._kernel()
        snapshot = kernel.Table.forPath(engine, place).getLatestSnapshot(engine)
        number = snapshot.getLatestTransactionVersion(engine, _APP)
        found, batches = [], snapshot.getScanBuilder().build().getScanFiles(engine)
        while batches.hasNext():
            rows = batches.next().getRows()
            while rows.hasNext():
                path = kernel.internal.InternalScanFileUtils.getAddFileStatus(rows.next()).getPath()
                found.append(self._files.read(path.removeprefix("file:")))
        return of_parquet(found), int(number.get()) if number.isPresent() else 0

    def add(self, place: str, rows: ArrowTable, generation: int) -> None:
        """By Delta's library without Spark: no job runs for them."""
        from py4j.protocol import Py4JJavaError

        kernel, engine = self._kernel()
        java, _ = self._files.java()
        new = not self._files.exists(f"{place}/_delta_log")
        operation = kernel.Operation.CREATE_TABLE if new else kernel.Operation.WRITE
        builder = kernel.Table.forPath(engine, place).createTransactionBuilder(engine, _APP, operation)
        if new:
            builder = builder.withSchema(engine, _kernel_schema(kernel.types, rows.schema))
            properties = java.java.util.HashMap()
            properties.put("delta.logRetentionDuration", "interval 1 days")
            builder = builder.withTableProperties(engine, properties)
        path, content = f"{place}/{uuid4()}.parquet", as_parquet(rows)
        try:
            transaction = builder.withTransactionId(engine, _APP, generation).build(engine)
            self._files.write(path, content)
            state = transaction.getTransactionState(engine)
            context = kernel.Transaction.getWriteContext(engine, state, java.java.util.HashMap())
            nothing, written = java.java.util.Optional.empty(), f"file:{path}" if path.startswith("/") else path
            status = kernel.utils.DataFileStatus(written, len(content), int(time.time() * 1000), nothing)
            one = kernel.internal.util.Utils.toCloseableIterator(
                java.java.util.Collections.singletonList(status).iterator()
            )
            actions = kernel.Transaction.generateAppendActions(engine, state, one, context)
            done = transaction.commit(engine, kernel.utils.CloseableIterable.inMemoryIterable(actions))
        except Py4JJavaError as error:
            self._files.remove(path)
            if "Concurrent" in str(error.java_exception.getClass().getName()):
                raise moved(place) from error
            raise
        for hook in done.getPostCommitHooks():
            if str(hook.getType()) == "CHECKPOINT":  # without it a start reads every commit there ever was
                with suppress(Py4JJavaError):  # a later commit makes one
                    hook.threadSafeInvoke(engine)

    def _kernel(self) -> tuple[Any, Any]:
        java, configuration = self._files.java()
        kernel = java.io.delta.kernel
        return kernel, kernel.defaults.engine.DefaultEngine.create(configuration)

    def frame(self, spark: SparkSession, place: str) -> DataFrame:
        return spark.read.format("delta").load(place)

    def is_empty(self, spark: SparkSession, place: str) -> bool:
        versions = self._versions(place)
        try:
            said = json.loads(self._files.read(f"{place}/_delta_log/{versions[0]}.crc"))
            return int(said["numFiles"]) == 0
        except (OSError, ValueError, KeyError, IndexError):  # Delta writes that file if it can
            return int(spark.sql(f"DESCRIBE DETAIL {self.sql(place)}").collect()[0]["numFiles"]) == 0

    def latest(self, place: str) -> Commit | None:
        for version in self._versions(place):
            for line in self._files.read(f"{place}/_delta_log/{version}.json").splitlines():
                if line.startswith(b'{"commitInfo"'):
                    if (found := Commit.of(json.loads(line)["commitInfo"].get("userMetadata"))) is not None:
                        return found
                    break
        return None

    def _versions(self, place: str) -> list[str]:
        """Of the commits that the log has, the newest first."""
        names = self._files.names(f"{place}/_delta_log")
        return sorted((name[:-5] for name in names if name.endswith(".json") and name[:-5].isdigit()), reverse=True)

    @contextmanager
    def committing(self, spark: SparkSession, place: str, commit: Commit) -> Iterator[Change]:
        said = {_ID: _APP, _NUMBER: str(commit.generation), _SAID: commit.text()}
        with self._alone(place):
            for name, value in said.items():
                spark.conf.set(name, value)
            try:
                yield _Change(self, spark, place, commit)
            except Exception as error:
                if _CONFLICT not in (_error_class(error) or ""):
                    raise
                newest = self.latest(place)
                if newest is None or newest.generation < commit.generation:
                    raise busy(place) from error
                raise moved(place) from error
            finally:
                for name in said:
                    spark.conf.unset(name)
            if self.latest(place) != commit:
                raise moved(place)

    @contextmanager
    def _alone(self, place: str) -> Iterator[None]:
        """On a local disk Delta keeps writers apart only within one process. Raises TargetBusy while another one has
        the table."""
        lock = FileLock(self._staging, "table", "tables.lock", place)
        try:
            lock.take()
        except LeaseHeld as held:
            raise busy(place) from held
        try:
            yield
        finally:
            lock.release()

    def compact(self, spark: SparkSession, place: str) -> tuple[int, int]:
        with self._alone(place):
            try:
                done = spark.sql(f"OPTIMIZE {self.sql(place)}").collect()[0]["metrics"]
            except Exception as error:
                if _CONFLICT in (_error_class(error) or ""):
                    raise busy(place) from error
                raise
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def expire(self, spark: SparkSession, place: str, hours: int) -> None:
        spark.sql(f"VACUUM {self.sql(place)} RETAIN {hours} HOURS").collect()

    def unknown(self, spark: SparkSession, known: Collection[str], before: datetime) -> list[str]:
        found = []
        for database in self._files.names(self._root):
            for table in self._files.names(f"{self._root}/{database}"):
                place = f"{self._root}/{database}/{table}"
                if place not in known and self.exists(f"{place}/_delta_log"):
                    (detail,) = spark.sql(f"DESCRIBE DETAIL {self.sql(place)}").collect()
                    if _OURS in detail["properties"] and detail["lastModified"].astimezone(UTC) < before:
                        found.append(place)
        return found

    def remove(self, place: str) -> None:
        """What Delta remembers of the folder goes, too: another table may be made there."""
        self._files.remove(place)
        java, _ = self._files.java()
        java.org.apache.spark.sql.delta.DeltaLog.clearCache()


@dataclass(frozen=True, slots=True)
class _Change:
    """A `Change`, by a session that says with each commit which one it is."""

    tables: Delta
    spark: SparkSession
    place: str
    commit: Commit

    def run(self, statement: str) -> None:
        self.spark.sql(statement).collect()

    def append(self, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(self.place)

    def replace(self, rows: DataFrame, kept: Mapping[str, str]) -> None:
        found = self.tables.layout(self.spark, self.place)
        partitioned, clustered = ([kept[name] for name in columns if name in kept] for columns in found)
        same = {new: old for old, new in kept.items()}
        writer = self.tables.guarded(self.spark, self.place, rows, same).write.format("delta").mode("overwrite")
        if partitioned:
            writer = writer.partitionBy(*partitioned)
        writer.option("overwriteSchema", "true").save(self.place)
        if clustered:  # Delta forgets it where it overwrites a schema
            self.run(f"ALTER TABLE {self.tables.sql(self.place)} CLUSTER BY ({', '.join(map(quoted, clustered))})")

    def clear(self) -> None:
        self.run(f"DELETE FROM {self.tables.sql(self.place)}")

    def alter(self, alteration: Alteration) -> None:
        """Delta does not number an ALTER, so it is looked at just before that none has come between."""
        (clause,) = alteration.clauses()
        newest = self.tables.latest(self.place)
        if newest is not None and newest.generation >= self.commit.generation:
            raise moved(self.place)
        self.run(f"ALTER TABLE {self.tables.sql(self.place)} {clause}")


def _kernel_schema(types: Any, schema: Any) -> Any:
    """Of Arrow's schema of whole numbers and texts."""
    known = {"int64": types.LongType.LONG, "int32": types.IntegerType.INTEGER, "string": types.StringType.STRING}
    made = types.StructType()
    for field in schema:
        made = made.add(field.name, known[str(field.type)])
    return made


def _error_class(error: Exception) -> str | None:
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return f"{error.getCondition()} {type(error).__name__} {str(error)[:200]}".upper()
    return str(error)[:500].upper()
