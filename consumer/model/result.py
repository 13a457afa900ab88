"""What a command tells its caller: printed as text or as JSON by the command line, never anything else."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.model.names import TableName


@dataclass(slots=True)
class TableResult:
    """One table in a run's summary. `state` is ok, stopped, waits or dropped; `hint` says what brings it back."""

    rows: int = 0
    puts: int = 0
    deletes: int = 0
    ddl: int = 0
    dropped_rows: int = 0
    watermark: int = 0
    state: str = "ok"
    error: str = ""
    hint: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class RunResult:
    """The outcome of once, backfill, replay or run. `seconds` include `spark_seconds` (starting the session; 0.0: no
    session was started). `notes` are things a person should read once."""

    checkpoint_ts: int = 0
    tables: dict[TableName, TableResult] = field(default_factory=dict)
    seconds: float = 0.0
    spark_seconds: float = 0.0
    rounds: int = 0
    exit_code: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TargetDdl:
    """A statement as it would run on the target as that is now: `statements` in order, or a plain description of what
    is done; none where there is nothing to execute. `note` is what the target does without, `error` why it would refuse
    the statement ("": it would not, as far as can be seen)."""

    statements: tuple[str, ...] = ()
    note: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One line of `plan`: kind is ddl, load or barrier. `policy` and `target` belong to statements, `to_ts` is their
    version."""

    kind: str
    table: TableName
    from_ts: int
    to_ts: int
    files: int = 0
    bytes: int = 0
    statement: str = ""
    touches: tuple[TableName, ...] = ()
    waits_for: str = ""
    policy: str = ""
    target: TargetDdl | None = None


@dataclass(frozen=True, slots=True)
class PlanResult:
    checkpoint_ts: int
    steps: tuple[PlannedStep, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableStatus:
    table: TableName
    applied_ts: int
    state: str
    reason: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class UnreadStatus:
    """Files that hold rows still to be applied, above the checkpoint too. `oldest_date` is the earliest of their date
    folders ("" where folders are not by day); `expiration_days` is TiCDC's file-expiration-days, 0 where nobody says;
    `days_left` are the days of the checkpoint until its clean-up deletes that folder (0 or less: it may be gone)."""

    files: int
    bytes: int
    oldest_date: str
    expiration_days: int
    days_left: int | None


@dataclass(frozen=True, slots=True)
class StatusResult:
    """`checkpoint_ts` and `unread` are None where the storage could not be asked (`notes` say why)."""

    upstream: str | None
    applied_ts: int
    checkpoint_ts: int | None
    tables: tuple[TableStatus, ...]
    notes: tuple[str, ...] = ()
    unread: UnreadStatus | None = None
