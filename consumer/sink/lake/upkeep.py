"""What keeps a lake small: the small files of each table are put together, and what nobody reads any more goes away.

It may run beside the consumer. A table that one of the two writes to is left by the other until later. A table whose
newest commit the progress lacks is left alone: only a consumer can make that good, and looks for that commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from consumer.errors import ConsumerError, TargetBusy
from consumer.model.names import TableName
from consumer.sink.lake.failures import told
from consumer.sink.lake.formats import TableFormat
from consumer.sink.lake.progress import PLACE, LakeProgress, LakeTable
from consumer.target import UpkeptTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Upkeep:
    """`keep` is for how long old versions can be read."""

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
            called = str(table.replica.name)
            try:
                with told(table.replica.name):
                    done = self._upkept(called, table, hours)
            except ConsumerError as error:
                done = UpkeptTable(called, left=error.message)
            yield done
        with told():
            begun = self.tables.version(self._place)
        if begun:
            try:
                with told(PLACE):
                    self.tables.expire(self.spark, self._place, hours)
            except TargetBusy as busy:
                yield UpkeptTable(str(PLACE), left=busy.message)
            yield from self._removed()

    def _upkept(self, called: str, table: LakeTable, hours: int) -> UpkeptTable:
        newest = self.tables.latest(table.place)
        if newest is not None and newest.generation > table.newest.generation:
            return UpkeptTable(called, left="its newest commit is not in the progress yet")
        before, after = self.tables.compact(self.spark, table.place)
        self.tables.expire(self.spark, table.place, hours)
        return UpkeptTable(called, before, after)

    def _removed(self) -> Iterator[UpkeptTable]:
        """Tables that no name has, as a process died when it made or dropped them. One that is being made is too young,
        and the progress is read again behind the look."""
        old = datetime.now(UTC) - self.keep
        with told():
            places = self.tables.places()
        for place in sorted(set(places) - self._places()):
            try:
                with told(TableName("", place)):
                    removed = self.tables.is_left(self.spark, place, old) and self._is_unknown(place)
                    if removed:
                        self.tables.remove(place)
            except ConsumerError as error:
                yield UpkeptTable(place, left=error.message)
            else:
                if removed:
                    yield UpkeptTable(place, removed=True)

    def _is_unknown(self, place: str) -> bool:
        self.progress.refresh()
        return place not in self._places()

    def _places(self) -> set[str]:
        return {self._place, *(table.place for table in self.progress.lake_tables.values())}

    @property
    def _place(self) -> str:
        """Of the progress."""
        return self.tables.place(PLACE)
