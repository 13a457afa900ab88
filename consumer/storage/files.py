"""The files below an upstream URI, local or remote: walk them, read ranges of them, on executors too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from consumer.model.files import StoredFile
from consumer.storage.errors import Translated, refusal
from consumer.storage.settings import StorageSettings


class Files(Protocol):
    """A `ports.RangeReader` that can also list. Raises StorageUnavailable, BadConfig."""

    def walk(self) -> list[StoredFile]:
        """Every file, in no order. What vanishes during the walk is left out."""

    def read(self, path: str, offset: int, length: int) -> bytes: ...

    def read_if_there(self, path: str, length: int) -> bytes | None:
        """The first `length` bytes; None when the storage is there but the file is not."""


def open_files(settings: StorageSettings) -> Files:
    """The files of an upstream. Nothing is read, connected to or imported yet."""
    return LocalFiles(settings) if settings.scheme == "file" else RemoteFiles(settings)


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """``file://``, by system calls alone. A file's stamp is its modification time in ns."""

    settings: StorageSettings

    def walk(self) -> list[StoredFile]:
        with Translated(self.settings, "the storage"):
            return list(self._below("", os.scandir(self.settings.prefix)))

    def read(self, path: str, offset: int, length: int) -> bytes:
        with Translated(self.settings, "file", path), open(self._absolute(path), "rb", buffering=0) as file:
            return _filled(file, offset, length)

    def read_if_there(self, path: str, length: int) -> bytes | None:
        with Translated(self.settings, "file", path):
            try:
                with open(self._absolute(path), "rb", buffering=0) as file:
                    return _filled(file, 0, length)
            except FileNotFoundError:
                os.stat(self.settings.prefix)
                return None

    def _below(self, directory: str, entries: Any) -> Iterator[StoredFile]:
        with entries:
            for entry in entries:
                path = f"{directory}/{entry.name}" if directory else entry.name
                try:
                    if not entry.is_dir():
                        state = entry.stat()
                        yield StoredFile(path, state.st_size, str(state.st_mtime_ns))
                        continue
                    inner = os.scandir(entry.path)
                except FileNotFoundError:
                    continue
                yield from self._below(path, inner)

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


_FILESYSTEMS: dict[tuple[int, StorageSettings], Any] = {}
"""One filesystem, with its connections, a process: they do not survive a fork."""


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """Object storage through fsspec. A file's stamp is its etag, or where there is none its modification time."""

    settings: StorageSettings

    def walk(self) -> list[StoredFile]:
        with Translated(self.settings, "the storage"):
            found = self._filesystem().find(self.settings.base, detail=True)
        start = len(self.settings.base) + 1
        return [
            StoredFile(name.lstrip("/")[start:], int(info["size"]), _stamp(info))
            for name, info in found.items()
            if info["type"] == "file" and not name.endswith("/")
        ]

    def read(self, path: str, offset: int, length: int) -> bytes:
        with Translated(self.settings, "file", path):
            return self._range(path, offset, length)

    def read_if_there(self, path: str, length: int) -> bytes | None:
        with Translated(self.settings, "file", path):
            try:
                return self._range(path, 0, length)
            except FileNotFoundError as error:
                if refusal(error) == "NoSuchBucket":
                    raise
                return None

    def _range(self, path: str, offset: int, length: int) -> bytes:
        """One request: with both ends given no filesystem asks for the size first. No storage has empty ranges."""
        if length <= 0:
            return b""
        absolute = f"{self.settings.base}/{path}"
        content: bytes = self._filesystem().cat_file(absolute, start=offset, end=offset + length)
        return content

    def _filesystem(self) -> Any:
        key = (os.getpid(), self.settings)
        if key not in _FILESYSTEMS:
            import fsspec

            protocol = {"azblob": "abfs"}.get(self.settings.scheme, self.settings.scheme)
            _FILESYSTEMS[key] = fsspec.filesystem(protocol, **self.settings.fsspec_options())
        return _FILESYSTEMS[key]


def _stamp(info: dict[str, Any]) -> str:
    """Storages name these differently; the size is part of a stored file anyway."""
    names = ("ETag", "etag", "LastModified", "last_modified", "updated", "mtime", "created")
    return next((str(info[name]) for name in names if info.get(name)), "")
