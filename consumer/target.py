"""Defines the ports of a target: progress, rows, statements, its tables, and its rows to compare. `Sink` is one
target's five together.

Each call returns what it has recorded. The caller must not assume that anything else is recorded. Each Protocol's
comments are its guarantees. tests/contract checks every implementation (docs/add-a-target.md shows how).

Arrow tables of changes ("change tables", see consumer.codec.change_table) have the columns ``ts int64, put bool, series
int32, rank int64`` and then ``c0 .. cN``, one per LoadTarget.columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Protocol, runtime_checkable

from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.layout import Layouts
from consumer.model.load import LoadOutcome, LoadTarget, Receipt, TableLoad
from consumer.model.names import TableName, same_names
from consumer.model.progress import DdlId, DdlRecord, OwnedTables, Progress, ProgressChange
from consumer.model.readiness import Readiness
from consumer.model.steps import ApplyDdl, TargetDdl, Window

ArrowTable = Any
"""A pyarrow.Table; named here without importing pyarrow, because layers 0-1 are standard library only."""


class SparkSource(Protocol):
    """Spark, for a target that it writes. It is the loader's session, started at the first use."""

    def session(self) -> Any:
        """Returns the SparkSession, a new one if the last has died. Raises as a load does."""

    def exists(self, path: str) -> bool:
        """Returns whether there is a file or folder, on a file system that Spark knows."""

    def names(self, folder: str) -> Sequence[str]:
        """Returns the names of the files in a folder; none if there is no such folder."""

    def read(self, path: str) -> bytes:
        """Returns the content of a small file."""

    def write(self, path: str, content: bytes) -> None:
        """Writes a new file, and creates the folders above it."""

    def java(self) -> tuple[Any, Any]:
        """Returns Java's packages, as py4j shows them, and Hadoop's configuration."""

    def java_frame(self, frame: Any) -> Any:
        """Returns a DataFrame as Java has it. Its session is then the one that this thread uses in Java."""

    def remove(self, path: str) -> None:
        """Removes a folder with its content; it may be gone already."""

    def close(self) -> None:
        """The target no longer needs it."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Settings that apply to any target. A target ignores those that it does not need."""

    name: str
    """The consumer name of the progress."""
    time_zone: str = "UTC"
    """The changefeed's time zone, by name or offset."""
    worker_count: int = 16
    """The limit of the connections to a server."""
    allow_triggers: bool = False
    staged: bool = False
    """Whether rows become visible only when `commit` publishes them, all rows of a call in one transaction."""
    max_wait: float = 60.0
    """The seconds for which a step is tried again."""
    spark: SparkSource | None = None
    layouts: Layouts = field(default_factory=Layouts)
    """The layouts of new tables, for a lake."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A question to the sink before a load: how does the target take its rows?"""

    load: TableLoad
    columns: tuple[Column, ...]
    """The columns in the schema file, and those that the table's mode adds."""
    unique_keys: tuple[tuple[str, ...], ...] = ()
    """The NOT NULL unique keys that the statements declared (column names, in order of preference), for targets that do
    not keep keys themselves."""
    indexes: frozenset[str | frozenset[str]] | None = None
    """The names of upstream's indexes and the column sets of its unique ones, in lower case; None if the statements do
    not define them all."""
    known_unique: frozenset[frozenset[str]] = frozenset()
    """The column sets of the unique indexes that the statements prove, which may not be all."""
    known_index_names: frozenset[str] = frozenset()
    """The names, in lower case, for which the statements declare which index has them, or that none has."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The labels of upstream's ENUMs and SETs whose numbers the rows carry, by lower-case column, as far as they are
    known."""
    plain: frozenset[str] = frozenset()
    """Columns, in lower case, that upstream does not compute, as the statements prove."""
    leaves_rows: bool = False
    """Whether filters or policies may have kept rows that upstream no longer has: upstream can give their values of
    unique keys to other rows."""

    @property
    def table(self) -> TableName:
        """Upstream's name of the table."""
        return self.load.table

    @property
    def name(self) -> TableName:
        """The target's name of the table."""
        return self.load.name

    @property
    def added(self) -> frozenset[str]:
        """The columns that the table's mode adds, in lower case."""
        return same_names(column.name for column in self.load.mode.added) if self.load.mode is not None else frozenset()


@dataclass(frozen=True, slots=True)
class DdlOutcome:
    """The outcome of a statement. Without `error` it is executed and recorded. `note` is what the target could not
    express; its rows are still correct. `recorded` is the progress that is durable, possibly some even if the statement
    was refused."""

    step: ApplyDdl
    error: ConsumerError | None = None
    note: str = ""
    recorded: ProgressChange = field(default_factory=ProgressChange)


class ProgressPort(Protocol):
    """The right to change the target, and its progress. What is recorded is durable on return."""

    def acquire(self, upstream: str) -> Progress:
        """Becomes the one writer of this consumer name and returns its progress. Waits for statements of an earlier
        holder that the server still runs. Raises LeaseHeld, WrongUpstream, TargetUnavailable, BadConfig (login)."""

    def progress(self) -> Progress:
        """Returns the progress without becoming the writer; empty if there is none yet."""

    def consumers(self) -> Mapping[str, int]:
        """Returns the consumer names that the target holds progress of, each with how many of its tables are healthy.
        Needs no `acquire`."""

    def of_others(self) -> OwnedTables:
        """Returns the consumer name to which each taken table belongs. Needs no `acquire`."""

    def take(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        """Records that tables, by the target's names, belong to this consumer, and returns the owners of all tables
        then.

        1. `wanted` has the commit-ts at which this consumer begins with each table, None if it creates the table again.
        2. It gets the tables that belong to nobody, and those that go to it from another consumer (`Owned.goes_to`).
        3. If two consumers call it at the same moment, only one of them gets a table.
        4. The claim ends when a change records that the table is dropped or excluded. A merged table's claim ends when
           its last source is excluded.
        """

    def loaded(self) -> Mapping[TableName, tuple[int, int]]:
        """Returns by table how many row changes the loads of this consumer have read, and how many rows they have put
        into the target, as far as audit rows are kept. Needs no `acquire`."""

    def forget(self, name: str = "") -> None:
        """Removes everything that is recorded under the consumer `name`, and the tables that it was loading: `beside`
        others, and those that it has created from an export. Its other tables stay. "" is this consumer's own name:
        then it is called instead of `acquire`. Raises LeaseHeld while a consumer of that name is running, BadConfig
        while a table that it has loaded is replacing another one."""

    def fence(self) -> Progress:
        """Locks out all earlier writers and returns the progress that the target has. Called after a round has broken
        off."""

    def record(self, change: ProgressChange) -> ProgressChange:
        """Records progress without rows."""

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        """Drops the target table, so that its statements and rows can be applied from the start, and records
        `change`."""

    def parallel_name(self, table: TableName) -> TableName:
        """Returns the name of a table in the target until it replaces `table` (see `parallel_load_name`)."""

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        """Drops the target table, if it exists, gives its name to the one that another consumer name has loaded
        `beside` it, and records `change`. That consumer no longer has the table, and is forgotten once it has none. If
        it is called again, it resumes where it stopped. Raises TableMissing, and changes nothing, if there is no table
        to replace it with."""

    def rest(self) -> None:
        """The round is over: releases what keeps other programs from the target, until the next call. The lease
        stays."""


class WriteSession(Protocol):
    """One connection of one Spark task. Not shared between threads. Any error but ConsumerError is a bug."""

    def write(self, target: LoadTarget, changes: ArrowTable) -> Receipt:
        """Writes folded changes of a keyed table, at most one row per key.

        When it returns, every put is in the target and every deleted key is gone. It may be called again with the same
        changes, if all or some of them were written before; the state is then the same. Values in the columns
        `target.extra_columns` stay. It may be called for a part of the changes unless `target.in_one_call`.

        Raises RowRefused for a row that the target does not accept (`more` has the others, if
        `target.load.quarantine`), SchemaDrift for a new row without a value for a column, RowsCollide if only all
        changes together show whether a row would be lost, CannotBeExact if a row would be lost in any case, LeaseHeld
        once the writer is locked out, and ProgressMoved, TargetBusy or TargetUnavailable, after which the load can be
        tried again.
        """

    def write_packed(self, parts: Sequence[tuple[LoadTarget, ArrowTable]]) -> Sequence[Receipt | None]:
        """Does `write` for each of `parts`, which are all changes of small tables, in one transaction if that is
        cheaper. Returns None for parts that it has not written: `write` does that. Raises as `write`: then any of them
        may have been written, and each is written by itself."""

    def write_multiset(self, target: LoadTarget, changes: ArrowTable, window: Window) -> Receipt:
        """Writes the net changes of a table with no key: column ``n int64`` (copies to add, or to remove when < 0),
        then ``c0 .. cN``. It is one transaction that includes the table's progress (``window.end``), so it is applied
        once, however often it is called. If a row to remove does not exist in enough copies, nothing is changed and
        CannotBeExact is raised (RowRefused, if `target.load.quarantine`). Otherwise it raises as `write`."""

    def write_copies(self, target: LoadTarget, rows: ArrowTable) -> Receipt:
        """Writes rows of a table with no key, independently of any load: of each of `rows` (``c0 .. cN``), all
        different, the target then has exactly ``n int64`` copies, however many it had. The table's progress stays. It
        may be called again with the same rows. The receipt counts the copies that were added and removed as far as they
        are known."""


class Writer(Protocol):
    """Opens sessions on an executor. Small, picklable."""

    def session(self, patience: float = 0.0) -> AbstractContextManager[WriteSession]:
        """Opens a session. `patience` is for how many seconds it waits for locks of others in the target, if that takes
        more than a moment; then it raises TargetBusy."""


class RowPort(Protocol):
    """The driver's side of loads. Writers write or stage on executors, and `commit` publishes it."""

    def writer(self) -> Writer:
        """Returns a writer for one load, with an epoch of its own. Other loads continue at the same time."""

    def end(self, writer: Writer) -> None:
        """Locks out `writer` at the end of its load. If something of it still runs (an attempt that was given up, a
        lost worker), the call waits for it, or it can write no more (LeaseHeld). What it has staged can be committed
        until `rest` or `fence`, whatever other writers do."""

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        """Publishes what was staged, except rows that are `left_out`, and records `change` (with audit rows of the
        target's own), in one transaction. An outcome with an error publishes nothing. Several outcomes can belong to
        one table, each with columns of its own: they do not touch each other's rows.

        Raises a TableError whose `table` is that of one of the outcomes: then nothing of the call is published or
        recorded, what is staged stays, and the call can be repeated without that outcome and its part of `change`.
        Raises LoadFailed if all outcomes together are too much for the target; some of them may not be.
        """


class StatementPort(Protocol):
    """The upstream's statements on the target."""

    statements: int
    """How many calls of `apply_ddls` may run at a time, each on a thread of its own, in parallel with all other calls.
    If it is 0, the one thread calls it too, and a call can have statements that follow one another on one table, in
    their order: after one with an error no statement of its table runs, and each has that error."""

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        """Executes statements that do not touch one another's tables (but see `statements`): intent (with
        ``step.before``), execute, fact (``step.done``). Returns one outcome for each step, in their order.

        `unfinished` are records of earlier tries. For an intent without a fact the target is examined before executing.
        A refusal means that nothing ran after it. A refused statement leaves no intent. Raises Retryable only if no
        statement ran, or if all of this is one transaction: a failure after an intent is the error of an outcome that
        has recorded the intent.
        """

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """Returns what `apply_ddls` would execute, in the order of the steps; a step may depend on earlier ones.
        Changes nothing, needs no `acquire`, and answers every step: for a step that would be refused, with the
        reason."""


class TablePort(Protocol):
    """The current tables of the target. Changes nothing. Only `has_rows` needs `acquire`."""

    refers: bool
    """Whether it has what refers to tables: foreign keys and views."""

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        """Examines the target tables in one call. Answers in the order of the requests. The answer is TableMissing for
        a missing table: it is never created from rows. Columns that only the target has become
        `LoadTarget.extra_columns`; SchemaDrift if their values would get lost."""

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        """Yields what the target and its user have and lack to hold tables in `databases`, into which change files of
        `size` bytes are to be loaded. Changes nothing. Raises as `progress`."""

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        """Returns those of `tables` that exist in the target and hold rows."""

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        """Returns how many rows each of `tables` holds that exists in the target."""

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        """Returns those of `tables` that the target does not have."""

    def tables_in(self, database: str) -> Collection[TableName]:
        """Returns the tables of a database of the target, as it spells them, and views that came from upstream; none if
        it does not have the database."""

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        """Returns the tables and views whose name `fits`, in all databases but the target's own, each with the names of
        its columns."""

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        """Returns by table the columns that foreign keys of other tables refer to; all names in lower case."""


@dataclass(frozen=True, slots=True)
class Only:
    """Some rows of a table: those that have one of `values`, or NULL, in the column of texts at `position`."""

    position: int
    values: tuple[str, ...]


class Comparer(Protocol):
    """One table of the target, to be compared on executors. Picklable.

    Rows are Arrow tables with the columns ``c0 .. cN``, one for each LoadTarget.columns, of text (bytes for the binary
    types) in a normal form: two rows are the same for the target if these are equal byte for byte.
    """

    @property
    def ranges(self) -> int:
        """The number of ranges in which the table's rows are read."""

    def expected(self, rows: ArrowTable) -> ArrowTable:
        """Returns the normal form of what the target must hold for `rows`, whose columns are as in change tables."""

    def held(self, number: int) -> Iterator[ArrowTable]:
        """Yields the normal form of the rows that the target holds in a range, in batches, from one consistent
        snapshot. Raises TargetUnavailable."""

    def changes(self, rows: ArrowTable) -> ArrowTable:
        """Returns the inverse of `expected`, for columns of a key and rows of a table with no key: `rows` of `held` as
        change tables have them. A value that no change can have comes back as one that the target does not hold."""


class Script(Protocol):
    """The statements that repair rows of one table, for a person to run. Each ends with a line's end. Values are quoted
    as the writer does it. If they are run twice, the rows are the same, or there is an error: no key gets a second
    row."""

    exchanges: ClassVar[bool]
    """Whether `write` can give existing rows unique values that other ones of them have until then."""

    def begin(self, generation: str) -> bytes:
        """Returns statements that open a transaction, and end with an error if the lease is of another generation."""

    def write(self, target: LoadTarget, rows: ArrowTable, there: bool) -> Iterator[bytes]:
        """Yields statements for put changes of keys, of which the target has rows (`there`), or has none. Only columns
        of `target` are set."""

    def remove(self, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
        """Yields statements that remove the keys of `rows`."""

    def copies(self, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
        """Yields statements that do what `WriteSession.write_copies` does; ``held int64`` copies exist."""

    def end(self) -> bytes: ...


class ComparePort(Protocol):
    """Reads the target to compare it. Changes nothing in it."""

    def still(self) -> AbstractContextManager[Progress]:
        """Keeps the consumers of this name from the target meanwhile, and returns the progress that it has. Nothing is
        written, and epochs stay. Called instead of `acquire`. Raises LeaseHeld, TargetUnavailable, BadConfig."""

    def lease_generation(self) -> str:
        """Returns the generation of the lease of this name: another text whenever a consumer takes the target, also
        after a fail-over, and in every other target. Needs no `acquire`."""

    def comparer(self, target: LoadTarget, only: Only | None = None) -> Comparer:
        """Returns the comparer for a table that `prepare` has answered for, with `only` for some of its rows. For the
        one writer, it reads after `rest`."""

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        """Returns the different values, apart from NULL, in a column of texts."""

    def script(self, target: LoadTarget) -> Script:
        """Returns the script for a table that `prepare` has answered for."""


@dataclass(frozen=True, slots=True)
class UpkeptTable:
    """What `Upkept.maintain` did to a table: `before` small files are `after` now. `left` is why it did nothing.
    `removed` means that it no longer had a name; then `called` is its place."""

    called: str
    before: int = 0
    after: int = 0
    left: str = ""
    removed: bool = False


@runtime_checkable
class Upkept(Protocol):
    """A target, in addition to the ports of `Sink`, whose tables do not keep themselves small."""

    def maintain(self, keep: timedelta) -> Iterator[UpkeptTable]:
        """Joins small files, and removes what no version of a table in the last `keep` needs. Needs no `acquire`: the
        one writer may work meanwhile. Raises as `progress`."""


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table of a target that keeps versions, as it was at a moment. `place` and `version` are as in Spark SQL, after
    FROM and VERSION AS OF; `version` is "" for a table that had none yet. `commit_ts` is when upstream's table got into
    that state, 0 if it had no row yet."""

    name: TableName
    place: str
    version: str
    commit_ts: int

    @property
    def query(self) -> str:
        """The query for its rows at that moment."""
        of_version = f" VERSION AS OF {self.version}" if self.version else ""
        return f"SELECT * FROM {self.place}{of_version}{'' if self.commit_ts else ' WHERE false'}"


@runtime_checkable
class Versioned(Protocol):
    """A target, in addition to the ports of `Sink`, whose tables can be read as they were."""

    def tables_at(self, moment: int, wanted: Callable[[TableName], bool] | None = None) -> Sequence[TableAt]:
        """Returns all tables, or those `wanted`, by the names that they had then, with exactly the rows of upstream's
        at that moment. Needs no `acquire`. Raises BadConfig if that cannot be proved of each."""

    def frame(self, table: TableAt) -> Any:
        """Returns its rows then, as a DataFrame of the `SparkSource`'s session, which knows the target from then on."""


class Sink(ProgressPort, RowPort, StatementPort, TablePort, ComparePort, Protocol):
    """A target, on the driver. One thread makes all calls, except those of `apply_ddls`. Changes are refused
    (LeaseHeld) once another consumer has taken over. A server may lose the last of what was durable (a fail-over to a
    replica that lags): then each change is refused (ProgressMoved) until `fence`, before anything is recorded that
    builds on what was lost."""

    def close(self) -> None:
        """Releases the lease and everything else, even if `acquire` failed or was never called."""
