"""TableVersionConsumer: the rows of one DDL interval of one table, as one load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.codec.registry import protocol_of
from consumer.ddl.declared import Definition
from consumer.ddl.shape import Shape
from consumer.errors import CannotBeExact
from consumer.model.afresh import FROM_A_NEW_PREFIX
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.forms import Form
from consumer.model.indexes import KeyColumns
from consumer.model.load import Dialect, FileSlice, Forming, LoadTarget, LoadTask
from consumer.model.names import TableName, same_name, same_names
from consumer.model.steps import LoadRows, PlannedFile, Window
from consumer.model.targets import SAME, Naming
from consumer.plan.catalog import Catalog, schema_missing
from consumer.plan.forms import form_columns
from consumer.plan.late import Stretches
from consumer.target import LoadRequest

SLICE_BYTES = 64 << 20
"""A file larger than this is read by several tasks."""
TOGETHER_BYTES = 64 << 20
"""A load up to this size is one task's anyway."""
POSITION_BITS = 40
"""Positions within a series: file number << 40 | byte offset, so they grow in file order."""


@dataclass(frozen=True, slots=True)
class TableVersionConsumer:
    """Turns a planned load into a request to the sink (`request`) and a task for executors (`task`).

    `seen` are the commit-ts, by partition, that its rows may have; empty if this is not checked.
    """

    load: LoadRows
    catalog: Catalog
    dialect: Dialect
    never_split: bool = False
    """Whether the operator says that no two writers of the changefeed share the table (a partition of it)."""
    seen: Mapping[str, Stretches] = field(default_factory=dict)
    naming: Naming = SAME

    def request(self, absent: tuple[str, ...] = (), collided: bool = False) -> LoadRequest:
        """`absent` are columns that the rows lack; `collided`: parts of the load met RowsCollide. Raises SchemaMissing
        when a folder's schema file is not there, CannotBeExact where the table cannot have its form."""
        self.check_schemas()
        table, form = self.load.table, self.naming.form(self.load.table)
        # The columns that hold up to the end of the interval: a file in a newer folder may only hold rows above it.
        statements = self._history(table)
        history = statements or sorted(self._schemas(), key=lambda schema: schema.version)[:1]
        shape = self.catalog.shape(statements[-1]) if statements else Shape()
        if form is not None:
            return self._formed(form, history[-1].columns, shape, absent, collided)
        return LoadRequest(
            table,
            history[-1].columns,
            shape.unique_keys(history[-1].columns),
            absent,
            shape.index_names,
            shape.told_unique,
            self._labels(history[-1].columns, shape),
            together=self.load.bytes <= TOGETHER_BYTES,
            collided=collided,
            routed=self._routed,
        )

    def _formed(
        self, form: Form, columns: Sequence[Column], shape: Shape, absent: tuple[str, ...], collided: bool
    ) -> LoadRequest:
        """For a table that has no key but its primary one, in the target."""
        table = self.load.table
        if self.dialect.timeless:
            raise CannotBeExact(
                f"rows of this CSV changefeed do not say when they were committed, and the form {form} needs that",
                hint=f"set {protocol_of(self.dialect).commit_ts}, {FROM_A_NEW_PREFIX}",
                table=str(table),
            )
        return LoadRequest(
            table,
            form_columns(form, table, columns, shape),
            absent=absent,
            labels=self._labels(columns, shape),
            together=self.load.bytes <= TOGETHER_BYTES,
            collided=collided,
            routed=self._routed,
        )

    @property
    def _routed(self) -> TableName | None:
        there = self.naming.target(self.load.table)
        return None if there == self.load.table else there

    @property
    def keys(self) -> KeyColumns | None:
        """What the statements tell of the table's unique keys, None where that is not all."""
        statements = self._history(self.load.table)
        return self.catalog.shape(statements[-1]).indexes.key_columns if statements else None

    def had(self) -> frozenset[str]:
        """The columns, in lower case, that the table has in any version that the storage tells of."""
        files = (*self.catalog.by_table.get(self.load.table, ()), *self._schemas())
        return same_names(column.name for file in files for column in file.columns)

    def check_schemas(self) -> None:
        """Raises SchemaMissing when a folder's schema file is not there."""
        for planned in self.load.files:
            if self.catalog.schema(planned.file.folder) is None:
                raise schema_missing(self.load.table, planned.file)

    def _labels(self, columns: Sequence[Column], shape: Shape) -> dict[str, tuple[str, ...]]:
        listed = [column for column in columns if column.type in ("ENUM", "SET")]
        if protocol_of(self.dialect).writes_labels or not listed:
            return {}
        found = {same_name(column.name): column.elements for column in listed}
        known = {name: labels or shape.columns.get(name, Definition()).elements for name, labels in found.items()}
        return {name: labels for name, labels in known.items() if labels}

    def task(self, number: int, target: LoadTarget) -> LoadTask:
        """Raises CannotBeExact if it is unknown how to read CSV rows."""
        protocol = protocol_of(self.dialect)
        whole = not target.key or target.ordered or not protocol.splittable(self.dialect)
        schemas = self._schemas()
        numbers = {schema.path: number for number, schema in enumerate(schemas)}
        slices = [piece for planned in self.load.files for piece in self._slices(planned, whole, numbers)]
        forming = self._forming(target)
        source = target if forming is None else forming.source
        layouts = protocol.layouts(schemas, self.catalog.declared, source, self.dialect)
        window, never_split = self.load.window, self.never_split
        return LoadTask(
            number, target, window, tuple(slices), self.dialect, layouts, self._parts(), never_split, forming
        )

    def _forming(self, target: LoadTarget) -> Forming | None:
        form = self.naming.form(self.load.table)
        if form is None:
            return None
        usual = {same_name(form.name(usual)): at for at, usual in enumerate(form.usual)}
        own = [position for position, name in enumerate(target.names) if same_name(name) not in usual]
        key = tuple(own.index(position) for position in target.key if position in own)
        source = replace(
            target,
            columns=tuple(target.columns[position] for position in own),
            names=tuple(target.names[position] for position in own),
            key=key,
            events=True,
        )
        places = {position: at for at, position in enumerate(own)}
        found = (places.get(n, len(own) + usual.get(same_name(name), 0)) for n, name in enumerate(target.names))
        versions = sorted(file.version for file in self._history(self.load.table))
        return Forming(form, source, tuple(found), tuple(versions))

    def _parts(self) -> tuple[int, ...]:
        """By the number of a series, which of the table's partitions it writes."""
        partition = {planned.series: planned.file.folder.partition for planned in self.load.files}
        numbers = {name: number for number, name in enumerate(sorted(set(partition.values())))}
        return tuple(numbers[partition[series]] for series in sorted(partition))

    def _slices(self, planned: PlannedFile, whole: bool, layouts: Mapping[str, int]) -> Iterator[FileSlice]:
        file = planned.file
        schema = self.catalog.schema(file.folder)
        step = file.size if whole else SLICE_BYTES
        for offset in range(0, max(file.size, 1), max(step, 1)):
            yield FileSlice(
                file.path,
                offset,
                min(step, file.size - offset),
                file.size,
                planned.series,
                (planned.ordinal << POSITION_BITS) + offset,
                self._own(planned.exact, schema),
                planned.coarse,
                layout=0 if schema is None else layouts[schema.path],
                stamp=file.stamp,
                seen=self.seen.get(file.folder.partition, ()),
            )

    def _own(self, window: Window, schema: SchemaFile | None) -> Window:
        """The part of `window` that rows of a folder can be in.

        Rows that are older than the statement that began their folder were sent again. TiCDC chooses the folder by
        the checksum, which ignores the order of columns. If the order has changed, the cells of these rows are
        ambiguous.
        """
        by_position = protocol_of(self.dialect).by_position(self.dialect)
        if schema is None or not by_position or not schema.query or not self.catalog.reordered(schema):
            return window
        return replace(window, after=max(window.after, min(schema.version, window.upto)))

    def _history(self, table: TableName) -> Sequence[SchemaFile]:
        """Those that the table has when the load is written: not the one that ends a window with rows."""
        files, window = self.catalog.by_table.get(table, ()), self.load.window
        return [file for file in files if file.version < window.upto or file.version <= window.after]

    def _schemas(self) -> list[SchemaFile]:
        """The schema files of the load's folders, each once."""
        folders = dict.fromkeys(planned.file.folder for planned in self.load.files)
        found = {(folder.root, folder.version): self.catalog.schema(folder) for folder in folders}
        return [schema for schema in found.values() if schema is not None]
