"""canal-JSON the slow and obvious way, for tests: write a row's line, decode lines one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa

from consumer.model.columns import Column, Family
from consumer.model.load import Dialect, FileSlice, FileStat, LoadTarget, TableLoad
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO
from consumer.ports import Stored

ALL = Window(0, MAX_TSO)
TABLE = TableName("d", "t")
Line = tuple[int, bytes]
"""Where a line begins in its file, and the line without its terminator."""


@dataclass(frozen=True)
class MemoryReader:
    """A RangeReader of one file."""

    content: bytes

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        assert 0 <= offset < len(self.content)
        assert length > 0
        return self.content[offset : offset + length]


def target_of(columns: Sequence[Column], key: Sequence[int] = (0,), table: TableName = TABLE) -> LoadTarget:
    return LoadTarget(TableLoad(table), tuple(columns), tuple(column.name for column in columns), tuple(key))


def with_load(target: LoadTarget, **asked: Any) -> LoadTarget:
    """The target of another load: `asked` are fields of its TableLoad."""
    return replace(target, load=replace(target.load, **asked))


def whole(content: bytes, exact: Window = ALL, coarse: Window = ALL) -> FileSlice:
    return FileSlice("d/t/1/CDC1.json", 0, len(content), len(content), 3, 7 << 40, exact, coarse)


def row_line(
    kind: str,
    data: dict[str, str | None],
    /,
    *,
    commit_ts: int | None = None,
    es: int = 0,
    old: object = None,
    escaped: bool = False,
    **members: object,
) -> bytes:
    """One row without its terminator. `members` replace or add members; a value of `...` leaves the member out."""
    types = dict.fromkeys(data, "varchar")
    line: dict[str, Any] = {"id": 0, "database": "d", "table": "t", "pkNames": [], "isDdl": False, "type": kind}
    line |= {"es": es, "ts": 1, "sql": "", "sqlType": dict.fromkeys(data, 12), "mysqlType": types}
    line |= {"old": old, "data": [data], "_tidb": ... if commit_ts is None else {"commitTs": commit_ts}}
    line = {name: value for name, value in (line | members).items() if value is not ...}
    return json.dumps(line, ensure_ascii=escaped, separators=(",", ":")).encode()


def typed_line(
    columns: Sequence[Column], ts: int, row: dict[str, str | None], kind: str = "INSERT", **more: object
) -> bytes:
    """One row of a table with these columns, with its terminator."""
    types = {column.name: column.type.lower() for column in columns if column.name in row}
    members = {"pkNames": [column.name for column in columns if column.is_pk], "mysqlType": types, **more}
    return row_line(kind, row, commit_ts=ts, **members) + b"\r\n"


def keyless(ts: int, value: int, kind: str = "INSERT") -> bytes:
    """The line of a row of d.k, which has no key."""
    types = {"sqlType": {"v": 4}, "mysqlType": {"v": "int"}}
    return row_line(kind, {"v": str(value)}, commit_ts=ts, table="k", **types) + b"\r\n"


def join(lines: Sequence[bytes], terminator: bytes) -> tuple[bytes, list[Line]]:
    """The file that holds `lines`, and where each begins."""
    content = b""
    placed = []
    for line in lines:
        placed.append((len(content), line))
        content += line + terminator
    return content, placed


def as_rows(tables: Sequence[pa.Table]) -> list[tuple[Any, ...]]:
    """Every row of change tables as a tuple."""
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def decode_slowly(lines: Sequence[Line], piece: FileSlice, target: LoadTarget) -> tuple[list[Any], FileStat]:
    """The change rows that a slice must give, in order, and its statistics."""
    found: list[Any] = []
    own = [line for offset, line in lines if piece.offset <= offset < piece.offset + piece.length]
    dropped, above, coarse_ts = 0, [], 0
    timed: list[int] = []
    unseen: list[int] = []
    for place, line in enumerate(own, 1):
        row = orjson.loads(line)
        exact = "_tidb" in row
        ts = row["_tidb"]["commitTs"] if exact else row["es"] << 18
        window = piece.exact if exact else piece.coarse
        timed += [ts] if ts <= window.end else []
        stretches = zip(piece.seen[::2], piece.seen[1::2], strict=True)
        unseen += [ts] if piece.seen and ts <= window.after and not any(b <= ts < e for b, e in stretches) else []
        if ts <= window.after:
            dropped += 1
        elif ts > window.end:
            above.append(ts)
        else:
            coarse_ts = coarse_ts if exact else max(coarse_ts, ts)
            series, rank = (0, 0) if exact else (piece.series, piece.position + place)
            for put, values in _changes(row, target):
                tombstone = not exact and not put and row["type"] == "UPDATE"
                found.append((ts, put, series, -rank if tombstone else rank, *values))
    least, most, late = min([*timed, *above], default=0), max(timed, default=0), min(unseen, default=0)
    return found, FileStat(
        piece.path, len(own), dropped, min(above, default=0), coarse_ts, first_ts=least, last_ts=most, unseen_ts=late
    )


def _changes(row: dict[str, Any], target: LoadTarget) -> Iterator[tuple[bool, list[Any]]]:
    data = row["data"][0]
    key = [target.columns[position].name for position in target.key]
    if row["type"] == "UPDATE":
        old = (row.get("old") or [{}])[0]
        if not key:
            yield False, _values(data | old, target)
        else:
            before = {name: data[name] if old.get(name) is None else old[name] for name in key}
            if any(before[name] != data[name] for name in key):
                yield False, _values(before if "_tidb" in row else data | old | before, target)
    yield row["type"] != "DELETE", _values(data, target)


def _values(row: dict[str, str | None], target: LoadTarget) -> list[Any]:
    return [_value(column, row.get(column.name)) for column in target.columns]


def _value(column: Column, text: str | None) -> str | bytes | None:
    return text.encode("latin-1") if text is not None and column.family is Family.BINARY else text


def dialect(terminator: bytes = b"\r\n") -> Dialect:
    return Dialect("canal-json", terminator)
