"""Defines the ports, except those of a target (`consumer.target`). Each Protocol's comments are its guarantees.
tests/contract checks every implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from consumer.errors import ConsumerError
from consumer.model.bad_rows import BadRow
from consumer.model.events import Event
from consumer.model.files import Bounds, DataFile, Folder, IndexEntry, Listing, StoredFile
from consumer.model.load import FileSlice, LoadOutcome, LoadPart, LoadTask
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.target import ArrowTable, Writer


class Stored(Protocol):
    """A file as a listing shows it. ``stamp == ""`` if the listing had only the size."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def stamp(self) -> str: ...


class RangeReader(Protocol):
    """Reads bytes of the storage on an executor. Picklable."""

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        """Returns the bytes [offset, offset + length) of `file`, fewer only at its end. Raises StorageChanged if the
        file is not the one that was listed, StorageUnavailable if fewer bytes came."""


class StorageReader(Protocol):
    """The storage for the driver. Never writes. Raises StorageUnavailable if it cannot be read."""

    identity: str
    """Scheme, bucket and prefix, which identify this upstream. It has no secrets."""

    def checkpoint(self) -> int:
        """Returns ``checkpoint-ts`` of `metadata`. Raises CheckpointMissing."""

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        """Returns the current content of the storage. `checkpoint` was read before and becomes part of it.

        It has all schema files, and all data files except those that a round after `progress` would skip: in a folder,
        files below the last one that is done; in a series of dates, folders whose time is over, never the last one. It
        has all files of the folders in `whole`. Without `progress` it has all files.
        """

    def named(self, indexes: Mapping[Folder, StoredFile]) -> Mapping[Folder, IndexEntry]:
        """Returns the number of the data file that each of these index files names. An index file that names none, or
        no longer exists, is left out."""

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        """Returns the first and last commit-ts of each file, by path, from its first and last line. There are none if
        rows have no time."""

    def first_ts(self, file: DataFile) -> int | None:
        """Returns the commit-ts of the first row (``es << 18`` if it has none) of a file as it is now; None if that is
        not known, or if rows have no time. Without times it raises StorageChanged if the file is not the one that was
        listed."""

    def range_reader(self) -> RangeReader: ...

    @property
    def own(self) -> StorageReader:
        """The storage up to its own checkpoint, whatever upstreams it goes together with: for commands that do not
        advance the progress."""

    @property
    def holds(self) -> Sequence[str]:
        """Texts about which of the upstreams that it goes together with holds up this one, by how much, and which are
        not waited for, as of the last reading of their checkpoints."""

    @property
    def warnings(self) -> Sequence[str]:
        """Those of `holds` that deserve a warning, in the same words while they last."""


Moved = Callable[[LoadPart], None]
"""Is called with each part of a load that is done, on any thread. Never raises."""


def unheard(_part: object) -> None:
    """Ignores parts."""


Made = TypeVar("Made", covariant=True)


class Work(Protocol[Made]):
    """Work on one table that writes nothing, as it goes to the tasks: it reads the table in pieces, and computes
    something from all rows that have come to one bucket."""

    @property
    def table(self) -> TableName:
        """The table that errors are about."""

    @property
    def tasks(self) -> Sequence[LoadTask]:
        """The tasks whose slices it reads."""

    @property
    def ranges(self) -> int:
        """The number of ranges in which it reads something large in addition to the slices; 1 for none."""

    @property
    def is_large(self) -> bool:
        """Whether its results are too much to be held together."""

    def pieces(self, groups: Callable[[LoadTask], Sequence[Sequence[FileSlice]]]) -> Sequence[Any]:
        """Returns the pieces, each of which is read on its own. `groups` divides a task's slices."""

    def rows(self, piece: Any, buckets: int, moved: Moved) -> Iterator[tuple[int | None, Any]]:
        """Yields the rows of a piece, each table with the number of its bucket: all rows of one key have the same
        number. With None it is a finished result."""

    def made(self, rows: Sequence[ArrowTable]) -> Made:
        """Returns the result for all rows of one bucket."""


class Loader(Protocol):
    """Runs loads through Spark, several at a time. There is one outcome for each task, in order; an error in one task
    does not affect the others. JobBroken is the error of tasks whose job ended before them."""

    @property
    def connections(self) -> int:
        """The maximum number of connections to the target for all running loads together."""

    @property
    def start_seconds(self) -> float:
        """The seconds that the loader took to start, all of its starts together."""

    def split(self, tasks: Sequence[LoadTask]) -> Sequence[Sequence[LoadTask]]:
        """Returns groups of the tasks, each for one call of `load`, so that no task waits for much larger ones."""

    def width(self, tasks: Sequence[LoadTask]) -> int:
        """Returns the maximum number of connections to the target that `load` uses for them."""

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> Sequence[LoadOutcome]:
        """Runs the tasks and returns their outcomes. `moved` is called with parts that are done before the whole load
        is."""

    def read(self, work: Work[Made], moved: Moved = unheard) -> Iterator[Made]:
        """Yields what `work` computes for each bucket, in no order; for work that `is_large`, some results come while
        others are read. Raises the errors of its tasks, one that may pass before others."""

    def abandon(self) -> None:
        """Ends all work at once, and starts no more: called if a signal ends the command in the middle of a load.
        Leaves no process."""

    def close(self) -> None: ...


class DeadLetters(Protocol):
    """Keeps quarantined rows. Raises StorageUnavailable, BadConfig."""

    def check(self, upstream: str) -> None:
        """Checks that it can be written, and is not inside of the storage `upstream` (its identity)."""

    def put(self, table: TableName, rows: Collection[BadRow]) -> None:
        """Keeps the rows, each under a name that depends only on the row, so a repetition changes nothing. Durable on
        return."""

    def taken_in(self, rows: Collection[BadRow], moment: str) -> None:
        """Marks rows that are in the target now."""

    def path(self, table: TableName, row: BadRow) -> str:
        """Returns where `put` keeps the row."""


class Observer(Protocol):
    """Gets each event when it happens."""

    def tell(self, event: Event) -> None:
        """Handles an event. It is called on the driver's thread; for WorkStarted, WorkMoved and WorkEnded on any. Never
        raises."""
