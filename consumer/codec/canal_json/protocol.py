"""canal-JSON as a protocol, and how its files show its dialect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from consumer.codec.canal_json.bounds import COMMIT_TS, read_json_bounds, read_json_first_ts
from consumer.codec.protocol import AgreedDialect, Declared, RowProtocol, Sniffed
from consumer.model.files import Bounds, DataFile, SchemaFile
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile


def sniff_json(content: bytes, whole: bool) -> Sniffed | None:
    """Returns the dialect of canal-JSON rows, or None if `content`, the head of a file or all of it, does not show two
    line ends."""
    text = content.decode(errors="surrogateescape")
    try:
        row, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return None
    rest = text[end:]
    following = rest.find('{"')
    if not isinstance(row, dict) or (following < 0 and not whole):
        return None
    terminator = (rest if following < 0 else rest[:following]).encode(errors="surrogateescape")
    extension = row.get("_tidb")
    has_commit_ts = isinstance(extension, dict) and "commitTs" in extension
    return Sniffed(Dialect("canal-json", terminator), has_commit_ts) if terminator else None


class CanalJson(RowProtocol):
    name = "canal-json"
    extension = "json"
    density = 1
    commit_ts = COMMIT_TS

    def splittable(self, dialect: Dialect) -> bool:
        return dialect.terminator.endswith(b"\n")

    def joinable(self, dialect: Dialect) -> bool:
        return self.splittable(dialect)

    def bounds(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> Bounds:
        return read_json_bounds(reader, file, dialect)

    def first_ts(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> int:
        return read_json_first_ts(reader, file, dialect)

    def opened(
        self, reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout
    ) -> RowFile:
        from consumer.codec.canal_json.file import JsonFile

        return JsonFile(piece, target, dialect, layout)

    def sniff(self, content: bytes, whole: bool, schema: SchemaFile, declared: Declared) -> Sniffed | None:
        return sniff_json(content, whole)

    def agreed(self, alike: Sequence[Sniffed]) -> AgreedDialect:
        return AgreedDialect(alike[0].dialect, alike[0].commit_ts)

    def layouts(
        self, schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
    ) -> tuple[Layout, ...]:
        return tuple(schema.columns for schema in schemas)


CANAL_JSON = CanalJson()
