"""The storage as the driver sees it: checkpoint, listing, bounds."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from consumer.codec import protocol_of
from consumer.errors import (
    CheckpointMissing,
    ConsumerError,
    CorruptFile,
    FileUnreadable,
    StorageChanged,
    StorageUnavailable,
    TableError,
)
from consumer.layout.paths import DataPath, IndexPath, PathParser, SchemaPath, Unknown, known_versions, schema_path
from consumer.layout.pointers import parse_checkpoint, parse_index_file
from consumer.layout.schema_file import MAX_BYTES, parse_schema_file
from consumer.model.files import Bounds, DataFile, Folder, IndexEntry, Listing, SchemaFile, StoredFile
from consumer.model.load import Dialect
from consumer.model.progress import Progress
from consumer.ports import RangeReader, Stored
from consumer.storage import open_files
from consumer.storage.schema_cache import cache_schemas, cached_schemas
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans, read_spans

_SMALL_SIZE = 4096
"""Bytes; far more than the one number in `metadata` takes, or the one name in an index file."""

_HEAD_SIZE = 1 << 20
"""Bytes that are read of a file for its first row."""

_LOOKED_INTO = 100
_SHOWN = 5
_THREADS = 16
_LEVELS_UP = 4
"""The levels from a date folder up to the changefeed's: the database, the table, its version, the date."""
_BEGINS = "the changefeed writes it seconds after its start; `inspect` shows what is there; without it "
_EMPTY = "there is nothing that TiCDC writes: check the bucket and the prefix of --upstream-uri"
_GIVE_IT = "give --checkpoint-ts"
_LEAVE_OUT = "leave this upstream out of the file"

_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, slots=True)
class _Head:
    """A `ports.RangeReader` of the beginning of a file, which was read already."""

    content: bytes

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


class ChangefeedReader:
    """A `ports.StorageReader` of any storage that `open_files` opens: local files, S3, and what fsspec supports.

    `date_separator` is the changefeed's (None: not known), `dialect` is how it writes rows. Each schema file is read
    once, by this or an earlier command, and again only if it has changed. `together`: other storages depend on its
    checkpoint, so nothing can replace `metadata`.
    """

    def __init__(
        self,
        settings: StorageSettings,
        date_separator: str | None = None,
        dialect: Dialect = Dialect(),  # noqa: B008 - frozen
        together: bool = False,
    ) -> None:
        self.identity, self._settings = settings.identity, settings
        self._date_separator = date_separator
        self._dialect = dialect
        self._together = together
        self._files = open_files(settings)
        self._schemas: dict[StoredFile, SchemaFile | TableError] | None = None

    def checkpoint(self) -> int:
        content = self._files.read_if_there("metadata", _SMALL_SIZE)
        if content is None:
            near = self.elsewhere() or " or ".join(f"{self.identity.rstrip('/')}/{folder}" for folder in self._below())
            raise CheckpointMissing(
                f"there is no file metadata in {self.identity}",
                hint=f"there is one in {near}: did you mean that?"
                if near
                else _BEGINS + (_LEAVE_OUT if self._together else _GIVE_IT)
                if self._files.folders()
                else _EMPTY,
            )
        return parse_checkpoint(content)

    def elsewhere(self) -> str:
        """Returns the nearest location above that has a `metadata`, "" if there is none. If there is one, the URI is
        too deep."""
        for above in itertools.islice(self._settings.above(), _LEVELS_UP):
            with contextlib.suppress(ConsumerError):  # a login may have no rights there
                if open_files(above).read_if_there("metadata", 1) is not None:
                    return above.identity
        return ""

    def _below(self) -> list[str]:
        """Returns the folders directly below that have a `metadata`, at most _SHOWN. If there are any, the URI ends one
        level too high."""
        try:
            folders = self._files.folders()[:_LOOKED_INTO]
            contents = self._concurrently(lambda name: self._files.read_if_there(f"{name}/metadata", 1), folders)
        except ConsumerError:
            return []
        return [name for name, content in zip(folders, contents, strict=True) if content is not None][:_SHOWN]

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        is_same_upstream = progress is not None and progress.upstream == self.identity
        spans = read_spans(progress, whole) if progress is not None and is_same_upstream else Spans()
        stored = self._files.scan(spans)
        schema_paths: dict[StoredFile, SchemaPath] = {}
        other_files: list[StoredFile] = []
        unknown = []
        packed: dict[Folder, int] = {}
        for file in stored:
            if not _is_utf8(file.path):
                unknown.append(file.path)
            elif (parsed_path := schema_path(file.path)) is not None:
                schema_paths[file] = parsed_path
            else:
                other_files.append(file)
        parser = PathParser(known_versions(schema_paths.values()), self._date_separator)
        files: dict[str, list[DataFile]] = {}
        indexes: dict[Folder, StoredFile] = {}
        for file in other_files:
            match parser.parse(file.path):
                case DataPath(folder, index, _):
                    data = DataFile(folder, index, file.path, file.size, file.stamp, file.modified)
                    files.setdefault(folder.root, []).append(data)
                case IndexPath(folder, _):
                    indexes[folder] = file
                case Unknown(path):
                    unknown.append(path)
                    if isinstance(data_path := parser.parse(path.rpartition(".")[0]), DataPath):
                        packed[data_path.folder] = max(data_path.index, packed.get(data_path.folder, 0))
        for root, group in list(files.items()):
            group.sort(key=_file_order)
            if not all(file.size for file in group):
                files[root] = _without_just_created(group)
        parsed = self._parsed_schemas(schema_paths)
        schemas = [schema for schema in parsed if isinstance(schema, SchemaFile)]
        schemas.sort(key=lambda schema: (schema.version, schema.path))
        broken = [error for error in parsed if isinstance(error, TableError)]
        listed = {file.folder for group in files.values() for file in group}
        recorded_folders = progress.folders if progress is not None and is_same_upstream else ()
        missing_folders = tuple(f for f in recorded_folders if f not in listed and f not in spans.closed)
        return Listing(
            checkpoint,
            schemas,
            files,
            sorted(unknown),
            broken,
            partial=bool(spans.all),
            indexes=indexes,
            packed=packed,
            empty_folders=missing_folders,
            closed=spans.closed,
        )

    def named(self, indexes: Mapping[Folder, StoredFile]) -> Mapping[Folder, IndexEntry]:
        contents = self._concurrently(self._index_content, indexes.values())
        named_files = {folder: _named(folder, *content) for folder, content in zip(indexes, contents, strict=True)}
        return {folder: named for folder, named in named_files.items() if named is not None}

    def _index_content(self, file: StoredFile) -> tuple[bytes | None, bool]:
        """Returns the content, and whether the file is still the one that was listed."""
        try:
            return self._files.read(file, 0, min(file.size, _SMALL_SIZE)), True
        except (StorageChanged, StorageUnavailable):
            return self._files.read_if_there(file.path, _SMALL_SIZE), False

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        if self._dialect.timeless:
            return {}
        results = self._concurrently(partial(_bounds_or_error, self._files, self._dialect), files)
        return dict(zip((file.path for file in files), results, strict=True))

    def first_ts(self, file: DataFile) -> int | None:
        if self._dialect.timeless:
            self._files.read(file, 0, 1)
            return None
        head = self._files.read_if_there(file.path, _HEAD_SIZE)
        if head is None:
            return None
        try:
            return protocol_of(self._dialect).first_ts(_Head(head), replace(file, size=len(head)), self._dialect)
        except CorruptFile:
            return None

    @property
    def own(self) -> ChangefeedReader:
        return self

    holds: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def range_reader(self) -> RangeReader:
        return self._files

    def _parsed_schemas(self, paths: Mapping[StoredFile, SchemaPath]) -> Sequence[SchemaFile | TableError]:
        """Returns the schema files of a listing. One that is missing now is an error, too: only people remove them, and
        a statement that is skipped now would be late once the file is back."""
        cached = cached_schemas(self.identity) if self._schemas is None else self._schemas
        new_files = [file for file in paths if file not in cached]
        contents = dict(zip(new_files, self._concurrently(self._schema_content, new_files), strict=True))
        broken = [
            _unreadable(paths[file], error) for file, error in contents.items() if isinstance(error, StorageUnavailable)
        ]
        if broken:
            self._files.read_if_there("metadata", _SMALL_SIZE)  # the storage itself must answer
        read = {file: _schema_or_error(paths[file], text) for file, text in contents.items() if isinstance(text, bytes)}
        self._schemas = {file: parsed for file, parsed in cached.items() if file in paths} | read
        if any(isinstance(parsed, SchemaFile) for parsed in read.values()):
            readable = {file: parsed for file, parsed in self._schemas.items() if isinstance(parsed, SchemaFile)}
            cache_schemas(self.identity, readable)
        return [*self._schemas.values(), *broken]

    def _schema_content(self, file: StoredFile) -> bytes | StorageUnavailable:
        try:
            content = self._files.read_if_there(file.path, min(file.size, MAX_BYTES + 1))
        except StorageUnavailable as error:
            return error
        return StorageUnavailable("it was listed, and is not there", path=file.path) if content is None else content

    def _concurrently(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="storage") as pool:
            return list(pool.map(function, items))


def _named(folder: Folder, content: bytes | None, as_listed: bool) -> IndexEntry | None:
    try:
        return None if content is None else IndexEntry(parse_index_file(IndexPath(folder), content).index, as_listed)
    except CorruptFile:
        return None


def _is_utf8(path: str) -> bool:
    """Returns whether the path is UTF-8, as all of TiCDC's names are; a local folder can have others."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def _without_just_created(files: Sequence[DataFile]) -> list[DataFile]:
    """Returns `files`, in order, without an empty one that is the newest of its series. A local writer has only created
    that file so far: TiCDC writes no empty files, and a writer begins the next file when it has finished one."""
    newest = {file.folder.series: file for file in files}
    return [file for file in files if file.size or file is not newest[file.folder.series]]


def _file_order(file: DataFile) -> tuple[int, str, str, str, int]:
    folder = file.folder
    return (folder.version, folder.partition, folder.date, folder.dispatcher, file.index)


def _unreadable(path: SchemaPath, error: ConsumerError) -> FileUnreadable:
    return FileUnreadable(
        error.message, hint="make the file readable again", table=path.root, path=error.path, version=path.version
    )


def _schema_or_error(path: SchemaPath, content: bytes) -> SchemaFile | TableError:
    try:
        return parse_schema_file(path, content)
    except TableError as error:
        return error


def _bounds_or_error(reader: RangeReader, dialect: Dialect, file: DataFile) -> Bounds | ConsumerError:
    try:
        return protocol_of(dialect).bounds(reader, file, dialect)
    except ConsumerError as error:
        return error
