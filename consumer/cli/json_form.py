"""Every command's result as one JSON object, the last line of stdout. docs/output.schema.json describes them all.

A TSO has more digits than jq 1.6 and JavaScript keep of a number: beside each stands its text, ``.._str``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from consumer.cli.text import time_text
from consumer.errors import ConsumerError
from consumer.model.check import Counted, Difference, TableCheck, VerifyResult
from consumer.model.inspection import Detected, InspectedTable, InspectResult
from consumer.model.names import TableName
from consumer.model.result import (
    PlannedStep,
    PlanResult,
    RetryResult,
    RunResult,
    StatusResult,
    TableResult,
    TableRetry,
    TableStatus,
)

_TSO_NAMES = frozenset({"watermark", "version"})


@dataclass(frozen=True, slots=True)
class Head:
    """What every object begins with; None where the settings are not known. Secrets in `upstream` are masked."""

    name: str | None = None
    upstream: str | None = None

    def around(self, body: Mapping[str, Any], exit_code: int) -> dict[str, Any]:
        """`body` behind the head, TSOs with their texts."""
        head = {"exit_code": exit_code, "name": self.name, "upstream": self.upstream, "error": None, "hint": None}
        return dict(_with_texts({**head, **body}))


NOBODY = Head()


def print_json(body: Mapping[str, Any]) -> None:
    """One line, the last of stdout."""
    print(json.dumps(body), flush=True)


def run_as_json(result: RunResult, notes: Sequence[str]) -> dict[str, Any]:
    """What once, run, backfill, replay and resync did: tables by name, the sums over them, and what to know of it."""
    return {
        "checkpoint_ts": result.checkpoint_ts or None,
        "tables": {str(name): _table(table) for name, table in sorted(result.tables.items())},
        "lag_seconds": result.lag_seconds,
        "seconds": round(result.seconds, 3),
        "spark_seconds": round(result.spark_seconds, 3),
        "target_seconds": round(result.target_seconds, 3),
        "rounds": result.rounds,
        "notes": list(notes),
    } | _reason(result.error)


def _reason(error: ConsumerError | None) -> dict[str, Any]:
    return {} if error is None else {"error": error.sentence(), "hint": error.hint or None}


_OR_NONE = ("error", "hint", "version", "bad_row", "target_table")
_TABLE = [member.name for member in fields(TableResult)]


def _table(table: TableResult) -> dict[str, Any]:
    members = {name: getattr(table, name) for name in _TABLE}
    members |= {name: round(members[name], 3) for name in ("seconds", "target_seconds")}
    return members | {name: members[name] or None for name in _OR_NONE}


def error_as_json(error: ConsumerError, seconds: float) -> dict[str, Any]:
    """A command that ended before it had a result."""
    return {
        "checkpoint_ts": None,
        "tables": {},
        "seconds": round(seconds, 3),
    } | _reason(error)


def plan_as_json(result: PlanResult) -> dict[str, Any]:
    """The steps in the order of their graph."""
    return {
        "checkpoint_ts": result.checkpoint_ts,
        "steps": [_step(step) for step in result.steps],
        "stopped": {str(row.table): _table_status(row) for row in result.stopped},
        "notes": list(result.notes),
    }


def _step(step: PlannedStep) -> dict[str, Any]:
    names = {"table": str(step.table), "target_table": step.target_table or None}
    return asdict(step) | names | {"touches": [str(name) for name in step.touches]}


def status_as_json(result: StatusResult) -> dict[str, Any]:
    """Where the target is, and every table that is not simply there."""
    return {
        "target_upstream": result.upstream,
        "watermark": result.watermark or None,
        "watermark_time": time_text(result.watermark) if result.watermark else None,
        "slowest": None if result.slowest is None else str(result.slowest.table),
        "checkpoint_ts": result.checkpoint_ts,
        "lag_seconds": result.lag_seconds,
        "behind_checkpoint_seconds": result.behind_checkpoint_seconds,
        "checkpoint_age_seconds": result.checkpoint_age_seconds,
        "tables_ok": result.ok,
        "unread": None if result.unread is None else asdict(result.unread),
        "tables": {str(row.table): _table_status(row) for row in result.tables},
        "notes": list(result.notes),
    }


def _table_status(row: TableStatus) -> dict[str, Any]:
    members = {name: value for name, value in asdict(row).items() if name != "table"}
    return members | {name: members[name] or None for name in _OR_NONE}


def verify_as_json(result: VerifyResult, error: ConsumerError | None) -> dict[str, Any]:
    """How each table came out, with the rows that differ."""
    return {
        "tables": {str(check.table): _check(check) for check in result.tables},
        "differences": sum(check.counted.differences for check in result.tables),
        "excluded": result.excluded,
        "seconds": round(result.seconds, 3),
        "spark_seconds": round(result.spark_seconds, 3),
    } | _reason(error)


def _check(check: TableCheck) -> dict[str, Any]:
    """Columns stand in lists: their names can be any, also such as those of TSOs."""
    return {
        "state": check.state,
        "target_table": check.target_table or None,
        "watermark": check.watermark,
        **_counted(check.counted),
        "repaired": None if check.repaired is None else _counted(check.repaired),
        "notes": list(check.notes),
        "seconds": round(check.seconds, 3),
    } | {
        "error": None if check.error is None else check.error.sentence(),
        "hint": None if check.error is None else check.error.hint or None,
    }


_NOT_NUMBERS = ("shown", "unknown", "quarantined", "later")


def _counted(counted: Counted) -> dict[str, Any]:
    numbers = {name: value for name, value in asdict(counted).items() if name not in _NOT_NUMBERS}
    unknown = [{"column": name, "rows": rows} for name, rows in counted.unknown.items()]
    return {**numbers, "unknown": unknown, "shown": [_difference(row) for row in counted.shown]}


def _difference(row: Difference) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "key": [{"column": name, "value": value} for name, value in row.key],
        "values": [{"column": name, "expected": ours, "found": theirs} for name, ours, theirs in row.values],
        "copies": row.copies,
    }


def retry_as_json(result: RetryResult) -> dict[str, Any]:
    """What `retry` took in of each table."""
    return {
        "tables": {str(row.table): _retried(row) for row in result.tables},
        "seconds": round(result.seconds, 3),
        "spark_seconds": round(result.spark_seconds, 3),
    }


def _retried(row: TableRetry) -> dict[str, Any]:
    members = {name: value for name, value in asdict(row).items() if name != "table"}
    return members | {name: members[name] or None for name in ("bad_row", "error", "hint")}


def skipped_as_json(table: TableName, version: int, sentence: str) -> dict[str, Any]:
    """What `skip-ddl` recorded."""
    return {"table": str(table), "version": version, "skipped": sentence}


def forgotten_as_json(sentence: str) -> dict[str, Any]:
    """What `forget` removed."""
    return {"forgotten": sentence}


def inspect_as_json(result: InspectResult) -> dict[str, Any]:
    """All that was found; tables by name."""
    return {
        "checkpoint_ts": result.checkpoint_ts,
        "checkpoint_time": time_text(result.checkpoint_ts) if result.checkpoint_ts else None,
        "databases": list(result.databases),
        "tables": {str(table.table): _inspected(table) for table in result.tables},
        "changefeed": asdict(result.detected) | {"dialect": _dialect(result.detected)},
        "findings": list(result.findings),
        "toml": result.toml,
        "command": result.command,
    }


def _inspected(table: InspectedTable) -> dict[str, Any]:
    return {name: value for name, value in asdict(table).items() if name != "table"}


def _dialect(detected: Detected) -> dict[str, Any] | None:
    if detected.dialect is None:
        return None
    return asdict(detected.dialect) | {"terminator": detected.dialect.terminator.decode(errors="replace")}


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        told: dict[str, Any] = {}
        for name, member in value.items():
            told[name] = _with_texts(member)
            if (name.endswith("_ts") or name in _TSO_NAMES) and not isinstance(member, (dict, list)):
                told[f"{name}_str"] = None if member is None else str(member)
        return told
    if isinstance(value, (list, tuple)):
        return [_with_texts(member) for member in value]
    return value
