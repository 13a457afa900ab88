"""The seams, but for those of a target (`consumer.target`). Each Protocol's comments are its guarantees; whoever
implements one is held to them by tests/contract."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from consumer.errors import ConsumerError
from consumer.model.events import Event
from consumer.model.files import Bounds, DataFile, Folder, Listing, StoredFile
from consumer.model.load import LoadOutcome, LoadPart, LoadTask
from consumer.model.progress import Progress
from consumer.target import Writer


class Stored(Protocol):
    """What a listing told of a file; ``stamp == ""`` where it told nothing but the size."""

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
    """The storage as the driver sees it. Never writes. Raises StorageUnavailable when it cannot be read."""

    identity: str
    """Scheme, bucket and prefix: what makes it this upstream. No secrets."""

    def checkpoint(self) -> int:
        """``checkpoint-ts`` of `metadata`. Raises CheckpointMissing."""

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        """What lies in the storage now; `checkpoint` was read before and is carried along.

        All schema files are in it, and all data files but those that a round after `progress` would pass over: of a
        folder, files below the last one that is done; of a series of dates, folders whose time is over, never the last.
        Of the folders in `whole`, everything. Without `progress`, everything of all.
        """

    def named(self, indexes: Mapping[Folder, StoredFile]) -> Mapping[Folder, int]:
        """The number of the data file that each of these index files names. One that says nothing, or is gone, is left
        out."""

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        """First and last commit-ts of each file, by path, from its first and last line. There are none where rows say
        nothing of their time."""

    def first_ts(self, file: DataFile) -> int | None:
        """Commit-ts of a file's first row (``es << 18`` where it has none); None where that cannot be read, or where
        rows say nothing of their time. Raises StorageChanged."""

    def range_reader(self) -> RangeReader: ...


Moved = Callable[[LoadPart], None]
"""Told of each part of a load that is done, on any thread. Never raises."""


def unheard(_part: LoadPart) -> None:
    """For whoever does not want to hear of parts."""


class Loader(Protocol):
    """Runs loads through Spark, several at a time. One outcome a task, in order; an error in one task leaves the others
    alone. JobBroken is the error of tasks whose job ended before them."""

    connections: int
    """How many connections to the target all loads that run at a time may take together."""
    start_seconds: float
    """How long the loader took to start, all of its starts together."""

    def split(self, tasks: Sequence[LoadTask]) -> Sequence[Sequence[LoadTask]]:
        """The tasks in groups, each for one call of `load`, so that none waits for much larger ones."""

    def width(self, tasks: Sequence[LoadTask]) -> int:
        """How many connections to the target `load` takes for them, at most."""

    def load(
        self, tasks: Sequence[LoadTask], writer: Writer, reader: RangeReader, moved: Moved = unheard
    ) -> Sequence[LoadOutcome]:
        """`moved` hears of parts that are done before all is, where there are some."""

    def abandon(self) -> None:
        """End what runs, at once: called where a signal ends the command in the middle of a load. Leaves no process."""

    def close(self) -> None: ...


class Observer(Protocol):
    """Told of everything worth telling, as it happens."""

    def tell(self, event: Event) -> None:
        """From the driver's thread, but for WorkMoved. Never raises."""
