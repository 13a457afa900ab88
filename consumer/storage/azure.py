"""Azure's requests that adlfs does not make, or makes otherwise, by the client that it has.

adlfs lists a directory by all names that begin like it: of one with a blob of its own name and a slash (other tools
make such ones) it finds nothing else, and it cuts names at "#" and at blanks.
"""

from __future__ import annotations

from typing import Any

from consumer.model.files import StoredFile
from consumer.storage.files import nanoseconds

Listed = tuple[list[StoredFile], list[str]]
"""Files, and the paths of folders."""
_QUOTE = '"'


def blobs(filesystem: Any, container: str, prefix: str, directory: str | None) -> Listed:
    """What lies right below `directory`, or all that lies below `prefix` where that is None: paths are relative to
    `prefix`, which ends in a slash if it is not empty. Raises azure-core's errors."""
    from fsspec.asyn import sync

    found: Listed = sync(filesystem.loop, _blobs, filesystem, container, prefix, directory)
    return found


def download(filesystem: Any, container: str, blob: str, offset: int, length: int, stamp: str) -> bytes:
    """A range of a blob, if it has that etag still; adlfs itself cannot ask for that. Its bytes as they are stored: of
    what says that it is compressed, a few could become any number."""
    from fsspec.asyn import sync

    content: bytes = sync(filesystem.loop, _download, filesystem, container, blob, offset, length, stamp)
    return content


async def _blobs(filesystem: Any, container: str, prefix: str, directory: str | None) -> Listed:
    below = f"{prefix}{directory}/" if directory else prefix
    files, folders = list[StoredFile](), list[str]()
    async with filesystem.service_client.get_container_client(container) as client:
        told: dict[str, Any] = {"name_starts_with": below or None, "include": ["metadata"]}
        found = client.list_blobs(**told) if directory is None else client.walk_blobs(**told, delimiter="/")
        async for blob in found:
            path = blob.name[len(prefix) :]
            if not hasattr(blob, "size"):
                folders.append(path.rstrip("/"))
            elif path and not path.endswith("/") and not _is_folder(blob.metadata or {}):
                # Listings have it without the quotation marks that other answers have, and that requests need.
                stamp = f'"{blob.etag.strip(_QUOTE)}"' if blob.etag else ""
                files.append(StoredFile(path, int(blob.size or 0), stamp, nanoseconds(blob.last_modified)))
    return files, folders


def _is_folder(metadata: dict[str, str]) -> bool:
    """Accounts with a hierarchical namespace list their folders as blobs, too."""
    return any(name.lower() == "hdi_isfolder" and value.lower() == "true" for name, value in metadata.items())


async def _download(filesystem: Any, container: str, blob: str, offset: int, length: int, stamp: str) -> bytes:
    from azure.core import MatchConditions

    unchanged = {"etag": stamp, "match_condition": MatchConditions.IfNotModified} if stamp else {}
    async with filesystem.service_client.get_blob_client(container=container, blob=blob) as client:
        stream = await client.download_blob(offset=offset, length=length, decompress=False, **unchanged)
        content: bytes = await stream.readall()
        return content
