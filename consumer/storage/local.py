"""``file://``, which is often a mounted share: it uses system calls alone, as few as possible."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from dataclasses import dataclass
from typing import Any

from consumer.errors import StorageChanged, StorageUnavailable
from consumer.model.files import StoredFile
from consumer.model.process import put_in_place
from consumer.ports import Stored
from consumer.storage.errors import translated_errors
from consumer.storage.files import changed_error, check_length
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of a folder. A file's stamp is its modification time in ns."""

    settings: StorageSettings

    def scan(self, spans: Spans) -> list[StoredFile]:
        with translated_errors(self.settings, "the storage"):
            files, vanished = list[StoredFile](), list[str]()
            self._collect(files, vanished, "", os.scandir(self.settings.prefix), spans, (self.settings.prefix,))
            if (returned_path := next(filter(self._is_there, vanished), None)) is not None:
                raise _came_back(returned_path)
            return files

    def folders(self) -> list[str]:
        with translated_errors(self.settings, "the storage"), os.scandir(self.settings.prefix) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        with translated_errors(self.settings, "file", file.path), self._open(file.path) as opened:
            if file.stamp and str(os.fstat(opened.fileno()).st_mtime_ns) != file.stamp:
                raise changed_error(file.path)
            return check_length(file, offset, length, _filled(opened, offset, length))

    def read_if_there(self, path: str, length: int) -> bytes | None:
        with translated_errors(self.settings, "file", path):
            try:
                with self._open(path) as file:
                    return _filled(file, 0, length)
            except FileNotFoundError:
                os.stat(self.settings.prefix)
                return None

    def write(self, path: str, content: bytes) -> None:
        with translated_errors(self.settings, "file", path, "write"):
            absolute_path = self._absolute(path)
            folder = os.path.dirname(absolute_path)
            os.makedirs(folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as file:
                try:
                    file.write(content)
                    put_in_place(file, absolute_path)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(file.name)  # else each retry on a full disk would leave one
                    raise

    def _open(self, path: str) -> Any:
        """Opens a file. Raises StorageUnavailable if it is no regular file: opening a FIFO would wait for its
        writer."""
        opened = open(self._absolute(path), "rb", buffering=0, opener=_at_once)  # noqa: SIM115 - the caller closes it
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            opened.close()
            raise StorageUnavailable(
                "it is no regular file but a FIFO or a device", hint="take it away, or put the file there", path=path
            )
        if not self._is_inside(self._absolute(path)):
            opened.close()
            raise _leads_out(path)
        return opened

    def _is_inside(self, absolute_path: str) -> bool:
        """Returns whether the path lies in the storage's folder once links are resolved."""
        folder = os.path.realpath(self.settings.prefix).rstrip("/")
        return f"{os.path.realpath(absolute_path)}/".startswith(f"{folder}/")

    def _is_there(self, path: str) -> bool:
        try:
            os.stat(self._absolute(path))
        except FileNotFoundError:
            return False
        return True

    def _collect(
        self,
        files: list[StoredFile],
        vanished: list[str],
        directory: str,
        entries: Any,
        spans: Spans,
        above: tuple[str, ...],
    ) -> None:
        """Adds the files below `directory` to `found`, and to `vanished` the paths that were listed and then missing.
        `above` are the folders that lead here, this one last."""
        with entries:
            for entry in entries:
                path = f"{directory}/{entry.name}" if directory else entry.name
                try:
                    if entry.is_symlink() and not self._is_inside(entry.path):
                        raise _leads_out(path)
                    if not entry.is_dir():
                        if spans.covering(path) is None:
                            state = entry.stat()
                            # What is no regular file has no size, and must be read to be refused; an empty file need
                            # not be read.
                            size = state.st_size if stat.S_ISREG(state.st_mode) else 1
                            files.append(StoredFile(path, size, str(state.st_mtime_ns), state.st_mtime_ns))
                        continue
                    if spans.covers_directory(path):
                        continue
                    # A share answers each call by itself: only the target of a link can be a folder above.
                    if entry.is_symlink() and any(os.path.samefile(entry.path, folder) for folder in above):
                        raise _loop(path)
                    inner = os.scandir(entry.path)
                except FileNotFoundError:
                    vanished.append(path)
                    continue
                except OSError as error:
                    if error.errno == errno.ELOOP:
                        raise _loop(path) from error
                    raise
                self._collect(files, vanished, path, inner, spans, (*above, entry.path))

    def _absolute(self, path: str) -> str:
        return f"{self.settings.prefix}/{path}"


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _loop(path: str) -> StorageUnavailable:
    return StorageUnavailable(
        "it is a symbolic link that leads back to itself or to a folder above it", hint="take the link away", path=path
    )


def _came_back(path: str) -> StorageChanged:
    """Files below it may be missing in the listing. What a clean-up deletes does not come back."""
    return StorageChanged(
        "it was not there for a moment while the storage was listed", hint="run again: nothing is lost", path=path
    )


def _leads_out(path: str) -> StorageUnavailable:
    return StorageUnavailable(
        "it is a symbolic link that leads out of the storage's folder",
        hint="put what it leads to in its place, or mount it there",
        path=path,
    )


def _filled(file: Any, offset: int, length: int) -> bytes:
    """Returns `length` bytes from `offset`, fewer only at the file's end: one system call may return less."""
    file.seek(offset)
    parts = []
    while length > 0 and (part := file.read(length)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
