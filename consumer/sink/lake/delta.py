"""Delta tables. A table is a folder. Its commits carry `userMetadata`, and the number of our commit as a transaction of
its own (`txn`): Delta leaves out a commit whose number is there already, and refuses one that another came before."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import uuid4

from consumer.errors import BadConfig, LeaseHeld
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
    as_parquet,
    busy,
    check_newest,
    delta_commits,
    has_delta,
    has_iceberg,
    java_list,
    laid_out,
    moved,
    of_parquet,
    outrun,
    resolved_properties,
    segment,
    takes,
    undone,
)
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.types import columns_of, literal, quoted
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_APP = "storage-consumer"
_ID, _NUMBER, _SAID = (
    f"spark.databricks.delta.{name}" for name in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata")
)
_MARKED = "spark.databricks.delta.merge.deletionVectors.persistent"
_REWRITTEN = 32 << 20
"""Bytes of a table up to which a MERGE writes the files anew that it changes: to mark rows in them takes more jobs."""
_TABLE = {OURS: "true", "delta.feature.timestampNtz": "supported"}
"""Not more than all usual readers know."""
_MODE = "delta.columnMapping.mode"
_STATISTICS = "delta.dataSkippingStatsColumns"
_MAPPED = {_MODE: "name"}
"""Of a table with a name that no Parquet file of Spark's can have, and of tables of older releases."""
_PARTED = {"delta.randomizeFilePrefixes": "true"}
"""Of a table with partitions: no folder could be called as some of their values."""
_ONLY_MAPPED = re.compile(r"[ ,;{}()\n\t=]")
"""In such a name."""
_COPYING = {"delta.enableDeletionVectors": "false"}
_NOT_TO_SET = (
    "delta.appendOnly",
    "delta.columnMapping.maxColumnId",
    "delta.coordinatedCommits.",
    "delta.feature.",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.setTransactionRetentionDuration",  # a number that is forgotten would be free for a late writer
)
_LOST_TEXTS = ("", "__HIVE_DEFAULT_PARTITION__")
"""Of a column by which a table is partitioned: Delta would write NULL."""
_PROGRESS = {"delta.logRetentionDuration": "interval 1 days"}
_LONGEST_TEXT = 256
"""Bytes of a text whose column the log tells of."""
_HOOKS = ("CHECKPOINT", "CHECKSUM_SIMPLE")
"""What follows a commit: without the first a start reads every commit there ever was, without the second Delta and
`is_empty` look at all files' names."""
_LIBRARY = re.compile(r"^Kernel-[^/]*/")
"""In front of what Delta's library is told of who commits."""
_PHYSICAL, _FIELD_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_LOG = "_delta_log"
_GOING = "_storage_consumer_goes"
"""A file in the folder of a table that goes away: what a death leaves of it is nobody's."""
_CONFLICT = re.compile(r"DELTA_CONCURRENT|CONCURRENT\w*EXCEPTION")
"""In the class of an error that says that another commit came first."""


_REPLACES = re.compile(r"(CREATE OR )?REPLACE TABLE|CLONE")
"""The operations of commits that put another table into the place of one."""
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
        """The format and its release, for messages."""
        return f"Delta tables, by Spark {spark.version},"

    def place(self, name: TableName, number: int = 1) -> str:
        usual = f"{self._root}/{segment(name.database)}/{segment(name.table)}"
        return usual if number == 1 else f"{usual}.{number}"

    def exists(self, place: str) -> bool:
        return has_delta(self._files, place) or bool({*self._files.names(place)} - {_LOG})

    def foreign(self, place: str) -> bool:
        return has_iceberg(self._files, place)

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
        """Delta writes the values of a partition as texts."""
        parts = ((part.column, types[part.column].upper()) for part in layout.partition_by)
        unfit = ((name, kind) for name, kind in parts if kind.startswith(("BINARY", "ARRAY")))
        return next((f"the column {name} is {kind}, by which Delta cannot partition" for name, kind in unfit), "")

    def keeps(self, name: str) -> bool:
        return False

    def apart(self, name: str) -> bool:
        return _ONLY_MAPPED.search(name) is not None

    def create(
        self, spark: SparkSession, place: str, columns: Sequence[str], layout: Layout, key: Sequence[str] = ()
    ) -> None:
        self._clear_log(place)
        kernel, engine = self._kernel()
        schema = self._schema(kernel, ", ".join(columns))
        mapped = any(self.apart(str(field.getName())) for field in schema.fields())
        own = {**(_MAPPED if mapped else {}), **(_PARTED if layout.partition_by else {})}
        properties = {**_TABLE, **own, **dict(layout.properties)}
        if layout == Layout():  # by Delta's library without Spark: no job runs for it
            nothing = self._files.java()[0].java.util.Collections.emptyList().iterator()
            builder = self._new(kernel, engine, place, schema, properties)
            self._commit(kernel, engine, builder.build(engine), nothing)
            return
        laid = laid_out(replace(layout, properties=tuple(properties.items())))
        spark.sql(f"CREATE TABLE {self.sql(place)} ({', '.join(columns)}) USING DELTA{laid}")

    def _clear_log(self, place: str) -> None:
        """Before a first commit: a death within one has left a log that is of no table."""
        if not has_delta(self._files, place):
            self._files.remove(f"{place}/{_LOG}")

    def laid_out_by(self, spark: SparkSession, place: str) -> list[str]:
        """All of a table without column mapping, whose files have the names themselves."""
        detail = self.detail(spark, place)
        if not is_mapped(detail):
            return list(self.frame(spark, place).columns)
        return [*detail["partitionColumns"], *(detail["clusteringColumns"] or ())]

    def detail(self, spark: SparkSession, place: str) -> Any:
        (found,) = spark.sql(f"DESCRIBE DETAIL {self.sql(place)}").collect()
        return found

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

    def _schema(self, kernel: Any, columns: str) -> Any:
        """The library's, of columns as in a CREATE TABLE."""
        made = self._files.java()[0].org.apache.spark.sql.types.StructType.fromDDL(columns).json()
        return kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(made)

    def sql(self, place: str) -> str:
        return f"delta.`{place.replace('`', '``')}`"

    def version(self, place: str) -> str:
        return next(iter(delta_commits(self._files, place)), "")

    def few(self, place: str) -> tuple[ArrowTable | None, int]:
        """By Delta's library without Spark: no job runs for them."""
        if not has_delta(self._files, place):
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

    def add(self, place: str, rows: ArrowTable, commit: Commit, first: bool = False) -> bool:
        """By Delta's library without Spark, which takes no `userMetadata`: the name of who commits says it."""
        from py4j.protocol import Py4JJavaError

        kernel, engine = self._kernel()
        java, _ = self._files.java()
        none = java.java.util.HashMap()
        with self._alone(place):
            if has_delta(self._files, place):
                table = kernel.Table.forPath(engine, place)
                builder = table.createTransactionBuilder(engine, _metadata(commit), kernel.Operation.WRITE)
            elif not first:
                return False
            else:
                self._clear_log(place)
                builder = self._new(kernel, engine, place, self._schema(kernel, columns_of(rows)), _PROGRESS, commit)
            self._check_newest(place, commit)
            path = f"{place}/{uuid4()}.parquet"
            try:
                transaction = builder.withTransactionId(engine, _APP, commit.generation).build(engine)
                if transaction.getPartitionColumns(engine).size():
                    return False
                fields = {field.getName(): field for field in transaction.getSchema(engine).fields()}
                own = {field.getName(): field for field in self._schema(kernel, columns_of(rows)).fields()}
                has = {name: (field.getDataType(), field.isNullable()) for name, field in fields.items()}
                if not takes(has, {name: field.getDataType() for name, field in own.items()}, rows):
                    return False
                columns = [fields[name].getMetadata() for name in rows.column_names]
                named = [
                    str(column.getString(_PHYSICAL) or name)
                    for name, column in zip(rows.column_names, columns, strict=True)
                ]
                numbers = [column.getLong(_FIELD_ID) for column in columns]
                rows = rows.rename_columns(named)
                content = as_parquet(rows, numbers)
                self._files.write(path, content)
                state = transaction.getTransactionState(engine)
                context = kernel.Transaction.getWriteContext(engine, state, none)
                written = f"file:{path}" if path.startswith("/") else path
                stats = java.java.util.Optional.empty()
                # Readers take a text column without values for one that holds NULL, beside columns that have some.
                if not _has_long_texts(rows):
                    told_of = [column for column in context.getStatisticsColumns() if _is_compared(rows, column)]
                    counted = self._statistics(kernel, written, len(content), rows, told_of)
                    stats = java.java.util.Optional.of(counted)
                status = kernel.utils.DataFileStatus(written, len(content), int(time.time() * 1000), stats)
                one = _closeable(kernel, java.java.util.Collections.singletonList(status).iterator())
                actions = kernel.Transaction.generateAppendActions(engine, state, one, context)
                self._commit(kernel, engine, transaction, actions)
            except Py4JJavaError as error:
                self._files.remove(path)
                kind = str(error.java_exception.getClass().getName())
                if "Unsupported" in kind:
                    return False
                if "Concurrent" in kind:
                    raise moved(place) from error
                raise
        return True

    def _statistics(self, kernel: Any, path: str, size: int, rows: ArrowTable, columns: Sequence[Any]) -> Any:
        """The least and greatest values and numbers of NULL that the file of `rows` says."""
        java, configuration = self._files.java()
        defaults = kernel.defaults
        file = defaults.engine.hadoopio.HadoopFileIO(configuration).newInputFile(path, size)
        read = defaults.internal.parquet.ParquetStatsReader.readDataFileStatistics
        return read(file, self._schema(kernel, columns_of(rows)), java_list(java, columns))

    def _new(
        self,
        kernel: Any,
        engine: Any,
        place: str,
        schema: Any,
        properties: Mapping[str, str],
        commit: Commit | None = None,
    ) -> Any:
        """Builds the first commit of a table."""
        given = self._files.java()[0].java.util.HashMap()
        for name, value in properties.items():
            given.put(name, value)
        table = kernel.Table.forPath(engine, place)
        said = _metadata(commit) if commit is not None else _APP
        builder = table.createTransactionBuilder(engine, said, kernel.Operation.CREATE_TABLE)
        return builder.withSchema(engine, schema).withTableProperties(engine, given)

    def _commit(self, kernel: Any, engine: Any, transaction: Any, actions: Any) -> None:
        from py4j.protocol import Py4JJavaError

        done = transaction.commit(engine, kernel.utils.CloseableIterable.inMemoryIterable(_closeable(kernel, actions)))
        for hook in done.getPostCommitHooks():
            if str(hook.getType()) in _HOOKS:
                with suppress(Py4JJavaError):  # a later commit makes one
                    hook.threadSafeInvoke(engine)

    def _kernel(self) -> tuple[Any, Any]:
        java, configuration = self._files.java()
        kernel = java.io.delta.kernel
        return kernel, kernel.defaults.engine.DefaultEngine.create(configuration)

    def frame(self, spark: SparkSession, place: str) -> DataFrame:
        return spark.read.format("delta").load(place)

    def is_empty(self, spark: SparkSession, place: str) -> bool:
        summed = self._summed(place)
        if summed is None:
            return int(self.detail(spark, place)["numFiles"]) == 0
        return int(summed["numFiles"]) == 0

    def _summed(self, place: str) -> Mapping[str, int] | None:
        """What Delta has summed up of the table's newest version; None where it has not: it does if it can."""
        try:
            found = json.loads(self._files.read(f"{place}/{_LOG}/{self.version(place)}.crc"))
            return {name: int(found[name]) for name in ("numFiles", "tableSizeBytes")}
        except (OSError, ValueError, KeyError, IndexError):
            return None

    def latest(self, place: str) -> Commit | None:
        return next((commit for _, commit in self.commits(place)), None)

    def commits(self, place: str) -> Iterator[tuple[str, Commit]]:
        versions, newest = delta_commits(self._files, place), True
        shown: int | None = int(versions[0]) if versions else 0
        for version in versions:
            said = self._commit_info(place, version)
            texts = (said.get("userMetadata"), _LIBRARY.sub("", said.get("engineInfo", "")))
            found = next((commit for commit in map(Commit.of, texts) if commit is not None), None)
            if found is not None:
                if newest and int(version) != shown:
                    raise undone(place, _UNDONE)
                newest = False
                yield str(int(version)), found
            elif newest and shown == int(version):
                shown = _shown_by(said, shown)
        if newest and shown is None:
            raise undone(place, _UNDONE)

    def is_whole(self, place: str, version: str) -> bool:
        """Looks at the files alone that later versions have removed."""
        names, number = self._files.names(f"{place}/{_LOG}"), int(version)
        begins = [int(name[:20]) for name in names if ".checkpoint" in name and name[:20].isdigit()]
        versions = sorted(map(int, delta_commits(self._files, place)))
        if min([*versions[:1], *begins], default=0) > 0 and not any(begun <= number for begun in begins):
            return False
        old: set[str] = set()
        new: set[str] = set()
        for later in versions[bisect_right(versions, number) :]:
            actions = [json.loads(line) for line in self._lines(place, f"{later:020}")]
            old |= {action["remove"]["path"] for action in actions if "remove" in action} - new
            new |= {action["add"]["path"] for action in actions if "add" in action} - old
        return all(self._files.exists(f"{place}/{unquote(path)}") for path in old)

    def _lines(self, place: str, version: str) -> list[bytes]:
        return self._files.read(f"{place}/{_LOG}/{version}.json").splitlines()

    def _commit_info(self, place: str, version: str) -> dict[str, Any]:
        lines = self._lines(place, version)
        line = next((line for line in lines if line.startswith(b'{"commitInfo"')), b'{"commitInfo":{}}')
        return dict(json.loads(line)["commitInfo"])

    @contextmanager
    def committing(self, spark: SparkSession, place: str, commit: Commit) -> Iterator[Change]:
        said = {_ID: _APP, _NUMBER: str(commit.generation), _SAID: _metadata(commit)}
        with self._alone(place):
            self._check_newest(place, commit)
            summed = self._summed(place)
            if summed is not None and summed["tableSizeBytes"] <= _REWRITTEN:
                said[_MARKED] = "false"
            for name, value in said.items():
                spark.conf.set(name, value)
            try:
                with self._told(place, commit.generation):
                    yield _Change(self, spark, place, commit)
            finally:
                for name in said:
                    spark.conf.unset(name)
            if self.latest(place) != commit:
                raise moved(place)

    def _check_newest(self, place: str, commit: Commit) -> None:
        """The log may have none any more."""
        if (newest := self.latest(place)) is not None:
            check_newest(place, newest, commit.generation)

    @contextmanager
    def _told(self, place: str, generation: int = 0) -> Iterator[None]:
        """Around a commit, or one of ours with that number."""
        try:
            yield
        except Exception as error:
            if _CONFLICT.search(_error_class(error)) is None:
                raise
            raise outrun(place, self.latest(place), generation) from error

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
        with self._alone(place), self._told(place):
            done = spark.sql(f"OPTIMIZE {self.sql(place)}").collect()[0]["metrics"]
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def expire(self, spark: SparkSession, place: str, hours: int) -> None:
        spark.sql(f"VACUUM {self.sql(place)} RETAIN {hours} HOURS").collect()

    def forget(self, place: str) -> None:
        """Delta does, where it writes a checkpoint."""

    def places(self) -> list[str]:
        found = []
        for database in self._files.names(self._root):
            for table in self._files.names(f"{self._root}/{database}"):
                place = f"{self._root}/{database}/{table}"
                if has_delta(self._files, place) or self._files.exists(f"{place}/{_GOING}"):
                    found.append(place)
        return found

    def is_left(self, spark: SparkSession, place: str, before: datetime) -> bool:
        if self._files.exists(f"{place}/{_GOING}"):
            return True
        detail = self.detail(spark, place)
        return OURS in detail["properties"] and bool(detail["lastModified"].astimezone(UTC) < before)

    def remove(self, place: str) -> None:
        """What Delta remembers of the folder goes, too: another table may be made there."""
        names = self._files.names(place)
        if names:
            self._files.write(f"{place}/{_GOING}", b"")
        for name in names:
            self._files.remove(f"{place}/{name}")
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
        self.tables.frame(self.spark, self.place)  # a table that is gone would be made anew
        rows.write.format("delta").mode("append").save(self.place)

    def replace(self, rewrite: Rewrite) -> None:
        """By a transaction of Delta's own: Spark's overwrite makes each column nullable, and ends the clustering."""
        rows, kept = rewrite.rows, rewrite.kept
        self._map_names(rows.columns)
        detail = self.tables.detail(self.spark, self.place)
        found = detail["partitionColumns"], detail["clusteringColumns"] or ()
        partitioned, clustered = ([kept[name] for name in columns if name in kept] for columns in found)
        if len(partitioned) == len(rows.columns):  # Delta has no table of these alone
            partitioned = []
        if why := self.tables.unfit(
            dict(rows.dtypes), Layout(partition_by=tuple(map(PartitionTransform, partitioned)))
        ):
            raise Unfit(why)
        same = {new: old for old, new in kept.items()}
        rows = self.tables.guarded(self.spark, self.place, rows, same)
        schema = json.loads(rows.schema.json())
        for column in schema["fields"]:
            column["nullable"] = column["name"] not in rewrite.required
        java, _ = self.tables._files.java()
        written = self.tables._files.java_frame(rows)  # the commit has the settings of its session
        delta, none = java.org.apache.spark.sql.delta, java.scala.Option.empty()
        transaction = delta.DeltaLog.forTable(written.sparkSession(), self.place).startTransaction()
        if transaction.txnVersion(_APP) >= self.commit.generation:  # and the commit fails where it changes meanwhile
            raise moved(self.place)
        old = transaction.metadata()
        if rewrite.had and [str(name) for name in old.schema().fieldNames()] != list(rewrite.had):
            raise moved(self.place)
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
        listed = java.scala.jdk.javaapi.CollectionConverters.asJava
        actions = [
            delta.actions.SetTransaction(_APP, self.commit.generation, none),
            *(file.remove() for file in listed(transaction.filterFiles())),
            *listed(transaction.writeFiles(written)),
        ]
        if found[1]:
            clustering = delta.skipping.clustering.ClusteredTableUtils
            of_alter = clustering.getClusteringDomainMetadataForAlterTableClusterBy
            actions.extend(listed(of_alter(_sequence(java, clustered), transaction)))
        overwrite = java.org.apache.spark.sql.SaveMode.Overwrite
        operation = getattr(delta, "DeltaOperations$Write")(overwrite, *[none] * 8)
        transaction.commit(_sequence(java, actions), operation)

    def clear(self) -> None:
        self.run(f"DELETE FROM {self.tables.sql(self.place)}")

    def alter(self, alteration: Alteration) -> None:
        """Delta does not number an ALTER, so it is looked at just before that none has come between."""
        (clause,) = alteration.clauses()
        self._map_names([*(name for name, _, _ in alteration.added), *(new for _, new in alteration.renamed)])
        self.tables._check_newest(self.place, self.commit)
        self.run(f"ALTER TABLE {self.tables.sql(self.place)} {clause}")

    def _map_names(self, names: Collection[str]) -> None:
        """Gives the table column mapping where one of `names` needs it, in a commit that says nothing of ours: who dies
        behind it has not yet done what is asked."""
        if not any(map(self.tables.apart, names)) or is_mapped(self.tables.detail(self.spark, self.place)):
            return
        self.tables._check_newest(self.place, self.commit)
        self.spark.conf.unset(_SAID)
        self.run(f"ALTER TABLE {self.tables.sql(self.place)} SET TBLPROPERTIES ('{_MODE}' = '{_MAPPED[_MODE]}')")
        self.spark.conf.set(_SAID, _metadata(self.commit))


def _metadata(commit: Commit) -> str:
    """The one text that a commit of Delta's can say."""
    return json.dumps({**commit.flat, **json.loads(commit.text())}, ensure_ascii=False)


def _with_names(properties: Any, kept: Mapping[str, str]) -> Any:
    """A table's properties, of which one names columns, once these are called so."""
    named = properties.get(_STATISTICS)
    if not named.isDefined():
        return properties
    names = [name.strip() for name in str(named.get()).split(",")]
    found = [quoted(kept[bare]) for name in names if (bare := name.strip("`")) in kept]
    return properties.updated(_STATISTICS, ",".join(found)) if found else properties.removed(_STATISTICS)


def is_mapped(detail: Any) -> bool:
    """Whether a table's files have other names for its columns than the table."""
    return bool(detail["properties"].get(_MODE, "none") != "none")


def _shown_by(said: Mapping[str, Any], version: int) -> int | None:
    """The older version whose rows that commit of somebody else was built on; None where it has others, or does not say
    it."""
    operation, restored = str(said.get("operation", "")), said.get("operationParameters", {}).get("version")
    if operation == "RESTORE":
        return int(restored) if restored not in (None, "") else None
    return None if _REPLACES.match(operation) else version - 1


def _is_compared(rows: ArrowTable, column: Any) -> bool:
    """Whether the log can tell of that column by `rows`: it has no bytes."""
    import pyarrow as pa

    name = ".".join(column.getNames())
    if name not in rows.column_names:  # of somebody else, who has added it
        return False
    return not pa.types.is_binary(rows[name].type)


def _has_long_texts(rows: ArrowTable) -> bool:
    """Whether the log would have texts in full that are too long for it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = (column for column in rows.columns if pa.types.is_string(column.type))
    return any((pc.max(pc.binary_length(column)).as_py() or 0) > _LONGEST_TEXT for column in texts)


def _sequence(java: Any, values: Iterable[Any]) -> Any:
    """One of Scala's."""
    return java.scala.jdk.javaapi.CollectionConverters.asScala(java_list(java, values)).toSeq()


def _closeable(kernel: Any, items: Any) -> Any:
    return kernel.internal.util.Utils.toCloseableIterator(items)


def _error_class(error: Exception) -> str:
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException):
        return f"{error.getCondition()} {type(error).__name__} {str(error)[:200]}".upper()
    return str(error)[:500].upper()
