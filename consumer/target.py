"""The ports of a target: progress, rows, statements, a look at its tables, and its rows to compare. `Sink` is one
target's five together.

Each call returns what it has recorded. The caller must not assume that anything else is recorded. Each Protocol's
comments are its guarantees. tests/contract checks every implementation (docs/add-a-target.md shows how).

Arrow tables of changes ("change tables", see consumer.codec.change_table) have the columns
``ts int64, put bool, series int32, rank int64`` and then ``c0 .. cN``, one per LoadTarget.columns.
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
    """Spark, for a target that it writes: the loader's, started when it is first asked for."""

    def session(self) -> Any:
        """The SparkSession; another one where the last has died. Raises as a load does."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder, on a file system that Spark knows."""

    def names(self, folder: str) -> Sequence[str]:
        """Of the files in a folder; none where there is no such folder."""

    def read(self, path: str) -> bytes:
        """The whole of a small file."""

    def write(self, path: str, content: bytes) -> None:
        """A new file, with the folders above it."""

    def java(self) -> tuple[Any, Any]:
        """Java's packages, as py4j shows them, and Hadoop's configuration."""

    def java_frame(self, frame: Any) -> Any:
        """A DataFrame as Java has it. Its session is the one of what this thread does in Java from then on."""

    def remove(self, path: str) -> None:
        """A folder, with all in it; it may be gone already."""

    def close(self) -> None:
        """The target needs it no more."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Settings that apply to any target. It ignores those that it does not need."""

    name: str
    """The consumer name of the progress."""
    time_zone: str = "UTC"
    """The changefeed's, by name or offset."""
    worker_count: int = 16
    """Bounds the connections to a server."""
    allow_triggers: bool = False
    staged: bool = False
    """Rows are to be seen only once `commit` has published them, all rows of a call in one transaction."""
    max_wait: float = 60.0
    """For how many seconds a step is tried again."""
    spark: SparkSource | None = None
    layouts: Layouts = field(default_factory=Layouts)
    """Of new tables, for a lake."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A question to the sink before a load: how does the target take its rows?"""

    load: TableLoad
    columns: tuple[Column, ...]
    """Those that the schema file lists, and those that the table's mode adds."""
    unique_keys: tuple[tuple[str, ...], ...] = ()
    """The NOT NULL unique keys that the statements declared (column names, in order of preference), for targets that do
    not keep keys themselves."""
    indexes: frozenset[str | frozenset[str]] | None = None
    """The names of upstream's indexes and the column sets of its unique ones, in lower case; None if the statements do
    not define them all."""
    known_unique: frozenset[frozenset[str]] = frozenset()
    """The column sets of the unique ones that the statements prove, all of them or not."""
    told_names: frozenset[str] = frozenset()
    """The names, in lower case, of which the statements tell what index has them, or that none has."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of upstream's ENUMs and SETs, by lower-case column, whose numbers the rows carry, as far as they are known."""
    plain: frozenset[str] = frozenset()
    """Columns, in lower case, that upstream does not compute, as the statements prove."""
    leaves_rows: bool = False
    """Whether filters or policies may have kept rows that upstream has no more: upstream can give their values of
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
    """`error` None: executed and recorded. `note`: what the target could not express; its rows are still correct.
    `recorded`: the progress that is durable, possibly some even if the statement was refused."""

    step: ApplyDdl
    error: ConsumerError | None = None
    note: str = ""
    recorded: ProgressChange = field(default_factory=ProgressChange)


class ProgressPort(Protocol):
    """The right to change the target, and its progress. What is recorded is durable on return."""

    def acquire(self, upstream: str) -> Progress:
        """Become the one writer of this consumer name and read its progress. Waits for statements of an earlier holder
        that the server still runs. Raises LeaseHeld, WrongUpstream, TargetUnavailable, BadConfig (login)."""

    def progress(self) -> Progress:
        """Read the progress without becoming the writer; empty when there is none yet."""

    def consumers(self) -> Mapping[str, int]:
        """The consumer names that the target holds progress of, each with how many of its tables are in order. Needs no
        `acquire`."""

    def of_others(self) -> OwnedTables:
        """To which consumer name each table belongs that one has taken. Needs no `acquire`."""

    def take(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        """Record that tables, by the target's names, belong to this consumer: those of `wanted` that are nobody's, and
        those that go to it from another one (`Owned.goes_to`), as it begins with them at the commit-ts given, or makes
        them again (None). Of two who call it at one moment one gets a table. Returns whose all tables are then. A table
        is nobody's again once a change records that it is dropped or left out, and what had several tables' rows once
        all of them are left out."""

    def loaded(self) -> Mapping[TableName, tuple[int, int]]:
        """By table, how many row changes the loads of this consumer have read, and how many rows they have put into
        the target, as far as audit rows are kept. Needs no `acquire`."""

    def forget(self, name: str = "") -> None:
        """Remove everything that is recorded under the consumer `name`, and the tables that it was loading: `beside`
        others, and those that it has made of an export. Its other tables stay. "" is this consumer's own name: then it
        is called instead of `acquire`. Raises LeaseHeld while a consumer of that name is running, BadConfig while a
        table that it has loaded is taking the place of another one."""

    def fence(self) -> Progress:
        """Lock out all earlier writers and read the progress that the target has. Called after a round has broken
        off."""

    def record(self, change: ProgressChange) -> ProgressChange:
        """Record progress without rows."""

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        """Drop the target table, so that its statements and rows can be applied from the start, and record `change`."""

    def beside(self, table: TableName) -> TableName:
        """The name of a table in the target until it takes the place of `table` (see `beside_name`)."""

    def replace_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        """Drop the target table, if it is there, give its name to the one that another consumer name has loaded
        `beside` it, and record `change`. That consumer has it no more, and is forgotten once it has none. Called again,
        it goes on where it stopped. Raises TableMissing, and changes nothing, where there is none to take its place."""

    def rest(self) -> None:
        """The round is over: release what keeps other programs from the target, until the next call. The lease
        stays."""


class WriteSession(Protocol):
    """One connection of one Spark task. Not shared between threads. Any error but ConsumerError is a bug."""

    def write(self, target: LoadTarget, changes: ArrowTable) -> Receipt:
        """Write folded changes of a keyed table, at most one row per key.

        When it returns, every put is there and every deleted key is gone. It may be called again with the same changes,
        if all or some of them were written before; the state is then the same. Values in the columns `target.own` stay.
        It may be called for a part of the changes unless `target.whole`.

        Raises RowRefused for a row that the target does not take (`more` has the others, if `target.load.quarantine`),
        SchemaDrift for a new row without a value for a column, RowsCollide if only all changes together show whether a
        row would be lost, CannotBeExact if a row would be lost in any case, LeaseHeld once the writer is locked out,
        and ProgressMoved, TargetBusy or TargetUnavailable, after which the load can be tried again.
        """

    def write_packed(self, parts: Sequence[tuple[LoadTarget, ArrowTable]]) -> Sequence[Receipt | None]:
        """As `write` for each of `parts`, which are all changes of small tables, if that is cheaper so: in one
        transaction. None for those that it has not written: `write` does. Raises as `write`: then any of them may have
        been written, and each is written by itself."""

    def write_multiset(self, target: LoadTarget, changes: ArrowTable, window: Window) -> Receipt:
        """Write the net changes of a table with no key: column ``n int64`` (copies to add, or to remove when < 0),
        then ``c0 .. cN``. One transaction, the table's progress (``window.end``) included: applied once, however
        often it is called. If a row to remove does not exist in enough copies, nothing is changed and CannotBeExact
        is raised (RowRefused, if `target.load.quarantine`). Else it raises as `write`.
        """

    def write_copies(self, target: LoadTarget, rows: ArrowTable) -> Receipt:
        """Write rows of a table with no key, apart from any load: of each of `rows` (``c0 .. cN``), all different, the
        target has exactly ``n int64`` copies then, however many it had. The table's progress stays. It may be called
        again with the same rows. The receipt counts the copies that were added and removed as far as they are known.
        """


class Writer(Protocol):
    """Opens sessions on an executor. Small, picklable."""

    def session(self, patience: float = 0.0) -> AbstractContextManager[WriteSession]:
        """`patience`: for how many seconds it waits for what others hold in the target, where that takes more than a
        moment; then it raises TargetBusy."""


class RowPort(Protocol):
    """The driver's side of loads. Writers write or stage on executors, and `commit` publishes it."""

    def writer(self) -> Writer:
        """A writer for one load, with an epoch of its own. Other loads go on at the same time."""

    def end(self, writer: Writer) -> None:
        """Lock out `writer` at the end of its load. If something of it still runs (an attempt that was given up, a lost
        worker), the call waits for it, or it can write no more (LeaseHeld). What it has staged can be committed until
        `rest` or `fence`, whatever other writers do."""

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        """Publish what was staged, but for rows that are `left_out`, and record `change` (with audit rows of the
        target's own), in one transaction. An outcome with an error publishes nothing. Several outcomes can be of one
        table, each with columns of its own: they touch no rows of one another.

        A TableError in which `table` names one of the outcomes': nothing of the call is published or recorded, what is
        staged stays, and the call can be made again without that outcome and its part of `change`. LoadFailed: all
        outcomes together are too much for the target; some of them may not be.
        """


class StatementPort(Protocol):
    """The upstream's statements on the target."""

    statements: int
    """How many calls of `apply_ddls` may run at a time, each on a thread of its own, in parallel with all other calls;
    0: the one thread calls it too, and a call can have statements that follow one another on one table, in their order:
    behind one with an error none of its table runs, and each has that error."""

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        """Execute statements that do not touch one another's tables (but see `statements`): intent (with
        ``step.before``), execute, fact (``step.done``). One outcome a step, in their order. `unfinished` are records of
        earlier tries. An intent without a fact: look at the target before executing. A refusal: nothing ran after it. A
        refused statement leaves no intent. Raises Retryable only if no statement ran, or all of this is one
        transaction: what fails behind an intent is the error of an outcome that has recorded the intent."""

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """What `apply_ddls` would execute, in the order of the steps; a step may depend on earlier ones. Changes
        nothing, needs no `acquire`, and answers every step: for a step that would be refused, with the reason."""


class TablePort(Protocol):
    """The current tables of the target. Changes nothing. Only `has_rows` needs `acquire`."""

    refers: bool
    """Whether it has what refers to tables: foreign keys and views."""

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        """Look at the target tables in one call. Answers in the order of the requests. TableMissing for a missing
        table: it is never created from rows. Columns that only the target has become `LoadTarget.own`; SchemaDrift if
        their values would get lost."""

    def readiness(self, databases: Collection[str], size: int) -> Iterator[Readiness]:
        """What the target and its user have and lack to hold tables in `databases`, into which change files of
        `size` bytes are to be loaded. Changes nothing. Raises as `progress`."""

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        """Those of `tables` that exist in the target and hold rows."""

    def count_rows(self, tables: Collection[TableName]) -> Mapping[TableName, int]:
        """How many rows each of `tables` holds that exists in the target."""

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        """Those of `tables` that the target does not have."""

    def tables_in(self, database: str) -> Collection[TableName]:
        """The tables of a database of the target, as it spells them, and views that came from upstream; none where it
        does not have the database."""

    def called(self, fits: Callable[[TableName], object]) -> Mapping[TableName, Collection[str]]:
        """The tables and views whose name `fits`, in all databases but the target's own, each with the names of its
        columns."""

    def referred_columns(self) -> Mapping[TableName, Collection[str]]:
        """By table, the columns that foreign keys of other tables refer to; all names in lower case."""


@dataclass(frozen=True, slots=True)
class Only:
    """Some rows of a table: those that have one of `values`, or NULL, in the column of texts at `position`."""

    position: int
    values: tuple[str, ...]


class Comparer(Protocol):
    """One table of the target, to be compared on executors. Picklable.

    Rows are Arrow tables with the columns ``c0 .. cN``, one for each LoadTarget.columns, of text (bytes for the binary
    types) in a normal form: two rows are the same for the target where these are equal byte for byte.
    """

    @property
    def ranges(self) -> int:
        """In how many ranges of its rows the table is read."""

    def expected(self, rows: ArrowTable) -> ArrowTable:
        """The normal form of what the target must hold for `rows`, whose columns are as in change tables."""

    def held(self, number: int) -> Iterator[ArrowTable]:
        """The normal form of the rows that the target holds in a range, in batches, from one consistent snapshot.
        Raises TargetUnavailable."""

    def changes(self, rows: ArrowTable) -> ArrowTable:
        """The inverse of `expected`, for columns of a key and rows of a table with no key: `rows` of `held` as change
        tables have them. A value that no change can have comes back as one that the target does not hold."""


class Script(Protocol):
    """The statements that make rows of one table right, for a person to run. Each ends with a line's end. Values are
    quoted as the writer does it. Who runs them twice has the same rows, or an error: no key gets a second row."""

    exchanges: ClassVar[bool]
    """Whether `write` can give rows that are there unique values which others of them have until then."""

    def begin(self, generation: str) -> bytes:
        """Opens a transaction, and ends with an error where the lease is of another generation."""

    def write(self, target: LoadTarget, rows: ArrowTable, there: bool) -> Iterator[bytes]:
        """For put changes of keys, of which the target has rows, or has none. Only columns of `target` are set."""

    def remove(self, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
        """For the keys of `rows`."""

    def copies(self, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
        """As `WriteSession.write_copies`; ``held int64`` copies are there."""

    def end(self) -> bytes: ...


class ComparePort(Protocol):
    """Reads the target to compare it. Changes nothing in it."""

    def still(self) -> AbstractContextManager[Progress]:
        """Keep the consumers of this name from the target meanwhile, and give the progress that it has. Nothing is
        written, and epochs stay. Called instead of `acquire`. Raises LeaseHeld, TargetUnavailable, BadConfig."""

    def lease_generation(self) -> str:
        """Which generation of the lease of this name it is: another text whenever one takes the target, also after a
        fail-over, and in every other target. Needs no `acquire`."""

    def comparer(self, target: LoadTarget, only: Only | None = None) -> Comparer:
        """For a table that `prepare` has answered for, of `only` some of its rows. Of the one writer, it reads after
        `rest`."""

    def values(self, target: LoadTarget, position: int) -> Collection[str]:
        """The different values, apart from NULL, in a column of texts."""

    def script(self, target: LoadTarget) -> Script:
        """For a table that `prepare` has answered for."""


@dataclass(frozen=True, slots=True)
class UpkeptTable:
    """What `Upkept.maintain` did to a table: `before` small files are `after` now. `left`: why it did nothing.
    `removed`: it had no name any more, and is `called` by its place."""

    called: str
    before: int = 0
    after: int = 0
    left: str = ""
    removed: bool = False


@runtime_checkable
class Upkept(Protocol):
    """What a target has, beside the ports of `Sink`, whose tables do not keep themselves small."""

    def maintain(self, keep: timedelta) -> Iterator[UpkeptTable]:
        """Put small files together, and remove what no version of a table in the last `keep` needs. Needs no `acquire`:
        the one writer may work meanwhile. Raises as `progress`."""


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table of a target that keeps versions, as it was at a moment. `place` and `version` are as in Spark SQL, behind
    FROM and VERSION AS OF; `version` is "" for a table that had none yet. `commit_ts` is when upstream's table became
    so, 0 for one that had no row yet."""

    name: TableName
    place: str
    version: str
    commit_ts: int

    @property
    def query(self) -> str:
        """Its rows then."""
        of_version = f" VERSION AS OF {self.version}" if self.version else ""
        return f"SELECT * FROM {self.place}{of_version}{'' if self.commit_ts else ' WHERE false'}"


@runtime_checkable
class Versioned(Protocol):
    """What a target has, beside the ports of `Sink`, whose tables can be read as they were."""

    def at(self, moment: int, wanted: Callable[[TableName], bool] | None = None) -> Sequence[TableAt]:
        """All tables, or those `wanted`, by the names that they had then, with exactly the rows of upstream's at that
        moment. Needs no `acquire`. Raises BadConfig where that cannot be proved of each."""

    def frame(self, table: TableAt) -> Any:
        """Its rows then, as a DataFrame of the `SparkSource`'s session, which knows the target from then on."""


class Sink(ProgressPort, RowPort, StatementPort, TablePort, ComparePort, Protocol):
    """A target, on the driver. One thread makes all calls, except those of `apply_ddls`. Changes are refused
    (LeaseHeld) once another consumer has taken over. A server may lose the last of what was durable (a fail-over to a
    replica that is behind): then each change is refused (ProgressMoved) until `fence`, before anything is recorded that
    builds on what was lost."""

    def close(self) -> None:
        """Release the lease and everything else, even if `acquire` failed or was never called."""
