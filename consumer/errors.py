"""All errors of the consumer, as a tree. What the loop does next decides the branch.

ConsumerError
├── Retryable              try the step again; exit 4 when it does not help
│   ├── StorageUnavailable     the storage does not answer, or refuses to be read
│   ├── StorageChanged         a file is not the one that was listed: list again
│   ├── CheckpointMissing      there is no `metadata` yet
│   ├── CheckpointBehind       the checkpoint is below the moment that the command needs
│   ├── TargetUnavailable      the target does not answer, or the connection broke
│   │   └── StagedRowsGone         what was staged for it is gone or damaged: load it again
│   ├── TargetBusy             deadlock, lock wait, write conflict: the same statement may go through next time
│   ├── LeaseHeld              another consumer of this name is at work, or a writer came too late
│   ├── JobBroken              Spark's job ended before its tasks did
│   ├── NoExecutors            Spark's cluster gives no executor to run tasks
│   ├── ProgressMoved          the progress in the target is not what was read: read it again
│   ├── Starved                this machine has no memory, threads, open files or disk left
│   └── Interrupted            a signal ended a bounded command before it reached its checkpoint
└── Fatal                  trying again does not help
    ├── BadConfig              exit 2: a flag, a setting, a login
    │   └── StagingUnseen          a Spark worker does not see the folder for staged rows: no table's fault
    ├── TableError             exit 3: stops its table, the others continue
    │   ├── CorruptFile            a data or schema file is not what TiCDC writes
    │   ├── FileUnreadable         the storage answers, and does not return one file
    │   ├── ChecksumMismatch       a schema file's content and its name disagree
    │   ├── CameLate               rows or a statement appeared that should have existed before
    │   ├── SchemaMissing          rows without the schema file of their version
    │   ├── SchemaDrift            rows and target table do not have the same columns
    │   │   └── RowsVary               rows have other columns than the load expects
    │   ├── TableMissing           rows for a table that the target does not have
    │   ├── RowRefused             the target refuses a value
    │   ├── TooManyBadRows         more rows are to be quarantined than the settings allow
    │   ├── RowsQuarantined           bad rows must be recorded before the others are written
    │   ├── LoadFailed             its load breaks a task, or all of Spark's worker, or is too much for the target
    │   └── CannotBeExact          the files do not say enough to be right (tables with no key, coarser keys, ...)
    │       └── RowsCollide            rows meet at a unique key: only all rows of the load show whether one is lost
    ├── NeedsPerson            exit 5
    │   ├── DdlRefused             the target refuses a statement; stops its table
    │   ├── GapFound               files are missing between what was read and what exists
    │   └── WrongUpstream          the progress under this name belongs to another upstream
    └── TargetDiffers          exit 6: `verify` found rows that differ from the storage

Errors cross process borders (Spark), so each is rebuilt from `as_dict` by `from_dict`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar


class Code(enum.StrEnum):
    """The cause of an error, or the reason why a table does not advance. Programs decide by it, because it stays the
    same when a message is reworded. Each error class has a code; an error has a more precise one where its class covers
    several causes."""

    cause: str
    """What happened, in one sentence or two."""
    way_back: str
    """What a person should do then."""

    def __new__(cls, value: str, cause: str, way_back: str) -> Code:
        """Creates a member, which is its text."""
        code = str.__new__(cls, value)
        code._value_, code.cause, code.way_back = value, cause, way_back
        return code

    ERROR = "error", "Any other error, or one that a later release has recorded.", "Do what its sentence says."
    BUG = (
        "bug",
        "The program met a state that it should never meet.",
        "Run it again with `-v`, and report what it prints. Nothing that was recorded is lost.",
    )

    STORAGE_UNAVAILABLE = (
        "storage-unavailable",
        "The storage does not answer, or does not let itself be read.",
        "Look at the address, the login and the network; then run the same command again.",
    )
    STORAGE_CHANGED = (
        "storage-changed",
        "A file is not the one that was listed: it was written again meanwhile.",
        "Run again: the storage is listed again.",
    )
    CHECKPOINT_MISSING = (
        "checkpoint-missing",
        "The storage has no `metadata` file yet.",
        "Look whether the URI names the changefeed's folder. TiCDC writes the file within seconds of its start.",
    )
    CHECKPOINT_BEHIND = (
        "checkpoint-behind",
        "The changefeed's checkpoint is below the moment that the command needs.",
        "Wait until the changefeed has come to that moment, and run again.",
    )
    TARGET_UNAVAILABLE = (
        "target-unavailable",
        "The target does not answer, or the connection broke.",
        "Look at the target; then run again. The next run resumes from what is recorded.",
    )
    STAGED_ROWS_GONE = (
        "staged-rows-gone",
        "Rows that were staged for the target are gone or damaged.",
        "Run again: they are loaded again.",
    )
    TARGET_BUSY = (
        "target-busy",
        "Somebody else held a lock, or wrote the same rows.",
        "Run again. Where it lasts, end the transaction that holds the lock.",
    )
    LEASE_HELD = (
        "lease-held",
        "Another consumer of this name is at work, or was a moment ago.",
        "Wait for it, or end it. The lease of one that has died runs out by itself.",
    )
    JOB_BROKEN = ("job-broken", "Spark's job ended before its tasks did.", "Look at Spark's log; then run again.")
    NO_EXECUTORS = (
        "no-executors",
        "Spark's cluster gives no executor.",
        "Look at the cluster's free cores and memory; then run again.",
    )
    PROGRESS_MOVED = (
        "progress-moved",
        "The progress in the target is another one than this run has read.",
        "Run again: it is read again.",
    )
    STARVED = (
        "starved",
        "This machine has no memory, threads, open files or disk left.",
        "Make room; docs/running.md names what bounds the program's need.",
    )
    INTERRUPTED = (
        "interrupted",
        "A signal ended the command early.",
        "Run it again: it resumes from what is recorded.",
    )

    BAD_CONFIG = (
        "bad-config",
        "A flag, a setting, a URI or a login is wrong.",
        "Correct what the sentence names. Nothing was changed.",
    )
    STAGING_UNSEEN = (
        "staging-unseen",
        "A Spark worker does not see the folder for staged rows.",
        "Give a folder that the driver and all workers share.",
    )

    CORRUPT_FILE = (
        "corrupt-file",
        "A data file or schema file is not what TiCDC writes.",
        'Restore the file, or let `on-bad-row = "quarantine"` in `[consumer]` quarantine its bad rows.',
    )
    FILE_UNREADABLE = (
        "file-unreadable",
        "The storage answers, and does not give this one file.",
        "Look at the rights and the storage class of the file; then run again.",
    )
    CHECKSUM_MISMATCH = (
        "checksum-mismatch",
        "A schema file's content does not have the checksum in its name.",
        "Restore the file as TiCDC wrote it.",
    )
    CAME_LATE = (
        "came-late",
        "Rows or a statement turned up below the moment up to which the table was complete.",
        "Find out who wrote the file. `resync` loads the table again with it.",
    )
    SCHEMA_MISSING = (
        "schema-missing",
        "There are rows of a version that has no schema file.",
        "Restore the schema file.",
    )
    SCHEMA_DRIFT = (
        "schema-drift",
        "The rows and the target's table do not have the same columns.",
        "Change the target's table as the sentence says, or `resync` the table.",
    )
    ROWS_VARY = (
        "rows-vary",
        "Rows of one table have other columns than those before them, and no statement shows why.",
        "Find out whether a schema file is missing.",
    )
    TABLE_MISSING = (
        "table-missing",
        "There are rows of a table that the target does not have.",
        "Make the table as upstream has it, or `resync` it where the storage has its CREATE TABLE.",
    )
    ROW_REFUSED = (
        "row-refused",
        "The target refuses a row's value.",
        'Correct the target\'s column, or quarantine the row with `on-bad-row = "quarantine"` in `[consumer]`.',
    )
    TOO_MANY_BAD_ROWS = (
        "too-many-bad-rows",
        "More rows would be quarantined than the settings allow.",
        "Look at them before you raise the limit: often one column is wrong in all of them.",
    )
    ROWS_QUARANTINED = (
        "rows-quarantined",
        "Rows must be recorded as quarantined before the others are written.",
        "Run again.",
    )
    LOAD_FAILED = (
        "load-failed",
        "The table's load breaks a task or Spark's worker, or is too much for the target, even by itself.",
        "Look at Spark's log; give workers more memory, or make loads smaller.",
    )
    CANNOT_BE_EXACT = (
        "cannot-be-exact",
        "The files do not say enough to make the table exactly as it is upstream.",
        "Do what the sentence says; docs/limits.md lists the cases.",
    )
    NO_KEY = (
        "no-key",
        "The files of a table without a key do not tell a row that was written again from an equal one.",
        "Give the table a key upstream, or load it from an export.",
    )
    NO_COMMIT_TS = (
        "no-commit-ts",
        "Rows have no commit-ts, and nothing else says which change of a key, or which file, came first.",
        "Let the changefeed write commit-ts (`include-commit-ts` for CSV), and load the table again.",
    )
    AMBIGUOUS_TIME = (
        "ambiguous-time",
        "A TIMESTAMP in a key or a generated column depends on a time zone, which no file shows.",
        "Name the changefeed's zone by `--tz`, or leave the table out.",
    )
    RULES_CONFLICT = (
        "rules-conflict",
        "Routes, table modes, filters, masks or chosen columns do not go together, or not with a statement.",
        "Change the rules; docs/shaping.md has the table of what goes together.",
    )
    TARGET_KEY = (
        "target-key",
        "The target's table has no key that distinguishes upstream's rows, or a key that distinguishes too few.",
        "Give the target's table upstream's key.",
    )
    TARGET_TABLE = (
        "target-table",
        "The target's table is a view, has triggers, has no transactions, or every write to it fails.",
        "Change the table in the target as the sentence says; then run again.",
    )
    NOT_RELOADABLE = (
        "not-reloadable",
        "The storage cannot make the table again.",
        "Load it from an export: `load-export --table`.",
    )
    ROWS_COLLIDE = (
        "rows-collide",
        "Rows of one load meet at a unique key of the target.",
        "Run again; where it stays, compare the target's unique keys with upstream's.",
    )

    DDL_REFUSED = (
        "ddl-refused",
        "The target refuses a statement.",
        "Do by hand what it means, and record that by `skip-ddl`; or correct what its error names and run again.",
    )
    STATEMENT_TEXT = (
        "statement-text",
        "The text of a statement is not what its schema file says.",
        "Look at the schema file; do by hand what the statement means, and record that by `skip-ddl`.",
    )
    NAME_UNTOLD = (
        "name-untold",
        "A statement does not show which table or database it means.",
        "Do by hand what it means, and record that by `skip-ddl`.",
    )
    TABLE_EXISTS = (
        "table-exists",
        "The target has a table of the name of a new one.",
        "Move or drop the table that is there, if nobody needs it; then run again.",
    )
    POLICY_FAILS = (
        "policy-fails",
        "`[consumer.ddl]` lets a statement of this kind stop its tables.",
        "Decide: execute it by hand and record that by `skip-ddl`, or change the policy.",
    )
    OF_ANOTHER_CONSUMER = (
        "of-another-consumer",
        "The table belongs to another consumer of the target.",
        "Give this consumer's tables other names by `[[consumer.routes]]`, or `forget` the other consumer.",
    )
    KEPT_BY_POLICY = (
        "kept-by-policy",
        "Upstream has dropped the table, and the policy for DROP keeps it in the target.",
        "Nothing, or set `evolve` for that kind in `[consumer.ddl]`: then the next run drops it.",
    )
    FILES_MISSING = (
        "files-missing",
        "Files are missing between what was read and what is there.",
        "Restore them, or continue without their rows by `--accept-gap-in`.",
    )
    DATES_DELETED = (
        "dates-deleted",
        "TiCDC's clean-up may have deleted files that were not read.",
        "Give the changefeed's `file-expiration-days` (`--config`), so that it is known which dates may be deleted."
        " Where files are gone, load the table from an export, or continue without their rows by `--accept-gap-in`.",
    )
    WRONG_UPSTREAM = (
        "wrong-upstream",
        "The progress under this name is that of another storage.",
        "Give the storage that it belongs to, or another `--name` for the new one.",
    )
    TARGET_DIFFERS = (
        "target-differs",
        "`verify` found rows that are not what the storage says.",
        "Find out who changed them. `verify --repair` makes them right, `resync` loads the table again.",
    )

    WAITS_FOR_STATEMENT = (
        "waits-for-statement",
        "No error: the table waits for a statement that cannot run yet, because a table that the statement touches is"
        " stopped or still has rows to load, or an earlier statement has not run.",
        "Restore that table; `status` names it.",
    )
    MOVED_BY_WRITER = (
        "moved-by-writer",
        "No error: the table's rows are written, and the files that they came from are not recorded as read yet.",
        "Nothing: the next run records it.",
    )

    @classmethod
    def of(cls, text: str) -> Code:
        """Returns the code of a text, ERROR for one that a later release has recorded."""
        return next((code for code in cls if code.value == text), cls.ERROR)


def located(text: str, *places: str) -> str:
    """Returns `text` with those of `places` in front that it does not contain."""
    return ": ".join([*(place for place in places if place and place not in text), text])


class ConsumerError(Exception):
    """One sentence with coordinates, and a hint with the next step."""

    exit_code: ClassVar[int] = 1
    code: Code = Code.ERROR
    holds_rows: bool = True
    """Whether message and hint may show values of rows. Classes and single errors set it to False if they do not."""

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
        """Returns the same error with `table` as its table."""
        return from_dict({**self.as_dict(), "table": table})

    def sentence(self) -> str:
        """Returns the message after its coordinates: ``db.t: path:line: message``."""
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
        """Returns the error for a signal. `signal` is its name, "" if it is not known."""
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
    """Rows have other columns than the load expects. `absent` are columns of the load that a row does not have.
    `carried` are columns left out of the load that a row has."""

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
    """The target refuses a row. `row` identifies it (see `changes.identity.identities`), None if it is not known which
    row it is. `put` shows whether it was to be written or removed. They are used to find its line. `more` are others
    like it: identity, put, reason. `of_data` means that the row's values are the cause, as far as is known."""

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
        """All refused rows that are identified."""
        return [*([] if self.row is None else [(self.row, self.put, self.message)]), *self.more]


class TooManyBadRows(TableError):
    code = Code.TOO_MANY_BAD_ROWS


class RowsQuarantined(TableError):
    """Bad rows must be recorded first. `rows` (of `model.bad_rows`) belong to a table with no key: its other rows are
    written together with the progress."""

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
    """Files are missing. `missing` is the number of the first file, or the first date, that is missing at its path."""

    code = Code.FILES_MISSING

    def __init__(self, message: str, *, missing: int | str = "", **coordinates: Any) -> None:
        super().__init__(message, **coordinates)
        self.missing = missing


class WrongUpstream(NeedsPerson):
    code = Code.WRONG_UPSTREAM


class TargetDiffers(Fatal):
    code = Code.TARGET_DIFFERS
    exit_code = 6


def error_classes(root: type[ConsumerError] = ConsumerError) -> dict[str, type[ConsumerError]]:
    """Returns `root` and all classes below it, by name."""
    classes = {root.__name__: root}
    for child in root.__subclasses__():
        classes |= error_classes(child)
    return classes


def from_dict(body: dict[str, Any]) -> ConsumerError:
    """Returns the error that `as_dict` described. An unknown kind becomes a ConsumerError."""
    rest = {name: value for name, value in body.items() if name not in ("kind", "message")}
    return error_classes().get(body["kind"], ConsumerError)(body["message"], **rest)
