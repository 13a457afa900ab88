"""What comparers of typed columns share: values that no column can hold, and labels, which files carry as numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import RowRefused
from consumer.model.columns import Column, Family
from consumer.model.load import LoadTarget


class ColumnarComparer(ABC):
    """A part of the `Comparer` port. `target` is the table as a load has it."""

    target: LoadTarget

    @abstractmethod
    def _expected(self, rows: pa.Table, as_it_is: bool = False) -> pa.Table:
        """Raises RowRefused for a value that its column cannot hold, unless that stays `as_it_is`."""

    def expected(self, rows: pa.Table) -> pa.Table:
        """A value that its column cannot hold, of a row that no load could write, stays as the files have it."""
        try:
            return self._expected(rows)
        except RowRefused:
            if rows.num_rows == 1:
                return self._expected(rows, as_it_is=True)
            middle = rows.num_rows // 2
            return pa.concat_tables([self.expected(rows.slice(0, middle)), self.expected(rows.slice(middle))])

    def changes(self, rows: pa.Table) -> pa.Table:
        """Texts are as files carry them, but for labels, which files carry as numbers."""
        columns = [numbered(column, rows.column(f"c{n}")) for n, column in enumerate(self.target.columns)]
        return pa.table(columns, names=[f"c{n}" for n in range(len(columns))])


def numbered(column: Column, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels as their numbers. Texts of a column that has no known labels stay."""
    if not (column.labelled and column.elements):
        return texts
    coded = pc.dictionary_encode(texts.combine_chunks())
    numbers = [_number(column, text) for text in coded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(numbers, pa.large_string()).take(coded.indices)])


def _number(column: Column, text: str) -> str:
    """Of a text that is no label, a number that none has."""
    elements = column.elements
    if text in elements and column.family is Family.ENUM:
        return str(elements.index(text) + 1)
    labels = text.split(",") if text and column.family is Family.SET else []
    known = all(label in elements for label in labels) and (labels or not text)
    return str(sum(1 << elements.index(label) for label in set(labels))) if known else str(1 << len(elements))
