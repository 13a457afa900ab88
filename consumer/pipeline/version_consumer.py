"""TableVersionConsumer: the rows of one DDL interval of one table, as one load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from consumer.ddl.keys import unique_keys
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect, FileSlice, LoadTarget, LoadTask
from consumer.model.names import TableName
from consumer.model.steps import LoadRows, PlannedFile
from consumer.plan.catalog import Catalog, schema_missing
from consumer.ports import LoadRequest

SLICE_BYTES = 64 << 20
"""A file larger than this is read by several tasks."""
POSITION_BITS = 40
"""Positions within a series: file number << 40 | byte offset, so they grow in file order."""


@dataclass(frozen=True, slots=True)
class TableVersionConsumer:
    """Turns a planned load into what the sink is asked about (`request`) and what executors run (`task`)."""

    load: LoadRows
    catalog: Catalog
    dialect: Dialect

    def request(self) -> LoadRequest:
        """Raises SchemaMissing when a folder's schema file is not in the storage."""
        for planned in self.load.files:
            self._check_schema(planned)
        table = self.load.table
        # The columns that hold up to the end of the interval: a file in a newer folder may only hold rows above it.
        history = self._history(table) or sorted(self._schemas(), key=lambda schema: schema.version)[:1]
        return LoadRequest(table, history[-1].columns, unique_keys(self._history(table), self._history))

    def task(self, number: int, target: LoadTarget) -> LoadTask:
        whole = not target.key or target.ordered or not self.dialect.terminator.endswith(b"\n")
        slices = [piece for planned in self.load.files for piece in self._slices(planned, whole)]
        return LoadTask(number, target, self.load.window, tuple(slices), self.dialect)

    def _slices(self, planned: PlannedFile, whole: bool) -> Iterator[FileSlice]:
        file = planned.file
        step = file.size if whole else SLICE_BYTES
        for offset in range(0, max(file.size, 1), max(step, 1)):
            yield FileSlice(
                file.path,
                offset,
                min(step, file.size - offset),
                file.size,
                planned.series,
                (planned.ordinal << POSITION_BITS) + offset,
                planned.exact,
                planned.coarse,
            )

    def _history(self, table: TableName) -> Sequence[SchemaFile]:
        files = self.catalog.by_table.get(table, ())
        return [file for file in files if file.version < self.load.window.upto]

    def _schemas(self) -> list[SchemaFile]:
        found = (self.catalog.schema(planned.file.folder) for planned in self.load.files)
        return [schema for schema in found if schema is not None]

    def _check_schema(self, planned: PlannedFile) -> None:
        if self.catalog.schema(planned.file.folder) is None:
            raise schema_missing(self.load.table, planned.file)
