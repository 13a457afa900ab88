"""Dumpling's files as a protocol, in addition to those of changefeeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from consumer.codec.protocol import AgreedDialect, Declared, RowProtocol, Sniffed
from consumer.errors import CannotBeExact
from consumer.model.export import file_ts, format_of
from consumer.model.files import Bounds, DataFile, SchemaFile
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.model.names import same_name
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile


_AGAIN = "run load-export again"
_LEAVE_OUT = f"leave the table out with --tables, then {_AGAIN}"


def dumpling_layouts(
    schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
) -> tuple[Layout, ...]:
    """Returns the columns without generated ones, which Dumpling leaves out. Raises CannotBeExact if the target keeps
    one of these as a plain column."""
    layouts = []
    for schema in schemas:
        definitions = declared(schema)
        generated = {name for name, definition in definitions.items() if definition.generated}
        kept = [at for at, column in enumerate(target.columns) if same_name(column.name) in generated]
        if kept:
            # Rules about columns keep those of the key, and refuse tables without one.
            way = "leave the column out of this table with [[consumer.columns]], or the table with --tables"
            raise CannotBeExact(
                f"upstream computes the column {target.columns[kept[0]].name}, so the export does not have it, and the"
                " target keeps it as a plain one",
                hint=f"{way}; then {_AGAIN}" if target.key and not {*kept} & {*target.key} else _LEAVE_OUT,
                table=str(target.table),
            )
        layouts.append(tuple(column for column in schema.columns if same_name(column.name) not in generated))
        if not layouts[-1]:
            raise CannotBeExact(
                "upstream computes all its columns, so the export has rows without values",
                hint=_LEAVE_OUT,
                table=str(target.table),
            )
    return tuple(layouts)


class Dumpling(RowProtocol):
    name = "dumpling"
    extension = ""
    density = 2
    commit_ts = ""
    writes_labels = True
    writes_computed = False

    def splittable(self, dialect: Dialect) -> bool:
        return format_of(dialect).escapes

    def joinable(self, dialect: Dialect) -> bool:
        return False

    def bounds(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> Bounds:
        moment = file_ts(file, dialect)
        return Bounds(moment, moment, exact=True)

    def first_ts(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> int:
        return file_ts(file, dialect)

    def opened(
        self, reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout
    ) -> RowFile:
        from consumer.codec.dumpling.file import DumplingFile

        return DumplingFile(reader, piece, target, dialect, layout)

    def sniff(self, content: bytes, whole: bool, schema: SchemaFile, declared: Declared) -> Sniffed | None:
        return None

    def agreed(self, alike: Sequence[Sniffed]) -> AgreedDialect:
        return AgreedDialect(Dialect("dumpling"), commit_ts=True)

    def layouts(
        self, schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
    ) -> tuple[Layout, ...]:
        return dumpling_layouts(schemas, declared, target, dialect)

    def file_ts(self, file: DataFile, dialect: Dialect) -> int:
        return file_ts(file, dialect)

    def unpacked(self, reader: RangeReader, piece: FileSlice) -> tuple[RangeReader, FileSlice]:
        from consumer.codec.packed import unpacked_slice

        return unpacked_slice(reader, piece)


DUMPLING = Dumpling()
