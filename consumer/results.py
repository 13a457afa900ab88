"""Defines the results of commands: what is printed of them as text, and with --json. docs/output.schema.json is
generated from these models, by ``python -m consumer.results docs/output.schema.json``.

A TSO has more digits than jq 1.6 and JavaScript keep of a number: in what is printed its text is next to it, as
``.._str``.
"""

# mypy: disable-error-code="prop-decorator"
from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    TypeAdapter,
    computed_field,
)
from pydantic_core import core_schema

from consumer.errors import Code, ConsumerError
from consumer.model.check import Counted, TableCheck, VerifyResult
from consumer.model.hints import Hint
from consumer.model.load import Dialect
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.progress import Waits
from consumer.model.readiness import Verdict
from consumer.model.steps import TargetDdl
from consumer.model.times import MAX_TSO, seconds_behind, time_text, tso_to_ms

Table = Annotated[TableName, PlainSerializer(str, return_type=str)]
Count = Annotated[int, Field(ge=0)]
Duration = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, PlainSerializer(lambda seconds: round(seconds, 3), return_type=Duration)]
OrNull = Annotated[str, PlainSerializer(lambda text: text or None, return_type=str | None)]
"""A text that is printed as null if it is empty."""
HintOrNull = Annotated[
    Hint, BeforeValidator(Hint.of), PlainSerializer(lambda hint: str(hint) or None, return_type=str | None)
]
"""A hint, which is printed as its text."""
NO_HINT = Hint()
TsoOrNull = Annotated[int, PlainSerializer(lambda tso: tso or None, return_type=Annotated[int, Field(ge=0)] | None)]


class Health(StrEnum):
    """The state of a replica in a word, the worst first."""

    UNKNOWN = "Unknown"
    """The storage is another upstream's than the target."""

    DOWN = "Down"
    """It does not advance: the target or the storage does not answer, or an error ended it."""
    DEGRADED = "Degraded"
    """Tables need somebody, lack rows or wait; or the checkpoint went back."""
    BEHIND = "Behind"
    HEALTHY = "Healthy"


BUG = 1
"""The exit code of an error that is none of the program's own."""


class Model(BaseModel):
    """What all have in common. A model is built when it is first used, not when this module is loaded."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True,
        defer_build=True,
        extra="forbid",
        json_schema_serialization_defaults_required=True,
    )


class Result(Model):
    """What every command's result begins with."""

    exit_code: Annotated[int, Field(ge=0, le=6)] = 0
    """What the process leaves with."""
    name: str | None = None
    """--name; null where the settings could not be read, and for several consumers."""
    upstream: str | None = None
    """--upstream-uri, secrets masked."""
    code: Code | None = None
    """What ended the command without its result, or before its end; with exit code 5, what a person has to decide."""
    error: str | None = None
    """The same, as a sentence."""
    hint: str | None = None
    """What to do about it."""

    def ended_by(self, error: Exception) -> Self:
        """Returns the result with the error that ended the command, or that decides its exit code."""
        if not isinstance(error, ConsumerError):
            return self.model_copy(update={"code": Code.BUG, "error": str(error), "hint": None, "exit_code": BUG})
        fields = {"code": error.code, "error": error.sentence(), "hint": error.hint or None}
        return self.model_copy(update={**fields, "exit_code": error.exit_code})


class AcceptedLoss(Model):
    """Rows that a table lacks, or may lack, as was accepted rather than have it stop."""

    reason: str
    path: OrNull
    """The file or folder that shows it; null for none."""
    after_ts: Count
    """The rows have commit-ts above it,"""
    to_ts: TsoOrNull
    """up to this one; null: all later ones, too."""

    @classmethod
    def of(cls, losses: Iterable[Loss]) -> tuple[Self, ...]:
        sorted_losses = sorted(losses, key=lambda loss: (loss.after, loss.path, loss.reason))
        return tuple(cls(reason=x.reason, path=x.path, after_ts=x.after, to_ts=x.upto) for x in sorted_losses)

    def sentence(self) -> str:
        return Loss(self.reason, self.path, self.after_ts, self.to_ts).sentence()


class _TableState(Model):
    """Where a table is, and what a person has to do about it."""

    watermark: Annotated[int, Field(ge=0)] = 0
    """The commit-ts up to which the table is complete."""
    state: str = "ok"
    code: Code | None = None
    """What it stopped or waits for, as the error's code; null where it did not."""
    error: OrNull = ""
    """The same, as a sentence."""
    hint: HintOrNull = NO_HINT
    """What brings a stopped table back."""
    version: TsoOrNull = 0
    """The version of the statement that stopped the table."""
    resync: bool = False
    """A stopped table: resync can make it again from the storage."""
    quarantined: Count = 0
    """Rows that were quarantined, by earlier runs too: the table lacks them."""
    bad_row: OrNull = ""
    """The first of them: its place and what is wrong with it."""
    accepted: tuple[AcceptedLoss, ...] = ()
    """What the table lacks, or may lack, as was accepted, by earlier runs too. A resync of the table ends it."""
    target_table: OrNull = ""
    """The table's name in the target; null where it is upstream's."""


class TableResult(_TableState):
    """One table in a run's summary."""

    state: Literal["ok", "stopped", "waits", "dropped"] = "ok"
    changes: Count = 0
    """Row changes read from the files, those dropped or left for a later round among them."""
    rows: Count = 0
    """puts + deletes: what the target was given once the changes of each key were folded."""
    puts: Count = 0
    deletes: Count = 0
    ddl: Count = 0
    """Statements executed."""
    dropped_rows: Count = 0
    """Row changes at or below the watermark: they were sent again."""
    seconds: Seconds = 0.0
    target_seconds: Seconds = 0.0
    """How long the table waited for the target, all connections added up."""

    def becomes(
        self, state: Literal["ok", "stopped", "waits", "dropped"], why: ConsumerError | Waits | None = None
    ) -> None:
        """Sets the table's state, with the reason."""
        self.state, self.code = state, None if why is None else why.code
        self.error, self.hint = "", NO_HINT
        if isinstance(why, ConsumerError):
            self.error, self.hint = why.sentence(), Hint.of(why.hint)
        elif why is not None:
            self.error = why.reason


class LoadedExport(Model):
    """What became of the tables of an export. Those that are loaded go on with the storage's changes from its moment,
    which is the result's `checkpoint_ts`."""

    loaded: Count
    loaded_before: Count
    """By an earlier run of load-export."""
    not_loaded: tuple[Table, ...]
    """Those that stopped, or that belong together with one that did. They stay as they were in the target."""
    left_out: Count
    """Those that --table or --tables does not select."""


class RunResult(Result):
    """once, run, backfill, load-export, replay, resync"""

    checkpoint_ts: TsoOrNull = 0
    tables: dict[Table, TableResult] = {}
    seconds: Seconds = 0.0
    spark_seconds: Seconds = 0.0
    """Of these, starting Spark; 0 where no session was started."""
    rounds: Count = 0
    notes: tuple[str, ...] = ()
    export: LoadedExport | None = None
    """load-export: what became of the export's tables; null for the other commands, and before it is known."""
    ended: int = Field(default=0, exclude=True)
    """When, in milliseconds since 1970."""
    unfinished: bool = Field(default=False, exclude=True)
    """Its last round did not go through."""

    @computed_field
    @property
    def target_seconds(self) -> Seconds:
        """How long writes, commits and statements waited for the target, those of several connections added up: it can
        be more than seconds."""
        return sum(table.target_seconds for table in self.tables.values())

    @computed_field
    @property
    def lag_seconds(self) -> Duration | None:
        """How far the slowest table was behind when the run ended; null where none is, or one has not begun."""
        alive = [table.watermark for table in self.tables.values() if table.state != "dropped"]
        return seconds_behind(min(alive), self.ended) if self.ended and alive and 0 < min(alive) < MAX_TSO else None


class Failure(Result):
    """a command that ended before it had a result"""

    code: Code
    error: str
    checkpoint_ts: None = None
    tables: Annotated[dict[str, Any], Field(max_length=0)] = {}
    seconds: Seconds = 0.0


class TableStatus(_TableState):
    """A table that differs from the others in place or state."""

    table: Table = Field(exclude=True)
    state: Literal["ok", "stopped", "waits", "missing", "dropped", "emptying", "exchanging", "excluded"]
    """missing: in order, but for that somebody has dropped it in the target."""

    @property
    def is_held_up(self) -> bool:
        """Whether somebody has to act before it has all of its rows, apart from losses that were accepted."""
        return self.state in ("stopped", "waits", "missing") or bool(self.quarantined)

    @property
    def state_text(self) -> str:
        """Its state in a word, even if only rows are missing."""
        return "lacks rows" if self.state == "ok" and (self.quarantined or self.accepted) else self.state


def _by_table(rows: Sequence[Any]) -> dict[str, Any]:
    return {str(row.table): row for row in rows}


class PlannedStep(Model):
    """One step of `plan`."""

    kind: Literal["ddl", "load", "barrier"]
    table: Table
    from_ts: Count
    to_ts: Count
    """Of a statement: its version."""
    files: Count = 0
    bytes: Count = 0
    statement: str = ""
    touches: tuple[Table, ...] = ()
    waits_for: str = ""
    policy: str = ""
    """Of a statement: evolve, ignore, fail or rename."""
    destructive: bool = False
    """Executed, it takes rows or values away."""
    target: TargetDdl | None = None
    """A statement as it would run on the target as that is now."""
    target_table: OrNull = ""
    """The table's name in the target; null where it is upstream's."""
    mode: str = ""
    """What the table is in the target, as append; empty for a mirror."""


class PlanResult(Result):
    """plan"""

    checkpoint_ts: Count
    steps: tuple[PlannedStep, ...]
    """In the order of their graph."""
    stopped: Annotated[tuple[TableStatus, ...], PlainSerializer(_by_table, return_type=dict[str, TableStatus])] = ()
    """Tables that stop before they reach the checkpoint, and those that an earlier run stopped: their steps are tried
    again."""
    notes: tuple[str, ...] = ()


class Unread(Model):
    """Files that hold rows still to be applied, above the checkpoint too."""

    files: Count
    bytes: Count
    oldest_date: str
    """The earliest of their date folders, empty where folders are not by day."""
    expiration_days: Count
    """TiCDC's file-expiration-days, 0 if it is not known."""
    days_left: int | None
    """The days of the checkpoint until TiCDC's clean-up deletes that folder; 0 or less: it may be gone."""


class UnfinishedExport(Model):
    """What `load-export` has begun and not ended: it is at work, or was broken off."""

    export: str
    """Where the export is, without the parameters of its URI."""
    tables: tuple[Table, ...] = ()
    """Those of a replica that goes on with others; empty where the export is to fill it."""
    reasons: dict[Table, str] = {}
    """Why tables could not be loaded."""


class UnfinishedResync(Model):
    """What `resync` has begun and not ended: it is at work, or was broken off. The target has the table as it was."""

    table: Table
    consumer: str
    """The name under which it is loaded: `forget` gives it up."""


class StatusResult(Result):
    """status"""

    target_upstream: str | None
    """The upstream that the target's progress belongs to; null before the first run."""
    applied_ts: int = Field(exclude=True)
    """The place of every table that is not in `tables`."""
    checkpoint_ts: Count | None
    """null where the storage did not answer."""
    went_back: OrNull = ""
    """That the checkpoint is below what was applied already; null where it is not."""
    tables: Annotated[tuple[TableStatus, ...], PlainSerializer(_by_table, return_type=dict[str, TableStatus])]
    notes: tuple[str, ...] = ()
    exports: tuple[UnfinishedExport, ...] = ()
    resyncs: tuple[UnfinishedResync, ...] = ()
    unread: Unread | None = None
    tables_ok: Count = 0
    """Tables that are simply there."""
    check: str | None = None
    """With --check: why the exit code is 3 or 4."""
    asked: int = Field(default=0, exclude=True)
    """The moment of the answer, in milliseconds since 1970."""
    time_zone: OrNull = ""
    """What the replica is bound to; null before the first run."""

    @property
    def unwell(self) -> list[TableStatus]:
        """The tables that are stopped, wait, have quarantined rows, have accepted losses, or that somebody has dropped
        in the target."""
        return [row for row in self.tables if row.is_held_up or row.accepted]

    def health(self, ready_lag: float) -> Health:
        """Returns the state of the replica. `ready_lag` is how many seconds the slowest table may lag."""
        if self.code is Code.WRONG_UPSTREAM:
            return Health.UNKNOWN
        if self.checkpoint_ts is None or self.error:
            return Health.DOWN
        if self.unwell or self.went_back:
            return Health.DEGRADED
        return Health.HEALTHY if self.lag_seconds is not None and self.lag_seconds <= ready_lag else Health.BEHIND

    @property
    def slowest_table(self) -> TableStatus | None:
        """The table with the lowest watermark, None if none lags the others."""
        living = [row for row in self.tables if row.state not in ("dropped", "excluded")]
        return min((row for row in living if row.watermark < self.applied_ts), key=lambda r: r.watermark, default=None)

    @computed_field
    @property
    def slowest(self) -> str | None:
        """The table that is furthest behind the others."""
        return None if self.slowest_table is None else str(self.slowest_table.table)

    @computed_field
    @property
    def watermark(self) -> TsoOrNull:
        """The commit-ts up to which every table is complete."""
        return self.applied_ts if self.slowest_table is None else self.slowest_table.watermark

    @computed_field
    @property
    def watermark_time(self) -> str | None:
        return time_text(self.watermark) if self.watermark else None

    @computed_field
    @property
    def lag_seconds(self) -> Duration | None:
        """How far the slowest table is behind now; null where that has nothing yet."""
        return seconds_behind(self.watermark, self.asked) if self.watermark else None

    @computed_field
    @property
    def behind_checkpoint_seconds(self) -> Duration | None:
        """How far the slowest table is behind the storage's checkpoint."""
        both_known = self.checkpoint_ts and self.watermark
        return seconds_behind(self.watermark, tso_to_ms(self.checkpoint_ts or 0)) if both_known else None

    @computed_field
    @property
    def checkpoint_age_seconds(self) -> Duration | None:
        """How far the checkpoint is behind now: it grows when the changefeed stands still."""
        return seconds_behind(self.checkpoint_ts, self.asked) if self.checkpoint_ts else None


class ColumnRows(Model):
    column: str
    rows: Count


class KeyValue(Model):
    column: str
    value: str | None


class OtherValue(Model):
    column: str
    expected: str | None
    found: str | None


class RowDifference(Model):
    kind: Literal["missing", "extra", "differs"]
    key: tuple[KeyValue, ...]
    values: tuple[OtherValue, ...]
    copies: Count


class RowCounts(Model):
    """What was found in a table. Columns stand in lists: their names can be any, also such as those of TSOs."""

    expected: Count
    """Rows that the storage tells of."""
    found: Count
    """Rows of the target."""
    missing: Count
    extra: Count
    differing: Count
    given: Count
    """Of the rows that differ, those that have not changed since the moment of `--start-ts` or of an export."""
    unsure: Count
    """Rows of which a statement about partitions may decide whether they must be there."""
    unknown_rows: Count
    """Rows of the target that the storage does not tell of."""
    unknown: tuple[ColumnRows, ...]
    """How many values of a column were not compared: a statement set them."""
    shown: tuple[RowDifference, ...]
    """Rows that differ, up to --show. Bytes as 0x and hexadecimal digits."""


def _counts(counted: Counted) -> dict[str, Any]:
    numbers = ("expected", "found", "missing", "extra", "differing", "given", "unsure", "unknown_rows")
    return {name: getattr(counted, name) for name in numbers} | {
        "unknown": [{"column": name, "rows": rows} for name, rows in counted.unknown.items()],
        "shown": [
            {
                "kind": row.kind,
                "key": [{"column": name, "value": value} for name, value in row.key],
                "values": [{"column": name, "expected": ours, "found": theirs} for name, ours, theirs in row.values],
                "copies": row.copies,
            }
            for row in counted.shown
        ],
    }


class ComparedTable(RowCounts):
    """A table that was compared, or was not."""

    state: Literal["equal", "equal in part", "differs", "not compared"]
    target_table: OrNull
    """The table's name in the target; null where it is upstream's."""
    watermark: Count
    """The commit-ts at which it was compared."""
    repaired: RowCounts | None
    """With --repair, what was found before rows were made right; null where nothing was written."""
    notes: tuple[str, ...]
    seconds: Seconds
    code: Code | None
    """Why it was not compared."""
    error: str | None
    """The same, as a sentence."""
    hint: str | None

    @classmethod
    def of(cls, check: TableCheck) -> ComparedTable:
        error = check.error
        return cls.model_validate(
            _counts(check.counted)
            | {
                "state": check.state,
                "target_table": check.target_table,
                "watermark": check.watermark,
                "repaired": None if check.repaired is None else _counts(check.repaired),
                "notes": check.notes,
                "seconds": check.seconds,
                "code": None if error is None else error.code,
                "error": None if error is None else error.sentence(),
                "hint": None if error is None else error.hint or None,
            }
        )


class VerifyReport(Result):
    """verify"""

    tables: dict[str, ComparedTable]
    differences: Count
    """Rows that differ, of all tables."""
    excluded: Count
    """Tables that the table rules leave out; they were not compared."""
    seconds: Seconds
    spark_seconds: Seconds

    @classmethod
    def of(cls, result: VerifyResult) -> VerifyReport:
        return cls(
            tables={str(check.table): ComparedTable.of(check) for check in result.tables},
            differences=sum(check.counted.differences for check in result.tables),
            excluded=result.excluded,
            seconds=result.seconds,
            spark_seconds=result.spark_seconds,
        )


class TableRetry(Model):
    """A table whose quarantined rows were tried again."""

    table: Table = Field(exclude=True)
    watermark: Count
    taken_in: Count
    """Rows that were quarantined and are in the target now."""
    quarantined: Count
    """Rows that still are."""
    bad_row: OrNull = ""
    """The first of them."""
    error: OrNull = ""
    """Why nothing is known of some."""
    hint: HintOrNull = NO_HINT


class RetryResult(Result):
    """retry"""

    tables: Annotated[tuple[TableRetry, ...], PlainSerializer(_by_table, return_type=dict[str, TableRetry])]
    seconds: Seconds
    spark_seconds: Seconds = 0.0


class InspectedTable(Model):
    """One table's part of the storage."""

    table: Table = Field(exclude=True)
    exists: bool
    """False for a name that a later statement dropped or renamed."""
    versions: Count
    """Its schema files."""
    ddl: Count
    """Those with a statement."""
    files: Count
    bytes: Count
    partitions: Count
    dispatchers: Count
    first_date: str
    """Empty where there is no date level."""
    last_date: str
    keyed: bool = True
    """Whether its newest schema file marks a primary key."""
    older: bool = False
    """Whether it is older than the changefeed: no statement in the storage makes it."""
    first_ts: Count | None = None
    """With --time-range: the first commit-ts of its rows."""
    last_ts: Count | None = None


def _printed_dialect(dialect: Dialect | None) -> dict[str, Any] | None:
    if dialect is None:
        return None
    return asdict(dialect) | {"terminator": dialect.terminator.decode(errors="replace")}


class Detected(Model):
    """The changefeed's options as paths and some files show them; null where they do not."""

    dialect: Annotated[
        Dialect | None,
        GetPydanticSchema(lambda _source, _handler: core_schema.any_schema()),
        PlainSerializer(_printed_dialect, return_type=dict[str, Any] | None),
    ] = None
    """null where there are no rows to look at."""
    with_commit_ts: bool | None = None
    """Whether rows say when they were committed."""
    date_separator: str | None = None
    file_index_digit: int | None = None
    partition_separator: bool | None = None
    across_nodes: bool | None = None
    table_ids: bool = False
    architecture: str = ""
    """classic or new; empty where it is not known."""
    sampled: Count = 0
    """The files that were read."""
    unproven: tuple[str, ...] = ()
    """Keys of the changefeed that the files do not prove: their values here are likely, or TiCDC's default."""


class InspectResult(Result):
    """inspect"""

    checkpoint_ts: Count | None
    """null without `metadata`."""
    databases: tuple[str, ...] = ()
    tables: Annotated[
        tuple[InspectedTable, ...], PlainSerializer(_by_table, return_type=dict[str, InspectedTable])
    ] = ()
    changefeed: Detected = Field(default_factory=Detected)
    findings: tuple[str, ...] = ()
    """What a person should know before a start."""
    older: str = Field(default="", exclude=True)
    """Of these, the one about tables that are older than the changefeed; "" for none."""
    mismatch: str = Field(default="", exclude=True)
    """The one about files of another protocol than the settings say."""
    toml: str = ""
    """How to start: the changefeed's TOML."""
    command: str = ""

    @computed_field
    @property
    def checkpoint_time(self) -> str | None:
        return time_text(self.checkpoint_ts) if self.checkpoint_ts else None


class ChangesResult(Result):
    """changes"""

    table: Table
    changes: Count
    """Those that were printed."""
    to_ts: Count
    """The moment up to which all of them were."""


class UndoResult(Result):
    """undo"""

    table: Table
    from_ts: Count
    """Changes after it,"""
    to_ts: Count
    """up to this one, are taken back."""
    rows: Count
    """Those that the statements take back."""
    left_out: Mapping[str, Count] = {}
    """By reason, how many rows are not taken back."""


class CheckedLine(Model):
    """One thing that was looked at."""

    about: str
    """In a word: storage, changefeed, time zone, tables, target, server, variables, rights, plan, collations,
    retention, java, spark, disk."""
    verdict: Verdict
    text: str
    fix: HintOrNull = NO_HINT
    """What to do where the verdict is not ok."""
    code: Code | None = None
    """That of the error that a run would meet; null where the verdict is not that of an error."""


class CheckResult(Result):
    """check"""

    lines: tuple[CheckedLine, ...]


class SkipDdlResult(Result):
    """skip-ddl"""

    table: Table
    version: Count
    skipped: str
    """What was recorded."""


class ForgetResult(Result):
    """forget"""

    forgotten: str
    """What was removed."""


class MaintainedTable(Model):
    """What `maintain` did to one table."""

    table: str = Field(exclude=True)
    files_before: Count = 0
    """Small files that were put together."""
    files_after: Count = 0
    """Files that have their rows now."""
    removed: bool = False
    """It had no name any more: a process had died while it made or dropped it. It is named by its folder."""
    left: OrNull = ""
    """Why nothing was done."""


def _by_name(rows: Sequence[MaintainedTable]) -> dict[str, MaintainedTable]:
    return {row.table: row for row in rows}


class MaintainResult(Result):
    """maintain"""

    tables: Annotated[
        tuple[MaintainedTable, ...], PlainSerializer(_by_name, return_type=dict[str, MaintainedTable])
    ] = ()
    seconds: Seconds


class TableAtMoment(Model):
    """A table of a lake as it was at a moment."""

    table: Table = Field(exclude=True)
    commit_ts: Count
    """When upstream's table became so, 0 where it had no row yet."""
    version_as_of: OrNull
    """The version or snapshot, as behind VERSION AS OF; null for a table that had none yet."""
    query: str
    """Its rows then, in Spark SQL."""


class LakeAtResult(Result):
    """lake-at"""

    moment_ts: Count
    tables: Annotated[tuple[TableAtMoment, ...], PlainSerializer(_by_table, return_type=dict[str, TableAtMoment])] = ()


class SeveralResult(Result):
    """once, backfill, run and status for several upstreams or targets: name and upstream are null"""

    consumers: dict[str, RunResult | StatusResult | Failure]
    """By the name of the pair, what the command prints for it alone."""


RESULTS = (
    RunResult,
    Failure,
    PlanResult,
    StatusResult,
    VerifyReport,
    RetryResult,
    InspectResult,
    ChangesResult,
    UndoResult,
    CheckResult,
    SkipDdlResult,
    ForgetResult,
    MaintainResult,
    LakeAtResult,
    SeveralResult,
)


# What is printed


def printed(result: Result) -> dict[str, Any]:
    """Returns the JSON object of a result, TSOs with their texts."""
    return dict(_with_texts(result.model_dump(mode="json")))


def _is_tso(name: str, value: object = None) -> bool:
    of_tso = (name.endswith("_ts") and not name.startswith("with_")) or name in ("watermark", "version")
    return of_tso and not isinstance(value, (dict, list))


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        members: dict[str, Any] = {}
        for name, member in value.items():
            members[name] = _with_texts(member)
            if _is_tso(name, member):
                members[f"{name}_str"] = None if member is None else str(member)
        return members
    return [_with_texts(member) for member in value] if isinstance(value, list) else value


# The schema

_TITLE = "What every command of storage-consumer prints with --json: one object, the last line of stdout"
_ABOUT = (
    "A TSO (commit-ts, checkpoint-ts, version) is a number of up to 19 digits; readers that keep only 53 bits of a"
    " number take the member of the same name with _str. Durations are seconds. A command that fails before it has a"
    " result prints checkpoint_ts null, no tables, error and hint."
)


def schema() -> dict[str, Any]:
    """Returns the JSON schema of what is printed. Models and members are described by their docstrings."""
    union = TypeAdapter[Any](reduce(or_, RESULTS)).json_schema(mode="serialization")
    descriptions = _documented()
    for name, model in union["$defs"].items():
        _finish(model, descriptions.get(name, {}))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLE, "description": _ABOUT}
    return head | {"type": "object"} | union


def _finish(model: dict[str, Any], descriptions: Mapping[str, str]) -> None:
    """Removes pydantic's titles; adds the descriptions of the members in `descriptions`, and the texts of TSOs."""
    members: dict[str, Any] = model.get("properties", {})
    model["title"] = model.pop("description", model["title"])
    for name, member in list(members.items()):
        member.pop("title", None)
        member.pop("default", None)
        if name in descriptions:
            member["description"] = descriptions[name]
        if _is_tso(name):
            members[f"{name}_str"] = {"type": ["string", "null"], "pattern": "^[0-9]+$"}
            model["required"].append(f"{name}_str")


def _documented() -> dict[str, dict[str, str]]:
    """Returns the docstrings of the members of all classes here, including those of their bases."""
    by_class: dict[str, dict[str, str]] = {}
    for node in ast.parse(Path(__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            inherited = (by_class.get(base.id, {}) for base in node.bases if isinstance(base, ast.Name))
            by_class[node.name] = {k: v for members in inherited for k, v in members.items()} | dict(
                _members(node.body)
            )
    return by_class


def _members(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for member, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(member, ast.FunctionDef) and (text := ast.get_docstring(member)):
            yield member.name, " ".join(text.split())
        match member, following:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                yield name, " ".join(text.split())


def main() -> None:
    """Writes the schema to the file named on the command line."""
    Path(sys.argv[1]).write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
