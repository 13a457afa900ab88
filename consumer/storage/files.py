"""The files below an upstream URI, local or remote: listing them and reading ranges of them, on executors too."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from consumer.errors import StorageChanged, StorageUnavailable
from consumer.model.files import StoredFile
from consumer.ports import Stored
from consumer.storage.spans import Spans


class Files(Protocol):
    """A `ports.RangeReader` that can also list. It raises StorageUnavailable, BadConfig."""

    def scan(self, spans: Spans) -> list[StoredFile]:
        """Returns every file outside of `spans` and none inside, in no order. Files that vanish meanwhile are left
        out."""

    def folders(self) -> list[str]:
        """Returns the names of folders directly below, at least the first of them."""

    def read(self, file: Stored, offset: int, length: int) -> bytes: ...

    def read_if_there(self, path: str, length: int) -> bytes | None:
        """Returns the first `length` bytes, or None if the storage exists but the file does not."""

    def write(self, path: str, content: bytes) -> None:
        """Writes a whole file and replaces one of that name; it is durable on return. It is never called for an
        upstream."""


def changed_error(path: str) -> StorageChanged:
    """Returns the error for a file that is no longer the one that was listed."""
    return StorageChanged(
        "it was rewritten after it was listed", hint="run again: the next listing finds it as it is now", path=path
    )


def nanoseconds(moment: object) -> int:
    """Returns a modification time as a storage reports it, ISO 8601 or a datetime, in ns since 1970; 0 for anything
    else."""
    try:
        time = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    except ValueError:
        return 0
    return int(time.replace(tzinfo=time.tzinfo or UTC).timestamp() * 1000) * 1_000_000


def check_length(file: Stored, offset: int, length: int, content: bytes) -> bytes:
    """Returns `content`. Raises StorageUnavailable if it is not all that was requested: a connection that broke must
    not look like a file's end."""
    expected = max(min(length, file.size - offset), 0)
    if len(content) != expected:
        raise StorageUnavailable(
            f"only {len(content)} of {expected} bytes came from offset {offset}",
            hint="check that the storage can be reached",
            path=file.path,
        )
    return content
