"""Writes exports in Dumpling's documented format, value by value. Nothing of the program's reader is used."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa


class Bare(str):
    """A value of a numeric column, which is written as it is."""


Cell = bytes | str | int | None
"""Bytes are a value of a binary column; numbers and `Bare` one of a numeric column, all else is written as text."""
_ESCAPES = {0: "0", 10: "n", 13: "r", 92: "\\", 39: "'", 34: '"', 26: "Z"}
_NAMES = re.compile(r'[\x00-\x1f%"*./:<>?\\|]|-(?i:schema)')
_HEAD = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n"


@dataclass
class Export:
    """`kind` is sql or csv, `packing` the ending of compressed files. `rows_per_file`: how many there are at most; 0:
    all."""

    folder: Path
    tso: int
    kind: str = "sql"
    packing: str = ""
    escapes: bool = True
    header: bool = True
    separator: str = ","
    quote: str = '"'
    null: str = "\\N"
    terminator: str = "\r\n"
    complete_insert: bool = False
    rows_per_file: int = 0
    rows_per_statement: int = 3

    def database(self, name: str, options: str = "/*!40100 DEFAULT CHARACTER SET utf8mb4 */") -> None:
        self._write(
            f"{escaped(name)}-schema-create.sql", f"{_HEAD}CREATE DATABASE {quoted(name)} {options};\n".encode()
        )

    def table(
        self, database: str, table: str, create: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]
    ) -> None:
        """`create` is what SHOW CREATE TABLE gives; `columns` are those that rows have."""
        stem = f"{escaped(database)}.{escaped(table)}"
        self._write(f"{stem}-schema.sql", f"{_HEAD}{create};\n".encode())
        size = self.rows_per_file or len(rows)
        for number, begin in enumerate(range(0, len(rows), size) if rows else ()):
            self.rows(f"{stem}.{number:09d}", table, columns, rows[begin : begin + size])

    def rows(self, stem: str, table: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        text = self._sql(table, columns, rows) if self.kind == "sql" else self._csv(columns, rows)
        self._write(f"{stem}.{self.kind}", text)

    def view(self, database: str, view: str, create: str, columns: str) -> None:
        stem = f"{escaped(database)}.{escaped(view)}"
        stand_in = f"CREATE TABLE {quoted(view)}(\n{columns}\n)ENGINE=MyISAM"
        self._write(f"{stem}-schema.sql", f"{_HEAD}{stand_in};\n".encode())
        session = "SET @PREV_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT;\nSET character_set_client = utf8mb4;\n"
        drops = f"DROP TABLE IF EXISTS {quoted(view)};\nDROP VIEW IF EXISTS {quoted(view)};\n"
        back = "SET character_set_client = @PREV_CHARACTER_SET_CLIENT;\n"
        self._write(f"{stem}-schema-view.sql", f"{_HEAD}{drops}{session}{create};\n{back}".encode())

    def sequence(self, database: str, name: str) -> None:
        text = f"{_HEAD}CREATE SEQUENCE {quoted(name)} start with 1;\n"
        self._write(f"{escaped(database)}.{escaped(name)}-schema-sequence.sql", text.encode())

    def finish(self, position: str = "", complete: bool = True) -> Path:
        end = "Finished dump at: 2026-11-26 10:00:09\n" if complete else ""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "metadata").write_text(
            "Started dump at: 2026-11-26 10:00:00\nSHOW MASTER STATUS:\n"
            f"\tLog: tidb-binlog\n\tPos: {position or self.tso}\n\tGTID:\n\n{end}"
        )
        return self.folder

    def _write(self, name: str, content: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}{self.packing}").write_bytes(packed(content, self.packing))

    def _sql(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bytes:
        names = f" ({','.join(map(quoted, columns))})" if self.complete_insert else ""
        found = _HEAD.encode()
        size = self.rows_per_statement
        for begin in range(0, len(rows), size):
            lines = [b"(" + b",".join(map(self._literal, row)) + b")" for row in rows[begin : begin + size]]
            found += f"INSERT INTO {quoted(table)}{names} VALUES\n".encode() + b",\n".join(lines) + b";\n"
        return found

    def _literal(self, cell: Cell) -> bytes:
        if cell is None:
            return b"NULL"
        if isinstance(cell, bytes):
            return f"x'{cell.hex()}'".encode()
        if isinstance(cell, int | Bare):
            return str(cell).encode()
        if not self.escapes:
            return b"'" + cell.encode().replace(b"'", b"''") + b"'"
        return b"'" + b"".join(_escaped(byte, _ESCAPES) for byte in cell.encode()) + b"'"

    def _csv(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bytes:
        lines: list[Sequence[Cell]] = [list(columns)] if self.header else []
        between, end = self.separator.encode(), self.terminator.encode()
        return b"".join(between.join(map(self._csv_cell, line)) + end for line in (*lines, *rows))

    def _csv_cell(self, cell: Cell) -> bytes:
        if cell is None:
            return self.null.encode()
        if isinstance(cell, int | Bare):
            return str(cell).encode()
        content, quote = cell.encode() if isinstance(cell, str) else cell, self.quote.encode()
        if self.escapes:
            meant = {0: "0", 10: "n", 13: "r", 92: "\\", quote[0]: self.quote}
            content = b"".join(_escaped(byte, meant) for byte in content)
        else:
            content = content.replace(quote, quote * 2)
        return quote + content + quote


def _escaped(byte: int, meant: dict[int, str]) -> bytes:
    return b"\\" + meant[byte].encode() if byte in meant else bytes([byte])


def escaped(name: str) -> str:
    """As Dumpling names files."""
    return _NAMES.sub(lambda found: f"%{ord(found[0][0]):02X}{found[0][1:]}", name)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def packed(content: bytes, packing: str) -> bytes:
    """As Dumpling compresses: zstd and gzip in one stream, snappy in frames."""
    match packing:
        case ".gz":
            return gzip.compress(content)
        case ".zst":
            sink = pa.BufferOutputStream()
            with pa.CompressedOutputStream(sink, "zstd") as stream:
                stream.write(content)
            return bytes(sink.getvalue())
        case ".snappy":
            frames = [b"\xff\x06\x00\x00sNaPpY"]
            for begin in range(0, len(content), 1 << 16):
                block = bytes(pa.compress(content[begin : begin + (1 << 16)], "snappy"))
                frames.append(b"\x00" + (len(block) + 4).to_bytes(3, "little") + b"crc!" + block)
            return b"".join(frames)
        case _:
            return content
