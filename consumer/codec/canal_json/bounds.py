"""Reads the first and last commit-ts of a canal-JSON file, with small reads at its two ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from consumer.codec.errors import DAMAGED, bad_end
from consumer.codec.lines import FileEnds
from consumer.errors import CorruptFile
from consumer.model.files import Bounds, DataFile
from consumer.model.load import Dialect
from consumer.model.times import ms_to_tso
from consumer.ports import RangeReader

_Row = dict[str, Any]
COMMIT_TS = "enable-tidb-extension=true in the changefeed's sink-uri"
"""The setting that gives rows their commit-ts."""
_MILLISECONDS = re.compile(rb'"es": *([0-9]{1,15}),')
"""TiCDC writes it before the values, and quotes in names are escaped."""


def read_json_bounds(reader: RangeReader, file: DataFile, dialect: Dialect) -> Bounds:
    """Returns the bounds of one file. Raises CorruptFile if an end of it is not a canal-JSON line,
    StorageUnavailable."""
    ends = FileEnds(reader, file)
    if ends.whole == b"":
        raise _corrupt(file, "the file is empty")
    first = ends.at_head(lambda head, whole: _first_row(head, dialect.terminator, whole))
    last = ends.at_tail(lambda tail, whole: _last_row(tail, dialect.terminator, whole))
    if first is None or last is None:
        raise _corrupt(file, f"its {'first' if first is None else 'last'} line is not a JSON object")
    low, high = _commit_ts(first), _commit_ts(last)
    if low is not None and high is not None:
        return Bounds(low, high, exact=True)
    return Bounds(_coarse_ts(file, first), _coarse_ts(file, last), exact=False)


def read_json_first_ts(reader: RangeReader, file: DataFile, dialect: Dialect) -> int:
    """Returns the commit-ts of the first row; of a row that is cut off its millisecond. Raises CorruptFile,
    StorageUnavailable."""
    ends = FileEnds(reader, file)
    first = ends.at_head(lambda head, whole: _first_row(head, dialect.terminator, whole))
    if first is None and (match := ends.at_head(lambda head, _: _MILLISECONDS.search(head))) is not None:
        return ms_to_tso(int(match[1]))
    if first is None:
        raise _corrupt(file, "its first line is not a JSON object")
    exact = _commit_ts(first)
    return _coarse_ts(file, first) if exact is None else exact


def _first_row(content: bytes, terminator: bytes, whole: bool) -> _Row | None:
    rows = (_row(content[:end]) for end in _ends(content, terminator, whole))
    return next((row for row in rows if row is not None), None)


def _last_row(content: bytes, terminator: bytes, whole: bool) -> _Row | None:
    content = content.removesuffix(terminator)
    rows = (_row(content[start:]) for start in _starts(content, terminator, whole))
    return next((row for row in rows if row is not None), None)


def _ends(content: bytes, terminator: bytes, whole: bool) -> Iterator[int]:
    """Yields where the first line may end, nearest first."""
    mark = b"}" + terminator
    end = content.find(mark)
    while end >= 0:
        yield end + 1
        if _breaks_line(terminator):
            return
        end = content.find(mark, end + 1)
    if whole:
        yield len(content)


def _starts(content: bytes, terminator: bytes, whole: bool) -> Iterator[int]:
    """Yields where the last line may start, nearest to the end first."""
    mark = terminator + b"{"
    start = content.rfind(mark)
    while start >= 0:
        yield start + len(terminator)
        if _breaks_line(terminator):
            return
        start = content.rfind(mark, 0, start + len(mark) - 1)
    if whole:
        yield 0


def _breaks_line(terminator: bytes) -> bool:
    """JSON has line breaks only as escapes, so such a terminator is never within a line; another one may be."""
    return b"\n" in terminator or b"\r" in terminator


def _row(line: bytes) -> _Row | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None


def _commit_ts(row: _Row) -> int | None:
    extension = row.get("_tidb")
    commit_ts = extension.get("commitTs") if isinstance(extension, dict) else None
    return commit_ts if isinstance(commit_ts, int) and not isinstance(commit_ts, bool) else None


def _coarse_ts(file: DataFile, row: _Row) -> int:
    milliseconds = row.get("es")
    if isinstance(milliseconds, int) and not isinstance(milliseconds, bool):
        return ms_to_tso(milliseconds)
    raise _corrupt(file, "its rows have neither _tidb.commitTs nor es")


def _corrupt(file: DataFile, reason: str) -> CorruptFile:
    return bad_end(file, "canal-JSON file", reason, DAMAGED)
