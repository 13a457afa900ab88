"""A lake as the replica of random statements: its tables, their columns and rows, as Spark reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from consumer.model.progress import is_parallel_load
from consumer.sink import sink_for
from consumer.sink.lake.merge import Merging
from consumer.sink.lake.progress import LakeProgress
from consumer.sink.lake.statements import Executing
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.spark.shared import SharedSpark
from consumer.target import Sink, TargetOptions
from tests.support.crashes import Fuse
from tests.support.lakes import lake_tables
from tests.support.random_ddl.duckdb_replica import as_kept
from tests.support.random_ddl.original import Snapshot
from tests.support.random_ddl.replica import Replica


class LakeReplica(Replica):
    """In `folder`, where it has another place whenever it is emptied: Spark remembers what was in one. Rows are decoded
    in this process, which is sooner; `loader` has the Spark of the lake."""

    def __init__(self, lake: str, folder: Path, loader: SparkLoader) -> None:
        self._lake, self._folder, self._loader, self._places = lake, folder, loader, count()
        super().__init__("", self._state, _kept, self._elsewhere)
        self._elsewhere()

    def _elsewhere(self) -> None:
        self.url = f"{self._lake}://{self._folder}/lake{next(self._places)}"

    def _sink(self, uri: str, options: TargetOptions) -> Sink:
        return sink_for(uri, replace(options, spark=SharedSpark(SparkSettings(), self._loader)))

    def _state(self) -> Snapshot:
        """A lake has no databases that could be empty."""
        found = lake_tables(self.url, self._loader)
        return {
            str(name): _content(table.column_names, map(dict.values, table.to_pylist()))
            for name, table in found.items()
            if not is_parallel_load(name)
        }

    @contextmanager
    def _dying(self, fuse: Fuse) -> Iterator[None]:
        """Also in front of a commit of a table or of the progress, and behind it."""
        with (
            super()._dying(fuse),
            patch.object(Merging, "publish", fuse.around(Merging.publish)),
            patch.object(Executing, "run", fuse.around(Executing.run)),
            patch.object(LakeProgress, "_save", fuse.around(LakeProgress._save)),
        ):
            yield


def _content(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> dict[str, Any]:
    return {"columns": columns, "rows": sorted((tuple(map(_plain, row)) for row in rows), key=repr)}


def _plain(value: Any) -> Any:
    """Whole numbers have other types in a lake."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return Decimal(value) if isinstance(value, int) else value


def _kept(original: Snapshot) -> Snapshot:
    """What a DuckDB replica keeps, but for databases."""
    kept = as_kept(original)
    return {name: _content(found["columns"], found["rows"]) for name, found in kept.items() if found}
