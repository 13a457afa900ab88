"""The interface of a protocol for code that does not know which one it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from consumer.errors import BadConfig
from consumer.model.columns import Column
from consumer.model.files import Bounds, DataFile, SchemaFile
from consumer.model.load import Dialect, FileSlice, Layout, LoadTarget, Options
from consumer.ports import RangeReader

if TYPE_CHECKING:
    from consumer.codec.rows import RowFile
    from consumer.ddl.declared import Definition

Declared = Callable[[SchemaFile], "Mapping[str, Definition]"]
"""Returns what the statements in storage declare of a schema file's columns, by their names in lower case."""


@dataclass(frozen=True, slots=True)
class Option:
    """A key of the protocol's table in the changefeed's file. `read` makes its value of what a person wrote, and raises
    ValueError; None accepts any value of the default's type. `may_be_open`: files do not always prove it."""

    key: str
    default: Any
    description: str
    read: Callable[[object], Any] | None = None
    may_be_open: bool = False


@dataclass(frozen=True, slots=True)
class Undecided:
    """An option that nobody set. A column that `needs` it cannot be read; ``{column}`` in the texts stands for its
    name."""

    needs: Callable[[Column], bool]
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file shows. `dialect` has what all `readings`, the likeliest first, have in common, and TiCDC's defaults
    for the rest; a protocol whose files leave nothing open has no readings. `commit_ts`: whether each row has one."""

    dialect: Dialect
    commit_ts: bool = False
    readings: tuple[Any, ...] = ()

    @property
    def marks(self) -> tuple[Dialect, bool]:
        """What every file shows by itself."""
        return replace(self.dialect, terminator=b"") if self.readings else self.dialect, self.commit_ts


@dataclass(frozen=True, slots=True)
class AgreedDialect:
    """What files of the same marks show together: the likeliest dialect, and the changefeed's keys that they leave
    open. `consistent`: one dialect explains them all."""

    dialect: Dialect
    commit_ts: bool
    unproven: tuple[str, ...] = ()
    consistent: bool = True


class RowProtocol(ABC):
    """How a changefeed encodes rows. Arrow is only needed to open or sniff a file."""

    name: ClassVar[str]
    """The value of TiCDC's `protocol`."""
    extension: ClassVar[str]
    """The extension of its data files' names."""
    density: ClassVar[int]
    """How many bytes of canal-JSON hold about as much as one byte of its files: memory is measured in those."""
    commit_ts: ClassVar[str]
    """The setting that gives rows their commit-ts: ``KEY=true in the changefeed's ..``."""
    writes_labels: ClassVar[bool] = False
    """Whether values of ENUM and SET are written as their labels, not as numbers."""
    writes_computed: ClassVar[bool] = True
    """Whether rows have values of the STORED columns that upstream computes."""
    own_options: ClassVar[Sequence[Option]] = ()
    """The options of its own table in the changefeed's file, ``[sink.NAME]``."""
    left_open: ClassVar[Collection[str]] = ()
    """The keys of those options that matter only to some columns."""

    @abstractmethod
    def splittable(self, dialect: Dialect) -> bool:
        """Returns whether a file can be read from its middle."""

    @abstractmethod
    def joinable(self, dialect: Dialect) -> bool:
        """Returns whether files of the same columns can be read one after the other as one."""

    @abstractmethod
    def bounds(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> Bounds:
        """Returns the bounds of a file whose rows have a time, from small reads at its two ends. Raises CorruptFile,
        StorageUnavailable."""

    @abstractmethod
    def first_ts(self, reader: RangeReader, file: DataFile, dialect: Dialect) -> int:
        """Returns the time of a file's first row. Raises CorruptFile, StorageUnavailable."""

    @abstractmethod
    def opened(
        self, reader: RangeReader, piece: FileSlice, target: LoadTarget, dialect: Dialect, layout: Layout
    ) -> RowFile:
        """Opens the file of a slice, to decode its rows. Raises CannotBeExact, CorruptFile, StorageUnavailable."""

    @abstractmethod
    def sniff(self, content: bytes, whole: bool, schema: SchemaFile, declared: Declared) -> Sniffed | None:
        """Returns what a file of the schema file's table shows by `content`, its head or all of it."""

    @abstractmethod
    def agreed(self, alike: Sequence[Sniffed]) -> AgreedDialect:
        """Returns what files of the same marks show together."""

    @abstractmethod
    def layouts(
        self, schemas: Sequence[SchemaFile], declared: Declared, target: LoadTarget, dialect: Dialect
    ) -> tuple[Layout, ...]:
        """Returns the columns of the rows in the folders of each schema file. Raises CannotBeExact."""

    def by_position(self, dialect: Dialect) -> bool:
        """Returns whether only the position of a value shows its column."""
        return False

    def tells_updates(self, dialect: Dialect) -> tuple[bool, bool]:
        """Returns whether the line of an UPDATE has the old row, and whether the line with the new row has the whole
        change."""
        return True, True

    def options(self, table: Mapping[str, Any]) -> Options | None:
        """Returns the options from the checked values under the keys of `own_options`."""
        return None

    def table(self, dialect: Dialect) -> Mapping[str, str | bool]:
        """Returns the values under their keys; the inverse of `options`."""
        return {}

    def check(self, dialect: Dialect, unproven: Collection[str]) -> None:
        """Raises BadConfig for options that are not usable, or are among the keys that the files do not prove."""
        return

    def undecided(self, dialect: Dialect, unproven: Collection[str]) -> tuple[Undecided, ...]:
        """Returns the options in `left_open` that are among these keys."""
        return ()

    def key_loss(self, dialect: Dialect, unsplit: str, way_out: str) -> BadConfig | None:
        """Returns what is lost of updates of keys if TiCDC does not split them, as `unsplit` shows; `way_out` is what
        else splits them."""
        return None

    def file_ts(self, file: DataFile, dialect: Dialect) -> int:
        """Returns the commit-ts of all rows of a file, 0 if each row has its own."""
        return 0

    def unpacked(self, reader: RangeReader, piece: FileSlice) -> tuple[RangeReader, FileSlice]:
        """Returns where the slice's bytes are read, and the slice as it is there: a compressed file is unpacked first.
        Raises CorruptFile, StorageUnavailable."""
        return reader, piece

    @property
    def without_times(self) -> str:
        """The message about a changefeed whose dialect is timeless."""
        return f"rows of this {self.name} changefeed do not say when they were committed"

    @property
    def commit_ts_key(self) -> str:
        return self.commit_ts.partition("=")[0]
