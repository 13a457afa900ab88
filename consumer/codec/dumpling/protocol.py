"""Dumpling's files as a protocol, beside those of changefeeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from consumer.codec.protocol import Agreed, Declared, RowProtocol
from consumer.errors import CannotBeExact
from consumer.model.export import file_ts, format_of
from consumer.model.files import Bounds, SchemaFile
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.model.names import same_name
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile


def dumpling_layouts(
    schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
) -> tuple[Layout, ...]:
    """The columns without generated ones, which Dumpling leaves out. Raises CannotBeExact where the target keeps one
    of these as a plain column."""
    found = []
    for schema in schemas:
        known = declared(schema)
        generated = {name for name, definition in known.items() if definition.generated}
        if kept := [column.name for column in target.columns if same_name(column.name) in generated]:
            raise CannotBeExact(
                f"upstream computes the column {kept[0]}, so the export does not have it, and the target keeps it as a"
                " plain one",
                hint="leave the column out with [[consumer.columns]], or the table with --tables",
                table=str(target.table),
            )
        found.append(tuple(column for column in schema.columns if same_name(column.name) not in generated))
        if not found[-1]:
            raise CannotBeExact(
                "upstream computes all its columns, so the export has rows without values",
                hint="leave the table out with --tables",
                table=str(target.table),
            )
    return tuple(found)


def _opened(reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout) -> RowFile:
    from consumer.codec.dumpling.file import DumplingFile

    return DumplingFile(reader, piece, target, dialect, layout)


def _unpacked(reader: RangeReader, piece: FileSlice) -> tuple[RangeReader, FileSlice]:
    from consumer.codec.packed import unpacked

    return unpacked(reader, piece)


DUMPLING = RowProtocol(
    name="dumpling",
    extension="",
    density=2,
    commit_ts="",
    splittable=lambda dialect: format_of(dialect).escapes,
    joinable=lambda dialect: False,
    bounds=lambda reader, file, dialect: Bounds(file_ts(file, dialect), file_ts(file, dialect), exact=True),
    first_ts=lambda reader, file, dialect: file_ts(file, dialect),
    opened=_opened,
    sniff=lambda content, whole, schema, declared: None,
    agreed=lambda alike: Agreed(Dialect("dumpling"), commit_ts=True),
    writes_labels=True,
    layouts=dumpling_layouts,
    file_ts=file_ts,
    unpacked=_unpacked,
)
