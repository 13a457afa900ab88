"""The ports of a target: progress, rows, statements, and a look at its tables. `Sink` is one target's four together.

Each call tells what it has recorded, and nothing else may be taken for recorded. Each Protocol's comments are its
guarantees; whoever implements one is held to them by tests/contract (docs/add-a-target.md shows how).

Arrow tables of changes ("change tables", see consumer.codec.batches) have the columns
``ts int64, put bool, series int32, rank int64`` and then ``c0 .. cN``, one per LoadTarget.columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.load import LoadOutcome, LoadTarget, Receipt
from consumer.model.names import TableName
from consumer.model.progress import DdlId, DdlRecord, Progress, ProgressChange
from consumer.model.result import TargetDdl
from consumer.model.steps import ApplyDdl, Window

ArrowTable = Any
"""A pyarrow.Table; named here without importing pyarrow, which layers 0-1 do without."""


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What the settings say of any target. `name` is the consumer name, under which the progress is kept; `time_zone`
    the changefeed's, by name or offset; `worker_count` bounds the connections to a server. A target has no use for
    what it does not know."""

    name: str
    time_zone: str = "UTC"
    worker_count: int = 16
    allow_triggers: bool = False


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


class ProgressPort(Protocol):
    """Who may change the target, and how far it is. What is recorded is durable on return."""

    def acquire(self, upstream: str) -> Progress:
        """Become the one writer of this consumer name and read its progress. Waits for statements of an earlier holder
        that the server still runs. Raises LeaseHeld, WrongUpstream, TargetUnavailable, BadConfig (login)."""

    def progress(self) -> Progress:
        """Read the progress without becoming the writer; empty when there is none yet."""

    def consumers(self) -> Mapping[str, int]:
        """The consumer names that the target holds progress of, each with how many of its tables are in order. Needs no
        `acquire`."""

    def kept_elsewhere(self) -> Mapping[TableName, str]:
        """The tables that another consumer name keeps, each with that name: two would write to them. It has written to
        them, and none has stopped before a statement of theirs ran. A replay is done with its tables. Needs no
        `acquire`."""

    def forget(self) -> None:
        """Take away all that is kept under this consumer's name; the tables stay as they are. In place of `acquire`,
        and in one transaction. Raises LeaseHeld while a consumer of that name is at work."""

    def fence(self) -> Progress:
        """Lock out every writer made before, begin anew with what the target has, and read that: called once a round
        has broken off."""

    def record(self, change: ProgressChange) -> ProgressChange:
        """Record progress that goes with no rows."""

    def empty_table(self, table: TableName, change: ProgressChange) -> ProgressChange:
        """Drop the target table, so that its statements and rows can be applied from the start, and record `change`."""

    def rest(self) -> None:
        """A round is over: what keeps others from the target is let go until the next call. Not the lease."""


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


class RowPort(Protocol):
    """The driver's side of loads. Writers write or stage on executors, and `commit` makes that count."""

    def writer(self) -> Writer:
        """For one load, with an epoch of its own: what belongs to other loads goes on beside it."""

    def end(self, writer: Writer) -> None:
        """Lock out `writer`, as its load is over: whatever of it still runs somewhere (an attempt that was given up, a
        worker that was lost) is waited for, or writes no more (LeaseHeld). What it has staged can be
        committed, until another writer is asked for."""

    def commit(self, outcomes: Sequence[LoadOutcome], change: ProgressChange) -> ProgressChange:
        """Publish what was staged, and record `change` (with audit rows of the target's own), in one transaction. An
        outcome with an error publishes nothing.

        A TableError in which `table` names one of the outcomes': nothing of the call is published or recorded, what is
        staged stays, and the call can be made again without that outcome and its part of `change`. LoadFailed: all of
        it together is too much for the target, parts of it may not be.
        """


class StatementPort(Protocol):
    """Upstream's statements on the target."""

    statements: int
    """How many calls of `apply_ddls` may run at a time, each on a thread of its own, beside all other calls; 0: it is
    called by the one thread too."""

    def apply_ddls(self, steps: Sequence[ApplyDdl], unfinished: Mapping[DdlId, DdlRecord]) -> Sequence[DdlOutcome]:
        """Execute statements that do not touch one another's tables: intent (with ``step.before``), execute, fact
        (``step.done``). One outcome a step, in their order. `unfinished` are records of earlier tries: an intent
        with no fact says to look before executing, a refusal that nothing ran behind it. A refused statement leaves no
        intent."""

    def preview_ddls(self, steps: Sequence[ApplyDdl]) -> Sequence[TargetDdl]:
        """What `apply_ddls` would execute, in the order of the steps, which may build on one another. Changes nothing,
        needs no `acquire`, and answers every step: one that would be refused says why."""


class TablePort(Protocol):
    """The target's tables as they are. Changes nothing, and needs no `acquire` but for `has_rows`."""

    def prepare(self, requests: Sequence[LoadRequest]) -> Sequence[LoadTarget | ConsumerError]:
        """Look at the target tables, in one go. Answers in the order of the requests. TableMissing for a table that is
        not there: it is never made from rows. Columns that only the target has become `LoadTarget.kept`; SchemaDrift
        where their values would get lost."""

    def has_rows(self, tables: Collection[TableName]) -> Sequence[TableName]:
        """Those of `tables` that exist in the target and hold rows."""

    def missing(self, tables: Collection[TableName]) -> Collection[TableName]:
        """Those of `tables` that the target does not have."""


class Sink(ProgressPort, RowPort, StatementPort, TablePort, Protocol):
    """A target, on the driver. One thread calls it, but for `apply_ddls`. Changes are refused (LeaseHeld) once another
    consumer has taken over. A server may lose the last of what was durable (a fail-over to a replica that
    is behind): then each change is refused (ProgressMoved) until `fence`, before anything is recorded that builds on
    what was lost."""

    def close(self) -> None:
        """Give the lease back and let go of everything; also where `acquire` failed or was never called."""
