"""The two ends of a data file, as much of each as it takes to find something."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from consumer.codec.lines import MAX_LINE_BYTES
from consumer.model.files import DataFile
from consumer.ports import RangeReader

END_SIZE = 64 * 1024
"""Files up to this size are read at once; of longer ones this much at each end, and more if a row is longer."""

_Found = TypeVar("_Found")
Find = Callable[[bytes, bool], _Found | None]
"""Looks at a part of a file, and is told whether that is the whole file; None: more of the file is needed."""


class FileEnds:
    """Reads a file's ends. Raises what `reader` raises."""

    def __init__(self, reader: RangeReader, file: DataFile) -> None:
        self._reader, self._file = reader, file
        self.whole = reader.read(file, 0, file.size) if file.size <= END_SIZE else None
        """The file's content, where it is small."""

    def at_head(self, find: Find[_Found]) -> _Found | None:
        """What `find` finds at the beginning, None when the whole file, or as much as a line can be, was not enough."""
        return self._grown(find, from_end=False)

    def at_tail(self, find: Find[_Found]) -> _Found | None:
        """What `find` finds at the end, None when the whole file, or as much as a line can be, was not enough."""
        return self._grown(find, from_end=True)

    def _grown(self, find: Find[_Found], *, from_end: bool) -> _Found | None:
        if self.whole is not None:
            return find(self.whole, True)
        size, length = self._file.size, END_SIZE
        while length < min(size, MAX_LINE_BYTES):
            part = self._reader.read(self._file, size - length if from_end else 0, length)
            if (found := find(part, False)) is not None:
                return found
            length *= 4
        return find(self._reader.read(self._file, 0, size), True) if size <= MAX_LINE_BYTES else None
