"""Google Cloud Storage and Azure, through fsspec. A listing either requests everything below a prefix, or one directory
after the other."""

from __future__ import annotations

import os
import posixpath
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from consumer.errors import BadConfig
from consumer.model.files import StoredFile
from consumer.ports import Stored
from consumer.storage.errors import refusal_code, translated_errors
from consumer.storage.files import changed_error, check_length, nanoseconds
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans

_PAGE = 1000
_FILESYSTEMS: dict[tuple[int, StorageSettings], Any] = {}
"""One filesystem, with its connections, for each process: they do not survive a fork."""
_MAKING = threading.Lock()


@dataclass(frozen=True, slots=True)
class RemoteFiles:
    """The files of a bucket or container. A file's stamp is its etag, in Google's storage its generation: the value
    that a request can demand."""

    settings: StorageSettings

    def scan(self, spans: Spans) -> list[StoredFile]:
        with translated_errors(self.settings, "the storage"):
            # Each folder with a span costs at least one request of its own, often three with those above and next to
            # it.
            files = self._listed("", spans) if spans.count > 3 * _PAGE * len(spans.all) else self._found()
            return [file for file in files if spans.covering(file.path) is None]

    def folders(self) -> list[str]:
        with translated_errors(self.settings, "the storage"):
            try:
                return self._look("")[1]
            except FileNotFoundError:
                self._check_bucket()
                return []

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        with translated_errors(self.settings, "file", file.path):
            try:
                content = self._range(file.path, offset, length, file.stamp)
            except Exception as error:
                if _is_another(error, file):
                    raise changed_error(file.path) from error
                raise
            return check_length(file, offset, length, content)

    def read_if_there(self, path: str, length: int) -> bytes | None:
        with translated_errors(self.settings, "file", path):
            try:
                return self._range(path, 0, length)
            except FileNotFoundError:
                self._check_bucket()
                return None
            except Exception as error:
                if refusal_code(error) == "BlobNotFound":
                    return None
                if refusal_code(error) in ("InvalidRange", "416"):
                    return b""
                raise

    def write(self, path: str, content: bytes) -> None:
        with translated_errors(self.settings, "file", path, "write"):
            self._filesystem().pipe_file(f"{self.settings.base}/{path}", content)

    def _check_bucket(self) -> None:
        """Raises FileNotFoundError if there is no bucket, for which Google's storage gives the answer of a missing
        object."""
        self._filesystem().call("GET", "b/{}/o", self.settings.bucket, maxResults=1)

    def _found(self) -> Iterable[StoredFile]:
        if self.settings.scheme == "azblob":
            files = blobs(self._filesystem(), self.settings.bucket, self._prefix, None)[0]
            if not files and self._is_a_file():
                raise BadConfig(f"{self.settings.called} names a file, not a folder: {self.settings.identity}")
            return files
        infos = self._filesystem().find(self.settings.base, detail=True).values()
        return [file for info in infos if (file := self._stored(info)).path and _is_file(info)]

    def _listed(self, directory: str, spans: Spans) -> Iterator[StoredFile]:
        try:
            files, folders = self._look(directory)
        except FileNotFoundError:  # a clean-up was faster; the storage itself must exist
            if not directory:
                raise
            return
        yield from files
        for folder in folders:
            if folder != directory and not spans.covers_directory(folder):
                yield from self._listed(folder, spans)

    def _look(self, directory: str) -> tuple[list[StoredFile], list[str]]:
        """Returns the files and the folders directly below `directory`."""
        if self.settings.scheme == "azblob":
            return blobs(self._filesystem(), self.settings.bucket, self._prefix, directory)
        infos = self._filesystem().ls(f"{self.settings.base}/{directory}".rstrip("/"), detail=True)
        folders = [self._stored(info).path for info in infos if info["type"] == "directory"]
        return [self._stored(info) for info in infos if _is_file(info)], folders

    def _is_a_file(self) -> bool:
        """Returns whether Azure has a blob with the prefix's own name."""
        siblings = blobs(self._filesystem(), self.settings.bucket, "", posixpath.dirname(self.settings.prefix))[0]
        return any(file.path == self.settings.prefix for file in siblings)

    @property
    def _prefix(self) -> str:
        return f"{self.settings.prefix}/" if self.settings.prefix else ""

    def _stored(self, info: dict[str, Any]) -> StoredFile:
        path = str(info["name"]).strip("/")[len(self.settings.base) + 1 :]
        modified = nanoseconds(info.get("last_modified") or info.get("updated"))
        return StoredFile(path, int(info["size"] or 0), _stamp(info), modified)

    def _range(self, path: str, offset: int, length: int, stamp: str = "") -> bytes:
        """Makes one request, for the file with that stamp if one is given. No storage has empty ranges."""
        if length <= 0:
            return b""
        filesystem, absolute = self._filesystem(), f"{self.settings.base}/{path}"
        if self.settings.scheme == "azblob":
            content: bytes = download(filesystem, self.settings.bucket, f"{self._prefix}{path}", offset, length, stamp)
        else:
            content = filesystem.cat_file(absolute, start=offset, end=offset + length, generation=stamp or None)
        return content

    def _filesystem(self) -> Any:
        key = (os.getpid(), self.settings)
        with _MAKING:
            if key not in _FILESYSTEMS:
                _FILESYSTEMS[key] = _connected(self.settings)
        return _FILESYSTEMS[key]


def _filesystem_class(scheme: str) -> Any:
    if scheme == "azblob":
        from adlfs import AzureBlobFileSystem

        return AzureBlobFileSystem
    # The class that fsspec would choose asks Google for the kind of the bucket, whatever the endpoint is.
    from gcsfs.core import GCSFileSystem

    return GCSFileSystem


def _connected(settings: StorageSettings) -> Any:
    options = settings.fsspec_options()
    # A text that names no file would be taken for a token, and sent to be checked.
    if (login := options.get("token")) is not None and not os.path.isfile(login):
        raise BadConfig(f"the file that credentials-file of {settings.called} names is not there")
    try:
        return _filesystem_class(settings.scheme)(**options)
    except (ValueError, KeyError) as error:  # from both libraries, for a login that is not valid
        raise BadConfig(
            f"the login in {settings.called} of {settings.identity} cannot be used ({type(error).__name__})",
            hint="check the parameters that name it" if options else "",
        ) from error


def _is_another(error: Exception, file: Stored) -> bool:
    """Returns whether a request failed because the listed file no longer exists: another has its name, or (if a
    generation was requested) the answer is that there is none."""
    names = {base.__name__ for base in type(error).__mro__}
    return "ResourceModifiedError" in names or (bool(file.stamp) and isinstance(error, FileNotFoundError))


def _is_file(info: dict[str, Any]) -> bool:
    return info["type"] == "file" and not info["name"].endswith("/")


def _stamp(info: dict[str, Any]) -> str:
    """Returns Google's generation."""
    return str(info.get("generation") or "")


FilesAndFolders = tuple[list[StoredFile], list[str]]
"""Files, and the paths of folders."""
_QUOTE = '"'


def blobs(filesystem: Any, container: str, prefix: str, directory: str | None) -> FilesAndFolders:
    """Returns what lies directly below `directory`, or everything below `prefix` if that is None. Paths are relative to
    `prefix`, which ends in a slash if it is not empty. Raises azure-core's errors."""
    from fsspec.asyn import sync

    files_and_folders: FilesAndFolders = sync(filesystem.loop, _blobs, filesystem, container, prefix, directory)
    return files_and_folders


def download(filesystem: Any, container: str, blob: str, offset: int, length: int, stamp: str) -> bytes:
    """Returns a range of a blob, if the blob still has that etag; adlfs itself cannot request that. The bytes are as
    they are stored: a few bytes of compressed content could become any number."""
    from fsspec.asyn import sync

    content: bytes = sync(filesystem.loop, _download, filesystem, container, blob, offset, length, stamp)
    return content


async def _blobs(filesystem: Any, container: str, prefix: str, directory: str | None) -> FilesAndFolders:
    below = f"{prefix}{directory}/" if directory else prefix
    files, folders = list[StoredFile](), list[str]()
    async with filesystem.service_client.get_container_client(container) as client:
        arguments: dict[str, Any] = {"name_starts_with": below or None, "include": ["metadata"]}
        entries = client.list_blobs(**arguments) if directory is None else client.walk_blobs(**arguments, delimiter="/")
        async for blob in entries:
            path = blob.name[len(prefix) :]
            if not hasattr(blob, "size"):
                folders.append(path.rstrip("/"))
            elif path and not path.endswith("/") and not _is_folder(blob.metadata or {}):
                # In listings it lacks the quotation marks that other answers have, and that requests need.
                stamp = f'"{blob.etag.strip(_QUOTE)}"' if blob.etag else ""
                files.append(StoredFile(path, int(blob.size or 0), stamp, nanoseconds(blob.last_modified)))
    return files, folders


def _is_folder(metadata: dict[str, str]) -> bool:
    """Returns whether the blob is a folder: accounts with a hierarchical namespace list their folders as blobs, too."""
    return any(name.lower() == "hdi_isfolder" and value.lower() == "true" for name, value in metadata.items())


async def _download(filesystem: Any, container: str, blob: str, offset: int, length: int, stamp: str) -> bytes:
    from azure.core import MatchConditions

    unchanged = {"etag": stamp, "match_condition": MatchConditions.IfNotModified} if stamp else {}
    async with filesystem.service_client.get_blob_client(container=container, blob=blob) as client:
        stream = await client.download_blob(offset=offset, length=length, decompress=False, **unchanged)
        content: bytes = await stream.readall()
        return content
