"""The results of commands. The command line prints them as text or as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.errors import ConsumerError
from consumer.model.names import TableName
from consumer.model.times import MAX_TSO, tso_to_ms


@dataclass(slots=True)
class TableResult:
    """One table in a run's summary. `changes` are the row changes read from the files, those dropped or left for a
    later round among them; `rows` = `puts` + `deletes` are what the target was given, once the changes of each key were
    folded. `state` is ok, stopped, waits or dropped; `hint` says what brings it back; `version` is that of the
    statement that stopped it, 0 for none. `resync`: the storage can make it again. `quarantined` are rows that were
    quarantined, by earlier runs too; `bad_row` is the first of them. `target_table` is its name in the target, ""
    where that
    is upstream's. `target_seconds`: how long its writes, commits and statements waited for the target, those of several
    connections added up."""

    changes: int = 0
    rows: int = 0
    puts: int = 0
    deletes: int = 0
    ddl: int = 0
    dropped_rows: int = 0
    watermark: int = 0
    state: str = "ok"
    error: str = ""
    hint: str = ""
    version: int = 0
    resync: bool = False
    quarantined: int = 0
    bad_row: str = ""
    target_table: str = ""
    seconds: float = 0.0
    target_seconds: float = 0.0


@dataclass(slots=True)
class RunResult:
    """The outcome of once, backfill, replay or run. `seconds` include `spark_seconds` (starting the session; 0.0: no
    session was started). `name` is the name of the progress if it is not --name. `ended` is when, in milliseconds since
    1970. `error`: why it ended before its end; `unfinished`: its last round did not go through."""

    checkpoint_ts: int = 0
    tables: dict[TableName, TableResult] = field(default_factory=dict)
    seconds: float = 0.0
    spark_seconds: float = 0.0
    rounds: int = 0
    exit_code: int = 0
    ended: int = 0
    error: ConsumerError | None = None
    name: str = ""
    unfinished: bool = False

    @property
    def target_seconds(self) -> float:
        """How long all tables waited for the target, together."""
        return sum(table.target_seconds for table in self.tables.values())

    @property
    def lag_seconds(self) -> float | None:
        """How far the slowest table was behind when the run ended; None where none is, or one has not begun."""
        alive = [table.watermark for table in self.tables.values() if table.state != "dropped"]
        return _seconds(self.ended, min(alive)) if self.ended and alive and 0 < min(alive) < MAX_TSO else None


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
    """One step of `plan`: kind is ddl, load or barrier. `policy` and `target` belong to statements, `to_ts` is their
    version; `destructive`: executed, it takes rows or values away. `target_table`: as in TableResult. `form`: what the
    table is in the target, "" for a mirror."""

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
    destructive: bool = False
    target: TargetDdl | None = None
    target_table: str = ""
    mode: str = ""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table that differs from the others in place or state. `version` is the refused statement's, 0 for none.
    `resync`: the storage can make it again. `quarantined`, `bad_row`, `target_table`: as in TableResult."""

    table: TableName
    watermark: int
    state: str
    error: str = ""
    hint: str = ""
    version: int = 0
    resync: bool = False
    quarantined: int = 0
    bad_row: str = ""
    target_table: str = ""


@dataclass(frozen=True, slots=True)
class TableRetry:
    """A table whose quarantined rows were tried again: how many are in the target now, and how many are not. `error`
    says why nothing is known of some."""

    table: TableName
    watermark: int
    taken_in: int
    quarantined: int
    bad_row: str = ""
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class RetryResult:
    """Of all tables that had quarantined rows."""

    tables: tuple[TableRetry, ...]
    seconds: float
    spark_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanResult:
    """`stopped` are the tables that stop before they reach the checkpoint, and those that an earlier run stopped: their
    steps are tried again."""

    checkpoint_ts: int
    steps: tuple[PlannedStep, ...]
    notes: tuple[str, ...] = ()
    stopped: tuple[TableStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadStatus:
    """Files that hold rows still to be applied, above the checkpoint too. `oldest_date` is the earliest of their date
    folders ("" where folders are not by day); `expiration_days` is TiCDC's file-expiration-days, 0 if unknown;
    `days_left` are the days of the checkpoint until its clean-up deletes that folder (0 or less: it may be gone)."""

    files: int
    bytes: int
    oldest_date: str
    expiration_days: int
    days_left: int | None


@dataclass(frozen=True, slots=True)
class StatusResult:
    """`applied_ts` is the place of every table that is not in `tables`; `ok` counts those. `checkpoint_ts` and `unread`
    are None if the storage did not answer (`notes` say why). `asked` is the moment of the answer, in milliseconds since
    1970. `time_zone` is what the replica is bound to."""

    upstream: str | None
    applied_ts: int
    checkpoint_ts: int | None
    tables: tuple[TableStatus, ...]
    notes: tuple[str, ...] = ()
    unread: UnreadStatus | None = None
    ok: int = 0
    asked: int = 0
    time_zone: str = ""

    @property
    def unwell(self) -> list[TableStatus]:
        """The tables that are stopped, wait, lack quarantined rows, or that somebody has dropped in the target."""
        return [row for row in self.tables if row.state in ("stopped", "waits", "missing") or row.quarantined]

    @property
    def slowest(self) -> TableStatus | None:
        """The table that is furthest behind the others, None where none is."""
        behind = [row for row in self.tables if row.state not in ("dropped", "excluded")]
        return min((row for row in behind if row.watermark < self.applied_ts), key=lambda r: r.watermark, default=None)

    @property
    def watermark(self) -> int:
        """The commit-ts up to which every table is complete."""
        return self.applied_ts if self.slowest is None else self.slowest.watermark

    @property
    def lag_seconds(self) -> float | None:
        """How far the slowest table is behind now; None before the first run."""
        return _seconds(self.asked, self.watermark) if self.applied_ts else None

    @property
    def behind_checkpoint_seconds(self) -> float | None:
        """How far the slowest table is behind the storage's checkpoint."""
        return (
            _seconds(tso_to_ms(self.checkpoint_ts), self.watermark) if self.checkpoint_ts and self.applied_ts else None
        )

    @property
    def checkpoint_age_seconds(self) -> float | None:
        """How far the checkpoint is behind now: it grows when the changefeed stands still."""
        return _seconds(self.asked, self.checkpoint_ts) if self.checkpoint_ts else None


def _seconds(later_ms: int, tso: int) -> float:
    return max(0.0, (later_ms - tso_to_ms(tso)) / 1000)
