"""An export of Dumpling as a storage. Its statements and files are those of a changefeed that wrote nothing else, and
the moment of the export is the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property

from consumer.codec import protocol_of
from consumer.errors import BadConfig, ConsumerError, CorruptFile, DdlRefused, StorageUnavailable
from consumer.layout.export import METADATA, ExportFiles, classify_files, data_files, export_moment, schema_files
from consumer.model.export import PACKINGS, DumplingFormat
from consumer.model.files import Bounds, DataFile, Folder, IndexEntry, Listing, StoredFile
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.ports import RangeReader
from consumer.storage import open_files
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans

_LARGEST_METADATA = 1 << 20
_THREADS = 16


class ExportReader:
    """A `ports.StorageReader`. `form` is how the files are written; its TSO is set by `of_moment`. Only tables that are
    `wanted` are read, and their databases."""

    holds: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def __init__(self, settings: StorageSettings, form: DumplingFormat, wanted: Callable[[TableName], bool]) -> None:
        self.identity = settings.identity
        self._files, self._form, self._wanted = open_files(settings), form, wanted
        self.refused: Mapping[TableName, CorruptFile | DdlRefused] = {}
        """Why statements of tables and views in the last listing cannot be read; the listing does not have them."""
        self.views: Mapping[TableName, str] = {}
        """The statements of all views that the last listing has, or would have."""

    def moment(self) -> str:
        """Returns the moment as it is in `metadata`. Raises BadConfig, StorageUnavailable."""
        try:
            content = self._files.read_if_there(METADATA, _LARGEST_METADATA)
        except StorageUnavailable as error:
            if isinstance(error.__cause__, FileNotFoundError):  # no mount that may return: it is given for one run
                raise BadConfig(error.message, hint="give the folder that Dumpling wrote to") from error
            raise
        if content is None:
            raise BadConfig(
                f"{self.identity} is no export of Dumpling: it has no `metadata`",
                hint="give the folder that Dumpling wrote to, once it has ended",
            )
        return export_moment(content.decode(errors="replace"))

    def of_moment(self, tso: int) -> None:
        """Sets the moment of the rows."""
        self._form = replace(self._form, tso=tso)

    def dialect(self, changefeed: Dialect) -> Dialect:
        """Returns how the rows are written; TIMESTAMPs are read by the clock of `changefeed`."""
        return Dialect("dumpling", self._form.terminator, self._form, changefeed.clock)

    @cached_property
    def files(self) -> ExportFiles:
        """The files of all tables. Raises BadConfig, StorageUnavailable."""
        return classify_files(self._files.scan(Spans()), self._wanted, self._form.chunks)

    @property
    def own(self) -> ExportReader:
        return self

    def checkpoint(self) -> int:
        return self._form.tso

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        databases = {name.database for name in self.files.tables if self._wanted(name)}
        taken = {
            name: file
            for name, file in self.files.statements.items()
            if (self._wanted(name) if name.table else name.database in databases)
        }
        chosen = replace(self.files, statements=taken, views={n: f for n, f in self.files.views.items() if n in taken})
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="export") as pool:
            texts = dict(zip(taken, pool.map(self._text, taken.values()), strict=True))
        schemas, self.refused = schema_files(chosen, texts, self._form)
        self.views = {name: texts[name] for name in chosen.views}
        return Listing(checkpoint, schemas, data_files(chosen, schemas), settled=True)

    def _text(self, file: StoredFile) -> str:
        if file.path.endswith(PACKINGS):
            from consumer.codec.packed import unpacked_parts

            content = b"".join(unpacked_parts(self._files, file))
        else:
            content = self._files.read(file, 0, file.size)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise CorruptFile("the statement is not UTF-8", path=file.path) from error

    def named(self, indexes: Mapping[Folder, StoredFile]) -> Mapping[Folder, IndexEntry]:
        return {}

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        dialect = self.dialect(Dialect())
        return {file.path: protocol_of(dialect).bounds(self._files, file, dialect) for file in files}

    def first_ts(self, file: DataFile) -> int | None:
        dialect = self.dialect(Dialect())
        return protocol_of(dialect).first_ts(self._files, file, dialect)

    def range_reader(self) -> RangeReader:
        return self._files
