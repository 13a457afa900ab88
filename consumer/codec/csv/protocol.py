"""CSV as a protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumer.codec.csv.bounds import read_bounds, read_first
from consumer.codec.csv.form import csv_of, splittable
from consumer.codec.csv.layouts import csv_layouts
from consumer.codec.protocol import RowProtocol
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile


def _has_no_header(dialect: Dialect) -> bool:
    return not csv_of(dialect).output_field_header


def _opened(reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout) -> RowFile:
    from consumer.codec.csv.file import CsvFile

    return CsvFile(reader, piece, target, dialect, layout)


CSV = RowProtocol(
    name="csv",
    extension="csv",
    density=2,
    writes_labels=True,
    splittable=splittable,
    joinable=_has_no_header,
    by_position=_has_no_header,
    layouts=csv_layouts,
    bounds=read_bounds,
    first_ts=read_first,
    opened=_opened,
)
