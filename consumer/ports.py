"""The ports, except those of a target (`consumer.target`). Each Protocol's comments are its guarantees. tests/contract
checks every implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from consumer.errors import ConsumerError
from consumer.model.bad_rows import BadRow
from consumer.model.events import Event
from consumer.model.files import Bounds, DataFile, Folder, Listing, Named, StoredFile
from consumer.model.load import FileSlice, LoadOutcome, LoadPart, LoadTask
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.target import ArrowTable, Writer


class Stored(Protocol):
    """What a listing says about a file; ``stamp == ""`` if it gave only the size."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def stamp(self) -> str: ...


class RangeReader(Protocol):
    """Reads bytes of the storage on an executor. Picklable."""

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        """Bytes [offset, offset + length) of `file`, fewer only at its end. Raises StorageChanged where the file is not
        the one that was listed, StorageUnavailable where fewer bytes came."""


class StorageReader(Protocol):
    """The storage for the driver. Never writes. Raises StorageUnavailable when it cannot be read."""

    identity: str
    """Scheme, bucket and prefix: what makes it this upstream. No secrets."""

    def checkpoint(self) -> int:
        """``checkpoint-ts`` of `metadata`. Raises CheckpointMissing."""

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        """The current content of the storage; `checkpoint` was read before and becomes part of it.

        It has all schema files, and all data files except those that a round after `progress` would skip: in a folder,
        files below the last one that is done; in a series of dates, folders whose time is over, never the last one. It
        has all files of the folders in `whole`. Without `progress` it has all files.
        """

    def named(self, indexes: Mapping[Folder, StoredFile]) -> Mapping[Folder, Named]:
        """The number of the data file that each of these index files names. A file that names none, or is gone, is left
        out."""

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        """First and last commit-ts of each file, by path, from its first and last line. There are none if rows have no
        time."""

    def first_ts(self, file: DataFile) -> int | None:
        """Commit-ts of the first row (``es << 18`` where it has none) of a file as it is now; None if that is not
        known, or if rows have no time: then it raises StorageChanged where the file is not the one that was listed."""

    def range_reader(self) -> RangeReader: ...

    @property
    def own(self) -> StorageReader:
        """The storage up to its own checkpoint, whatever upstreams it goes together with: for who moves nothing
        further."""

    @property
    def holds(self) -> Sequence[str]:
        """Which of the upstreams that it goes together with holds up this one, by how much, and which are not waited
        for, as of the last look at their checkpoints."""

    @property
    def warnings(self) -> Sequence[str]:
        """What of `holds` is worth a warning, in the same words while it lasts."""


Moved = Callable[[LoadPart], None]
"""Called with each part of a load that is done, on any thread. Never raises."""


def unheard(_part: object) -> None:
    """Ignores parts."""


Made = TypeVar("Made", covariant=True)


class Work(Protocol[Made]):
    """Work on one table that writes nothing, as it goes to the tasks: it reads the table in pieces, and makes something
    of all rows that have come to one bucket."""

    @property
    def table(self) -> TableName:
        """Errors are of it."""

    @property
    def tasks(self) -> Sequence[LoadTask]:
        """Whose slices it reads."""

    @property
    def ranges(self) -> int:
        """In how many ranges it reads something large beside the slices; 1 for none."""

    @property
    def is_large(self) -> bool:
        """Whether what it makes is too much to be held together."""

    def pieces(self, groups: Callable[[LoadTask], Sequence[Sequence[FileSlice]]]) -> Sequence[Any]:
        """Each is read on its own; `groups` divides a task's slices."""

    def rows(self, piece: Any, buckets: int, moved: Moved) -> Iterator[tuple[int | None, Any]]:
        """Rows of a piece, each table with the number of its bucket: all rows of one key have the same. With None:
        what is made already."""

    def made(self, rows: Sequence[ArrowTable]) -> Made:
        """What comes of all rows of one bucket."""


class Loader(Protocol):
    """Runs loads through Spark, several at a time. One outcome a task, in order; an error in one task leaves the others
    alone. JobBroken is the error of tasks whose job ended before them."""

    @property
    def connections(self) -> int:
        """The maximum number of connections to the target for all running loads together."""

    @property
    def start_seconds(self) -> float:
        """How long the loader took to start, all of its starts together."""

    def split(self, tasks: Sequence[LoadTask]) -> Sequence[Sequence[LoadTask]]:
        """Groups of the tasks, each for one call of `load`, so that no task waits for much larger ones."""

    def width(self, tasks: Sequence[LoadTask]) -> int:
        """The maximum number of connections to the target that `load` takes for them."""

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> Sequence[LoadOutcome]:
        """`moved` is called with parts that are done before the whole load is."""

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        """What `work` makes of each bucket, in no order; of one that `is_large` some comes while others are read.
        Raises what its tasks met: an error that may pass before others."""

    def abandon(self) -> None:
        """End all work at once, and begin none any more: called if a signal ends the command in the middle of a load.
        Leaves no process."""

    def close(self) -> None: ...


class DeadLetters(Protocol):
    """Where rows are kept that were quarantined. Raises StorageUnavailable, BadConfig."""

    def check(self, upstream: str) -> None:
        """That it can be written, and is not inside of the storage `upstream` (its identity)."""

    def put(self, table: TableName, rows: Collection[BadRow]) -> None:
        """Keep the rows, each under a name that it always gets: once more is the same. Durable on return."""

    def taken_in(self, rows: Collection[BadRow], moment: str) -> None:
        """Mark rows that are in the target now."""

    def path(self, table: TableName, row: BadRow) -> str:
        """Where `put` keeps the row."""


class Observer(Protocol):
    """Gets each event when it happens."""

    def tell(self, event: Event) -> None:
        """From the driver's thread; WorkStarted, WorkMoved and WorkEnded from any. Never raises."""
