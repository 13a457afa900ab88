"""Stages the rows of loads as Parquet, in the lake's types. The driver merges the files, which Spark reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consumer.changes.identity import identities
from consumer.errors import RowRefused
from consumer.model.load import LoadTarget
from consumer.sink.columnar.writer import ParquetSession
from consumer.sink.lake.types import to_lake
from consumer.sink.refused import refused_changes

LOST = b"storage_consumer.lost"
"""A key in the metadata of a staged file: how many values became NULL."""


@dataclass(frozen=True, slots=True)
class LakeWriter:
    """`folder` belongs to one load. Once it is gone, nothing can be staged in it."""

    folder: str

    @contextmanager
    def session(self, patience: float = 0.0) -> Iterator[LakeSession]:
        yield LakeSession(self.folder)


class LakeSession(ParquetSession):
    def _stage(self, target: LoadTarget, changes: pa.Table, columns: dict[str, pa.ChunkedArray]) -> str:
        lost = 0
        for position, column in enumerate(target.columns):
            values, in_key = changes.column(f"c{position}"), position in target.key

            def convert(values: pa.ChunkedArray, column=column, in_key=in_key) -> tuple[pa.ChunkedArray, int]:  # type: ignore[no-untyped-def]
                return to_lake(column, values, in_key)

            try:
                columns[f"c{position}"], missing = convert(values)
            except RowRefused as error:
                raise refused_changes(convert, values, target, changes) from error
            lost += missing
        columns["row"] = pa.chunked_array([identities(changes, target.key).view(np.int64)])
        table = pa.table(columns).replace_schema_metadata({LOST: str(lost)})
        return self._save(target, table, [f"c{n}" for n in target.key])  # a MERGE reads no files beyond these
