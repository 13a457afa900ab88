"""CSV as a protocol, and which columns its rows have: from schema files, and from statements or the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from consumer.codec.csv.bounds import read_csv_bounds, read_csv_first_ts
from consumer.codec.csv.options import (
    COMMIT_TS,
    LEFT_OPEN,
    OPTIONS,
    CsvFormat,
    check_csv_options,
    csv_format,
    csv_key_loss,
    csv_options,
    csv_table,
    is_splittable,
    undecided_csv_options,
)
from consumer.codec.protocol import AgreedDialect, Declared, RowProtocol, Sniffed, Undecided
from consumer.errors import BadConfig, CannotBeExact, Code
from consumer.model.files import Bounds, DataFile, SchemaFile
from consumer.model.hints import FROM_A_NEW_PREFIX
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.model.names import same_name, same_names
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile
    from consumer.ddl.declared import Definition


def csv_layouts(
    schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
) -> tuple[Layout, ...]:
    """Returns the layout of the rows in the folders of each of `schemas`: its columns without hidden and virtual ones,
    with the labels of ENUM and SET.

    If the statements in storage do not declare which columns are virtual, the target decides. If neither does, a column
    counts as one that rows have: the number of cells, or the header, shows if that is wrong. Raises CannotBeExact if
    the labels of a column are unknown, and for rows of a table with no key whose updates do not have the old row.
    """
    if schemas and not target.key and not csv_options(dialect).output_old_value:
        raise CannotBeExact(
            "the rows of a table with no key do not say what an updated row was, and some releases write updates as"
            " inserts",
            hint=f"set output-old-value=true in the changefeed's [sink.csv], {FROM_A_NEW_PREFIX}",
            table=str(target.table),
            code=Code.NO_KEY,
        )
    virtual = same_names(target.virtual)
    layouts = tuple(_layout(schema, declared(schema), virtual) for schema in schemas)
    for layout in layouts:
        _check_labels(layout, target)
    return layouts


def _layout(schema: SchemaFile, declared: Mapping[str, Definition], virtual: Collection[str]) -> Layout:
    columns = [(column, declared.get(same_name(column.name))) for column in schema.columns if not column.hidden]
    return tuple(
        column if definition is None else replace(column, elements=column.elements or definition.elements)
        for column, definition in columns
        if not (same_name(column.name) in virtual if definition is None else definition.virtual)
    )


def _check_labels(layout: Layout, target: LoadTarget) -> None:
    written = {column.name: column.elements for column in layout}
    for column in target.columns:
        if column.labelled and not (column.elements or written.get(column.name)):
            raise CannotBeExact(
                f"CSV holds the labels of column {column.name}, of type {column.type}, and neither the statements in"
                " the storage nor the target define their numbers",
                hint="use a MySQL-compatible target that has the table with its labels, or leave it out with --tables",
                table=str(target.table),
            )


class Csv(RowProtocol):
    name = "csv"
    extension = "csv"
    density = 2
    commit_ts = COMMIT_TS
    writes_labels = True
    own_options = OPTIONS
    left_open = LEFT_OPEN

    def splittable(self, dialect: Dialect) -> bool:
        return is_splittable(dialect)

    def joinable(self, dialect: Dialect) -> bool:
        return not csv_options(dialect).output_field_header

    def bounds(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> Bounds:
        return read_csv_bounds(reader, file, dialect)

    def first_ts(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> int:
        return read_csv_first_ts(reader, file, dialect)

    def opened(
        self, reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout
    ) -> RowFile:
        from consumer.codec.csv.file import CsvFile

        return CsvFile(reader, piece, target, dialect, layout)

    def sniff(self, content: bytes, whole: bool, schema: SchemaFile, declared: Declared) -> Sniffed | None:
        from consumer.codec.csv.sniff import sniff_csv

        return sniff_csv(content, whole, schema, declared(schema))

    def agreed(self, alike: Sequence[Sniffed]) -> AgreedDialect:
        from consumer.codec.csv.sniff import agree_on_csv

        return agree_on_csv(alike)

    def layouts(
        self, schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
    ) -> tuple[Layout, ...]:
        return csv_layouts(schemas, declared, target, dialect)

    def by_position(self, dialect: Dialect) -> bool:
        return not csv_options(dialect).output_field_header

    def tells_updates(self, dialect: Dialect) -> tuple[bool, bool]:
        return False, not csv_options(dialect).output_old_value

    def options(self, table: Mapping[str, Any]) -> CsvFormat:
        return csv_format(table)

    def table(self, dialect: Dialect) -> Mapping[str, str | bool]:
        return csv_table(dialect)

    def check(self, dialect: Dialect, unproven: Collection[str]) -> None:
        check_csv_options(dialect, unproven)

    def undecided(self, dialect: Dialect, unproven: Collection[str]) -> tuple[Undecided, ...]:
        return undecided_csv_options(dialect, unproven)

    def key_loss(self, dialect: Dialect, unsplit: str, way_out: str) -> BadConfig | None:
        return csv_key_loss(dialect, unsplit, way_out)


CSV = Csv()
