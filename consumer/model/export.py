"""How an export was written, and at which commit-ts its statements and rows stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from consumer.model.files import DataFile
from consumer.model.load import Dialect

PACKINGS = (".gz", ".zst", ".snappy")
"""The endings of compressed files' names."""
_BEFORE = 1 << 24
"""How far below its own TSO an export begins: 64 ms. There is room in it for more files of a table than it can have."""
_STATEMENTS = 1 << 20
"""How much of that is for statements; rows are behind all of them."""


@dataclass(frozen=True, slots=True)
class DumplingFormat:
    """`tso` is the moment that the rows are of. The others are Dumpling's options that the files do not show;
    `binary` is how CSV has bytes: "" as they are, "hex" or "base64"; `chunks`: --rows was given."""

    tso: int = _BEFORE
    separator: bytes = b","
    quote: bytes = b'"'
    terminator: bytes = b"\r\n"
    null: bytes = b"\\N"
    header: bool = True
    escapes: bool = True
    binary: str = ""
    chunks: bool = False

    timeless = False

    def statement_version(self, place: int) -> int:
        """That of statements in one place of their order, from 0. It is the same whatever else the export has."""
        return self.tso - _BEFORE + 1 + min(place, _STATEMENTS - 2)


def format_of(dialect: Dialect) -> DumplingFormat:
    return cast(DumplingFormat, dialect.options)


def file_ts(file: DataFile, dialect: Dialect) -> int:
    """Each file of a table has a commit-ts of its own, so that a round can end behind any of them."""
    return format_of(dialect).tso - _BEFORE + _STATEMENTS + min(file.index, _BEFORE - _STATEMENTS)
