"""Iceberg tables. A table is a name in a catalog. Each commit of this program is a snapshot whose summary identifies
it. The tag `storage_consumer` then names that snapshot.

Iceberg itself would append after any other commit. So nothing of this program is visible before `_publish`: rows are
written as a staged snapshot (write-audit-publish), or as a transaction that is not committed. One commit of the
catalog, which fails if the table has changed, then moves the branch `main` and the tag together.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from consumer.errors import BadConfig, SchemaDrift
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.sink.lake.failures import cause_text, is_lasting, is_of_spark
from consumer.sink.lake.formats import (
    OURS,
    Alteration,
    Change,
    Commit,
    Rewrite,
    accepts_rows,
    check_newest,
    glue_segment,
    has_delta,
    has_iceberg,
    java_list,
    overtaken_commit,
    parquet_bytes,
    path_segment,
    read_parquet,
    resolved_properties,
    table_rolled_back,
)
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.types import column_definitions, spark_literal, spark_name
from consumer.sink.progress_layout import SCHEMA
from consumer.sink.progress_sql import sha256
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGES = "write.wap.enabled"
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_SAID = "storage-consumer"
"""A key of a snapshot's summary."""
_TAG, _MAIN = "storage_consumer", "main"
_STAGE, _SUMMARY = "spark.wap.id", "spark.sql.iceberg.snapshot-property."
_TABLE = {
    OURS: "true",
    "format-version": "2",
    _STAGES: "true",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
}
_NOT_TO_SET = (
    "format-version",
    "gc.enabled",
    "write.data.path",
    "write.folder-storage.path",
    "write.metadata.path",
    "write.object-storage.",
    _STAGES,
)
_COPYING = {f"write.{kind}.mode": "copy-on-write" for kind in ("delete", "merge", "update")}
_PARTED = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
"""For a table with partitions: a long text cannot be the name of a folder."""
_SCRATCH = {OURS: "true", "format-version": "2", "gc.enabled": "false", **_PARTED}
_CONFLICTS = ("CommitFailedException", "ValidationException", "AlreadyExistsException")
"""The errors if another commit came first."""
_YOUNG = 24 * 3600
"""In seconds. Until then, files without a snapshot may belong to a running commit."""


class Iceberg:
    """A `TableFormat`."""

    tells_key = True
    tried_with: Mapping[str, str] = {}
    ways: Sequence[Mapping[str, str]] = ({}, {})

    def __init__(self, settings: LakeSettings, files: SparkSource) -> None:
        self._name, self._properties, self._files = settings.catalog_name, settings.catalog, files
        self._root = settings.root if settings.is_folder else ""
        self.one_writer = settings.catalog["type"] == "hadoop"
        self._opened: tuple[Any, Any] | None = None

    def prepare(self, spark: SparkSession) -> None:
        from py4j.java_gateway import JavaPackage

        if isinstance(self._java().org.apache.iceberg.spark.SparkCatalog, JavaPackage):
            raise BadConfig(
                "this process has started Spark without Iceberg",
                hint="start it with Iceberg's jar, or leave it to this program",
            )
        conf = self._conf()
        if any(spark.conf.get(name, value) != value for name, value in conf.items()):
            # Spark keeps a catalog that it has opened, whatever is set later.
            place = repr([self._properties.get(name) for name in ("type", "uri", "warehouse")])
            self._name = f"{self._name}_{sha256(place)[:8]}"
            conf = self._conf()
        for name, value in conf.items():
            spark.conf.set(name, value)

    def _conf(self) -> dict[str, str]:
        """Returns the settings of a session in which the lake is a catalog."""
        catalog = f"spark.sql.catalog.{self._name}"
        properties = {**self._properties, "cache-enabled": "false"}
        return {catalog: _CATALOG, **{f"{catalog}.{name}": value for name, value in properties.items()}}

    def called(self, spark: SparkSession) -> str:
        return f"tables of Iceberg {self._java().org.apache.iceberg.IcebergBuild.version()}, by Spark {spark.version},"

    def location(self, name: TableName, number: int = 1) -> str:
        segment = glue_segment if self._properties["type"] == "glue" else path_segment
        usual = f"{segment(name.database)}.{segment(name.table)}"
        return usual if number == 1 else f"{usual}_{number}"

    def exists(self, location: str) -> bool:
        return bool(self._catalog().tableExists(self._identifier(location)))

    def foreign(self, location: str) -> bool:
        """The removal of files without a snapshot would also remove those of the other table."""
        if not self._root:
            return False
        folder = self._folder(location)
        return has_delta(self._files, folder) or has_iceberg(self._files, folder)

    def _folder(self, location: str) -> str:
        """Returns where the table is in a lake that is a folder of this machine."""
        return "/".join((self._root, *location.split(".")))

    def resolved(self, layout: Layout) -> Layout:
        return resolved_properties(layout, _NOT_TO_SET, _COPYING)

    def unfit(self, types: Mapping[str, str], layout: Layout) -> str:
        try:
            self._laid_out(self.schema(", ".join(f"{spark_name(name)} {kind}" for name, kind in types.items())), layout)
        except Exception as error:
            if not is_of_spark(error):
                raise
            return cause_text(error).rpartition("Exception: ")[2]
        return ""

    def keeps(self, name: str) -> bool:
        return bool(self._java().org.apache.iceberg.MetadataColumns.isMetadataColumn(name))

    def apart(self, name: str) -> bool:
        return False

    def create(
        self, spark: SparkSession, location: str, columns: Sequence[str], layout: Layout, key: Sequence[str] = ()
    ) -> None:
        schema = self.schema(", ".join(columns))
        java, named = self._java(), identifying(schema, key)
        numbers = java.java.util.HashSet(java_list(java, (schema.findField(name).fieldId() for name in named)))
        schema = java.org.apache.iceberg.Schema(schema.columns(), numbers)
        properties = {**_TABLE, **(_PARTED if layout.partition_by else {}), **dict(layout.properties)}
        self._create(location, schema, properties, *self._laid_out(schema, layout))

    def laid_out_by(self, spark: SparkSession, location: str) -> list[str]:
        table = self._load(location)
        fields = [field for laid_out in (table.spec(), table.sortOrder()) for field in _each(laid_out.fields())]
        return [str(table.schema().findColumnName(field.sourceId())) for field in fields]

    def guarded(self, spark: SparkSession, location: str, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        return rows

    def sql(self, location: str) -> str:
        return ".".join(map(spark_name, (self._name, *location.split("."))))

    def version(self, location: str) -> str:
        return str(self._load(location).operations().current().metadataFileLocation()) if self.exists(location) else ""

    def few(self, location: str) -> tuple[ArrowTable | None, int]:
        """Uses Iceberg's library without Spark, which needs no job."""
        if not self.exists(location):
            return None, 0
        table = self._load(location)
        tasks = table.newScan().planFiles()
        try:
            paths = [str(task.file().location()) for task in _each(tasks)]
        finally:
            tasks.close()
        rows = read_parquet(self._content(table.io().newInputFile(path)) for path in paths)
        newest = _newest(location, table.operations().current())
        return rows, newest.generation if newest is not None else 0

    def add(self, location: str, rows: ArrowTable, commit: Commit, first: bool = False) -> bool:
        """Uses Iceberg's library without Spark, which needs no job."""
        import pyarrow as pa

        if any(pa.types.is_nested(field.type) for field in rows.schema):  # their inner fields have numbers, too
            return False
        ice = self._java().org.apache.iceberg
        with self._conflicts_translated(location, commit.generation):
            if not self.exists(location):
                if not first:
                    return False
                self._create(location, self.schema(column_definitions(rows)), _TABLE)
            table = self._load(location)
            writing = _Writing(self._java(), location, table, commit)
            if table.spec().isPartitioned():
                return False
            rows, fields = _widened(rows), {str(field.name()): field for field in _each(table.schema().columns())}
            row_types = {
                str(field.name()): field.type() for field in _each(self.schema(column_definitions(rows)).columns())
            }
            if not accepts_rows(
                {name: (field.type(), field.isOptional()) for name, field in fields.items()}, row_types, rows
            ):
                return False
            numbers = [int(fields[name].fieldId()) for name in rows.column_names]
            path, content = f"{table.location()}/data/{uuid4()}.parquet", parquet_bytes(rows, numbers)
            _write(table.io().newOutputFile(path), content)
            metrics = ice.parquet.ParquetUtil.fileMetrics(
                table.io().newInputFile(path), ice.MetricsConfig.forTable(table)
            )
            file = ice.DataFiles.builder(table.spec()).withPath(path).withFormat("parquet")
            file = file.withFileSizeInBytes(len(content)).withMetrics(metrics).build()
            transaction = table.newTransaction()
            writing.transacted(transaction, transaction.newFastAppend().appendFile(file))
        return True

    def _content(self, file: Any) -> bytes:
        stream = file.newStream()
        try:
            return bytes(self._java().org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def frame(self, spark: SparkSession, location: str) -> DataFrame:
        return spark.table(self.sql(location))

    def is_empty(self, spark: SparkSession, location: str) -> bool:
        newest = self._load(location).currentSnapshot()
        return newest is None or newest.summary().get("total-data-files") == "0"

    def latest(self, location: str) -> Commit | None:
        return _newest(location, self._load(location).operations().current())

    def commits(self, location: str) -> Iterator[tuple[str, Commit]]:
        return _commits(location, self._load(location).operations().current())

    def is_whole(self, location: str, version: str) -> bool:
        return True  # a snapshot goes before its files do

    @contextmanager
    def committing(self, spark: SparkSession, location: str, commit: Commit) -> Iterator[Change]:
        with self._conflicts_translated(location, commit.generation):
            yield _Change(self, spark, _Writing(self._java(), location, self._load(location), commit))

    def remove(self, location: str) -> None:
        """Removes a table that cannot be read, too. Of such a table on S3, the files remain: only its metadata name
        them."""
        try:
            self._catalog().dropTable(self._identifier(location), True)
        except Exception as error:
            if not is_lasting(error):
                raise
            if self._properties["type"] != "hadoop":
                self._catalog().dropTable(self._identifier(location), False)
            if self._root:
                self._files.remove(self._folder(location))

    def compact(self, spark: SparkSession, location: str) -> tuple[int, int]:
        """Removes deleted rows, too."""
        options = "map('min-input-files', '2', 'delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
        with self._conflicts_translated(location):
            done = self._call(spark, "rewrite_data_files", location, f"options => {options}")
        return int(done["rewritten_data_files_count"]), int(done["added_data_files_count"])

    def expire(self, spark: SparkSession, location: str, hours: int) -> None:
        before = time.time() - hours * 3600
        young = f"older_than => timestamp_seconds({int(min(before, time.time() - _YOUNG))}), prefix_listing => true"
        with self._conflicts_translated(location):
            self._expire(location, before, 1)
            self._call(spark, "remove_orphan_files", location, young)

    def forget(self, location: str) -> None:
        """Each commit writes the list of all existing snapshots."""
        self._expire(location, time.time(), 10)

    def _expire(self, location: str, before: float, kept: int) -> None:
        """Removes snapshots from before `before`, in seconds since 1970, except the newest `kept`."""
        self._load(location).expireSnapshots().expireOlderThan(int(before * 1000)).retainLast(kept).commit()

    def places(self) -> list[str]:
        catalog = self._catalog()
        return [str(location) for namespace in catalog.listNamespaces() for location in catalog.listTables(namespace)]

    def is_left(self, spark: SparkSession, location: str, before: datetime) -> bool:
        if not self.exists(location):  # the next CREATE of that name uses the folder
            return False
        now = self._load(location).operations().current()
        return bool(now.properties().containsKey(OURS) and now.lastUpdatedMillis() < before.timestamp() * 1000)

    def _call(self, spark: SparkSession, procedure: str, location: str, arguments: str) -> Any:
        """Returns the row that a procedure of Iceberg returns, None if it returns none."""
        table = f"table => {spark_literal(self.sql(location))}"
        rows = spark.sql(f"CALL {spark_name(self._name)}.system.{procedure}({table}, {arguments})").collect()
        return rows[0] if rows else None

    @contextmanager
    def _conflicts_translated(self, location: str, generation: int = 0) -> Iterator[None]:
        """Wraps a commit, or a commit of this program with that number."""
        try:
            yield
        except Exception as error:
            if not any(name in str(error) for name in _CONFLICTS):
                raise
            raise overtaken_commit(location, self.latest(location), generation) from error

    def schema(self, columns: str) -> Any:
        """Returns Iceberg's schema for columns as in a CREATE TABLE."""
        java = self._java()
        made = java.org.apache.spark.sql.types.StructType.fromDDL(columns)
        return java.org.apache.iceberg.spark.SparkSchemaUtil.convert(made)

    @contextmanager
    def scratch(self, data: str, metadata: Any) -> Iterator[tuple[str, Any]]:
        """Yields a temporary table, as its name for statements and its object. It has the columns of `metadata` with
        their ids. Its files are in the folder `data`, where they stay."""
        place = f"{SCHEMA}.{uuid4().hex}"
        table = self._create(place, metadata.schema(), _SCRATCH | {"write.data.path": data})
        location = table.location()  # once it is dropped, Iceberg would look for its metadata
        try:
            now = table.operations().current()
            new = self._java().org.apache.iceberg.TableMetadata.buildFrom(now)
            new = new.setCurrentSchema(metadata.schema(), metadata.lastColumnId())
            new = new.setDefaultPartitionSpec(metadata.spec()).setDefaultSortOrder(metadata.sortOrder())
            table.operations().commit(now, new.build())
            yield self.sql(place), table
        finally:  # without its data: a server would not check to whom that belongs
            self._catalog().dropTable(self._identifier(place), False)
            table.io().deletePrefix(location)

    def _laid_out(self, schema: Any, layout: Layout) -> tuple[Any, Any]:
        """Returns the partition specification and the sort order. Raises Java's error if the columns do not fit."""
        ice = self._java().org.apache.iceberg
        parts, order = ice.PartitionSpec.builderFor(schema), ice.SortOrder.builderFor(schema)
        for part in layout.partition_by:
            width = (part.width,) if part.width else ()
            parts = getattr(parts, part.transform)(part.column, *width)
        for name in layout.cluster_by:
            order = order.asc(name)
        return parts.build(), order.build()

    def _create(
        self, location: str, schema: Any, properties: Mapping[str, str], spec: Any = None, order: Any = None
    ) -> Any:
        catalog, identifier = self._catalog(), self._identifier(location)
        if not catalog.namespaceExists(identifier.namespace()):
            catalog.createNamespace(identifier.namespace())
        builder = catalog.buildTable(identifier, schema).withPartitionSpec(spec).withSortOrder(order)
        return builder.withProperties(self._map(properties)).create()

    def _load(self, location: str) -> Any:
        return self._catalog().loadTable(self._identifier(location))

    def _identifier(self, location: str) -> Any:
        return self._java().org.apache.iceberg.catalog.TableIdentifier.parse(location)

    def _java(self) -> Any:
        return self._files.java()[0]

    def _map(self, values: Mapping[str, str]) -> Any:
        made = self._java().java.util.HashMap()
        for name, value in values.items():
            made.put(name, value)
        return made

    def _catalog(self) -> Any:
        """Returns the catalog in the present JVM."""
        java, configuration = self._files.java()
        if self._opened is None or self._opened[0] is not java:
            build = java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog
            self._opened = java, build(self._name, self._map(self._properties), configuration)
        return self._opened[1]


class _Writing:
    """One commit of this program to a table, which must not have changed since this began. Raises ProgressMoved if this
    program's newest commit in the table is not the preceding one."""

    def __init__(self, java: Any, location: str, table: Any, commit: Commit) -> None:
        self.java, self.ice, self.location, self.table, self.commit = (
            java,
            java.org.apache.iceberg,
            location,
            table,
            commit,
        )
        self.operations = table.operations()
        self.base = self.operations.current()
        check_newest(location, _newest(location, self.base), commit.generation)

    def transacted(self, transaction: Any, operation: Any) -> None:
        """Commits the transaction with `operation`, which makes its one snapshot."""
        for key, value in _summary(self.commit).items():
            operation.set(key, value)
        operation.commit()
        made = transaction.currentMetadata()
        builder = self.ice.TableMetadata.buildFrom(made)
        self._without_lost_parts(made, builder)
        self._publish(self.base, builder, made.currentSnapshot().snapshotId())

    def _without_lost_parts(self, made: Any, builder: Any) -> None:
        """Removes partition specifications by a dropped column, even if only older snapshots have them: while the table
        has one, no rows of it can be merged. The older snapshots are removed, too, because nobody could read them
        without these specifications."""
        columns, lost, older = made.schema(), self.java.java.util.HashSet(), self.java.java.util.HashSet()
        for spec in _each(made.specs()):
            if any(columns.findField(field.sourceId()) is None for field in _each(spec.fields())):
                lost.add(spec.specId())
        if lost.isEmpty():
            return
        for snapshot in _each(made.snapshots()):
            if snapshot.snapshotId() != made.currentSnapshot().snapshotId():
                older.add(snapshot.snapshotId())
        builder.removeSnapshots(older)
        self.ice.MetadataUpdate.RemovePartitionSpecs(lost).applyTo(builder)

    @contextmanager
    def staged(self, spark: SparkSession) -> Iterator[None]:
        """Publishes what Spark writes in the context, by that session. If another commit came first, that commit would
        be its parent. Raises SchemaDrift if the table has lost the property by which Spark stages what it writes."""
        if self.base.properties().get(_STAGES) != "true":
            raise SchemaDrift(f"{self.location} has no longer the property {_STAGES} = true, by which rows are staged")
        stage = str(uuid4())
        said = {_STAGE: stage, **{f"{_SUMMARY}{key}": value for key, value in _summary(self.commit).items()}}
        for name, value in said.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in said:
                spark.conf.unset(name)
        now = self.operations.refresh()
        snapshots = now.snapshots()
        numbers = range(snapshots.size() - 1, -1, -1)
        ours = (each for each in map(snapshots.get, numbers) if each.summary().get("wap.id") == stage)
        staged = next(ours, None)  # somebody may have expired it
        before = _snapshot_id(self.base)
        if staged is None or staged.parentId() != before or _snapshot_id(now) != before:
            raise overtaken_commit(self.location, _newest(self.location, now), self.commit.generation)
        number = staged.snapshotId()
        self._publish(now, self.ice.TableMetadata.buildFrom(now).setBranchSnapshot(number, _MAIN), number)

    def _publish(self, now: Any, builder: Any, snapshot: int) -> None:
        """Fails if the table is no longer as in `now`."""
        tag = self.ice.SnapshotRef.tagBuilder(snapshot).build()
        self.operations.commit(now, builder.setRef(_TAG, tag).build())


@dataclass(frozen=True, slots=True)
class _Change:
    """A `Change`."""

    tables: Iceberg
    spark: SparkSession
    writing: _Writing

    def run(self, statement: str) -> None:
        with self.writing.staged(self.spark):
            self.spark.sql(statement).collect()

    def append(self, rows: DataFrame) -> None:
        with self.writing.staged(self.spark):
            rows.writeTo(self.tables.sql(self.writing.location)).append()

    def replace(self, rewrite: Rewrite) -> None:
        """Spark can only write columns that a table has now. So the files are written through a table that nobody
        reads. They overwrite the existing ones: older snapshots stay, and readers of changes can continue."""
        writing, ice = self.writing, self.writing.ice
        base, kept = writing.base, rewrite.kept
        schema = self._schema(rewrite)
        spec = _rebound(ice.PartitionSpecParser, base.spec(), base.schema(), schema, kept)
        order = _rebound(ice.SortOrderParser, base.sortOrder(), base.schema(), schema, kept)
        builder = ice.TableMetadata.buildFrom(base)
        builder.setCurrentSchema(schema, max(base.lastColumnId(), schema.highestFieldId()))
        new = builder.setDefaultPartitionSpec(spec).setDefaultSortOrder(order).build()
        transaction = ice.Transactions.replaceTableTransaction(writing.location, writing.operations, new)
        all_rows = ice.expressions.Expressions.alwaysTrue()
        operation = transaction.newOverwrite().overwriteByRowFilter(all_rows)
        with self.tables.scratch(f"{writing.table.location()}/data", new) as (name, written):
            rewrite.rows.writeTo(name).append()
            written.refresh()
            for file in _each(written.currentSnapshot().addedDataFiles(written.io())):
                operation.addFile(_of_spec(ice, file, new.spec()))
            writing.transacted(transaction, operation)

    def _schema(self, rewrite: Rewrite) -> Any:
        """Returns the schema of the rewritten rows. A column that stays keeps its number if Iceberg reads its older
        values as the new type. A renamed partition column gets a new number, because its partitions would keep its old
        name."""
        base, ice, kept = self.writing.base, self.writing.ice, rewrite.kept
        marks = dict.fromkeys(rewrite.required, " NOT NULL")
        schema = self.tables.schema(
            ", ".join(f"{spark_name(name)} {kind}{marks.get(name, '')}" for name, kind in rewrite.rows.dtypes)
        )
        said, had = (json.loads(ice.SchemaParser.toJson(of)) for of in (schema, base.schema()))
        parts = {int(part.sourceId()) for part in _each(base.spec().fields())}
        before = {
            kept[field["name"]]: field
            for field in had["fields"]
            if field["name"] in kept and (kept[field["name"]] == field["name"] or field["id"] not in parts)
        }
        numbers = itertools.count(base.lastColumnId() + 1)
        for field in said["fields"]:
            nested = isinstance(field["type"], dict)  # an array of FLOAT: there are no others
            old = before.get(field["name"])
            if old is not None and nested and isinstance(old["type"], dict):
                field.update(id=old["id"], type=old["type"])
            elif old is not None and not nested and self._is_widened(old["id"], schema.findType(field["id"])):
                field["id"] = old["id"]
            else:
                field["id"] = next(numbers)
                if nested:
                    field["type"]["element-id"] = next(numbers)
        key_names = identifying(schema, rewrite.key)
        said["identifier-field-ids"] = [field["id"] for field in said["fields"] if field["name"] in key_names]
        return ice.SchemaParser.fromJson(json.dumps(said))

    def _is_widened(self, number: int, kind: Any) -> bool:
        """Returns whether Iceberg reads the values of that column as the other type, which can be the same."""
        old = self.writing.base.schema().findType(number)
        return bool(self.writing.ice.types.TypeUtil.isPromotionAllowed(old, kind))

    def clear(self) -> None:
        transaction = self.writing.table.newTransaction()
        all_rows = self.writing.ice.expressions.Expressions.alwaysTrue()
        self.writing.transacted(transaction, transaction.newDelete().deleteFromRowFilter(all_rows))

    def alter(self, alteration: Alteration) -> None:
        transaction = self.writing.table.newTransaction()
        update = transaction.updateSchema()
        for name in alteration.dropped:
            update.deleteColumn(name)
        for name, kind, before in alteration.added:
            update.addColumn(None, name, self.tables.schema(f"{spark_name(name)} {kind}").findType(name))
            _ = update.moveAfter(name, before) if before else update.moveFirst(name)
        for old, new in alteration.renamed:
            update.renameColumn(old, new)
        for name in alteration.loosened:
            update.makeColumnOptional(name)
        update.setIdentifierFields(java_list(self.writing.java, ()))
        update.commit()
        if key_names := identifying(transaction.currentMetadata().schema(), alteration.key):
            transaction.updateSchema().setIdentifierFields(java_list(self.writing.java, key_names)).commit()
        self.writing.transacted(transaction, transaction.newFastAppend())


def identifying(schema: Any, key: Sequence[str]) -> Sequence[str]:
    """Returns `key` if Iceberg accepts its columns as those that identify a row, or else none."""
    fields = [schema.findField(name) for name in key]
    kinds = ("float", "double")
    taken = all(field is not None and field.isRequired() and str(field.type()) not in kinds for field in fields)
    return key if taken else ()


def _summary(commit: Commit) -> dict[str, str]:
    return {_SAID: commit.text(), **commit.flat}


def _newest(location: str, metadata: Any) -> Commit | None:
    return next((commit for _, commit in _commits(location, metadata)), None)


def _commits(location: str, metadata: Any) -> Iterator[tuple[str, Commit]]:
    """Yields commits from this program's newest one on. If somebody has removed the tag, the branch has the newest one.
    Raises SchemaDrift if the branch is no longer built on it."""
    tag, snapshot = metadata.ref(_TAG), metadata.currentSnapshot()
    if tag is not None:
        if not _is_built_on(metadata, snapshot, tag.snapshotId()):
            raise table_rolled_back(location, "rolled it back to an older snapshot, or replaced the table")
        snapshot = metadata.snapshot(tag.snapshotId())
    while snapshot is not None:
        if (commit := Commit.of(snapshot.summary().get(_SAID))) is not None:
            yield str(snapshot.snapshotId()), commit
        snapshot = _parent(metadata, snapshot)


def _is_built_on(metadata: Any, snapshot: Any, ours: int) -> bool:
    """Returns whether the snapshot `ours` is the other one, or its ancestor. If snapshots between them have expired,
    only their order can decide."""
    while snapshot is not None and snapshot.snapshotId() != ours:
        older = _parent(metadata, snapshot)
        if older is None and snapshot.parentId() is not None:
            return bool(snapshot.sequenceNumber() > metadata.snapshot(ours).sequenceNumber())
        snapshot = older
    return snapshot is not None


def _parent(metadata: Any, snapshot: Any) -> Any:
    """Returns the parent. None if it has none, or if the parent has expired."""
    parent = snapshot.parentId()
    return metadata.snapshot(parent) if parent is not None else None


def _rebound(parser: Any, laid_out: Any, old: Any, new: Any, kept: Mapping[str, str]) -> Any:
    """Returns a partition specification, or a sort order, of the schema `old` for the schema `new`, without dropped
    columns."""
    said, fields = json.loads(parser.toJson(laid_out)), []
    for field in said["fields"]:
        name = str(old.findColumnName(field["source-id"]))
        if name in kept:
            called = {"name": kept[name] + field["name"].removeprefix(name)} if "name" in field else {}
            fields.append({**field, **called, "source-id": new.findField(kept[name]).fieldId()})
    number = {"order-id": 1 if fields else 0} if "order-id" in said else {}
    return parser.fromJson(new, json.dumps({**said, **number, "fields": fields}))


def _of_spec(ice: Any, file: Any, spec: Any) -> Any:
    """Returns `file` for a table in which that partition specification has another number."""
    metrics = ice.Metrics(
        file.recordCount(),
        file.columnSizes(),
        file.valueCounts(),
        file.nullValueCounts(),
        file.nanValueCounts(),
        file.lowerBounds(),
        file.upperBounds(),
    )
    made = ice.DataFiles.builder(spec).withPath(file.location()).withFormat(file.format()).withMetrics(metrics)
    made = made.withFileSizeInBytes(file.fileSizeInBytes()).withPartition(file.partition())
    return made.withSplitOffsets(file.splitOffsets()).build()


def _snapshot_id(metadata: Any) -> int | None:
    """Returns the snapshot with the rows that readers see."""
    snapshot = metadata.currentSnapshot()
    return int(snapshot.snapshotId()) if snapshot is not None else None


def _each(iterable: Any) -> Iterator[Any]:
    """Yields the items of a Java Iterable."""
    items = iterable.iterator()
    while items.hasNext():
        yield items.next()


def _write(file: Any, content: bytes) -> None:
    stream = file.create()
    try:
        stream.write(bytearray(content))
    finally:
        stream.close()


def _widened(rows: ArrowTable) -> ArrowTable:
    """Returns the rows without types that Iceberg does not have."""
    import pyarrow as pa

    small = (pa.int8(), pa.int16())
    return rows.cast(
        pa.schema([field.with_type(pa.int32()) if field.type in small else field for field in rows.schema])
    )
