"""Object stores and folders, through fsspec or by system calls. These are the kinds of storages."""

from __future__ import annotations

from consumer.storage.files import Files
from consumer.storage.settings import StorageSettings


def open_files(settings: StorageSettings) -> Files:
    """Returns the files of an upstream. Nothing is read or connected to yet, and no other kind of storage is
    imported."""
    if settings.scheme == "file":
        from consumer.storage.local import LocalFiles

        return LocalFiles(settings)
    if settings.scheme == "s3":
        from consumer.storage.s3 import S3Files

        return S3Files(settings)
    from consumer.storage.remote import RemoteFiles

    return RemoteFiles(settings)
