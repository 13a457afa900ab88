"""``file://``, which is often a mounted share: system calls alone, as few as will do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from consumer.model.files import StoredFile
from consumer.ports import Stored
from consumer.storage.errors import Translated
from consumer.storage.files import changed, check_length
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """A file's stamp is its modification time in ns."""

    settings: StorageSettings

    def scan(self, spans: Spans) -> list[StoredFile]:
        with Translated(self.settings, "the storage"):
            return list(self._below("", os.scandir(self.settings.prefix), spans))

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        with Translated(self.settings, "file", file.path), open(self._absolute(file.path), "rb", buffering=0) as opened:
            if file.stamp and str(os.fstat(opened.fileno()).st_mtime_ns) != file.stamp:
                raise changed(file.path)
            return check_length(file, offset, length, _filled(opened, offset, length))

    def read_if_there(self, path: str, length: int) -> bytes | None:
        with Translated(self.settings, "file", path):
            try:
                with open(self._absolute(path), "rb", buffering=0) as file:
                    return _filled(file, 0, length)
            except FileNotFoundError:
                os.stat(self.settings.prefix)
                return None

    def _below(self, directory: str, entries: Any, spans: Spans) -> Iterator[StoredFile]:
        with entries:
            for entry in entries:
                path = f"{directory}/{entry.name}" if directory else entry.name
                try:
                    if not entry.is_dir():
                        if spans.covering(path) is None:
                            state = entry.stat()
                            yield StoredFile(path, state.st_size, str(state.st_mtime_ns), state.st_mtime_ns)
                        continue
                    if spans.covers_directory(path):
                        continue
                    inner = os.scandir(entry.path)
                except FileNotFoundError:
                    continue
                yield from self._below(path, inner, spans)

    def _absolute(self, path: str) -> str:
        return f"{self.settings.prefix}/{path}"


def _filled(file: Any, offset: int, length: int) -> bytes:
    """`length` bytes from `offset`, fewer only at the end: one system call may return less."""
    file.seek(offset)
    parts = []
    while length > 0 and (part := file.read(length)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
