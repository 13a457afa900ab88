"""Iceberg tables. A table is a name in a catalog. Each commit of ours is a snapshot whose summary says what it is, and
which the tag `storage_consumer` names from then on.

Iceberg itself would put an append behind any other commit. So nothing of ours is visible before `_publish`: rows are
written as a staged snapshot (write-audit-publish), or as a transaction that is not committed. One commit of the
catalog, which fails where the table is not as it was, then moves the branch `main` and the tag together."""

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

from consumer.errors import BadConfig
from consumer.model.layout import Layout
from consumer.model.names import TableName
from consumer.sink.lake.failures import is_of_spark, text_of
from consumer.sink.lake.formats import (
    OURS,
    Alteration,
    Change,
    Commit,
    Rewrite,
    as_parquet,
    check_newest,
    has_delta,
    has_iceberg,
    java_list,
    of_parquet,
    outrun,
    resolved_properties,
    segment,
    takes,
    undone,
)
from consumer.sink.lake.settings import LakeSettings
from consumer.sink.lake.types import columns_of, literal, quoted
from consumer.sink.progress_layout import SCHEMA
from consumer.target import ArrowTable, SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAID = "storage-consumer"
"""Of a snapshot's summary."""
_TAG, _MAIN = "storage_consumer", "main"
_STAGE, _SUMMARY = "spark.wap.id", "spark.sql.iceberg.snapshot-property."
_TABLE = {
    OURS: "true",
    "format-version": "2",
    "write.wap.enabled": "true",
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
    "write.wap.enabled",
)
_COPYING = {f"write.{kind}.mode": "copy-on-write" for kind in ("delete", "merge", "update")}
_PARTED = {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"}
"""Of a table with partitions. A folder could not have the name of a long text."""
_SCRATCH = {OURS: "true", "format-version": "2", "gc.enabled": "false", **_PARTED}
_CONFLICTS = ("CommitFailedException", "ValidationException", "AlreadyExistsException")
"""What is raised where another commit came first."""
_YOUNG = 24 * 3600
"""Seconds. Files that no snapshot has can be those of a commit that is going on until then."""


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
        catalog = f"spark.sql.catalog.{self._name}"
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        for name, value in {**self._properties, "cache-enabled": "false"}.items():
            spark.conf.set(f"{catalog}.{name}", value)

    def called(self, spark: SparkSession) -> str:
        return f"tables of Iceberg {self._java().org.apache.iceberg.IcebergBuild.version()}, by Spark {spark.version},"

    def place(self, name: TableName, number: int = 1) -> str:
        usual = f"{segment(name.database)}.{segment(name.table)}"
        return usual if number == 1 else f"{usual}_{number}"

    def exists(self, place: str) -> bool:
        return bool(self._catalog().tableExists(self._identifier(place)))

    def foreign(self, place: str) -> bool:
        """Who removes files that no snapshot has would remove those of the other table, too."""
        if not self._root:
            return False
        folder = "/".join((self._root, *place.split(".")))
        return has_delta(self._files, folder) or has_iceberg(self._files, folder)

    def resolved(self, layout: Layout) -> Layout:
        return resolved_properties(layout, _NOT_TO_SET, _COPYING)

    def unfit(self, types: Mapping[str, str], layout: Layout) -> str:
        try:
            self._laid_out(self.schema(", ".join(f"{quoted(name)} {kind}" for name, kind in types.items())), layout)
        except Exception as error:
            if not is_of_spark(error):
                raise
            return text_of(error).rpartition("Exception: ")[2]
        return ""

    def keeps(self, name: str) -> bool:
        return bool(self._java().org.apache.iceberg.MetadataColumns.isMetadataColumn(name))

    def apart(self, name: str) -> bool:
        return False

    def create(
        self, spark: SparkSession, place: str, columns: Sequence[str], layout: Layout, key: Sequence[str] = ()
    ) -> None:
        schema = self.schema(", ".join(columns))
        java, named = self._java(), identifying(schema, key)
        numbers = java.java.util.HashSet(java_list(java, (schema.findField(name).fieldId() for name in named)))
        schema = java.org.apache.iceberg.Schema(schema.columns(), numbers)
        own = {**_TABLE, **(_PARTED if layout.partition_by else {}), **dict(layout.properties)}
        self._create(place, schema, own, *self._laid_out(schema, layout))

    def laid_out_by(self, spark: SparkSession, place: str) -> list[str]:
        table = self._load(place)
        fields = [field for laid_out in (table.spec(), table.sortOrder()) for field in _each(laid_out.fields())]
        return [str(table.schema().findColumnName(field.sourceId())) for field in fields]

    def guarded(self, spark: SparkSession, place: str, rows: DataFrame, names: Mapping[str, str]) -> DataFrame:
        return rows

    def sql(self, place: str) -> str:
        return ".".join(map(quoted, (self._name, *place.split("."))))

    def version(self, place: str) -> str:
        return str(self._load(place).operations().current().metadataFileLocation()) if self.exists(place) else ""

    def few(self, place: str) -> tuple[ArrowTable | None, int]:
        """By Iceberg's library without Spark: no job runs for them."""
        if not self.exists(place):
            return None, 0
        table = self._load(place)
        tasks = table.newScan().planFiles()
        try:
            paths = [str(task.file().location()) for task in _each(tasks)]
        finally:
            tasks.close()
        found = of_parquet(self._content(table.io().newInputFile(path)) for path in paths)
        newest = _newest(place, table.operations().current())
        return found, newest.generation if newest is not None else 0

    def add(self, place: str, rows: ArrowTable, commit: Commit, first: bool = False) -> bool:
        """By Iceberg's library without Spark: no job runs for them."""
        import pyarrow as pa

        if any(pa.types.is_nested(field.type) for field in rows.schema):  # what is in them has numbers, too
            return False
        ice = self._java().org.apache.iceberg
        with self._told(place, commit.generation):
            if not self.exists(place):
                if not first:
                    return False
                self._create(place, self.schema(columns_of(rows)), _TABLE)
            table = self._load(place)
            writing = _Writing(self._java(), place, table, commit)
            if table.spec().isPartitioned():
                return False
            rows, fields = _widened(rows), {str(field.name()): field for field in _each(table.schema().columns())}
            own = {str(field.name()): field.type() for field in _each(self.schema(columns_of(rows)).columns())}
            if not takes({name: (field.type(), field.isOptional()) for name, field in fields.items()}, own, rows):
                return False
            numbers = [int(fields[name].fieldId()) for name in rows.column_names]
            path, content = f"{table.location()}/data/{uuid4()}.parquet", as_parquet(rows, numbers)
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

    def frame(self, spark: SparkSession, place: str) -> DataFrame:
        return spark.table(self.sql(place))

    def is_empty(self, spark: SparkSession, place: str) -> bool:
        newest = self._load(place).currentSnapshot()
        return newest is None or newest.summary().get("total-data-files") == "0"

    def latest(self, place: str) -> Commit | None:
        return _newest(place, self._load(place).operations().current())

    def commits(self, place: str) -> Iterator[tuple[str, Commit]]:
        return _commits(place, self._load(place).operations().current())

    def is_whole(self, place: str, version: str) -> bool:
        return True  # a snapshot goes before its files do

    @contextmanager
    def committing(self, spark: SparkSession, place: str, commit: Commit) -> Iterator[Change]:
        with self._told(place, commit.generation):
            yield _Change(self, spark, _Writing(self._java(), place, self._load(place), commit))

    def remove(self, place: str) -> None:
        self._catalog().dropTable(self._identifier(place), True)

    def compact(self, spark: SparkSession, place: str) -> tuple[int, int]:
        """Rows that are deleted go, too."""
        options = "map('min-input-files', '2', 'delete-file-threshold', '1', 'remove-dangling-deletes', 'true')"
        with self._told(place):
            done = self._call(spark, "rewrite_data_files", place, f"options => {options}")
        return int(done["rewritten_data_files_count"]), int(done["added_data_files_count"])

    def expire(self, spark: SparkSession, place: str, hours: int) -> None:
        before = time.time() - hours * 3600
        young = f"older_than => timestamp_seconds({int(min(before, time.time() - _YOUNG))}), prefix_listing => true"
        with self._told(place):
            self._expire(place, before, 1)
            self._call(spark, "remove_orphan_files", place, young)

    def forget(self, place: str) -> None:
        """Each commit writes down all snapshots that there are."""
        self._expire(place, time.time(), 10)

    def _expire(self, place: str, before: float, kept: int) -> None:
        """Snapshots from `before`, in seconds since 1970, but for the newest that are to be `kept`."""
        self._load(place).expireSnapshots().expireOlderThan(int(before * 1000)).retainLast(kept).commit()

    def places(self) -> list[str]:
        catalog = self._catalog()
        return [str(place) for namespace in catalog.listNamespaces() for place in catalog.listTables(namespace)]

    def is_left(self, spark: SparkSession, place: str, before: datetime) -> bool:
        if not self.exists(place):  # the next CREATE of that name takes the folder
            return False
        now = self._load(place).operations().current()
        return bool(now.properties().containsKey(OURS) and now.lastUpdatedMillis() < before.timestamp() * 1000)

    def _call(self, spark: SparkSession, procedure: str, place: str, given: str) -> Any:
        """The row that a procedure of Iceberg's gives back, None where it gives none."""
        table = f"table => {literal(self.sql(place))}"
        found = spark.sql(f"CALL {quoted(self._name)}.system.{procedure}({table}, {given})").collect()
        return found[0] if found else None

    @contextmanager
    def _told(self, place: str, generation: int = 0) -> Iterator[None]:
        """Around a commit, or one of ours with that number."""
        try:
            yield
        except Exception as error:
            if not any(name in str(error) for name in _CONFLICTS):
                raise
            raise outrun(place, self.latest(place), generation) from error

    def schema(self, columns: str) -> Any:
        """Iceberg's, of columns as in a CREATE TABLE."""
        java = self._java()
        made = java.org.apache.spark.sql.types.StructType.fromDDL(columns)
        return java.org.apache.iceberg.spark.SparkSchemaUtil.convert(made)

    @contextmanager
    def scratch(self, data: str, metadata: Any) -> Iterator[tuple[str, Any]]:
        """A table for a while, with the columns of `metadata` under their ids: its name in a statement, and it. Its
        files are in the folder `data`, where they stay."""
        place = f"{SCHEMA}.{uuid4().hex}"
        made = self._create(place, metadata.schema(), _SCRATCH | {"write.data.path": data})
        location = made.location()  # once it is dropped, Iceberg would look for its metadata
        try:
            now = made.operations().current()
            new = self._java().org.apache.iceberg.TableMetadata.buildFrom(now)
            new = new.setCurrentSchema(metadata.schema(), metadata.lastColumnId())
            new = new.setDefaultPartitionSpec(metadata.spec()).setDefaultSortOrder(metadata.sortOrder())
            made.operations().commit(now, new.build())
            yield self.sql(place), made
        finally:  # without its data: a server would not ask whom that belongs to
            self._catalog().dropTable(self._identifier(place), False)
            made.io().deletePrefix(location)

    def _laid_out(self, schema: Any, layout: Layout) -> tuple[Any, Any]:
        """The specification of partitions and the order. Raises what Java does where the columns do not fit."""
        ice = self._java().org.apache.iceberg
        parts, order = ice.PartitionSpec.builderFor(schema), ice.SortOrder.builderFor(schema)
        for part in layout.partition_by:
            width = (part.width,) if part.width else ()
            parts = getattr(parts, part.transform)(part.column, *width)
        for name in layout.cluster_by:
            order = order.asc(name)
        return parts.build(), order.build()

    def _create(
        self, place: str, schema: Any, properties: Mapping[str, str], spec: Any = None, order: Any = None
    ) -> Any:
        catalog, identifier = self._catalog(), self._identifier(place)
        if not catalog.namespaceExists(identifier.namespace()):
            catalog.createNamespace(identifier.namespace())
        builder = catalog.buildTable(identifier, schema).withPartitionSpec(spec).withSortOrder(order)
        return builder.withProperties(self._map(properties)).create()

    def _load(self, place: str) -> Any:
        return self._catalog().loadTable(self._identifier(place))

    def _identifier(self, place: str) -> Any:
        return self._java().org.apache.iceberg.catalog.TableIdentifier.parse(place)

    def _java(self) -> Any:
        return self._files.java()[0]

    def _map(self, values: Mapping[str, str]) -> Any:
        made = self._java().java.util.HashMap()
        for name, value in values.items():
            made.put(name, value)
        return made

    def _catalog(self) -> Any:
        """Of the JVM that is there now."""
        java, configuration = self._files.java()
        if self._opened is None or self._opened[0] is not java:
            build = java.org.apache.iceberg.CatalogUtil.buildIcebergCatalog
            self._opened = java, build(self._name, self._map(self._properties), configuration)
        return self._opened[1]


class _Writing:
    """One commit of ours on its way into a table, which must still be as it was when this began. Raises ProgressMoved
    where its newest commit of ours is not the one before."""

    def __init__(self, java: Any, place: str, table: Any, commit: Commit) -> None:
        self.java, self.ice, self.place, self.table, self.commit = java, java.org.apache.iceberg, place, table, commit
        self.operations = table.operations()
        self.base = self.operations.current()
        check_newest(place, _newest(place, self.base), commit.generation)

    def transacted(self, transaction: Any, operation: Any) -> None:
        """What the transaction has and `operation`, which makes its one snapshot."""
        for key, value in _summary(self.commit).items():
            operation.set(key, value)
        operation.commit()
        made = transaction.currentMetadata()
        builder = self.ice.TableMetadata.buildFrom(made)
        self._without_lost_parts(made, builder)
        self._publish(self.base, builder, made.currentSnapshot().snapshotId())

    def _without_lost_parts(self, made: Any, builder: Any) -> None:
        """While a table knows partitions by a column that is gone, if only of older snapshots, no rows of it can be
        merged. They go, and with them the older snapshots, which nobody could read without them."""
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
        """What Spark writes within, by that session. Another commit that came between would be its parent."""
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
        found = next(one for one in map(snapshots.get, numbers) if one.summary().get("wap.id") == stage)
        if found.parentId() != _snapshot_id(self.base) or _snapshot_id(now) != _snapshot_id(self.base):
            raise outrun(self.place, _newest(self.place, now), self.commit.generation)
        number = found.snapshotId()
        self._publish(now, self.ice.TableMetadata.buildFrom(now).setBranchSnapshot(number, _MAIN), number)

    def _publish(self, now: Any, builder: Any, snapshot: int) -> None:
        """Fails where the table is not as `now` any more."""
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
            rows.writeTo(self.tables.sql(self.writing.place)).append()

    def replace(self, rewrite: Rewrite) -> None:
        """Its files are written by way of a table that nobody reads, as Spark writes only what a table has now. They
        overwrite those that are there: the older snapshots stay, and who reads changes goes on."""
        writing, ice = self.writing, self.writing.ice
        base, kept = writing.base, rewrite.kept
        schema = self._schema(rewrite)
        spec = _rebound(ice.PartitionSpecParser, base.spec(), base.schema(), schema, kept)
        order = _rebound(ice.SortOrderParser, base.sortOrder(), base.schema(), schema, kept)
        builder = ice.TableMetadata.buildFrom(base)
        builder.setCurrentSchema(schema, max(base.lastColumnId(), schema.highestFieldId()))
        new = builder.setDefaultPartitionSpec(spec).setDefaultSortOrder(order).build()
        transaction = ice.Transactions.replaceTableTransaction(writing.place, writing.operations, new)
        all_rows = ice.expressions.Expressions.alwaysTrue()
        operation = transaction.newOverwrite().overwriteByRowFilter(all_rows)
        with self.tables.scratch(f"{writing.table.location()}/data", new) as (name, written):
            rewrite.rows.writeTo(name).append()
            written.refresh()
            for file in _each(written.currentSnapshot().addedDataFiles(written.io())):
                operation.addFile(_of_spec(ice, file, new.spec()))
            writing.transacted(transaction, operation)

    def _schema(self, rewrite: Rewrite) -> Any:
        """Of its rows. A column that stays has the number that it had, where Iceberg reads its older values as the new
        type. One that partitions the table, whose partitions would keep its old name, has none of them."""
        base, ice, kept = self.writing.base, self.writing.ice, rewrite.kept
        marks = dict.fromkeys(rewrite.required, " NOT NULL")
        schema = self.tables.schema(
            ", ".join(f"{quoted(name)} {kind}{marks.get(name, '')}" for name, kind in rewrite.rows.dtypes)
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
        found = identifying(schema, rewrite.key)
        said["identifier-field-ids"] = [field["id"] for field in said["fields"] if field["name"] in found]
        return ice.SchemaParser.fromJson(json.dumps(said))

    def _is_widened(self, number: int, kind: Any) -> bool:
        """Whether Iceberg reads the values of that column as the other type, which can be the same."""
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
            update.addColumn(None, name, self.tables.schema(f"{quoted(name)} {kind}").findType(name))
            _ = update.moveAfter(name, before) if before else update.moveFirst(name)
        for old, new in alteration.renamed:
            update.renameColumn(old, new)
        for name in alteration.loosened:
            update.makeColumnOptional(name)
        update.setIdentifierFields(java_list(self.writing.java, ()))
        update.commit()
        if found := identifying(transaction.currentMetadata().schema(), alteration.key):
            transaction.updateSchema().setIdentifierFields(java_list(self.writing.java, found)).commit()
        self.writing.transacted(transaction, transaction.newFastAppend())


def identifying(schema: Any, key: Sequence[str]) -> Sequence[str]:
    """`key`, where Iceberg takes its columns as those that identify a row; else none."""
    fields = [schema.findField(name) for name in key]
    kinds = ("float", "double")
    taken = all(field is not None and field.isRequired() and str(field.type()) not in kinds for field in fields)
    return key if taken else ()


def _summary(commit: Commit) -> dict[str, str]:
    return {_SAID: commit.text(), **commit.flat}


def _newest(place: str, metadata: Any) -> Commit | None:
    return next((commit for _, commit in _commits(place, metadata)), None)


def _commits(place: str, metadata: Any) -> Iterator[tuple[str, Commit]]:
    """From our newest one on. Where somebody has removed the tag, the branch has it. Raises SchemaDrift where the
    branch is not built on it any more."""
    tag, snapshot = metadata.ref(_TAG), metadata.currentSnapshot()
    if tag is not None:
        if not _is_built_on(metadata, snapshot, tag.snapshotId()):
            raise undone(place, "rolled it back to an older snapshot, or replaced the table")
        snapshot = metadata.snapshot(tag.snapshotId())
    while snapshot is not None:
        if (found := Commit.of(snapshot.summary().get(_SAID))) is not None:
            yield str(snapshot.snapshotId()), found
        snapshot = _parent(metadata, snapshot)


def _is_built_on(metadata: Any, snapshot: Any, ours: int) -> bool:
    """Whether the snapshot `ours` is an ancestor of the other one, or it. Of snapshots between them that have expired
    only their order can tell."""
    while snapshot is not None and snapshot.snapshotId() != ours:
        older = _parent(metadata, snapshot)
        if older is None and snapshot.parentId() is not None:
            return bool(snapshot.sequenceNumber() > metadata.snapshot(ours).sequenceNumber())
        snapshot = older
    return snapshot is not None


def _parent(metadata: Any, snapshot: Any) -> Any:
    """None where it has none, or that has expired."""
    parent = snapshot.parentId()
    return metadata.snapshot(parent) if parent is not None else None


def _rebound(parser: Any, laid_out: Any, old: Any, new: Any, kept: Mapping[str, str]) -> Any:
    """A specification of partitions, or an order, of the schema `old` as one of `new`, without the columns that are
    gone."""
    said, fields = json.loads(parser.toJson(laid_out)), []
    for field in said["fields"]:
        name = str(old.findColumnName(field["source-id"]))
        if name in kept:
            called = {"name": kept[name] + field["name"].removeprefix(name)} if "name" in field else {}
            fields.append({**field, **called, "source-id": new.findField(kept[name]).fieldId()})
    number = {"order-id": 1 if fields else 0} if "order-id" in said else {}
    return parser.fromJson(new, json.dumps({**said, **number, "fields": fields}))


def _of_spec(ice: Any, file: Any, spec: Any) -> Any:
    """`file` in a table where that specification of its partitions has another number."""
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
    """Of the rows that readers see."""
    snapshot = metadata.currentSnapshot()
    return int(snapshot.snapshotId()) if snapshot is not None else None


def _each(found: Any) -> Iterator[Any]:
    """Of an Iterable of Java's."""
    items = found.iterator()
    while items.hasNext():
        yield items.next()


def _write(file: Any, content: bytes) -> None:
    stream = file.create()
    try:
        stream.write(bytearray(content))
    finally:
        stream.close()


def _widened(rows: ArrowTable) -> ArrowTable:
    """Without types that Iceberg does not have."""
    import pyarrow as pa

    small = (pa.int8(), pa.int16())
    return rows.cast(
        pa.schema([field.with_type(pa.int32()) if field.type in small else field for field in rows.schema])
    )
