"""The format ``ticdc``, as Spark calls it. Workers import this module too: what only the driver needs is imported where
it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from consumer.errors import ConsumerError
from consumer.source.columns import AT, Offset

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from consumer.source.following import Follower
    from consumer.source.planning import Plan


class TicdcSource(DataSource):  # type: ignore[misc]
    """Its plan is made once, with the schema: what is read later is the same, however far the changefeed has come."""

    _plan: Plan | None = None

    @classmethod
    def name(cls) -> str:
        return "ticdc"

    def schema(self) -> StructType:
        from consumer.source.output import spark_schema

        return spark_schema(self._planned())

    def reader(self, schema: StructType) -> TicdcReader:
        from consumer.source.output import narrowed

        plan, self._plan = self._planned(), None  # executors get this object, and have no use for the plan
        return TicdcReader(_in_full(narrowed, plan, schema))

    def streamReader(self, schema: StructType) -> TicdcStream:
        from consumer.source.options import check_stream
        from consumer.source.output import narrowed

        plan, self._plan = self._planned(), None
        _in_full(check_stream, plan.asked)
        return TicdcStream(_in_full(narrowed, plan, schema))

    def _planned(self) -> Plan:
        if self._plan is None:
            from consumer.source.options import ReadOptions
            from consumer.source.planning import plan

            self._plan = _in_full(lambda: plan(ReadOptions.of(self.options)))
        return self._plan


def _in_full(make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except ConsumerError as error:
        from consumer.source.reading import with_hint_in_message

        raise with_hint_in_message(error) from error


class Piece(InputPartition):  # type: ignore[misc]
    """Some `reading.Share` for one task, as Spark carries them."""


class TicdcReader(DataSourceReader):  # type: ignore[misc]
    """It takes no filters from Spark: Spark 4.1 keeps those of one query for other queries of the same DataFrame, which
    would lack the files that they leave out. `from-ts` and `to-ts` leave files out."""

    def __init__(self, plan: Plan) -> None:
        self._files = plan.reader
        self._plan: Plan | None = plan

    def __getstate__(self) -> dict[str, Any]:
        """What executors need."""
        return {"_files": self._files}

    def partitions(self) -> Sequence[InputPartition]:
        from consumer.source.output import packed, shares

        assert self._plan is not None
        found = shares(self._plan)
        return [Piece(some) for some in packed(found, self._plan.asked.partition_bytes)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        from consumer.source.reading import batches

        return iter(()) if partition is None else batches(partition.value, self._files)


class TicdcStream(DataSourceStreamReader):  # type: ignore[misc]
    """Offsets have a commit-ts: a batch has the changes after that of its start, up to that of its end. What else they
    have identifies the table, so that a query that is started again knows it under any name."""

    def __init__(self, plan: Plan) -> None:
        self._files, self._plan = plan.reader, plan
        self._follower: Follower | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What executors need."""
        return {"_files": self._files}

    def initialOffset(self) -> Offset:
        return self._followed.first_offset()

    def latestOffset(self) -> Offset:
        found: Offset = _in_full(self._followed.latest)
        return found

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        from consumer.source.output import packed

        found = _in_full(self._followed.shares, start, end[AT])
        return [Piece(some) for some in packed(found, self._plan.asked.partition_bytes)]

    def commit(self, end: Offset) -> None:
        self._followed.read(end[AT])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from consumer.source.reading import batches

        return batches(partition.value, self._files)

    @property
    def _followed(self) -> Follower:
        if self._follower is None:
            from consumer.source.following import Follower

            self._follower = _in_full(Follower, self._plan)
        return self._follower
