"""CSV as a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from consumer.codec.csv.bounds import read_bounds, read_first
from consumer.codec.csv.checks import check, key_loss, undecided
from consumer.codec.csv.form import COMMIT_TS, LEFT_OPEN, csv_format, csv_of, csv_table, splittable
from consumer.codec.csv.layouts import csv_layouts
from consumer.codec.csv.settings import OPTIONS
from consumer.codec.protocol import Agreed, Declared, RowProtocol, Sniffed
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile


def _has_no_header(dialect: Dialect) -> bool:
    return not csv_of(dialect).output_field_header


def _opened(reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout) -> RowFile:
    from consumer.codec.csv.file import CsvFile

    return CsvFile(reader, piece, target, dialect, layout)


def _sniff(content: bytes, whole: bool, schema: SchemaFile, declared: Declared) -> Sniffed | None:
    from consumer.codec.csv.sniff import sniff_csv

    return sniff_csv(content, whole, schema, declared(schema))


def _agreed(alike: Sequence[Sniffed]) -> Agreed:
    from consumer.codec.csv.shapes import agreed

    return agreed(alike)


CSV = RowProtocol(
    name="csv",
    extension="csv",
    density=2,
    commit_ts=COMMIT_TS,
    splittable=splittable,
    joinable=_has_no_header,
    bounds=read_bounds,
    first_ts=read_first,
    opened=_opened,
    sniff=_sniff,
    agreed=_agreed,
    writes_labels=True,
    by_position=_has_no_header,
    layouts=csv_layouts,
    tells_updates=lambda dialect: (False, not csv_of(dialect).output_old_value),
    own_options=OPTIONS,
    left_open=LEFT_OPEN,
    options=csv_format,
    table=csv_table,
    check=check,
    undecided=undecided,
    key_loss=key_loss,
)
