"""Storages of sysbench-shaped rows as TiCDC writes them: about 500 bytes of canal-JSON a row or 220 of CSV, 64 MiB a
file."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from consumer.layout.paths import DataPath, render
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from tests.support.written_files import render_checkpoint, render_schema_file

VERSION = 439972354120482843
FILE_BYTES = 64 << 20
DATABASE = "bench"
COLUMNS = (
    Column("id", "INT", length=11, nullable=False, is_pk=True),
    Column("k", "INT", length=11, nullable=False, default="0"),
    Column("c", "CHAR", length=120, nullable=False, default=""),
    Column("pad", "CHAR", length=60, nullable=False, default=""),
)
_TYPES = {
    "mysqlType": {"id": "int", "k": "int", "c": "char", "pad": "char"},
    "sqlType": {"id": 4, "k": 4, "c": 1, "pad": 1},
}
Row = dict[str, str]
Encode = Callable[[str, int, Row | None, Row], bytes]
"""Table, commit-ts, old row and new row -> the bytes of one row change."""
CSV_CONFIG = '[sink]\nprotocol = "csv"\n[sink.csv]\ninclude-commit-ts = true\n'
"""The changefeed's TOML of `csv_line`."""


def create_statement(table: str) -> str:
    return (
        f"CREATE TABLE `{table}` (`id` INT PRIMARY KEY,`k` INT NOT NULL DEFAULT 0,`c` CHAR(120) NOT NULL DEFAULT '',"
        "`pad` CHAR(60) NOT NULL DEFAULT '',INDEX `k_1`(`k`))"
    )


@cache
def _words() -> list[str]:
    """Once for all: thousands of tables would take minutes otherwise."""
    digits = random.Random(0)
    return ["".join(digits.choices(string.digits, k=11)) for _ in range(5000)]


class Rows:
    """Random rows, the same for the same seed."""

    def __init__(self, seed: int, spread: int) -> None:
        self._random = random.Random(seed)
        self._spread = spread
        self._pool = _words()

    def row(self, key: int) -> Row:
        words = [self._pool[int(self._random.random() * 5000)] for _ in range(15)]
        return {
            "id": str(key),
            "k": str(self._random.randrange(self._spread)),
            "c": "-".join(words[:10]),
            "pad": "-".join(words[10:]),
        }


def inserts(count: int, seed: int = 7) -> Iterator[tuple[None, Row]]:
    rows = Rows(seed, count)
    return ((None, rows.row(key)) for key in range(1, count + 1))


def updates(count: int, keys: int, seed: int = 7) -> Iterator[tuple[Row | None, Row]]:
    """`count` changes over `keys` rows: each is inserted once, then updated at random."""
    rows = Rows(seed, count)
    now: dict[int, Row] = {}
    for number in range(count):
        key = number + 1 if number < keys else rows._random.randrange(1, keys + 1)
        old, now[key] = now.get(key), rows.row(key)
        yield old, now[key]


def canal_line(table: str, ts: int, old: Row | None, new: Row) -> bytes:
    message: dict[str, Any] = {
        "id": 0, "database": DATABASE, "table": table, "pkNames": ["id"], "isDdl": False,
        "type": "INSERT" if old is None else "UPDATE", "es": ts >> 18, "ts": (ts >> 18) + 100, "sql": "", **_TYPES,
        "old": None if old is None else [old], "data": [new], "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return orjson.dumps(message) + b"\r\n"


def csv_line(table: str, ts: int, old: Row | None, new: Row) -> bytes:
    operation = "I" if old is None else "U"
    values = f'{new["id"]},{new["k"]},"{new["c"]}","{new["pad"]}"'
    return f'"{operation}","{table}","{DATABASE}",{ts},{values}\r\n'.encode()


def write_storage(
    folder: Path,
    tables: Iterable[tuple[str, Iterable[tuple[Row | None, Row]]]],
    encode: Encode = canal_line,
    file_bytes: int = FILE_BYTES,
) -> int:
    """Write the tables' changes (old row or None, new row), their schema files and `metadata`. Returns data bytes."""
    extension = "json" if encode is canal_line else "csv"
    size = 0
    ts = VERSION
    _write(folder, *_schema("", VERSION, f"CREATE DATABASE `{DATABASE}`", Action.CREATE_SCHEMA, ()))
    for number, (table, changes) in enumerate(tables, 1):
        version = VERSION + number
        _write(folder, *_schema(table, version, create_statement(table), Action.CREATE_TABLE, COLUMNS))
        table_size, last = _write_rows(folder, table, version, changes, encode, extension, file_bytes)
        size, ts = size + table_size, max(ts, last)
    (folder / "metadata").write_bytes(render_checkpoint(ts))
    return size


def _schema(table: str, version: int, query: str, action: Action, columns: tuple[Column, ...]) -> tuple[str, bytes]:
    path, content = render_schema_file(DATABASE, table, version, columns, query, int(action))
    return render(path), content


def _write(folder: Path, path: str, content: bytes) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(content)


def _write_rows(
    folder: Path,
    table: str,
    version: int,
    changes: Iterable[tuple[Row | None, Row]],
    encode: Encode,
    extension: str,
    file_bytes: int,
) -> tuple[int, int]:
    place = Folder(f"{DATABASE}/{table}", version, date="2026-11-20")
    ts, total, index, lines, size = version, 0, 0, [], 0
    for number, (old, new) in enumerate(changes):
        if number % 50 == 0:
            ts += 5 << 18
        lines.append(encode(table, ts, old, new))
        size += len(lines[-1])
        if size >= file_bytes:
            index += 1
            _write(folder, render(DataPath(place, index, extension)), b"".join(lines))
            total, lines, size = total + size, [], 0
    if lines:
        _write(folder, render(DataPath(place, index + 1, extension)), b"".join(lines))
    return total + size, ts
