"""Numbers missing between what was read and what is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from consumer.errors import GapFound
from consumer.model.files import DataFile, Folder
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress


def find_gap(table: TableName, files: Iterable[DataFile], folders: Mapping[Folder, FolderProgress]) -> GapFound | None:
    """The first hole in the numbers of a folder above its last done file; a folder never read must begin at 1.

    TiCDC's clean-up removes whole date folders, so a hole inside one is a lost file. `files` are sorted.
    """
    for folder, group in groupby(files, key=lambda file: file.folder):
        expected = folders.get(folder, FolderProgress()).done + 1
        for file in group:
            if file.index < expected:
                continue
            if file.index > expected:
                return GapFound(
                    f"file number {expected} is missing before number {file.index}",
                    hint="restore the missing file, or accept the loss of its rows with --accept-gap",
                    table=str(table),
                    path=file.path,
                )
            expected = file.index + 1
    return None
