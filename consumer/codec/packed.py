"""Unpacks compressed files to a temporary file of the executor, from which they are read in blocks as any other."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

import pyarrow as pa

from consumer.errors import CorruptFile
from consumer.model.export import PACKINGS
from consumer.model.load import FileSlice
from consumer.ports import RangeReader, Stored

_CHUNK = 8 << 20
_ARROWS = {".gz": "gzip", ".zst": "zstd"}
_SNAPPY = ".snappy"


class _Stored:
    """A file of the storage, read from its beginning to its end in few requests, with the interface that Arrow
    needs."""

    closed = False

    def __init__(self, reader: RangeReader, file: Stored) -> None:
        self._reader, self._file, self._at = reader, file, 0
        self._ahead = io.BytesIO()

    def readable(self) -> bool:
        return True

    def close(self) -> None: ...

    def read(self, size: int = -1) -> bytes:
        content = self._ahead.read(size)
        missing = self._file.size - self._at if size < 0 else size - len(content)
        if length := min(max(missing, _CHUNK), self._file.size - self._at) if missing else 0:
            self._ahead = io.BytesIO(self._reader.read(self._file, self._at, length))
            self._at += length
            content += self._ahead.read(missing)
        return content


class _Temporary:
    """A `ports.RangeReader` of one file, which exists as long as this object."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        return os.pread(self._file.fileno(), length, offset)


def unpacked_slice(reader: RangeReader, piece: FileSlice) -> tuple[RangeReader, FileSlice]:
    """Returns where the slice's bytes are, and the slice there. Raises CorruptFile."""
    if not piece.path.endswith(PACKINGS):
        return reader, piece
    # The file has no name, so nothing remains of it, however the task ends.
    file = tempfile.TemporaryFile(buffering=0, prefix="storage-consumer-")  # noqa: SIM115 - open while it is read
    for part in unpacked_parts(reader, piece):
        file.write(part)
    size = os.fstat(file.fileno()).st_size
    return _Temporary(file), replace(piece, size=size, length=size if piece.length == piece.size else piece.length)


def unpacked_parts(reader: RangeReader, file: Stored) -> Iterator[bytes]:
    """Yields the unpacked content of a file, compressed or not. Raises CorruptFile."""
    stored = _Stored(reader, file)
    codec = next((codec for ending, codec in _ARROWS.items() if file.path.endswith(ending)), None)
    try:
        if codec is not None:
            with pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), codec) as stream:
                yield from iter(lambda: stream.read(_CHUNK), b"")
        elif file.path.endswith(_SNAPPY):
            yield from _snappy(stored)
        else:
            yield stored.read()
    except pa.ArrowException as error:
        raise _broken(file, str(error)) from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise _broken(file, str(error)) from error


_STREAM, _COMPRESSED, _PLAIN, _SKIPPED = 0xFF, 0x00, 0x01, 0x80
_CHECKSUM = 4


def _snappy(stored: _Stored) -> Iterator[bytes]:
    """Decodes Snappy's framing format: chunks of a kind, a length and a content."""
    while head := stored.read(4):
        kind, length = head[0], int.from_bytes(head[1:], "little")
        content = stored.read(length)
        if len(head) < 4 or len(content) < length:
            raise pa.ArrowInvalid("it is cut off")
        if kind == _PLAIN:
            yield content[_CHECKSUM:]
        elif kind == _COMPRESSED:
            block = content[_CHECKSUM:]
            yield pa.decompress(block, _varint(block), "snappy", asbytes=True)
        elif kind < _SKIPPED:
            raise pa.ArrowInvalid(f"a chunk is of the unknown kind {kind}")


def _varint(block: bytes) -> int:
    """Returns the size of a snappy block's content, which stands at its beginning."""
    size = 0
    for number, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return size
    raise pa.ArrowInvalid("a chunk does not show its size")


def _broken(file: Stored, why: str) -> CorruptFile:
    return CorruptFile(
        f"it cannot be unpacked: {why}", hint="copy the file again from where Dumpling wrote it", path=file.path
    )
