"""What a run did, as text: what a person wants to know, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from consumer.cli.text import out, print_table, table_text, time_text
from consumer.config.uri import MASK
from consumer.model.hints import AS_FILES_SHOW, completed, resync_command, retry_command
from consumer.model.names import TableName, behind_name
from consumer.model.result import RunResult, TableResult, TableStatus
from consumer.model.texts import count_text, duration_text

_SHOWN = 0.1
"""Seconds that are worth a word."""
_HEADINGS = ("table", "changes", "rows", "puts", "deletes", "DDL", "dropped", "applied to", "state")


def print_run(result: RunResult) -> None:
    """A summary table, then what a person has to do."""
    if not any(_has_news(table) for table in result.tables.values()):
        complete = result.checkpoint_ts and result.error is None and not result.unfinished
        early = "nothing was applied before the end"
        out(f"nothing new up to {time_text(result.checkpoint_ts)}" if complete else early)
        return
    rows = [
        (
            table_text(name, table.target_table),
            *(f"{count:,}" for count in _counts(table)),
            _place(table, result),
            table.state,
        )
        for name, table in sorted(result.tables.items())
        if _has_news(table)
    ]
    print_table(_HEADINGS, rows, numbers=range(1, 7))
    quiet = len(result.tables) - len(rows)
    spark = f" (Spark start {duration_text(result.spark_seconds)})" if result.spark_seconds else ""
    waited = f", the target took {duration_text(result.target_seconds)}" if result.target_seconds >= _SHOWN else ""
    idle = f", {count_text(quiet, 'table')} without changes" if quiet else ""
    out(f"checkpoint {time_text(result.checkpoint_ts)}, {duration_text(result.seconds)}{spark}{waited}{idle}")


def _place(table: TableResult, result: RunResult) -> str:
    """Short where it can be: the rows of most tables fit into a terminal of 80 columns then."""
    return "checkpoint" if table.watermark == result.checkpoint_ts else time_text(table.watermark)


def _has_news(table: TableResult) -> bool:
    return table.state != "ok" or any(_counts(table)) or bool(table.quarantined)


def _counts(table: TableResult) -> tuple[int, ...]:
    return table.changes, table.rows, table.puts, table.deletes, table.ddl, table.dropped_rows


def stopped_lines(result: RunResult, options: str, told: Mapping[TableName, str]) -> Iterable[str]:
    """For each table that is not in order: why, unless it was `told` before on the same stream, what to do, and the
    command that brings it back."""
    for name, table in sorted(result.tables.items()):
        if table.state == "waits":
            reason = behind_name(name, table.error)
            yield f"{name} {reason}" if reason.startswith("waits for ") else f"{name} waits: {reason}"
        elif table.state == "stopped":
            reason = behind_name(name, table.error)
            lines = list(way_back(name, table, options))
            if told.get(name) != reason:
                yield f"{name} is stopped: {reason}"
            elif lines:
                yield f"{name} is stopped, for the reason above:"
            yield from lines
        yield from quarantined_lines(name, table, options)


def quarantined_lines(name: TableName, table: TableResult | TableStatus, options: str) -> Iterable[str]:
    """How many rows the table lacks, the first of them, and what takes them in."""
    if table.quarantined:
        yield f"{name} lacks {count_text(table.quarantined, 'quarantined row')}; the first: {table.bad_row}"
        yield f"  once that is mended: {completed(retry_command(name), options)}"


def masked_note(lines: Iterable[str]) -> Iterable[str]:
    """What to know of commands in `lines` from which secrets were taken."""
    if any(MASK in line and "storage-consumer " in line for line in lines):
        yield (
            f"{MASK} in a command stands for a secret: put it there, or leave the flag out and set"
            " STORAGE_CONSUMER_UPSTREAM_URI or STORAGE_CONSUMER_DOWNSTREAM_URI"
        )


def way_back(name: TableName, table: TableResult | TableStatus, options: str) -> Iterable[str]:
    """What to do about a stopped table. To make it anew from the storage does not help past a refused statement, which
    it would meet again, nor where a setting is wrong."""
    if table.hint:
        yield from f"  {completed(table.hint, options)}".split("\n")
    past = table.version or resync_command(name) in table.hint or AS_FILES_SHOW in table.hint
    if table.resync and not past:
        yield f"  to empty and reload it: {completed(resync_command(name), options)}"
