"""Where the lines of canal-JSON end."""

from __future__ import annotations

import re

from consumer.codec.lines import LineEnds


class JsonEnds(LineEnds):
    """Where lines end. CR and LF are never raw inside JSON, so a blank terminator that ends with LF is found by its LF.

    Any other terminator may also occur in a text. Between lines it stands after ``}`` and before ``{"`` and the first
    letter of a member's name; in a text, that quote would be the closing one, and no name can follow it.
    """

    def __init__(self, terminator: bytes) -> None:
        self._terminator = terminator
        self._by_newline = terminator.endswith(b"\n") and not terminator.strip(b" \t\r\n")
        self._mark = b"}" + terminator + b'{"'
        self._border = re.compile(re.escape(b"}" + terminator) + rb'(?=\{"[^\s,:}\]])')
        self.lookback = 1 if self._by_newline else 1 + len(terminator)

    def first(self, buffer: bytes, at: int, whole: bool) -> int:
        if self._by_newline:
            return buffer.find(b"\n", max(at - 1, 0)) + 1 or -1
        borders = self._border.finditer(buffer, max(at - self.lookback, 0))
        begins = next((border.end() for border in borders if border.end() >= at), -1)
        if begins < 0 and whole and len(buffer) >= at and buffer.endswith(b"}" + self._terminator):
            return len(buffer)
        return begins

    def last(self, buffer: bytes) -> int:
        if self._by_newline:
            return buffer.rfind(b"\n") + 1
        border = buffer.rfind(self._mark)
        while border >= 0:
            if self._border.match(buffer, border):
                return border + self.lookback
            border = buffer.rfind(self._mark, 0, border + len(self._mark) - 1)
        return 0

    def as_read(self, lines: bytes) -> bytes:
        """Each ended by a newline."""
        if self._by_newline:
            return lines
        return self._border.sub(b"}\n", lines.removesuffix(self._terminator)) + b"\n"

    def count(self, lines: bytes) -> int:
        return lines.count(b"\n")

    def split(self, lines: bytes) -> list[tuple[bytes, int]]:
        grown = 0 if self._by_newline else len(self._terminator) - 1
        return [(line + b"\n", len(line) + 1 + grown) for line in lines.split(b"\n")[:-1]]

    def parts(self, line: bytes) -> list[bytes]:
        return [line]
