"""The lines of a block one by one: which one is not a row and why, and what a row holds. It is slow, and rarely
needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import orjson

from consumer.codec.canal_json.rows import RowParser
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block
from consumer.errors import CorruptFile
from consumer.model.names import TableName, same_name
from consumer.model.texts import shortened

_MAX_SHOWN = 60


def numbered_lines(text: bytes) -> list[tuple[int, bytes]]:
    """Returns the lines that are not blank, with their numbers from 0, in the order of the rows."""
    return [(number, line) for number, line in enumerate(text.split(b"\n")) if line.strip()]


class RowLines:
    """The lines of a block's rows, for the few that must be examined one by one. Rows count from 0."""

    def __init__(self, block: Block, line_at: Callable[[int], int], place: FileCoordinates) -> None:
        self._block, self._line_at, self._place = block, line_at, place

    def number(self, row: int) -> int:
        """Returns the line of the file, from 1. It reads the file up to the block, so it is for errors."""
        return self._line_at(self._block.offset) + self._lines[row][0]

    def row(self, row: int) -> dict[str, Any]:
        """Returns the row as it stands in the file."""
        try:
            content: dict[str, Any] = orjson.loads(self._lines[row][1])
        except orjson.JSONDecodeError as error:
            raise self._place.corrupt(f"the line is not JSON: {error}", self.number(row)) from error
        return content

    def fault(self, parser: RowParser) -> CorruptFile:
        """Returns the error of a block that `parser` refuses."""
        number, message = find_fault(self._block.text, parser)
        return self._place.corrupt(message, self._line_at(self._block.offset) + number)

    @cached_property
    def _lines(self) -> list[tuple[int, bytes]]:
        return numbered_lines(self._block.text)


def find_fault(text: bytes, parser: RowParser) -> tuple[int, str]:
    """Returns the number, from 0, of the first line that `parser` refuses, and what is wrong with it.

    `text` must have such a line. The parser itself is the judge, so what it refuses is always found.
    """
    lines = numbered_lines(text)
    while len(lines) > 1:
        half = len(lines) // 2
        lines = lines[half:] if _is_good(lines[:half], parser) else lines[:half]
    number, line = lines[0]
    return number, _fault(line, parser.table) or _parser_says(line, parser)


def _is_good(lines: list[tuple[int, bytes]], parser: RowParser) -> bool:
    try:
        parser.parse(b"".join(line + b"\n" for _, line in lines))
    except ValueError:
        return False
    return True


def _parser_says(line: bytes, parser: RowParser) -> str:
    try:
        parser.parse(line + b"\n")
    except ValueError as error:
        return f"the line is not a row change: {str(error).removesuffix(' in row 0')}"
    return "expected one row change a line"


def _fault(line: bytes, table: TableName) -> str:
    """Returns why `line` is no row change, "" if no reason is seen."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        ending = "" if line.rstrip().endswith(b"}") else ", and it does not end with `}`: it may be cut off"
        return f"the line is not JSON: {error}{ending}"
    if not isinstance(row, dict):
        return f"expected a JSON object, found {_shown(row)}"
    if row.get("type") not in ("INSERT", "UPDATE", "DELETE"):
        return f"expected `type` INSERT, UPDATE or DELETE, found {_shown(row.get('type'))}"
    return _fault_of_source(row, table) or _fault_of_time(row) or _fault_of_data(row.get("data"))


def _fault_of_source(row: dict[str, Any], table: TableName) -> str:
    """TiCDC writes a table's rows, and no statements, under that table's name. Returns what contradicts this."""
    if row.get("isDdl"):
        return "expected a row, found a statement (`isDdl` is true)"
    for member, name in (("database", table.database), ("table", table.table)):
        value = row.get(member)
        if not isinstance(value, str) or same_name(value) != same_name(name):
            return f"expected a row of {table}, found `{member}` {_shown(value)}"
    return ""


def _fault_of_time(row: dict[str, Any]) -> str:
    extension = row.get("_tidb")
    if extension is not None and not isinstance(extension, dict):
        return f"expected `_tidb` to be an object, found {_shown(extension)}"
    commit_ts = (extension or {}).get("commitTs")
    if commit_ts is not None:
        return "" if _is_time(commit_ts, 63) else f"expected `commitTs` to be a TSO, found {_shown(commit_ts)}"
    es = row.get("es")
    return "" if _is_time(es, 45) else f"expected `commitTs` or `es` in milliseconds, found `es` {_shown(es)}"


def _is_time(value: object, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << bits


def _fault_of_data(data: object) -> str:
    if not (isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict)):
        return f"expected `data` to be an array of one object, found {_shown(data)}"
    for name, value in data[0].items():
        if value is not None and not isinstance(value, str):
            return f"expected the value of column {name} to be a string or null, found {_shown(value)}"
    return ""


def _shown(value: object) -> str:
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    text = orjson.dumps(value).decode()
    return shortened(text, _MAX_SHOWN)
