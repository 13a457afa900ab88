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

from collections.abc import Sequence
from typing import Any, ClassVar


class ConsumerError(Exception):
    """One sentence with coordinates, and a hint with the next step."""

    exit_code: ClassVar[int] = 1
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
    ) -> None:
        super().__init__(message)
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
        parts = [part for part in (self.table, place) if part and part not in self.message]
        return ": ".join([*parts, self.message])

    def __str__(self) -> str:
        return self.sentence()


class Retryable(ConsumerError):
    exit_code = 4
    holds_rows = False
    may_pass: ClassVar[bool] = True
    """Whether the same call may succeed a moment later."""


class StorageUnavailable(Retryable): ...


class StorageChanged(Retryable):
    may_pass = False


class CheckpointMissing(Retryable): ...


class CheckpointBehind(Retryable): ...


class TargetUnavailable(Retryable): ...


class StagedRowsGone(TargetUnavailable):
    may_pass = False


class TargetBusy(Retryable): ...


class LeaseHeld(Retryable):
    may_pass = False


class JobBroken(Retryable): ...


class NoExecutors(Retryable): ...


class ProgressMoved(Retryable):
    may_pass = False


class Starved(Retryable):
    may_pass = False


class Interrupted(Retryable):
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
    exit_code = 2
    holds_rows = False


class StagingUnseen(BadConfig): ...


class TableError(Fatal):
    exit_code = 3


class CorruptFile(TableError): ...


class FileUnreadable(TableError):
    holds_rows = False


class ChecksumMismatch(TableError):
    holds_rows = False


class CameLate(TableError):
    holds_rows = False


class SchemaMissing(TableError):
    holds_rows = False


class SchemaDrift(TableError): ...


class RowsVary(SchemaDrift):
    """`absent`: columns of the load that a row does not have. `carried`: columns left out of it that a row has."""

    def __init__(
        self, message: str, *, absent: Sequence[str] = (), carried: Sequence[str] = (), **coordinates: Any
    ) -> None:
        super().__init__(message, **coordinates)
        self.absent, self.carried = tuple(absent), tuple(carried)


class TableMissing(TableError):
    holds_rows = False


class RowRefused(TableError):
    """`row` identifies the row (see `fold.identity.identities`), None if it is not known which one it is; `put` says
    whether it was to be written or removed. They are used to find its line. `more` are others like it: identity, put,
    reason. `of_data`: the row's values are to blame, as far as is known."""

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


class TooManyBadRows(TableError): ...


class RowsQuarantined(TableError):
    """`rows` (of `model.bad_rows`) of a table with no key: its other rows go with the progress."""

    def __init__(self, message: str, *, rows: Sequence[Any] = (), **coordinates: Any) -> None:
        super().__init__(message, **coordinates)
        self.rows = tuple(rows)


class LoadFailed(TableError): ...


class CannotBeExact(TableError): ...


class RowsCollide(CannotBeExact): ...


class NeedsPerson(Fatal):
    exit_code = 5


class DdlRefused(NeedsPerson): ...


class GapFound(NeedsPerson): ...


class WrongUpstream(NeedsPerson): ...


class TargetDiffers(Fatal):
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
