"""One result, printed as text or as JSON. Text: what a person wants to know. JSON: the fixed object, last on stdout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from consumer.cli.table_names import table_argument
from consumer.cli.text import MOST_ROWS, duration_text, print_table, size_text, time_text
from consumer.errors import ConsumerError
from consumer.model.names import TableName, tso_to_ms
from consumer.model.result import PlannedStep, PlanResult, RunResult, StatusResult, TableResult, UnreadStatus

_COUNTS = ("rows", "puts", "deletes", "ddl", "dropped_rows", "watermark", "state")


def run_as_json(result: RunResult) -> dict[str, Any]:
    """The object of a run: checkpoint_ts, tables by name, seconds."""
    tables = {
        str(name): {key: getattr(table, key) for key in _COUNTS} | {"error": table.error or None}
        for name, table in sorted(result.tables.items())
    }
    return {"checkpoint_ts": result.checkpoint_ts, "tables": tables, "seconds": round(result.seconds, 3)}


def error_as_json(error: ConsumerError, seconds: float) -> dict[str, Any]:
    """The object of a run that ended before it had a result."""
    body: dict[str, Any] = {"checkpoint_ts": None, "tables": {}, "seconds": round(seconds, 3)}
    return body | {"error": error.sentence(), "hint": error.hint or None}


def plan_as_json(result: PlanResult) -> dict[str, Any]:
    """The steps in the order of their graph."""
    return {
        "checkpoint_ts": result.checkpoint_ts,
        "steps": [_step(step) for step in result.steps],
        "notes": result.notes,
    }


def _step(step: PlannedStep) -> dict[str, Any]:
    return asdict(step) | {"table": str(step.table), "touches": [str(name) for name in step.touches]}


def status_as_json(result: StatusResult) -> dict[str, Any]:
    """Where the target is, and every table that is not simply there."""
    tables = {
        str(row.table): {key: value for key, value in asdict(row).items() if key != "table"} for row in result.tables
    }
    return {
        "upstream": result.upstream,
        "applied_ts": result.applied_ts,
        "applied_time": time_text(result.applied_ts) if result.applied_ts else None,
        "checkpoint_ts": result.checkpoint_ts,
        "lag_seconds": lag_seconds(result),
        "unread": None if result.unread is None else asdict(result.unread),
        "tables": tables,
        "notes": result.notes,
    }


def lag_seconds(result: StatusResult) -> float | None:
    """How far the target is behind the storage's checkpoint; None where either is not known."""
    if not result.checkpoint_ts or not result.applied_ts:
        return None
    return max(0.0, (tso_to_ms(result.checkpoint_ts) - tso_to_ms(result.applied_ts)) / 1000)


def print_json(body: dict[str, Any]) -> None:
    """One line, the last of stdout."""
    print(json.dumps(body), flush=True)


def print_run(result: RunResult) -> None:
    """A summary table, then what a person has to do."""
    if not any(_has_news(table) for table in result.tables.values()):
        print(f"nothing new up to {time_text(result.checkpoint_ts)}" if result.checkpoint_ts else "nothing to apply")
        return
    rows = [
        (str(name), *_numbers(table), time_text(table.watermark), table.state)
        for name, table in sorted(result.tables.items())
        if _has_news(table)
    ]
    print_table(
        ("table", "rows", "puts", "deletes", "DDL", "dropped", "applied to", "state"), rows, numbers=range(1, 6)
    )
    quiet = len(result.tables) - len(rows)
    spark = f" (Spark start {duration_text(result.spark_seconds)})" if result.spark_seconds else ""
    idle = f", {quiet} tables without changes" if quiet else ""
    print(f"checkpoint {time_text(result.checkpoint_ts)}, {duration_text(result.seconds)}{spark}{idle}")


def _has_news(table: TableResult) -> bool:
    return table.state != "ok" or any((table.rows, table.puts, table.deletes, table.ddl, table.dropped_rows))


def _numbers(table: TableResult) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in (table.rows, table.puts, table.deletes, table.ddl, table.dropped_rows))


def stopped_lines(result: RunResult, options: str) -> Iterable[str]:
    """For each table that is not in order: why, what to do, and the command that brings it back."""
    for name, table in sorted(result.tables.items()):
        if table.state == "waits":
            yield f"{name} {table.error}"
        elif table.state == "stopped":
            yield f"{name} is stopped: {table.error}"
            yield from _way_back(table.hint, name, options)


def _way_back(hint: str, name: TableName, options: str) -> Iterable[str]:
    if hint:
        yield f"  {hint}"
    if name.table:
        yield f"  to empty and reload it: storage-consumer resync --table {table_argument(name)} {options}".rstrip()


def print_plan(result: PlanResult) -> None:
    """A line a step, then every statement: what it touches, its policy, and what would run on the target."""
    rows = [
        (
            step.kind,
            str(step.table),
            time_text(step.from_ts) if step.from_ts else "the start",
            time_text(step.to_ts),
            f"{step.files:,}" if step.kind == "load" else "",
            size_text(step.bytes) if step.kind == "load" else "",
            " ".join(step.statement.split()) or (f"waits for {step.waits_for}" if step.waits_for else ""),
        )
        for step in result.steps
    ]
    if rows:
        print_table(("step", "table", "after", "up to", "files", "bytes", "statement"), rows, numbers=range(4, 6))
    statements = [step for step in result.steps if step.statement]
    for step in statements[:MOST_ROWS]:
        print(*_statement_lines(step), sep="\n")
    if len(statements) > MOST_ROWS:
        print(f"... and {len(statements) - MOST_ROWS:,} more statements (all of them with --json)")
    print(f"{len(rows)} steps up to checkpoint {time_text(result.checkpoint_ts)}")
    _print_notes(result.notes)


def _statement_lines(step: PlannedStep) -> Iterable[str]:
    others = ", ".join(str(name) for name in step.touches if name != step.table)
    yield f"DDL {step.to_ts} {time_text(step.to_ts)} {step.table}" + (f" (touches {others} too)" if others else "")
    yield f"  policy    {step.policy}" + (f", waits for {step.waits_for}" if step.waits_for else "")
    yield f"  upstream  {' '.join(step.statement.split())}"
    if step.target is None:
        yield f"  target    nothing, as the policy is {step.policy}"
        return
    if step.target.error:
        yield f"  target    would refuse it: {step.target.error}"
    for statement in step.target.statements:
        yield f"  target    {' '.join(statement.split())}"
    if not step.target.statements and not step.target.error:
        yield "  target    nothing to execute"
    if step.target.note:
        yield f"  note      {step.target.note}"


def print_status(result: StatusResult, options: str) -> None:
    """Where the target is, then every table that is not simply there."""
    if result.upstream is None:
        print("nothing applied yet")
        _print_notes(result.notes)
        return
    lag = lag_seconds(result)
    print(f"upstream    {result.upstream}")
    print(f"applied     {time_text(result.applied_ts)}" + (f", {duration_text(lag)} behind" if lag is not None else ""))
    print(f"checkpoint  {time_text(result.checkpoint_ts) if result.checkpoint_ts else 'not known'}")
    if result.unread is not None:
        print(f"unread      {_unread_text(result.unread)}")
    if result.tables:
        rows = [(str(row.table), time_text(row.applied_ts), row.state, row.reason) for row in result.tables]
        print_table(("table", "applied to", "state", "reason"), rows)
    for row in result.tables:
        if row.state == "stopped":
            print(f"{row.table} is stopped: {row.reason}")
            print(*_way_back(row.hint, row.table, options), sep="\n")
        elif row.state == "waits":
            print(f"{row.table} {row.reason}")
    _print_notes(result.notes)


def _unread_text(unread: UnreadStatus) -> str:
    """What is still to be read, and until when it is there."""
    if not unread.files:
        return "nothing"
    text = f"{unread.files:,} files, {size_text(unread.bytes)}"
    if unread.oldest_date:
        text += f", the oldest in the folders of {unread.oldest_date}"
    if unread.days_left is not None:
        deleted = (
            "which TiCDC may have deleted" if unread.days_left <= 0 else f"{unread.days_left} days before TiCDC deletes"
        )
        text += f", {deleted} (file-expiration-days = {unread.expiration_days})"
    return text


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}")
