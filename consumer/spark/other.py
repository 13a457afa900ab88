"""The rows of another server, as `verify` compares them with those of the target. Executor side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.batches import META, change_schema
from consumer.model.columns import Column, Family
from consumer.model.load import LoadTarget
from consumer.target import Comparer

_WITH_FRACTIONS = (Family.DECIMAL, Family.DATETIME, Family.TIMESTAMP, Family.TIME)


@dataclass(frozen=True, slots=True)
class OtherRows:
    """ports.Told. `comparer` reads the other server's table; `places` are the positions there of the columns of
    `target`, -1 for one that it does not have."""

    comparer: Comparer
    target: LoadTarget
    places: tuple[int, ...]

    @property
    def ranges(self) -> int:
        return self.comparer.ranges

    def rows(self, number: int) -> Iterator[pa.Table]:
        kinds = change_schema(self.target).types[META:]
        for batch in self.comparer.held(number):
            changes = self.comparer.changes(batch)
            columns = [
                _spelled(column, changes.column(f"c{place}").cast(kind))
                if place >= 0
                else pa.nulls(batch.num_rows, kind)
                for column, place, kind in zip(self.target.columns, self.places, kinds, strict=True)
            ]
            yield pa.table(columns, names=[f"c{position}" for position in range(len(columns))])


def _spelled(column: Column, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """With as many digits behind the point as upstream's column has: a target can hold the text. None is cut off."""
    if column.family not in _WITH_FRACTIONS or not column.scale:
        return texts
    point, zeros, none = (pa.scalar(text, texts.type) for text in (".", "0" * column.scale, ""))
    pointed = pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, point, none))
    padded = pc.binary_join_element_wise(pointed, zeros, none)
    return pc.replace_substring_regex(padded, rf"(\.\d{{{column.scale}}})0*$", r"\1")
