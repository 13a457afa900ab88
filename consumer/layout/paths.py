"""The grammar of TiCDC's storage paths, and its inverse. Paths are relative to the upstream URI.

::

    metadata
    ROOT/meta/schema_V_CRC10.json        schema file; ROOT is database/table, a database, or a table id
    ROOT/V/schema.json                   the same, before checksums
    FOLDER/CDC[_DISPATCHER_]INDEX.json   data file (the protocol's extension); FOLDER is ROOT/V[/PARTITION][/DATE]
    FOLDER/meta/CDC[_DISPATCHER].index   index file
    FOLDER/CDC.index                     the same, before meta/
    ANY.tmp.SUFFIX                       a file that a local writer renames when it is complete

Names are not escaped, so a FOLDER alone does not show where its ROOT ends. It is read from the right, and of several
readings the best is taken, by: a schema file of this ROOT and V in the same listing, any schema file of this ROOT, the
date level that was configured, the greatest V (a TSO is above every partition id), and no year (a year that is taken
for a partition only divides a series, while partitions that are taken for years would be joined into one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache

from consumer.codec import PROTOCOLS
from consumer.model.files import Folder

INDEX_WIDTH = 20
"""TiCDC's own default of ``file-index-digit``."""
UINT64_MAX = (1 << 64) - 1

_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,19})", re.ASCII)
_PARTITION = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_DATES = {
    "year": re.compile(r"2[01][0-9]{2}"),
    "month": re.compile(r"[0-9]{4}-[0-9]{2}"),
    "day": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}
_SCHEMA_NAME = re.compile(r"schema_(0|[1-9][0-9]{0,19})_([0-9]{10})\.json")
_EXTENSIONS = "|".join(protocol.extension for protocol in PROTOCOLS.values())
_DATA_NAME = re.compile(rf"CDC(?:_([0-9]{{1,40}})_)?([0-9]{{6,20}})\.({_EXTENSIONS})")
_INDEX_NAME = re.compile(r"CDC(?:_([0-9]{1,40}))?\.index")
_TEMPORARY_NAME = re.compile(r".+\.tmp\..+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SchemaPath:
    """The path of a schema file. `checksum` is None in the old form, whose name has none."""

    root: str
    version: int
    checksum: int | None


@dataclass(frozen=True, slots=True)
class DataPath:
    folder: Folder
    index: int
    extension: str = "json"


@dataclass(frozen=True, slots=True)
class IndexPath:
    """The path of an index file. `old_form` is the old form: next to the data files, not in ``meta/``."""

    folder: Folder
    old_form: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """The file with the changefeed's checkpoint."""


@dataclass(frozen=True, slots=True)
class Temporary:
    path: str


@dataclass(frozen=True, slots=True)
class Unknown:
    path: str


StoragePath = SchemaPath | DataPath | IndexPath | Metadata | Temporary | Unknown


def render(value: StoragePath, index_width: int = INDEX_WIDTH) -> str:
    """Returns the path of `value`. `index_width` is the changefeed's ``file-index-digit``."""
    match value:
        case SchemaPath(root, version, None):
            return _join(root, str(version), "schema.json")
        case SchemaPath(root, version, checksum):
            return _join(root, "meta", f"schema_{version}_{checksum:010d}.json")
        case DataPath(folder, index, extension):
            dispatcher = f"_{folder.dispatcher}_" if folder.dispatcher else ""
            return _join(directory_of(folder), f"CDC{dispatcher}{index:0{index_width}d}.{extension}")
        case IndexPath(folder, beside):
            name = f"CDC_{folder.dispatcher}.index" if folder.dispatcher else "CDC.index"
            return _join(directory_of(folder), name if beside else f"meta/{name}")
        case Metadata():
            return "metadata"
        case Temporary(path) | Unknown(path):
            return path


def schema_path(path: str) -> SchemaPath | None:
    """Returns `path` as that of a schema file, None if it is none. This is the only form that can be read without other
    paths."""
    directory, _, name = path.rpartition("/")
    if not name.startswith("schema"):
        return None
    parent, _, level = directory.rpartition("/")
    if (named := _SCHEMA_NAME.fullmatch(name)) and level == "meta":
        version = int(named[1])
        return SchemaPath(parent, version, int(named[2])) if version <= UINT64_MAX else None
    if name == "schema.json" and (old := _number(level)) is not None:
        return SchemaPath(parent, old, None)
    return None


def known_versions(schemas: Iterable[SchemaPath]) -> dict[str, set[int]]:
    """Returns the versions of each root, from the schema files of a listing."""
    versions: dict[str, set[int]] = {}
    for schema in schemas:
        versions.setdefault(schema.root, set()).add(schema.version)
    return versions


class PathParser:
    """Parses the paths of one listing. It remembers folders, so that a path costs little more than a look-up.

    `known` are the versions of each root. `date_separator` is ``none|year|month|day``, or None if it is not known.
    """

    def __init__(self, known: Mapping[str, Set[int]] | None = None, date_separator: str | None = None) -> None:
        self._known = known or {}
        self._date_separator = date_separator
        self._folders: dict[tuple[str, str], Folder | None] = {}

    def parse(self, path: str) -> StoragePath:
        """Returns the parsed path, Unknown for a path that has none of the forms above. Never raises."""
        directory, _, name = path.rpartition("/")
        if data := _DATA_NAME.fullmatch(name):
            folder = self._folder(directory, data[1] or "")
            index = int(data[2])
            return DataPath(folder, index, data[3]) if folder and index <= UINT64_MAX else Unknown(path)
        if path == "metadata":
            return Metadata()
        if index_name := _INDEX_NAME.fullmatch(name):
            return self._index_path(path, directory, index_name[1] or "")
        if schema := schema_path(path):
            return schema
        return Temporary(path) if _TEMPORARY_NAME.fullmatch(name) else Unknown(path)

    def _index_path(self, path: str, directory: str, dispatcher: str) -> StoragePath:
        parent, _, level = directory.rpartition("/")
        beside = level != "meta"
        folder = self._folder(directory if beside else parent, dispatcher)
        return IndexPath(folder, beside) if folder else Unknown(path)

    def _folder(self, directory: str, dispatcher: str) -> Folder | None:
        key = (directory, dispatcher)
        if key not in self._folders:
            readings = _readings(directory, dispatcher)
            self._folders[key] = max(readings, key=self._likelihood, default=None)
        return self._folders[key]

    def _likelihood(self, folder: Folder) -> tuple[bool, bool, bool, int, bool]:
        versions = self._known.get(folder.root)
        level = date_level(folder.date)
        return (
            versions is not None and folder.version in versions,
            versions is not None,
            level == self._date_separator,
            folder.version,
            level != "year",
        )


@lru_cache(1 << 12)
def date_level(date: str) -> str:
    """Returns the ``date-separator`` that makes a folder called `date`; "none" for ""."""
    return next((level for level, pattern in _DATES.items() if pattern.fullmatch(date)), "none")


def _readings(directory: str, dispatcher: str) -> Iterator[Folder]:
    """Yields every way to read `directory` as ROOT/V[/PARTITION][/DATE]."""
    names = directory.split("/")
    for date, levels in _without_date(names):
        if levels and (version := _number(levels[-1])) is not None:
            yield Folder("/".join(levels[:-1]), version, "", date, dispatcher)
        if len(levels) > 1 and _is_partition(levels[-1]) and (version := _number(levels[-2])) is not None:
            yield Folder("/".join(levels[:-2]), version, levels[-1], date, dispatcher)


def _without_date(names: list[str]) -> Iterator[tuple[str, list[str]]]:
    yield "", names
    if date_level(names[-1]) != "none":
        yield names[-1], names[:-1]


def _is_partition(text: str) -> bool:
    return _PARTITION.fullmatch(text) is not None and int(text) < 1 << 63


def _number(text: str) -> int | None:
    """Returns a version as TiCDC prints it: decimal, not padded, 64 bits; None for other texts."""
    if _NUMBER.fullmatch(text) and (number := int(text)) <= UINT64_MAX:
        return number
    return None


def directory_of(folder: Folder) -> str:
    """Returns the path of the folder in which the files of `folder` are."""
    return _join(folder.root, str(folder.version), folder.partition, folder.date)


def _join(*levels: str) -> str:
    return "/".join(level for level in levels if level)
