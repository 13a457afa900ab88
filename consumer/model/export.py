"""Describes how an export was written, and the commit-ts of its statements and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from consumer.model.files import DataFile
from consumer.model.load import Dialect

PACKINGS = (".gz", ".zst", ".snappy")
"""The endings of compressed files' names."""
_BEFORE = 1 << 24
"""How far below its own TSO an export begins: 64 ms. That is room for more files of a table than it can have."""
_STATEMENTS = 1 << 20
"""How much of that is for statements; rows come after all of them."""


@dataclass(frozen=True, slots=True)
class DumplingFormat:
    """The format of Dumpling's files. `tso` is the moment of the rows. The other fields are Dumpling's options that the
    files do not show. `binary` is how CSV has bytes: "" as they are, "hex" or "base64". `chunks` means that --rows was
    given."""

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

    def statement_version(self, index: int) -> int:
        """Returns the version of statements at an index of their order, from 0. It does not depend on the rest of the
        export."""
        return self.tso - _BEFORE + 1 + min(index, _STATEMENTS - 2)


def format_of(dialect: Dialect) -> DumplingFormat:
    return cast(DumplingFormat, dialect.options)


def file_ts(file: DataFile, dialect: Dialect) -> int:
    """Returns the commit-ts of a file's rows. Each file of a table has its own, so that a round can end after any of
    them."""
    return format_of(dialect).tso - _BEFORE + _STATEMENTS + min(file.index, _BEFORE - _STATEMENTS)
