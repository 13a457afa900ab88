"""What a consumer of this process is doing and where its tables are: what metrics and the page show."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.errors import ConsumerError
from consumer.model.events import (
    CheckpointRead,
    ConsumerFailed,
    Event,
    Idle,
    Note,
    NowDoing,
    Recorded,
    Retrying,
    RetryPassed,
    RoundFinished,
    RoundStarted,
    StepFinished,
    WorkEnded,
)
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, Progress
from consumer.model.texts import duration_text
from consumer.model.times import seconds_behind
from consumer.observe.meter import Meter, Reading
from consumer.observe.troubles import Outage, Outages, System, is_outage
from consumer.plan.statuses import table_statuses
from consumer.results import StatusResult, TableStatus

SAMPLE_SECONDS = 15.0
"""Seconds between two points of a chart."""
_SAMPLES = 960
"""How many points are kept: four hours."""
_STATEMENTS = 50
_IDLE = "waits for new files"
_LONG = 5.0
"""Seconds after which the duration of an activity is reported."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a consumer is: URIs are without secrets. `options` are the flags of commands that are printed for it;
    `settings` are those that differ from their defaults, as text."""

    name: str
    upstream: str
    target: str
    options: str = ""
    settings: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A point of the charts: rows written until then, and the lag in seconds of the slowest of the tables that are not
    stopped (`Progress.slowest`); None if one had nothing yet."""

    at: float
    rows: int
    lag: float | None


@dataclass(slots=True)
class Totals:
    """Totals since the process began."""

    puts: Counter[TableName] = field(default_factory=Counter)
    """Rows written, by table."""
    deletes: Counter[TableName] = field(default_factory=Counter)
    changes: int = 0
    """Row changes read from files."""
    dropped_rows: int = 0
    """Of these, changes at or below a watermark."""
    bytes: int = 0
    """Bytes of change files that were read and written."""
    files: int = 0
    """Files of finished loads."""
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds of finished steps, by the kind of step; steps run in parallel."""
    steps: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    warnings: int = 0
    rounds: int = 0
    round_seconds: float = 0.0

    @property
    def rows(self) -> int:
        return self.puts.total() + self.deletes.total()


@dataclass(frozen=True, slots=True)
class View:
    """The state of a consumer at one time. `ended` is the exit code of a finished command."""

    identity: Identity
    status: StatusResult
    tables: Sequence[TableStatus]
    """All tables that upstream has, or that are not healthy, by name."""
    totals: Totals
    reading: Reading
    doing: str
    away: Mapping[System, Outage]
    """The systems that do not answer. While the storage does not, its checkpoint is the one of `checkpoint_read`."""
    checkpoint_read: float | None
    """When the storage's checkpoint was read last, in seconds since 1970."""
    trouble: Sequence[str]
    """What else fails and is retried, one sentence each."""
    failed: str
    """What ended the consumer, if it is restarted after a while."""
    statements: Sequence[tuple[float, AuditRow, float]]
    """The last statements: when, what, and the seconds that each took; the newest first."""
    samples: Sequence[Sample]
    round_finished: float | None
    """When the last round ended, in seconds since 1970."""
    ended: int | None
    plan: RoundStarted | None = None
    """The work that the last listing has found."""
    knows_tables: bool = True
    """Whether the progress was read."""

    def lag(self, table: TableStatus) -> float | None:
        """Returns the lag of `table` now, in seconds; None if it has nothing yet, or upstream no longer has it."""
        if not table.watermark or table.state in ("dropped", "excluded"):
            return None
        return seconds_behind(table.watermark, self.status.asked)


class Live:
    """An observer. Events come on any thread, and views are read on others."""

    def __init__(self, identity: Identity, clock: Callable[[], float] = time.time) -> None:
        self.identity, self._clock, self._lock = identity, clock, threading.Lock()
        self._meter = Meter(time.monotonic)
        self._progress: Progress | None = None
        self._names: Collection[TableName] = ()
        self._plan: RoundStarted | None = None
        self._checkpoint: int | None = None
        self._checkpoint_read: float | None = None
        self._outages = Outages(clock)
        self._totals = Totals()
        self._doing, self._since = "starts", clock()
        self._failed: Exception | None = None
        self._trouble: dict[str, str] = {}
        self._statements: deque[tuple[float, AuditRow, float]] = deque(maxlen=_STATEMENTS)
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self._round_finished: float | None = None
        self._ended: int | None = None

    def tell(self, event: Event) -> None:
        self._meter.tell(event)
        self._outages.tell(event)
        with self._lock:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        totals = self._totals
        match event:
            case Recorded(progress):
                self._progress = progress
            case CheckpointRead(checkpoint):
                self._read(checkpoint)
            case RoundStarted(checkpoint, names=names):
                self._names, self._failed, self._plan = names, None, event
                self._read(checkpoint)
                self._does("applies a round")
            case RoundFinished(seconds=seconds):
                totals.rounds += 1
                totals.round_seconds += seconds
                self._round_finished = self._clock()
            case NowDoing(what):
                self._does(what)
            case Idle():
                self._does(_IDLE)
            case StepFinished(row, seconds, size):
                self._step(row, seconds, size)
            case WorkEnded(work):
                totals.files += work.files
            case Retrying(what, error):
                totals.retries += 1
                if not is_outage(error):
                    self._trouble[error.table or what] = f"{what}: {error.sentence()}"
            case RetryPassed(what):
                self._trouble.pop(what, None)
            case Note():
                totals.warnings += 1
            case ConsumerFailed(error):
                self._failed = error

    def _read(self, checkpoint: int) -> None:
        self._checkpoint, self._checkpoint_read = checkpoint, self._clock()

    def _does(self, what: str) -> None:
        self._doing, self._since = what, self._clock()

    def _doing_text(self) -> str:
        """Returns the activity, with its duration if it takes long."""
        seconds = self._clock() - self._since
        return self._doing if self._doing == _IDLE or seconds < _LONG else f"{self._doing}, {duration_text(seconds)}"

    def _step(self, row: AuditRow, seconds: float, size: int) -> None:
        totals = self._totals
        if row.rows:
            totals.puts[row.table] += row.puts
            totals.deletes[row.table] += row.deletes
        totals.changes += row.changes
        totals.dropped_rows += row.dropped_rows
        totals.bytes += size
        totals.steps[row.step] += 1
        totals.seconds[row.step] += seconds
        self._trouble.pop(str(row.table), None)
        if row.statement:
            self._statements.appendleft((self._clock(), row, seconds))

    @property
    def failed(self) -> str:
        """What ended the consumer, "" while it is at work."""
        return "" if self._failed is None else str(self._failed)

    @property
    def _held_up_by(self) -> Exception | None:
        """Returns what ended it; else, among the systems that do not answer, the one that has been away for longest."""
        outages = sorted(self._outages.away.values(), key=lambda outage: outage.since)
        return next(filter(None, (self._failed, *(outage.error for outage in outages))), None)

    def beat(self) -> None:
        """Called from time to time: adds a point of the charts when it is due."""
        now = self._clock()
        if self._samples and now - self._samples[-1].at < SAMPLE_SECONDS:
            return
        with self._lock:
            slowest = self._progress.slowest if self._progress is not None else 0
            lag = seconds_behind(slowest, now * 1000) if slowest else None
            self._samples.append(Sample(now, self._totals.rows, lag))

    def ended(self, exit_code: int, error: ConsumerError | None = None) -> None:
        """Notes that the command is over; `error` has ended it."""
        if error is not None:
            self._outages.record(error)
        with self._lock:
            self._ended = exit_code

    def status(self) -> StatusResult:
        """Returns what `status` prints, without what only the storage or another reading of the target can show. While
        the consumer cannot continue, it has the error."""
        with self._lock:
            progress, names, plan = self._progress or Progress(), self._names, self._plan
            checkpoint = self._checkpoint
        rows = tuple(table_statuses(progress))
        unwell = {row.table for row in rows if row.state != "ok" or row.is_held_up or row.accepted}
        found = StatusResult(
            name=self.identity.name,
            upstream=self.identity.upstream,
            target_upstream=progress.upstream,
            applied_ts=progress.applied_ts,
            checkpoint_ts=checkpoint,
            went_back="" if plan is None else plan.went_back,
            tables=rows,
            tables_ok=sum(name not in unwell for name in names),
            asked=int(self._clock() * 1000),
            time_zone=progress.time_zone,
        )
        error = self._held_up_by
        return found if error is None else found.ended_by(error)

    def view(self) -> View:
        """Returns the current state."""
        status, reading = self.status(), self._meter.reading()
        own = {row.table: row for row in status.tables}
        with self._lock:
            alike = (name for name in self._names if name not in own)
            rows = [TableStatus(table=name, watermark=status.applied_ts, state="ok") for name in alike]
            totals = replace(self._totals, puts=self._totals.puts.copy(), deletes=self._totals.deletes.copy())
            return View(
                self.identity,
                status,
                sorted([*rows, *status.tables], key=lambda row: row.table),
                totals,
                reading,
                self._doing_text(),
                self._outages.away,
                self._checkpoint_read,
                tuple(self._trouble.values()),
                self.failed,
                tuple(self._statements),
                tuple(self._samples),
                self._round_finished,
                self._ended,
                self._plan,
                self._progress is not None,
            )
