"""The seam of a format: what Delta and Iceberg do each in its own way. All else is shared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from consumer.model.names import TableName
from consumer.target import ArrowTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit of ours says of itself, as a text in the table's own log. The newest of a table is the truth of it.

    `generation` numbers the commits of a table: each proves that the one before it is the newest. `applied` has, by
    upstream's tables, the commit-ts up to which the table has their rows; `load` and `statement` are what it came of.
    `counted`: of rows of a table with no key, which count once.
    """

    generation: int = 0
    consumer: str = ""
    epoch: int = 0
    applied: Mapping[TableName, int] = field(default_factory=dict)
    load: str = ""
    statement: str = ""
    counted: bool = False

    def following(self, **said: object) -> Commit:
        """The one behind this."""
        return replace(self, generation=self.generation + 1, **{"load": "", "statement": "", "counted": False, **said})  # type: ignore[arg-type]

    def text(self) -> str:
        applied = [[*table, ts] for table, ts in self.applied.items()]
        named = {
            name: getattr(self, name) for name in ("generation", "consumer", "epoch", "load", "statement", "counted")
        }
        return json.dumps({"storage_consumer": {**named, "applied": applied}}, ensure_ascii=False)

    @classmethod
    def of(cls, text: str | None) -> Commit | None:
        """None for a commit that is not ours."""
        try:
            said = json.loads(text or "null")["storage_consumer"]
            applied = {TableName(*place[:2]): int(place[2]) for place in said.pop("applied")}
            return cls(**said, applied=applied)
        except (TypeError, ValueError, KeyError):
            return None


class TableFormat(Protocol):
    """One format. `place` is where a table is: a folder, or a name in a catalog; it stays the same while the table has
    other names."""

    def check(self, spark: SparkSession) -> None:
        """Raises BadConfig where that Spark was started without the format: by somebody else."""

    def called(self, spark: SparkSession) -> str:
        """The format and its release, for messages."""

    def new_place(self, spark: SparkSession, name: TableName) -> str:
        """Where a table is to be made that is called `name`: nothing is there yet."""

    def create(self, spark: SparkSession, place: str, columns: Sequence[str], comment: str) -> None:
        """An empty table; `columns` as in a CREATE TABLE."""

    def sql(self, place: str) -> str:
        """The table's name in a statement."""

    def version(self, place: str) -> str:
        """Of a table: another text behind each commit; "" where it is not there."""

    def few(self, place: str) -> tuple[ArrowTable | None, int]:
        """All rows of a small table, and the number of its newest commit of ours; None where it is not there."""

    def add(self, place: str, rows: ArrowTable, generation: int) -> None:
        """A few rows for such a table, which is made where it is not there, in one commit of that number. Raises
        ProgressMoved where it is not the next one: then nothing was written."""

    def frame(self, spark: SparkSession, place: str) -> DataFrame:
        """Its rows now."""

    def exists(self, spark: SparkSession, place: str) -> bool: ...

    def is_empty(self, spark: SparkSession, place: str) -> bool:
        """Whether it surely has no row; looks at no rows."""

    def latest(self, spark: SparkSession, place: str) -> Commit | None:
        """What the newest commit of ours says; None where the log has none."""

    def committing(self, spark: SparkSession, place: str, commit: Commit) -> AbstractContextManager[None]:
        """Around one statement of SQL or one `append` or `replace`, which become `commit`. Raises ProgressMoved where
        the table's newest commit of ours is not the one before it: then nothing was written."""

    def append(self, rows: DataFrame, place: str) -> None: ...

    def replace(self, rows: DataFrame, place: str) -> None:
        """Its rows and columns become those of `rows`, in one commit."""

    def remove(self, spark: SparkSession, place: str) -> None:
        """It and its rows are gone; it may be gone already."""
