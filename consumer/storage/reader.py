"""The storage as the driver sees it: checkpoint, listing, bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from consumer.errors import CheckpointMissing, ConsumerError, TableError
from consumer.layout.checkpoint_file import parse_checkpoint
from consumer.layout.paths import DataPath, PathParser, SchemaPath, Unknown, known_versions, schema_path
from consumer.layout.schema_file import parse_schema_file
from consumer.model.files import Bounds, DataFile, Listing, SchemaFile, StoredFile
from consumer.model.load import Dialect
from consumer.model.progress import Progress
from consumer.ports import RangeReader
from consumer.storage.bounds import read_bounds
from consumer.storage.csv_bounds import read_csv_bounds
from consumer.storage.files import open_files
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans, read_spans

_METADATA_SIZE = 4096
"""Far more than the one number in it takes."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class FsspecReader:
    """A `ports.StorageReader` of local files, of S3, and of the object storages that fsspec knows.

    `date_separator` is the changefeed's (None: not known), `dialect` is how it writes rows; `pool_size` files are read
    at a time. Each schema file is read once, and again only when it has changed.
    """

    def __init__(
        self,
        settings: StorageSettings,
        date_separator: str | None = None,
        pool_size: int = 16,
        dialect: Dialect = Dialect(),  # noqa: B008 - frozen
    ) -> None:
        self.identity = settings.identity
        self._date_separator = date_separator
        self._pool_size = pool_size
        self._dialect = dialect
        self._files = open_files(settings)
        self._schemas: dict[StoredFile, SchemaFile | TableError] = {}

    def checkpoint(self) -> int:
        content = self._files.read_if_there("metadata", _METADATA_SIZE)
        if content is None:
            raise CheckpointMissing(
                f"there is no file metadata in {self.identity}",
                hint="the changefeed writes it seconds after its start; without it give --checkpoint-ts",
            )
        return parse_checkpoint(content)

    def listing(self, checkpoint: int, progress: Progress | None = None) -> Listing:
        ours = progress is not None and progress.upstream == self.identity
        spans = read_spans(progress) if progress is not None and ours else Spans()
        stored = self._files.scan(spans)
        schema_paths = {file: found for file in stored if (found := schema_path(file.path)) is not None}
        parser = PathParser(known_versions(schema_paths.values()), self._date_separator)
        files: dict[str, list[DataFile]] = {}
        unknown = []
        for file in stored:
            match parser.parse(file.path):
                case DataPath(folder, index, _):
                    data = DataFile(folder, index, file.path, file.size, file.stamp)
                    files.setdefault(folder.root, []).append(data)
                case Unknown(path):
                    unknown.append(path)
        for group in files.values():
            group.sort(key=_file_order)
        parsed = self._parsed_schemas(schema_paths)
        schemas = [schema for schema in parsed if isinstance(schema, SchemaFile)]
        schemas.sort(key=lambda schema: (schema.version, schema.path))
        broken = [error for error in parsed if isinstance(error, TableError)]
        return Listing(checkpoint, schemas, files, sorted(unknown), broken, partial=bool(spans.all))

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        if self._dialect.timeless:
            return {}
        found = self._concurrently(partial(_bounds_or_error, self._files, self._dialect), files)
        return dict(zip((file.path for file in files), found, strict=True))

    def range_reader(self) -> RangeReader:
        return self._files

    def _parsed_schemas(self, paths: Mapping[StoredFile, SchemaPath]) -> Sequence[SchemaFile | TableError]:
        """The schema files of a listing; one that has vanished since is left out, like one that was never there."""
        new = [file for file in paths if file not in self._schemas]
        contents = self._concurrently(lambda file: self._files.read_if_there(file.path, file.size), new)
        read = zip(new, contents, strict=True)
        known = {file: parsed for file, parsed in self._schemas.items() if file in paths}
        known |= {file: _schema_or_error(paths[file], content) for file, content in read if content is not None}
        self._schemas = known
        return list(known.values())

    def _concurrently(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> list[_Out]:
        with ThreadPoolExecutor(self._pool_size, thread_name_prefix="storage") as pool:
            return list(pool.map(function, items))


def _file_order(file: DataFile) -> tuple[int, str, str, str, int]:
    folder = file.folder
    return (folder.version, folder.partition, folder.date, folder.dispatcher, file.index)


def _schema_or_error(path: SchemaPath, content: bytes) -> SchemaFile | TableError:
    try:
        return parse_schema_file(path, content)
    except TableError as error:
        return error


def _bounds_or_error(reader: RangeReader, dialect: Dialect, file: DataFile) -> Bounds | ConsumerError:
    try:
        if dialect.csv is not None:
            return read_csv_bounds(reader, file, dialect)
        return read_bounds(reader, file, dialect.terminator)
    except TableError as error:
        return error
