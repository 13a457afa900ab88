"""Quarantined rows as files of a folder or a bucket: one file for each row, with a JSON object in one line."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from consumer.errors import BadConfig
from consumer.model.bad_rows import BadRow
from consumer.model.names import TableName
from consumer.storage import open_files
from consumer.storage.settings import StorageSettings

_THREADS = 16
_MOST_BYTES = 256 << 20
_LONGEST = 200
"""Characters of a folder's name: file systems take 255."""
_ABOUT = "about.txt"
_TEXT = (
    "Rows that the TiCDC storage-sink consumer has quarantined (on-bad-row = quarantine).\n"
    "A folder for each consumer name and table, one JSON object for each row.\n"
)


@dataclass(frozen=True, slots=True)
class LetterFolder:
    """A `ports.DeadLetters` of the consumer `name`."""

    settings: StorageSettings
    name: str

    def check(self, upstream: str) -> None:
        ours, upstreams = (f"{identity.rstrip('/')}/" for identity in (self.settings.identity, upstream))
        if ours.startswith(upstreams):
            raise BadConfig(
                f"dead-letters is inside of the storage that TiCDC writes to: {self.settings.identity}",
                hint="give another folder or prefix: nothing is ever written to the storage",
            )
        open_files(self.settings).write(_ABOUT, _TEXT.encode())

    def put(self, table: TableName, rows: Collection[BadRow]) -> None:
        files = open_files(self.settings)

        def write(row: BadRow) -> None:
            files.write(self.path(table, row), _line(self.name, table, row))

        with ThreadPoolExecutor(_THREADS, "letters") as pool:
            list(pool.map(write, rows))

    def taken_in(self, rows: Collection[BadRow], moment: str) -> None:
        files = open_files(self.settings)
        for row in rows:
            body = _read(files.read_if_there(row.letter, _MOST_BYTES)) if row.letter else None
            if body is not None:
                files.write(row.letter, _as_line({**body, "taken_in": moment}))

    def path(self, table: TableName, row: BadRow) -> str:
        folder = self.name if self.name.strip(".") else f"_{self.name}"
        return f"{folder}/{_folder(table)}/{row.id}.json"


def _folder(table: TableName) -> str:
    """Returns the folder of a table. Each table has its own: no dot of a name is taken for the one between the names,
    and file systems can hold it."""
    name = ".".join(quote(part, safe="").replace(".", "%2E") for part in table)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def _line(name: str, table: TableName, row: BadRow) -> bytes:
    body = {
        "id": row.id,
        "name": name,
        "table": str(table),
        "file": row.path or None,
        "line": row.line or None,
        "offset": None if row.offset < 0 else row.offset,
        "version": row.version or None,
        "commit_ts": row.commit_ts or None,
        "commit_ts_str": str(row.commit_ts) if row.commit_ts else None,
        "reason": row.reason,
        "raw": _value(row.raw) if row.raw else None,
        "row": [{"column": column, "value": _value(value)} for column, value in row.row] or None,
    }
    return _as_line(body)


def _read(content: bytes | None) -> dict[str, Any] | None:
    """Returns the object, or None if the file is no dead letter any more. Somebody may have changed it, and then it
    stays as it is."""
    try:
        body = json.loads(content or b"")
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _as_line(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _value(value: str | bytes | None) -> object:
    """Returns bytes that are no text as ``{"base64": ..}``, other values as they are."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
