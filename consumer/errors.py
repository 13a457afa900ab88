"""Every error of the consumer, drawn as a tree. What the loop does next decides the branch.

ConsumerError
├── Retryable              try the step again; exit 4 when it does not help
│   ├── StorageUnavailable     the storage does not answer, or refuses to be read
│   ├── StorageChanged         a file is not the one that was listed: list again
│   ├── CheckpointMissing      there is no `metadata` yet
│   ├── CheckpointBehind       the changefeed has not come to where a replay is to end
│   ├── TargetUnavailable      the target does not answer, or the connection broke
│   │   └── StagedRowsGone         what was staged for it is gone or damaged: load it again
│   ├── TargetBusy             deadlock, lock wait, write conflict: the same statement may go through next time
│   ├── LeaseHeld              another consumer of this name is at work, or a writer came too late
│   ├── JobBroken              Spark's job ended before its tasks did
│   ├── NoExecutors            Spark's cluster gives nobody who runs tasks
│   ├── ProgressMoved          the target is further than the round took it to be: read the progress again
│   ├── Starved                this machine has no memory, threads, open files or disk left
│   └── Interrupted            a signal ended a bounded command before it reached its checkpoint
└── Fatal                  trying again does not help
    ├── BadConfig              exit 2: a flag, a setting, a login
    │   └── StagingUnseen          a Spark worker does not see the folder for staged rows: no table's fault
    ├── TableError             exit 3: stops its table, the others go on
    │   ├── CorruptFile            a data or schema file is not what TiCDC writes
    │   ├── FileUnreadable         the storage answers, and does not give one file
    │   ├── ChecksumMismatch       a schema file's content and its name disagree
    │   ├── CameLate               rows or a statement turned up that should have been there before
    │   ├── SchemaMissing          rows without the schema file of their version
    │   ├── SchemaDrift            rows and target table do not have the same columns
    │   │   └── RowsVary               rows have other columns than the load takes them to have
    │   ├── TableMissing           rows for a table that the target does not have
    │   ├── RowRefused             the target refuses a value
    │   ├── TooManyBadRows         more rows are to be quarantined than the settings allow
    │   ├── RowsQuarantined           bad rows must be recorded before the others are written
    │   ├── LoadFailed             its load breaks a task, or all of Spark's worker, or is too much for the target
    │   └── CannotBeExact          the files do not say enough to be right (tables with no key, coarser keys, ...)
    │       └── RowsCollide            rows meet at a unique key: only all rows of the load tell whether one is lost
    ├── NeedsPerson            exit 5
    │   ├── DdlRefused             the target refuses a statement; stops its table
    │   ├── GapFound               files are missing between what was read and what is there
    │   └── WrongUpstream          the progress under this name belongs to another upstream
    └── TargetDiffers          exit 6: `verify` found rows that are not what the storage says

Errors cross process borders (Spark), so each is rebuilt from `as_dict` by `from_dict`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar


class Code(enum.StrEnum):
    """What an error is about, or why a table is where it is: what programs decide by, and what stays as it is when a
    sentence is worded otherwise. A class has one; where it stands for several causes, an error has one of its own."""

    ERROR = "error"
    """Any other."""
    BUG = "bug"

    STORAGE_UNAVAILABLE = "storage-unavailable"
    STORAGE_CHANGED = "storage-changed"
    CHECKPOINT_MISSING = "checkpoint-missing"
    CHECKPOINT_BEHIND = "checkpoint-behind"
    TARGET_UNAVAILABLE = "target-unavailable"
    STAGED_ROWS_GONE = "staged-rows-gone"
    TARGET_BUSY = "target-busy"
    LEASE_HELD = "lease-held"
    JOB_BROKEN = "job-broken"
    NO_EXECUTORS = "no-executors"
    PROGRESS_MOVED = "progress-moved"
    STARVED = "starved"
    INTERRUPTED = "interrupted"

    BAD_CONFIG = "bad-config"
    STAGING_UNSEEN = "staging-unseen"

    CORRUPT_FILE = "corrupt-file"
    FILE_UNREADABLE = "file-unreadable"
    CHECKSUM_MISMATCH = "checksum-mismatch"
    CAME_LATE = "came-late"
    SCHEMA_MISSING = "schema-missing"
    SCHEMA_DRIFT = "schema-drift"
    ROWS_VARY = "rows-vary"
    TABLE_MISSING = "table-missing"
    ROW_REFUSED = "row-refused"
    TOO_MANY_BAD_ROWS = "too-many-bad-rows"
    ROWS_QUARANTINED = "rows-quarantined"
    LOAD_FAILED = "load-failed"
    CANNOT_BE_EXACT = "cannot-be-exact"
    NO_KEY = "no-key"
    """The files of a table with no key do not tell a row that was written again from an equal one."""
    NO_COMMIT_TS = "no-commit-ts"
    """Rows without commit-ts: nothing says which change of a key, or which file, came first."""
    AMBIGUOUS_TIME = "ambiguous-time"
    """A TIMESTAMP in a key or a generated column, which depends on a time zone."""
    RULES_CONFLICT = "rules-conflict"
    """Routes, table modes, filters, masks or chosen columns do not go together, or not with a statement."""
    TARGET_KEY = "target-key"
    """The target's table has no key that tells upstream's rows apart, or one that does not."""
    TARGET_TABLE = "target-table"
    """It is a view, has triggers, its engine has no transactions, or every write to it fails."""
    NOT_RELOADABLE = "not-reloadable"
    """The storage cannot make the table again."""
    ROWS_COLLIDE = "rows-collide"

    DDL_REFUSED = "ddl-refused"
    STATEMENT_TEXT = "statement-text"
    """It is not what its schema file says."""
    NAME_UNTOLD = "name-untold"
    """It does not tell which table or database it means."""
    TABLE_EXISTS = "table-exists"
    """The target has one of the name of a new one."""
    POLICY_FAILS = "policy-fails"
    """[consumer.ddl] lets it stop its tables."""
    OF_ANOTHER_CONSUMER = "of-another-consumer"
    """The table belongs to another consumer of the target."""
    KEPT_BY_POLICY = "kept-by-policy"
    """It no longer exists upstream, and a policy keeps it in the target."""
    FILES_MISSING = "files-missing"
    DATES_DELETED = "dates-deleted"
    """TiCDC's clean-up may have deleted them."""
    WRONG_UPSTREAM = "wrong-upstream"
    TARGET_DIFFERS = "target-differs"

    WAITS_FOR_STATEMENT = "waits-for-statement"
    """A table: for one that cannot run yet, as another table is stopped."""
    MOVED_BY_WRITER = "moved-by-writer"
    """A table: a writer has brought it there, and the files that its rows came from are not recorded as read yet."""

    @classmethod
    def _missing_(cls, value: object) -> Code | None:
        """Of a text that a later release has recorded."""
        return cls.ERROR if isinstance(value, str) else None


def located(text: str, *places: str) -> str:
    """`text` behind those of its places that it does not name itself."""
    return ": ".join([*(place for place in places if place and place not in text), text])


class ConsumerError(Exception):
    """One sentence with coordinates, and a hint with the next step."""

    exit_code: ClassVar[int] = 1
    code: Code = Code.ERROR
    holds_rows: bool = True
    """Whether message and hint may show values of rows. A class, or an error of it, says where they do not."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        table: str = "",
        path: str = "",
        line: int | None = None,
        version: int | None = None,
        holds_rows: bool | None = None,
        code: Code | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if holds_rows is not None:
            self.holds_rows = holds_rows
        self.message, self.hint, self.table = message, hint, table
        self.path, self.line, self.version = path, line, version

    def __reduce__(self) -> tuple[Any, ...]:
        return from_dict, (self.as_dict(),)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, **vars(self)}

    def about(self, table: str) -> ConsumerError:
        """The same error with `table` as its table."""
        return from_dict({**self.as_dict(), "table": table})

    def sentence(self) -> str:
        """The message behind its coordinates: ``db.t: path:line: message``."""
        place = f"{self.path}:{self.line}" if self.path and self.line is not None else self.path
        return located(self.message, self.table, place)

    def __str__(self) -> str:
        return self.sentence()


class Retryable(ConsumerError):
    exit_code = 4
    holds_rows = False
    may_pass: ClassVar[bool] = True
    """Whether the same call may succeed a moment later."""


class StorageUnavailable(Retryable):
    code = Code.STORAGE_UNAVAILABLE


class StorageChanged(Retryable):
    code = Code.STORAGE_CHANGED
    may_pass = False


class CheckpointMissing(Retryable):
    code = Code.CHECKPOINT_MISSING


class CheckpointBehind(Retryable):
    code = Code.CHECKPOINT_BEHIND


class TargetUnavailable(Retryable):
    code = Code.TARGET_UNAVAILABLE


class StagedRowsGone(TargetUnavailable):
    code = Code.STAGED_ROWS_GONE
    may_pass = False


class TargetBusy(Retryable):
    code = Code.TARGET_BUSY


class LeaseHeld(Retryable):
    code = Code.LEASE_HELD
    may_pass = False


class JobBroken(Retryable):
    code = Code.JOB_BROKEN


class NoExecutors(Retryable):
    code = Code.NO_EXECUTORS


class ProgressMoved(Retryable):
    code = Code.PROGRESS_MOVED
    may_pass = False


class Starved(Retryable):
    code = Code.STARVED
    may_pass = False


class Interrupted(Retryable):
    code = Code.INTERRUPTED

    @classmethod
    def by(cls, signal: object) -> Interrupted:
        """`signal` is its name, "" where it is not known."""
        name = f" ({signal})" if str(signal) else ""
        return cls(
            f"stopped by a signal{name} before the checkpoint was reached; what was applied is recorded",
            hint="Run the same command again (`once` in place of `backfill`): it continues from there.",
        )


class Fatal(ConsumerError): ...


class BadConfig(Fatal):
    code = Code.BAD_CONFIG
    exit_code = 2
    holds_rows = False


class StagingUnseen(BadConfig):
    code = Code.STAGING_UNSEEN


class TableError(Fatal):
    exit_code = 3


class CorruptFile(TableError):
    code = Code.CORRUPT_FILE


class FileUnreadable(TableError):
    code = Code.FILE_UNREADABLE
    holds_rows = False


class ChecksumMismatch(TableError):
    code = Code.CHECKSUM_MISMATCH
    holds_rows = False


class CameLate(TableError):
    code = Code.CAME_LATE
    holds_rows = False


class SchemaMissing(TableError):
    code = Code.SCHEMA_MISSING
    holds_rows = False


class SchemaDrift(TableError):
    code = Code.SCHEMA_DRIFT


class RowsVary(SchemaDrift):
    """`absent`: columns of the load that a row does not have. `carried`: columns left out of it that a row has."""

    code = Code.ROWS_VARY

    def __init__(
        self, message: str, *, absent: Sequence[str] = (), carried: Sequence[str] = (), **coordinates: Any
    ) -> None:
        super().__init__(message, **coordinates)
        self.absent, self.carried = tuple(absent), tuple(carried)


class TableMissing(TableError):
    code = Code.TABLE_MISSING
    holds_rows = False


class RowRefused(TableError):
    """`row` identifies the row (see `fold.identity.identities`), None if it is not known which one it is; `put` says
    whether it was to be written or removed. They are used to find its line. `more` are others like it: identity, put,
    reason. `of_data`: the row's values are to blame, as far as is known."""

    code = Code.ROW_REFUSED

    def __init__(
        self,
        message: str,
        *,
        row: int | None = None,
        put: bool = True,
        more: Sequence[tuple[int, bool, str]] = (),
        of_data: bool = True,
        **coordinates: Any,
    ) -> None:
        super().__init__(message, **coordinates)
        self.row, self.put, self.more, self.of_data = row, put, tuple(more), of_data

    @property
    def rows(self) -> list[tuple[int, bool, str]]:
        """All that are identified."""
        return [*([] if self.row is None else [(self.row, self.put, self.message)]), *self.more]


class TooManyBadRows(TableError):
    code = Code.TOO_MANY_BAD_ROWS


class RowsQuarantined(TableError):
    """`rows` (of `model.bad_rows`) of a table with no key: its other rows go with the progress."""

    code = Code.ROWS_QUARANTINED

    def __init__(self, message: str, *, rows: Sequence[Any] = (), **coordinates: Any) -> None:
        super().__init__(message, **coordinates)
        self.rows = tuple(rows)


class LoadFailed(TableError):
    code = Code.LOAD_FAILED


class CannotBeExact(TableError):
    code = Code.CANNOT_BE_EXACT


class RowsCollide(CannotBeExact):
    code = Code.ROWS_COLLIDE


class NeedsPerson(Fatal):
    exit_code = 5


class DdlRefused(NeedsPerson):
    code = Code.DDL_REFUSED


class GapFound(NeedsPerson):
    """`missing`: the number of the first file, or the first date, that is missing at its path."""

    code = Code.FILES_MISSING

    def __init__(self, message: str, *, missing: int | str = "", **coordinates: Any) -> None:
        super().__init__(message, **coordinates)
        self.missing = missing


class WrongUpstream(NeedsPerson):
    code = Code.WRONG_UPSTREAM


class TargetDiffers(Fatal):
    code = Code.TARGET_DIFFERS
    exit_code = 6


def _tree(root: type[ConsumerError]) -> dict[str, type[ConsumerError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


def from_dict(body: dict[str, Any]) -> ConsumerError:
    """The error that `as_dict` described (unknown kinds come back as ConsumerError)."""
    rest = {name: value for name, value in body.items() if name not in ("kind", "message")}
    return _tree(ConsumerError).get(body["kind"], ConsumerError)(body["message"], **rest)
