"""Delta tables. A table is a folder. Its commits have `userMetadata`, and the number of this program's commit as the
version of a transaction (`txn`). Delta skips a commit whose number already exists, and refuses one if another commit
came first."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from consumer.errors import BadConfig, LeaseHeld, SchemaDrift
from consumer.model.layout import Layout, PartitionTransform
from consumer.model.names import TableName
from consumer.sink.columnar.lock import FileLock
from consumer.sink.lake.formats import (
    OURS,
    Alteration,
    Change,
    Commit,
    Rewrite,
    Unfit,
    accepts_rows,
    check_newest,
    delta_commits,
    has_delta,
    has_iceberg,
    java_list,
    layout_clauses,
    outdated_writer,
    overtaken_commit,
    parquet_bytes,
    path_segment,
    read_parquet,
    resolved_properties,
    table_busy,
    table_rolled_back,
)
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.types import column_definitions, spark_literal, spark_name
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APP = "storage-consumer"
_ID, _NUMBER, _SAID = (
    f"spark.databricks.delta.{name}" for name in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata")
)
_MARKED = "spark.databricks.delta.merge.deletionVectors.persistent"
_REWRITTEN = 32 << 20
"""The bytes of a table up to which a MERGE rewrites the files that it changes: marking rows in them takes more jobs."""
_TABLE = {OURS: "true", "delta.feature.timestampNtz": "supported"}
"""Not more than all common readers support."""
_MODE = "delta.columnMapping.mode"
_STATISTICS = "delta.dataSkippingStatsColumns"
_MAPPED = {_MODE: "name"}
"""For a table with a name that Spark cannot write into a Parquet file. Tables of older releases have it, too."""
_PARTED = {"delta.randomizeFilePrefixes": "true"}
"""For a table with partitions: some of their values cannot be names of folders."""
_ONLY_MAPPED = re.compile(r"[ ,;{}()\n\t=]")
"""The characters that such a name has."""
_COPYING = {"delta.enableDeletionVectors": "false"}
_NOT_TO_SET = (
    "delta.appendOnly",
    "delta.columnMapping.maxColumnId",
    "delta.coordinatedCommits.",
    "delta.feature.",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.setTransactionRetentionDuration",  # a late writer could use a number that was forgotten
)
_LOST_TEXTS = ("", "__HIVE_DEFAULT_PARTITION__")
"""Values of a partition column for which Delta would write NULL."""
_PROGRESS = {"delta.logRetentionDuration": "interval 1 days"}
_LONGEST_TEXT = 256
"""The maximum bytes of a text in a column for which the log has statistics."""
_HOOKS = ("CHECKPOINT", "CHECKSUM_SIMPLE")
"""Actions after a commit. Without the first, a start reads all commits since the beginning. Without the second, Delta
and `is_empty` read the names of all files."""
_LIBRARY = re.compile(r"^Kernel-[^/]*/")
"""The prefix that Delta's library adds to the name of the committing program."""
_PHYSICAL, _FIELD_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_LOG = "_delta_log"
_GOING = "_storage_consumer_goes"
"""A file in the folder of a table that is being removed: if the process dies, the remains belong to nobody."""
_CONFLICT = re.compile(r"DELTA_CONCURRENT|CONCURRENT\w*EXCEPTION")
"""Part of the error class if another commit came first."""


_REPLACES = re.compile(r"(CREATE OR )?REPLACE TABLE|CLONE")
"""The operations of commits that replace a table by another one. So does a WRITE that overwrites all rows."""
_OF_SOME_ROWS = ("predicate", "isDynamicPartitionOverwrite")
"""Parameters of a WRITE that overwrites only some rows."""
_UNDONE = "restored an older version, or replaced the table"


class Delta:
    """A `TableFormat`."""

    one_writer = tells_key = False
    tried_with: Mapping[str, str] = {"delta.enableDeletionVectors": "true"}
    ways: Sequence[Mapping[str, str]] = ({_MARKED: "true"}, {_MARKED: "true"}, {_MARKED: "false"})

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
        """Returns the format and its release, for messages."""
        return f"Delta tables, by Spark {spark.version},"

    def location(self, name: TableName, number: int = 1) -> str:
        usual = f"{self._root}/{path_segment(name.database)}/{path_segment(name.table)}"
        return usual if number == 1 else f"{usual}.{number}"

    def exists(self, location: str) -> bool:
        return has_delta(self._files, location) or bool({*self._files.names(location)} - {_LOG})

    def foreign(self, location: str) -> bool:
        return has_iceberg(self._files, location)

    def resolved(self, layout: Layout) -> Layout:
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
        return resolved_properties(layout, _NOT_TO_SET, _COPYING)

    def unfit(self, types: Mapping[str, str], layout: Layout) -> str:
        """Delta writes the values of a partition as text."""
        parts = ((part.column, types[part.column].upper()) for part in layout.partition_by)
        unfit = ((name, kind) for name, kind in parts if kind.startswith(("BINARY", "ARRAY")))
        return next((f"the column {name} is {kind}, by which Delta cannot partition" for name, kind in unfit), "")

    def keeps(self, name: str) -> bool:
        return False

    def apart(self, name: str) -> bool:
        return _ONLY_MAPPED.search(name) is not None

    def create(
        self, spark: SparkSession, location: str, columns: Sequence[str], layout: Layout, key: Sequence[str] = ()
    ) -> None:
        self._clear_log(location)
        kernel, engine = self._kernel()
        schema = self._schema(kernel, ", ".join(columns))
        mapped = any(self.apart(str(field.getName())) for field in schema.fields())
        own_properties = {**(_MAPPED if mapped else {}), **(_PARTED if layout.partition_by else {})}
        properties = {**_TABLE, **own_properties, **dict(layout.properties)}
        if layout == Layout():  # by Delta's library without Spark, which needs no job
            nothing = self._files.java()[0].java.util.Collections.emptyList().iterator()
            builder = self._new(kernel, engine, location, schema, properties)
            self._commit(kernel, engine, builder.build(engine), nothing)
            return
        laid = layout_clauses(replace(layout, properties=tuple(properties.items())))
        spark.sql(f"CREATE TABLE {self.sql(location)} ({', '.join(columns)}) USING DELTA{laid}")

    def _clear_log(self, location: str) -> None:
        """Removes, before a first commit, the log of a process that died within one: it belongs to no table."""
        if not has_delta(self._files, location):
            self._files.remove(f"{location}/{_LOG}")

    def laid_out_by(self, spark: SparkSession, location: str) -> list[str]:
        """Returns all columns for a table without column mapping, because its files contain the names themselves."""
        detail = self.detail(spark, location)
        if not is_mapped(detail):
            return list(self.frame(spark, location).columns)
        return [*detail["partitionColumns"], *(detail["clusteringColumns"] or ())]

    def detail(self, spark: SparkSession, location: str) -> Any:
        (row,) = spark.sql(f"DESCRIBE DETAIL {self.sql(location)}").collect()
        return row

    def guarded(self, spark: SparkSession, location: str, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        texts = {column for column, kind in rows.dtypes if kind == "string" and column in names}
        if texts:
            kernel, engine = self._kernel()
            parts = set(kernel.Table.forPath(engine, location).getLatestSnapshot(engine).getPartitionColumnNames())
            texts = {column for column in texts if names[column] in parts}
        lost = ", ".join(map(spark_literal, _LOST_TEXTS))

        def checked(column: str) -> str:
            if column not in texts:
                return spark_name(column)
            why = spark_literal(
                f"Delta would make NULL of an empty text in {names[column]}, which partitions the table"
            )
            return (
                f"IF({spark_name(column)} IN ({lost}), RAISE_ERROR({why}), {spark_name(column)})"
                f" AS {spark_name(column)}"
            )

        return rows.selectExpr(*map(checked, rows.columns)) if texts else rows

    def _schema(self, kernel: Any, columns: str) -> Any:
        """Returns the library's schema for columns as in a CREATE TABLE."""
        made = self._files.java()[0].org.apache.spark.sql.types.StructType.fromDDL(columns).json()
        return kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(made)

    def sql(self, location: str) -> str:
        return f"delta.`{location.replace('`', '``')}`"

    def version(self, location: str) -> str:
        return next(iter(delta_commits(self._files, location)), "")

    def few(self, location: str) -> tuple[ArrowTable | None, int]:
        """Uses Delta's library without Spark, which needs no job."""
        if not has_delta(self._files, location):
            return None, 0
        kernel, engine = self._kernel()
        snapshot = kernel.Table.forPath(engine, location).getLatestSnapshot(engine)
        number = snapshot.getLatestTransactionVersion(engine, _APP)
        contents, batches = [], snapshot.getScanBuilder().build().getScanFiles(engine)
        while batches.hasNext():
            rows = batches.next().getRows()
            while rows.hasNext():
                path = kernel.internal.InternalScanFileUtils.getAddFileStatus(rows.next()).getPath()
                contents.append(self._files.read(path.removeprefix("file:")))
        return read_parquet(contents), int(number.get()) if number.isPresent() else 0

    def add(self, location: str, rows: ArrowTable, commit: Commit, first: bool = False) -> bool:
        """Uses Delta's library without Spark. It has no `userMetadata`, so the name of the committing program contains
        it."""
        from py4j.protocol import Py4JJavaError

        kernel, engine = self._kernel()
        java, _ = self._files.java()
        none = java.java.util.HashMap()
        with self._alone(location):
            if has_delta(self._files, location):
                table = kernel.Table.forPath(engine, location)
                builder = table.createTransactionBuilder(engine, _metadata(commit), kernel.Operation.WRITE)
            elif not first:
                return False
            else:
                self._clear_log(location)
                builder = self._new(
                    kernel, engine, location, self._schema(kernel, column_definitions(rows)), _PROGRESS, commit
                )
            path = f"{location}/{uuid4()}.parquet"
            try:
                transaction = builder.withTransactionId(engine, _APP, commit.generation).build(engine)
                self._check_newest(location, commit)
                if transaction.getPartitionColumns(engine).size():
                    return False
                fields = {field.getName(): field for field in transaction.getSchema(engine).fields()}
                row_fields = {
                    field.getName(): field for field in self._schema(kernel, column_definitions(rows)).fields()
                }
                has = {name: (field.getDataType(), field.isNullable()) for name, field in fields.items()}
                if not accepts_rows(has, {name: field.getDataType() for name, field in row_fields.items()}, rows):
                    return False
                columns = [fields[name].getMetadata() for name in rows.column_names]
                named = [
                    str(column.getString(_PHYSICAL) or name)
                    for name, column in zip(rows.column_names, columns, strict=True)
                ]
                numbers = [column.getLong(_FIELD_ID) for column in columns]
                rows = rows.rename_columns(named)
                content = parquet_bytes(rows, numbers)
                self._files.write(path, content)
                state = transaction.getTransactionState(engine)
                context = kernel.Transaction.getWriteContext(engine, state, none)
                written = f"file:{path}" if path.startswith("/") else path
                stats = self._statistics(kernel, written, len(content), rows, context.getStatisticsColumns())
                status = kernel.utils.DataFileStatus(written, len(content), int(time.time() * 1000), stats)
                files = _closeable(kernel, java.java.util.Collections.singletonList(status).iterator())
                actions = kernel.Transaction.generateAppendActions(engine, state, files, context)
                before = int(transaction.getReadTableVersion())
                if self._commit(kernel, engine, transaction, actions) > before + 1:  # an append follows any commit
                    self.latest(location)
            except Py4JJavaError as error:
                self._files.remove(path)
                kind = str(error.java_exception.getClass().getName())
                if "Unsupported" in kind:
                    return False
                if "Concurrent" in kind:
                    raise outdated_writer(location) from error
                raise
        return True

    def _statistics(self, kernel: Any, path: str, size: int, rows: ArrowTable, columns: Iterable[Any]) -> Any:
        """Returns the least and greatest values and the numbers of NULL in the file of `rows`, as a Java Optional. If
        other columns have statistics, readers treat a text column without them as one of NULLs only."""
        java, configuration = self._files.java()
        if _has_long_texts(rows):
            return java.java.util.Optional.empty()
        compared = [column for column in columns if _is_compared(rows, column)]
        defaults = kernel.defaults
        file = defaults.engine.hadoopio.HadoopFileIO(configuration).newInputFile(path, size)
        read = defaults.internal.parquet.ParquetStatsReader.readDataFileStatistics
        counted = read(file, self._schema(kernel, column_definitions(rows)), java_list(java, compared))
        return java.java.util.Optional.of(counted)

    def _new(
        self,
        kernel: Any,
        engine: Any,
        location: str,
        schema: Any,
        properties: Mapping[str, str],
        commit: Commit | None = None,
    ) -> Any:
        """Returns a builder for the first commit of a table."""
        property_map = self._files.java()[0].java.util.HashMap()
        for name, value in properties.items():
            property_map.put(name, value)
        table = kernel.Table.forPath(engine, location)
        said = _metadata(commit) if commit is not None else _APP
        builder = table.createTransactionBuilder(engine, said, kernel.Operation.CREATE_TABLE)
        return builder.withSchema(engine, schema).withTableProperties(engine, property_map)

    def _commit(self, kernel: Any, engine: Any, transaction: Any, actions: Any) -> int:
        """Returns the version that the commit made."""
        from py4j.protocol import Py4JJavaError

        done = transaction.commit(engine, kernel.utils.CloseableIterable.inMemoryIterable(_closeable(kernel, actions)))
        for hook in done.getPostCommitHooks():
            if str(hook.getType()) in _HOOKS:
                with suppress(Py4JJavaError):  # a later commit does it again
                    hook.threadSafeInvoke(engine)
        return int(done.getVersion())

    def _kernel(self) -> tuple[Any, Any]:
        java, configuration = self._files.java()
        kernel = java.io.delta.kernel
        return kernel, kernel.defaults.engine.DefaultEngine.create(configuration)

    def frame(self, spark: SparkSession, location: str) -> DataFrame:
        return spark.read.format("delta").load(location)

    def is_empty(self, spark: SparkSession, location: str) -> bool:
        summed = self._sums(location)
        if summed is None:
            return int(self.detail(spark, location)["numFiles"]) == 0
        return int(summed["numFiles"]) == 0

    def _sums(self, location: str) -> Mapping[str, int] | None:
        """Returns Delta's sums for the table's newest version. None if it has none: it writes them if it can."""
        try:
            sums = json.loads(self._files.read(f"{location}/{_LOG}/{self.version(location)}.crc"))
            return {name: int(sums[name]) for name in ("numFiles", "tableSizeBytes")}
        except (OSError, ValueError, KeyError, IndexError):
            return None

    def latest(self, location: str) -> Commit | None:
        """Also checks that the newest commit was built on the one before: Delta commits a change of rows even if
        somebody has restored an older version since the change began."""
        return next((commit for _, commit in list(islice(self.commits(location, checked=2), 2))), None)

    def commits(self, location: str, checked: int = 1) -> Iterator[tuple[str, Commit]]:
        """Raises SchemaDrift if the table is not built on one of this program's `checked` newest commits."""
        versions = delta_commits(self._files, location)
        shown: int | None = int(versions[0]) if versions else 0
        for name in versions:
            version, said = int(name), self._commit_info(location, name)
            texts = (said.get("userMetadata"), _LIBRARY.sub("", said.get("engineInfo", "")))
            commit = next((commit for commit in map(Commit.of, texts) if commit is not None), None)
            if commit is not None:
                if checked > 0 and shown != version:
                    raise table_rolled_back(location, _UNDONE)
                checked, shown = checked - 1, version - 1
                yield str(version), commit
            elif shown == version:
                shown = _shown_by(said, version)
        if checked > 0 and shown is None:
            raise table_rolled_back(location, _UNDONE)

    def is_whole(self, location: str, version: str) -> bool:
        """Only looks at files that later versions have removed."""
        names, number = self._files.names(f"{location}/{_LOG}"), int(version)
        begins = [int(name[:20]) for name in names if ".checkpoint" in name and name[:20].isdigit()]
        versions = sorted(map(int, delta_commits(self._files, location)))
        if min([*versions[:1], *begins], default=0) > 0 and not any(begun <= number for begun in begins):
            return False
        old: set[str] = set()
        new: set[str] = set()
        for later in versions[bisect_right(versions, number) :]:
            actions = list(self._actions(location, f"{later:020}"))
            old |= {action["remove"]["path"] for action in actions if "remove" in action} - new
            new |= {action["add"]["path"] for action in actions if "add" in action} - old
        return all(self._files.exists(f"{location}/{unquote(path)}") for path in old)

    def _actions(self, location: str, version: str, kind: str = "") -> Iterator[dict[str, Any]]:
        """Yields the actions of a version, or those of one kind. Raises SchemaDrift if they cannot be read."""
        path = f"{location}/{_LOG}/{version}.json"
        for line in self._files.read(path).splitlines():
            if line.startswith(f'{{"{kind}'.encode()):
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise SchemaDrift(f"{path} is damaged: a line of it is no JSON") from error

    def _commit_info(self, location: str, version: str) -> dict[str, Any]:
        actions = self._actions(location, version, kind="commitInfo")
        return next((dict(action["commitInfo"]) for action in actions), {})

    @contextmanager
    def committing(self, spark: SparkSession, location: str, commit: Commit) -> Iterator[Change]:
        said = {_ID: _APP, _NUMBER: str(commit.generation), _SAID: _metadata(commit)}
        with self._alone(location):
            self._check_newest(location, commit)
            summed = self._sums(location)
            if summed is not None and summed["tableSizeBytes"] <= _REWRITTEN:
                said[_MARKED] = "false"
            for name, value in said.items():
                spark.conf.set(name, value)
            try:
                with self._conflicts_translated(location, commit.generation):
                    yield _Change(self, spark, location, commit)
            finally:
                for name in said:
                    spark.conf.unset(name)
            if self.latest(location) != commit:
                raise outdated_writer(location)

    def _check_newest(self, location: str, commit: Commit) -> None:
        """Checks the newest commit, unless it was removed from the log with all older ones. A log that begins with
        version 0 has lost none: without a commit of this program it is that of another table."""
        newest = self.latest(location)
        if newest is None:
            versions = delta_commits(self._files, location)
            if not versions or int(versions[-1]) > 0:
                return
        check_newest(location, newest, commit.generation)

    @contextmanager
    def _conflicts_translated(self, location: str, generation: int = 0) -> Iterator[None]:
        """Wraps a commit, or a commit of this program with that number."""
        try:
            yield
        except Exception as error:
            if _CONFLICT.search(_error_class(error)) is None:
                raise
            raise overtaken_commit(location, self.latest(location), generation) from error

    @contextmanager
    def _alone(self, location: str) -> Iterator[None]:
        """Keeps other processes from the table. On a local disk, Delta separates writers only within one process.
        Raises TargetBusy while another process has the table."""
        lock = FileLock(self._staging, "table", "tables.lock", location)
        try:
            lock.take()
        except LeaseHeld as held:
            raise table_busy(location) from held
        try:
            yield
        finally:
            lock.release()

    def compact(self, spark: SparkSession, location: str) -> tuple[int, int]:
        with self._alone(location), self._conflicts_translated(location):
            done = spark.sql(f"OPTIMIZE {self.sql(location)}").collect()[0]["metrics"]
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def expire(self, spark: SparkSession, location: str, hours: int) -> None:
        spark.sql(f"VACUUM {self.sql(location)} RETAIN {hours} HOURS").collect()

    def forget(self, location: str) -> None:
        """Delta does so when it writes a checkpoint."""

    def places(self) -> list[str]:
        locations = []
        for database in self._files.names(self._root):
            for table in self._files.names(f"{self._root}/{database}"):
                location = f"{self._root}/{database}/{table}"
                if has_delta(self._files, location) or self._files.exists(f"{location}/{_GOING}"):
                    locations.append(location)
        return locations

    def is_left(self, spark: SparkSession, location: str, before: datetime) -> bool:
        if self._files.exists(f"{location}/{_GOING}"):
            return True
        detail = self.detail(spark, location)
        return OURS in detail["properties"] and bool(detail["lastModified"].astimezone(UTC) < before)

    def remove(self, location: str) -> None:
        """Also removes what Delta remembers of the folder: another table may be created there."""
        names = self._files.names(location)
        if names:
            self._files.write(f"{location}/{_GOING}", b"")
        for name in names:
            self._files.remove(f"{location}/{name}")
        self._files.remove(location)
        java, _ = self._files.java()
        java.org.apache.spark.sql.delta.DeltaLog.clearCache()


@dataclass(frozen=True, slots=True)
class _Change:
    """A `Change`, by a session that records with each commit which one it is."""

    tables: Delta
    spark: SparkSession
    location: str
    commit: Commit

    def run(self, statement: str) -> None:
        self.spark.sql(statement).collect()

    def append(self, rows: DataFrame) -> None:
        self.tables.frame(self.spark, self.location)  # a missing table would be created
        rows.write.format("delta").mode("append").save(self.location)

    def replace(self, rewrite: Rewrite) -> None:
        """Uses one of Delta's own transactions: Spark's overwrite would make each column nullable, and end the
        clustering."""
        rows, kept = rewrite.rows, rewrite.kept
        self._map_names(rows.columns)
        detail = self.tables.detail(self.spark, self.location)
        layout_columns = detail["partitionColumns"], detail["clusteringColumns"] or ()
        partitioned, clustered = ([kept[name] for name in columns if name in kept] for columns in layout_columns)
        if len(partitioned) == len(rows.columns):  # Delta needs other columns, too
            partitioned = []
        if why := self.tables.unfit(
            dict(rows.dtypes), Layout(partition_by=tuple(map(PartitionTransform, partitioned)))
        ):
            raise Unfit(why)
        same = {new: old for old, new in kept.items()}
        rows = self.tables.guarded(self.spark, self.location, rows, same)
        schema = json.loads(rows.schema.json())
        for column in schema["fields"]:
            column["nullable"] = column["name"] not in rewrite.required
        java, _ = self.tables._files.java()
        written = self.tables._files.java_frame(rows)  # the commit uses the settings of its session
        delta, none = java.org.apache.spark.sql.delta, java.scala.Option.empty()
        transaction = delta.DeltaLog.forTable(written.sparkSession(), self.location).startTransaction()
        if transaction.txnVersion(_APP) >= self.commit.generation:  # the commit fails if it changes meanwhile
            raise outdated_writer(self.location)
        old = transaction.metadata()
        if rewrite.had and [str(name) for name in old.schema().fieldNames()] != list(rewrite.had):
            raise outdated_writer(self.location)
        transaction.updateMetadataForTableOverwrite(
            old.copy(
                old.id(),
                old.name(),
                old.description(),
                old.format(),
                json.dumps(schema),
                _sequence(java, partitioned),
                _with_names(old.configuration(), kept),
                old.createdTime(),
            )
        )
        as_java = java.scala.jdk.javaapi.CollectionConverters.asJava
        actions = [
            delta.actions.SetTransaction(_APP, self.commit.generation, none),
            *(file.remove() for file in as_java(transaction.filterFiles())),
            *as_java(transaction.writeFiles(written)),
        ]
        if layout_columns[1]:
            clustering = delta.skipping.clustering.ClusteredTableUtils
            of_alter = clustering.getClusteringDomainMetadataForAlterTableClusterBy
            actions.extend(as_java(of_alter(_sequence(java, clustered), transaction)))
        overwrite = java.org.apache.spark.sql.SaveMode.Overwrite
        operation = getattr(delta, "DeltaOperations$Write")(overwrite, *[none] * 8)
        transaction.commit(_sequence(java, actions), operation)

    def clear(self) -> None:
        self.run(f"DELETE FROM {self.tables.sql(self.location)}")

    def alter(self, alteration: Alteration) -> None:
        """Delta does not number an ALTER. So this checks just before it that no other commit has come first."""
        (clause,) = alteration.clauses()
        self._map_names([*(name for name, _, _ in alteration.added), *(new for _, new in alteration.renamed)])
        self.tables._check_newest(self.location, self.commit)
        self.run(f"ALTER TABLE {self.tables.sql(self.location)} {clause}")

    def _map_names(self, names: Collection[str]) -> None:
        """Gives the table column mapping if one of `names` needs it, in a commit without this program's text: a process
        that dies after it has not yet done what was asked."""
        if not any(map(self.tables.apart, names)) or is_mapped(self.tables.detail(self.spark, self.location)):
            return
        self.tables._check_newest(self.location, self.commit)
        self.spark.conf.unset(_SAID)
        self.run(f"ALTER TABLE {self.tables.sql(self.location)} SET TBLPROPERTIES ('{_MODE}' = '{_MAPPED[_MODE]}')")
        self.spark.conf.set(_SAID, _metadata(self.commit))


def _metadata(commit: Commit) -> str:
    """Returns the one text that a Delta commit can have."""
    return json.dumps({**commit.flat, **json.loads(commit.text())}, ensure_ascii=False)


def _with_names(properties: Any, kept: Mapping[str, str]) -> Any:
    """Returns a table's properties, one of which names columns, after these columns are renamed."""
    named = properties.get(_STATISTICS)
    if not named.isDefined():
        return properties
    names = [name.strip() for name in str(named.get()).split(",")]
    new_names = [spark_name(kept[bare]) for name in names if (bare := name.strip("`")) in kept]
    return properties.updated(_STATISTICS, ",".join(new_names)) if new_names else properties.removed(_STATISTICS)


def is_mapped(detail: Any) -> bool:
    """Returns whether a table's files have other names for its columns than the table."""
    return bool(detail["properties"].get(_MODE, "none") != "none")


def _shown_by(said: Mapping[str, Any], version: int) -> int | None:
    """Returns the older version whose rows somebody else's commit was built on. None if it has other rows, or does not
    say."""
    operation, parameters = str(said.get("operation", "")), said.get("operationParameters", {})
    if operation == "RESTORE":
        restored = parameters.get("version")
        return int(restored) if restored not in (None, "") else None
    overwrites = operation == "WRITE" and parameters.get("mode") == "Overwrite"
    if _REPLACES.match(operation) or (overwrites and not any(name in parameters for name in _OF_SOME_ROWS)):
        return None
    return version - 1


def _is_compared(rows: ArrowTable, column: Any) -> bool:
    """Returns whether the log can have statistics of that column from `rows`: it does not contain bytes."""
    import pyarrow as pa

    name = ".".join(column.getNames())
    if name not in rows.column_names:  # somebody else has added it
        return False
    return not pa.types.is_binary(rows[name].type)


def _has_long_texts(rows: ArrowTable) -> bool:
    """Returns whether the log would contain complete texts that are too long for it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = (column for column in rows.columns if pa.types.is_string(column.type))
    return any((pc.max(pc.binary_length(column)).as_py() or 0) > _LONGEST_TEXT for column in texts)


def _sequence(java: Any, values: Iterable[Any]) -> Any:
    """Returns a Scala sequence."""
    return java.scala.jdk.javaapi.CollectionConverters.asScala(java_list(java, values)).toSeq()


def _closeable(kernel: Any, items: Any) -> Any:
    return kernel.internal.util.Utils.toCloseableIterator(items)


def _error_class(error: Exception) -> str:
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return f"{error.getCondition()} {type(error).__name__} {str(error)[:200]}".upper()
    return str(error)[:500].upper()
