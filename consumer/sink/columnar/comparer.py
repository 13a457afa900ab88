"""Shared by comparers of typed columns: values that no column can hold, and labels, which files contain as numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import RowRefused
from consumer.model.columns import Column, Family
from consumer.model.load import LoadTarget


class ColumnarComparer(ABC):
    """A part of the `Comparer` port. `target` is the table in the form for loads."""

    target: LoadTarget

    @abstractmethod
    def _expected(self, rows: pa.Table, as_it_is: bool = False) -> pa.Table:
        """Raises RowRefused for a value that its column cannot hold, unless `as_it_is` keeps such a value."""

    def expected(self, rows: pa.Table) -> pa.Table:
        """Returns the normal form of `rows`. A value that its column cannot hold, of a row that no load could write,
        stays as it is in the files."""
        try:
            return self._expected(rows)
        except RowRefused:
            if rows.num_rows == 1:
                return self._expected(rows, as_it_is=True)
            middle = rows.num_rows // 2
            return pa.concat_tables([self.expected(rows.slice(0, middle)), self.expected(rows.slice(middle))])

    def changes(self, rows: pa.Table) -> pa.Table:
        """Returns texts as in the files, and labels as the files' numbers."""
        columns = [labels_to_numbers(column, rows.column(f"c{n}")) for n, column in enumerate(self.target.columns)]
        return pa.table(columns, names=[f"c{n}" for n in range(len(columns))])


def labels_to_numbers(column: Column, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns labels as their numbers. Texts of a column whose labels are not known stay."""
    if not (column.labelled and column.elements):
        return texts
    coded = pc.dictionary_encode(texts.combine_chunks())
    numbers = [_number(column, text) for text in coded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(numbers, pa.large_string()).take(coded.indices)])


def _number(column: Column, text: str) -> str:
    """Returns the number of a label. A text that is no label gets a number that no label has."""
    elements = column.elements
    if text in elements and column.family is Family.ENUM:
        return str(elements.index(text) + 1)
    labels = text.split(",") if text and column.family is Family.SET else []
    declared = all(label in elements for label in labels) and (labels or not text)
    return str(sum(1 << elements.index(label) for label in set(labels))) if declared else str(1 << len(elements))
