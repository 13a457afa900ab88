"""Parses the two small files next to the data: ``metadata``, up to where the changefeed is complete, and index files,
which name the newest data file of their folder. An index file is a hint: the file that it names may not exist yet."""

from __future__ import annotations

import orjson

from consumer.errors import CorruptFile, StorageUnavailable
from consumer.layout.paths import DataPath, IndexPath, PathParser, render
from consumer.model.times import MAX_TSO


def parse_checkpoint(content: bytes) -> int:
    """Returns ``checkpoint-ts`` of ``{"checkpoint-ts":N}``. Raises StorageUnavailable: TiCDC will soon write it
    again."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _no_checkpoint(f"it is not JSON ({error})") from error
    checkpoint = document.get("checkpoint-ts") if isinstance(document, dict) else None
    if not isinstance(checkpoint, int) or isinstance(checkpoint, bool) or not 0 <= checkpoint <= MAX_TSO:
        raise _no_checkpoint("it has no member checkpoint-ts that is a TSO")
    return checkpoint


def _no_checkpoint(reason: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"this is not the checkpoint file of a changefeed: {reason}",
        path="metadata",
        hint="check that the upstream URI is the changefeed's sink URI; TiCDC rewrites this file every few seconds",
    )


def parse_index_file(path: IndexPath, content: bytes) -> DataPath:
    """Returns the data file that the index file at `path` names. Raises CorruptFile."""
    folder = path.folder
    try:
        name = content.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _no_index(path) from error
    if "/" not in name:
        named = PathParser().parse(f"{folder.version}/{name}")
        if isinstance(named, DataPath) and named.folder.dispatcher == folder.dispatcher:
            return DataPath(folder, named.index, named.extension)
    raise _no_index(path)


def _no_index(path: IndexPath) -> CorruptFile:
    return CorruptFile(
        "this index file does not name a data file of its folder",
        table=path.folder.root,
        path=render(path),
        version=path.folder.version,
    )
