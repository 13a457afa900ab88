"""Index files: they name the newest data file of their folder. A hint: the file named may not be there yet."""

from __future__ import annotations

from consumer.errors import CorruptFile
from consumer.layout.paths import DataPath, IndexPath, PathParser, render


def parse_index_file(path: IndexPath, content: bytes) -> DataPath:
    """The data file that the index file at `path` names. Raises CorruptFile."""
    folder = path.folder
    try:
        name = content.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise _corrupt(path) from error
    if "/" not in name:
        named = PathParser().parse(f"{folder.version}/{name}")
        if isinstance(named, DataPath) and named.folder.dispatcher == folder.dispatcher:
            return DataPath(folder, named.index, named.extension)
    raise _corrupt(path)


def _corrupt(path: IndexPath) -> CorruptFile:
    return CorruptFile(
        "this index file does not name a data file of its folder",
        table=path.folder.root,
        path=render(path),
        version=path.folder.version,
    )
