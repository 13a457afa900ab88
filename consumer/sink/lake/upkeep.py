"""Keeps a lake small: merges the small files of each table, and removes what nobody reads any more.

It may run in parallel to the consumer. If one of the two writes to a table, the other leaves it until later. A table
whose newest commit is missing in the progress is left alone: only a consumer can repair that, and it looks for that
commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError, TargetBusy
from consumer.model.names import TableName
from consumer.sink.lake.failures import errors_translated
from consumer.sink.lake.formats import TableFormat
from consumer.sink.lake.progress import PROGRESS_TABLE, LakeProgress, LakeTable
from consumer.target import UpkeptTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Upkeep:
    """`keep` is the time for which old versions stay readable."""

    spark: SparkSession
    tables: TableFormat
    progress: LakeProgress
    keep: timedelta

    def run(self) -> Iterator[UpkeptTable]:
        hours = int(self.keep / timedelta(hours=1))
        for name in sorted(self.progress.lake_tables):
            self.progress.refresh()
            table = self.progress.lake_tables.get(name)
            if table is None:
                continue
            name_text = str(table.replica.name)
            try:
                with errors_translated(table.replica.name):
                    done = self._upkept(name_text, table, hours)
            except ConsumerError as error:
                done = UpkeptTable(name_text, left=error.message)
            yield done
        with errors_translated():
            begun = self.tables.version(self._location)
        if begun:
            try:
                with errors_translated(PROGRESS_TABLE):
                    self.tables.expire(self.spark, self._location, hours)
            except TargetBusy as busy:
                yield UpkeptTable(str(PROGRESS_TABLE), left=busy.message)
            yield from self._removed()

    def _upkept(self, name_text: str, table: LakeTable, hours: int) -> UpkeptTable:
        newest = self.tables.latest(table.location)
        if newest is not None and newest.generation > table.newest.generation:
            return UpkeptTable(name_text, left="its newest commit is not in the progress yet")
        before, after = self.tables.compact(self.spark, table.location)
        self.tables.expire(self.spark, table.location, hours)
        return UpkeptTable(name_text, before, after)

    def _removed(self) -> Iterator[UpkeptTable]:
        """Removes tables that no name has, because a process died while it created or dropped them. A table that is
        being created is too young. The progress is read again after this check."""
        old = datetime.now(UTC) - self.keep
        with errors_translated():
            places = self.tables.places()
        for location in sorted(set(places) - self._places()):
            try:
                with errors_translated(TableName("", location)):
                    removed = self.tables.is_left(self.spark, location, old) and self._is_unknown(location)
                    if removed:
                        self.tables.remove(location)
            except ConsumerError as error:
                yield UpkeptTable(location, left=error.message)
            else:
                if removed:
                    yield UpkeptTable(location, removed=True)

    def _is_unknown(self, location: str) -> bool:
        self.progress.refresh()
        return location not in self._places()

    def _places(self) -> set[str]:
        return {self._location, *(table.location for table in self.progress.lake_tables.values())}

    @property
    def _location(self) -> str:
        """Returns the location of the progress."""
        return self.tables.location(PROGRESS_TABLE)
