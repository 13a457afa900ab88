"""Storages as TiCDC writes them: about 500 bytes of canal-JSON a sysbench row or 220 of CSV, 64 MiB a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson

from consumer.layout.paths import DataPath, render
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Folder
from tests.bench.rows import SYSBENCH, Change, Kind, Row
from tests.support.written_files import render_checkpoint, render_schema_file

VERSION = 439972354120482843
FILE_BYTES = 64 << 20
DATABASE = "bench"
Encode = Callable[[Kind, str, int, Row | None, Row | None], bytes]
"""Kind of the table, its name, commit-ts, row before and after -> the bytes of one row change."""
CSV_CONFIG = '[sink]\nprotocol = "csv"\n[sink.csv]\ninclude-commit-ts = true\n'
"""The changefeed's TOML of `csv_line`."""


def canal_line(kind: Kind, table: str, ts: int, old: Row | None, new: Row | None) -> bytes:
    operation = "INSERT" if old is None else "DELETE" if new is None else "UPDATE"
    row = new or old or {}
    message: dict[str, Any] = {
        "id": 0, "database": DATABASE, "table": table, "pkNames": ["id"], "isDdl": False,
        "type": operation, "es": ts >> 18, "ts": (ts >> 18) + 100, "sql": "",
        "sqlType": kind.sql_types, "mysqlType": kind.mysql_types[int(row["id"]) % len(kind.mysql_types)],
        "old": [old] if operation == "UPDATE" else None, "data": [row], "_tidb": {"commitTs": ts},
    }  # fmt: skip
    return orjson.dumps(message) + b"\r\n"


def csv_line(kind: Kind, table: str, ts: int, old: Row | None, new: Row | None) -> bytes:
    operation = "I" if old is None else "D" if new is None else "U"
    row = new or old or {}
    values = (row[column.name] if "INT" in column.type else f'"{row[column.name]}"' for column in kind.columns)
    return f'"{operation}","{table}","{DATABASE}",{ts},{",".join(values)}\r\n'.encode()


class Storage:
    """A storage in `folder` that grows: `begin` once, `table` once each, `rows` as often as wanted, then `publish`.
    `transaction` rows have one commit-ts."""

    def __init__(
        self,
        folder: Path,
        kind: Kind = SYSBENCH,
        encode: Encode = canal_line,
        file_bytes: int = FILE_BYTES,
        transaction: int = 50,
    ) -> None:
        self.folder, self.kind, self.encode = folder, kind, encode
        self.size = 0
        self.ts = VERSION
        self._file_bytes, self._transaction = file_bytes, transaction
        self._extension = "json" if encode is canal_line else "csv"
        self._places: dict[str, Folder] = {}
        self._files: dict[str, int] = {}
        self._schema("", VERSION, f"CREATE DATABASE `{DATABASE}`", Action.CREATE_SCHEMA, ())

    def table(self, name: str) -> None:
        version = VERSION + 1 + len(self._places)
        self._schema(name, version, self.kind.create(name), Action.CREATE_TABLE, self.kind.columns)
        self._places[name] = Folder(f"{DATABASE}/{name}", version, date="2026-11-20")
        self._files[name] = 0

    def statement(self, table: str, query: str, action: Action, columns: tuple[Column, ...]) -> None:
        """`columns`: what the table has behind it."""
        self.ts += 5 << 18
        self._schema(table, self.ts, query, action, columns)
        self._places[table] = self._places[table]._replace(version=self.ts)

    def rows(self, table: str, changes: Iterable[Change]) -> None:
        """Write them into new files of the table."""
        lines: list[bytes] = []
        size = 0
        ts = self.ts
        for number, (old, new) in enumerate(changes):
            if number % self._transaction == 0:
                ts += 5 << 18
            lines.append(self.encode(self.kind, table, ts, old, new))
            size += len(lines[-1])
            if size >= self._file_bytes:
                self._data_file(table, lines)
                lines, size = [], 0
        if lines:
            self._data_file(table, lines)
        self.ts = ts

    def publish(self, ts: int | None = None) -> None:
        """Write the checkpoint: `ts`, or all that was written."""
        self._write("metadata", render_checkpoint(self.ts if ts is None else ts))

    def _data_file(self, table: str, lines: list[bytes]) -> None:
        self._files[table] += 1
        content = b"".join(lines)
        self.size += len(content)
        self._write(render(DataPath(self._places[table], self._files[table], self._extension)), content)

    def _schema(self, table: str, version: int, query: str, action: Action, columns: tuple[Column, ...]) -> None:
        path, content = render_schema_file(DATABASE, table, version, columns, query, int(action))
        self._write(render(path), content)

    def _write(self, path: str, content: bytes) -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f"{place.name}.new")
        new.write_bytes(content)
        new.rename(place)


def write_storage(
    folder: Path,
    tables: Iterable[tuple[str, Iterable[Change]]],
    encode: Encode = canal_line,
    file_bytes: int = FILE_BYTES,
    kind: Kind = SYSBENCH,
    transaction: int = 50,
) -> int:
    """Write the tables' changes, their schema files and `metadata`. Returns data bytes."""
    storage = Storage(folder, kind, encode, file_bytes, transaction)
    for table, changes in tables:
        storage.table(table)
        storage.rows(table, changes)
    storage.publish()
    return storage.size
