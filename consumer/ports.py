"""The seams. Each Protocol's comments are its guarantees; whoever implements one is held to them by tests/contract.

Arrow tables of changes ("change tables", see consumer.codec.batches) have the columns
``ts int64, put bool, series int32, rank int64`` and then ``c0 .. cN``, one per LoadTarget.columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.events import Event
from consumer.model.files import Bounds, DataFile, Folder, Listing, StoredFile
from consumer.model.load import LoadOutcome, LoadPart, LoadTarget, LoadTask, Receipt
from consumer.model.names import TableName
from consumer.model.progress import DdlId, DdlRecord, Progress, ProgressChange
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl, Window

ArrowTable = Any
"""A pyarrow.Table; named here without importing pyarrow, which layers 0-1 do without."""


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


class WriteSession(Protocol):
    """One connection of one Spark task. Not shared between threads. Any error but ConsumerError is a bug."""

    def write(self, target: LoadTarget, changes: ArrowTable) -> Receipt:
        """Write folded changes of a keyed table: at most one row a key.

        When it returns, every put is there and every deleted key is gone, in any order (`target.ordered`: deletes
        first). It may be called again with the same changes, wholly or partly written before: same state. What a row
        holds in the columns `target.kept` stays. It may be called for a part of the changes unless `target.whole`; if
        `target.ordered`, for all deletes before the first put. Raises RowsCollide where it takes all changes at once
        to know whether a row would be lost.
        """

    def write_multiset(self, target: LoadTarget, changes: ArrowTable, window: Window) -> Receipt:
        """Write the net changes of a table with no key: column ``n int64`` (copies to add, or to remove when < 0),
        then ``c0 .. cN``. One transaction, the table's progress (``window.upto``) included: applied once however often
        it is called; where a row to remove is not there as often as asked, nothing is changed and CannotBeExact raised.
        """


class Writer(Protocol):
    """Opens sessions on an executor. Small, picklable."""

    def session(self) -> AbstractContextManager[WriteSession]: ...


Moved = Callable[[LoadPart], None]
"""Told of each part of a load that is done, on any thread. Never raises."""


def unheard(_part: LoadPart) -> None:
    """For whoever does not want to hear of parts."""


class Loader(Protocol):
    """Runs loads through Spark, several at a time. One outcome a task, in order; an error in one task leaves the others
    alone. JobBroken is the error of tasks whose job ended before them."""

    connections: int
    """How many connections to the target all loads that run at a time may take together."""

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


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What the sink is asked about before a load: the columns that the schema file lists, and the NOT NULL unique keys
    that the statements in storage declared (column names, in order of preference), for targets that do not keep keys
    themselves. `absent` are those of the columns that the rows do not have. `indexes` are the names of upstream's
    indexes and the column sets of its unique ones, in lower case; None where the statements do not tell them all.
    `told_unique` are the column sets of those unique ones that the statements tell beyond doubt, all of them or not.
    `labels` are those of upstream's ENUMs and SETs, by lower-case column, whose numbers the rows carry, as far as they
    are known. `together`: one writer is given all rows of the load anyway. `collided`: writers that had parts of it met
    RowsCollide, so one must be."""

    table: TableName
    columns: tuple[Column, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()
    absent: tuple[str, ...] = ()
    indexes: frozenset[str | frozenset[str]] | None = None
    told_unique: frozenset[frozenset[str]] = frozenset()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    together: bool = False
    collided: bool = False


@dataclass(frozen=True, slots=True)
class DdlOutcome:
    """`error` None: executed and recorded. `note`: what the target could not express although its rows stay right.
    `recorded`: the progress that is durable with it, which may be some where the statement was refused."""

    step: ApplyDdl
    error: ConsumerError | None = None
    note: str = ""
    recorded: ProgressChange = field(default_factory=ProgressChange)


class Sink(Protocol):
    """A target, on the driver. One thread calls it, but for `apply_ddls`. Progress moves only by `commit`, `record`,
    `apply_ddls` and `empty_table`, each durable when it returns, each refused (LeaseHeld) once another consumer has
    taken over. A server may lose the last of what was durable (a fail-over to a replica that is behind): then each is
    refused (ProgressMoved) until `fence`, before anything is recorded that builds on what was lost."""

    statements: int
    """How many calls of `apply_ddls` may run at a time beside all others; 0: it is called by the one thread too."""

    def acquire(self, upstream: str) -> Progress:
        """Become the one writer of this consumer name and read its progress. Waits for statements of an earlier holder
        that the server still runs. Raises LeaseHeld, WrongUpstream, TargetUnavailable, BadConfig (login)."""

    def progress(self) -> Progress:
        """Read the progress without becoming the writer; empty when there is none yet."""

    def consumers(self) -> Mapping[str, int]:
        """The consumer names that the target holds progress of, each with how many of its tables are in order. Needs no
        `acquire`."""

    def kept_elsewhere(self, tables: Collection[TableName]) -> Mapping[TableName, str]:
        """Those of `tables` that are in order under another consumer name, each with that name: two would write to
        them. A replay is done with its tables. Needs no `acquire`."""

    def fence(self) -> None:
        """Lock out every writer made before, and begin anew with what the target has: called once a round has broken
        off, before `progress`."""

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        """Look at the target tables, in one go. Answers in the order of the requests. Changes nothing, needs no
        `acquire`. TableMissing for a table that is not there: it is never made from rows. Columns that only the target
        has become `LoadTarget.kept`; SchemaDrift where their values would get lost."""

    def writer(self) -> Writer:
        """For one load, with an epoch of its own: what belongs to other loads goes on beside it."""

    def end(self, writer: Writer) -> None:
        """Lock out `writer`, as its load is over: whatever of it still runs somewhere (an attempt that was given up, a
        worker that was lost) is waited for, or writes no more (LeaseHeld). What it has staged can be
        committed, until another writer is asked for."""

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> None:
        """Publish what was staged, and record `change`, in one transaction. Raises LoadFailed where all of it together
        is too much for the target; parts of it may not be."""

    def record(self, change: ProgressChange) -> None:
        """Record progress that goes with no rows."""

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        """Execute statements that do not touch one another's tables: intent (with ``step.before``), execute, fact (with
        ``step.after``). `unfinished` are records of earlier tries: an intent with no fact says to look before
        executing, a refusal that nothing ran behind it. A refused statement leaves no intent.
        """

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """What `apply_ddls` would execute, in the order of the steps, which may build on one another. Changes nothing,
        needs no `acquire`, and answers every step: one that would be refused says why."""

    def empty_table(self, table: TableName, change: ProgressChange) -> None:
        """Drop the target table, so that its statements and rows can be applied from the start, and record `change`."""

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        """Those of `tables` that exist in the target and hold rows."""

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        """Those of `tables` that the target does not have. Needs no `acquire`."""

    def close(self) -> None: ...


class Observer(Protocol):
    """Told of everything worth telling, as it happens."""

    def tell(self, event: Event) -> None:
        """From the driver's thread, but for WorkMoved. Never raises."""
