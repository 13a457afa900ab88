"""The events of a run, as values. An observer (see `ports`) gets each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from consumer.errors import ConsumerError
from consumer.model.load import LoadPart
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, Progress


@dataclass(frozen=True, slots=True, eq=False)
class WorkUnit:
    """A load of some tables, or statements of some. `statement` is the first statement's text, "" for a load. Two works
    are equal only if they are the same object."""

    tables: tuple[TableName, ...]
    files: int = 0
    bytes: int = 0
    statement: str = ""


class NoteKind(StrEnum):
    """The subject of a note."""

    SETTING = "setting"
    UNKNOWN_PATHS = "unknown-paths"
    TWO_CHANGEFEEDS = "two-changefeeds"
    OVERWRITTEN_PARTITIONS = "overwritten-partitions"
    REWRITTEN_FILE = "rewritten-file"
    INCOMPLETE_FILE = "incomplete-file"
    UNREAD_FILES = "unread-files"
    CHECKPOINT = "checkpoint"
    START = "start"
    TABLE_RULES = "table-rules"
    STATEMENT = "statement"
    EMPTIED_TABLE = "emptied-table"
    KEPT_COLUMNS = "kept-columns"
    COMMIT_TS = "commit-ts"
    ACCEPTED_LOSS = "accepted-loss"
    LOST_TEXT = "lost-text"
    DOUBLED_TIME = "doubled-time"
    BAD_ROWS = "bad-rows"
    TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class Note:
    """A warning: a person should read it once, and it stops nothing. `count` is how many values, files or paths it is
    about. `table` is None if it is about all of them."""

    kind: NoteKind
    text: str
    table: TableName | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class NowDoing:
    """What the driver does from now on, while no work is under way."""

    what: str


@dataclass(frozen=True, slots=True)
class Idle:
    """All is applied up to `applied_ts`: the driver waits until its next listing."""

    applied_ts: int


@dataclass(frozen=True, slots=True)
class CheckpointRead:
    """The storage is complete up to `checkpoint`. It comes from any thread."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round has started. `tables` tables have `files` files of `bytes` bytes to be read; `names` are the tables that
    upstream has. `largest` are some of the tables to be read, with their files and bytes. `statements` statements are
    pending, of which `first` are some: table, version, text. `went_back` is a text if the checkpoint is below what was
    applied already, else ""."""

    checkpoint: int
    tables: int
    files: int
    bytes: int
    names: Collection[TableName] = ()
    largest: Sequence[tuple[TableName, int, int]] = ()
    statements: int = 0
    first: Sequence[tuple[TableName, int, str]] = ()
    went_back: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The target has recorded `progress`."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class RoundFinished:
    """The round is recorded. `stopped` tables do not advance any more, `waiting` ones are held up."""

    checkpoint: int
    seconds: float
    stopped: int
    waiting: int


@dataclass(frozen=True, slots=True)
class WorkStarted:
    work: WorkUnit


@dataclass(frozen=True, slots=True)
class WorkMoved:
    """A part of the work is done. It comes from any thread, and can come after the work has ended."""

    work: WorkUnit
    part: LoadPart


@dataclass(frozen=True, slots=True)
class WorkEnded:
    """The work has ended, whether it succeeded or not. StepFinished reports what succeeded."""

    work: WorkUnit


@dataclass(frozen=True, slots=True)
class StepFinished:
    """A step has succeeded. `bytes` are those of the change files that were read for it."""

    row: AuditRow
    seconds: float
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableStopped:
    table: TableName
    error: ConsumerError
    parallel_load: bool = False
    """Whether only a load that was to replace the table has stopped: the table in the target continues."""


@dataclass(frozen=True, slots=True)
class TableResumed:
    """An earlier run or round had stopped the table, and this one brought it to the checkpoint."""

    table: TableName


@dataclass(frozen=True, slots=True)
class Retrying:
    """`what` failed and is retried for `seconds` from now on (None: without end; 0: not in this round). There is one
    event for each failed try."""

    what: str
    error: ConsumerError
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RetryPassed:
    """`what` succeeded after one or more Retrying events."""

    what: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """`run` has ended by the signal of that name."""

    signal: str


@dataclass(frozen=True, slots=True)
class ConsumerFailed:
    """One of several consumers in this process has ended with `error`, and is started again after `seconds`."""

    error: Exception
    seconds: float


Event = (
    Note
    | NowDoing
    | Idle
    | CheckpointRead
    | RoundStarted
    | Recorded
    | RoundFinished
    | WorkStarted
    | WorkMoved
    | WorkEnded
    | StepFinished
    | TableStopped
    | TableResumed
    | Retrying
    | RetryPassed
    | RunEnded
    | ConsumerFailed
)
