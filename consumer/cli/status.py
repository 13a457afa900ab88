"""`status`: where the target is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from consumer.cli.command import READS, command
from consumer.cli.session import Invocation, tell
from consumer.cli.several import in_turn
from consumer.cli.text import (
    lacking_lines,
    masked_note,
    out,
    print_notes,
    print_table,
    table_text,
    waiting_line,
    way_back,
)
from consumer.config.clocks import resolved_zone
from consumer.config.values import duration
from consumer.errors import BadConfig, Retryable, TableError
from consumer.model.hints import forget_command, hint_with_options, load_export_command, resync_command
from consumer.model.names import without_table_name
from consumer.model.texts import count_text, duration_text, size_text, some_of
from consumer.model.times import time_text
from consumer.results import StatusResult, TableStatus, Unread

_STATES = {"stopped": "stopped", "waits": "waiting", "missing": "missing"}
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="For monitors: exit 3 if a table is stopped, waits, is missing or lacks rows; exit 4 if the target or the"
        " storage does not answer, nothing is applied yet, there is no table, the checkpoint moved backwards, an export"
        " is not completely loaded, or --max-lag is exceeded.",
    ),
]
AllowAccepted = Annotated[
    bool, typer.Option("--allow-accepted", help="With --check: exit 0 although losses stand that were accepted.")
]
MaxLag = Annotated[
    str | None,
    typer.Option("--max-lag", metavar="D", help="With --check: how far the slowest table may be behind now, as 10m."),
]


@command("storage-consumer status --upstream-uri 'file:///data/cdc?protocol=canal-json' --json", READS, of_all=in_turn)
def status(
    call: Invocation, check: Check = False, max_lag: MaxLag = None, allow_accepted: AllowAccepted = False
) -> int:
    """Print how far the target is, how far behind, and which tables are stopped and why."""
    from consumer import app

    longest = _longest(max_lag, check)
    if allow_accepted and not check:
        raise BadConfig("--allow-accepted is for --check", hint="add --check, or leave --allow-accepted out")
    result = app.status(call.settings, call.observer)
    code, why = verdict(result, longest, allow_accepted) if check else (result.exit_code, "")

    def print_it() -> None:
        print_status(result, _options(call, result), call.settings.ready_lag)
        if why:
            print(f"check: exit {code}, {why}")

    call.show(result.model_copy(update={"check": why or None}), print_it, code)
    if result.error is not None:
        tell(result.error, hint_with_options(result.hint or "", call.options), call.settings.scrub)
    return code


def _options(call: Invocation, result: StatusResult) -> str:
    """Returns the flags for commands in hints. They include the replica's time zone, which `status` does not need and
    those commands do."""
    zone = result.time_zone
    return call.options if zone in ("", resolved_zone(call.settings.tz)) else f"{call.options} --tz {zone}".lstrip()


def verdict(result: StatusResult, longest: float | None, allow_accepted: bool = False) -> tuple[int, str]:
    """Returns the exit code of a check, and why it is not 0: 3 for tables that need somebody, 4 for a replica that is
    late or cannot be judged. If a run would end with an error, its exit code is returned."""
    if result.error is not None:
        return result.exit_code, result.error
    unwell = [row for row in result.unwell if row.is_held_up or not allow_accepted]
    if unwell:
        states = Counter(map(_trouble, unwell))
        found = ", ".join(f"{count:,} {state}" for state, count in states.items())
        return TableError.exit_code, f"tables that are not healthy: {found}"
    late = _late(result, longest)
    return (Retryable.exit_code if late else 0), late


def _trouble(row: TableStatus) -> str:
    return _STATES.get(row.state) or ("with quarantined rows" if row.quarantined else "with accepted losses")


def _late(result: StatusResult, longest: float | None) -> str:
    lag, age = result.lag_seconds, result.checkpoint_age_seconds
    if lag is None:
        return f"nothing was applied yet{f' to {result.slowest}' if result.slowest else ''}"
    if result.unread is None:
        return f"the storage could not be compared: {next(iter(result.notes), 'it does not answer')}"
    if not result.tables_ok and all(row.state == "excluded" for row in result.tables):
        return "the target has no table: check --name and --tables"
    if result.went_back:
        return result.went_back
    if result.exports:
        return f"the export {result.exports[0].export} is not completely loaded"
    if longest is not None and age is not None and age > longest and age > lag:
        return f"the checkpoint is {duration_text(age)} old, which is more than --max-lag {duration_text(longest)}"
    if longest is not None and lag > longest:
        which = result.slowest or "the replica"
        return f"{which} lags by {duration_text(lag)}, which is more than --max-lag {duration_text(longest)}"
    return ""


def _longest(max_lag: str | None, check: bool) -> float | None:
    if max_lag is None:
        return None
    if not check:
        raise BadConfig("--max-lag is a bound for --check", hint="add --check, or leave --max-lag out")
    try:
        return duration(max_lag)
    except ValueError as problem:
        raise BadConfig(f"--max-lag is refused: {problem}") from problem


def print_status(result: StatusResult, options: str, ready_lag: float) -> None:
    """Prints how far the target is, then every table that is not healthy. `ready_lag` as for `StatusResult.health`."""
    if result.target_upstream is None:
        out("nothing applied yet")
        _print_lines(_export_lines(result, options))
        print_notes(result.notes)
        return
    out(f"state       {result.health(ready_lag)}")
    out(f"upstream    {result.target_upstream}")
    out(f"time zone   {result.time_zone}")
    out(f"tables      {_tables_text(result)}")
    if result.tables_ok:
        out(f"applied     {time_text(result.applied_ts)}")
    out(f"complete    {_complete_text(result)}")
    out(f"checkpoint  {_checkpoint_text(result)}")
    if result.unread is not None:
        out(f"unread      {_unread_text(result.unread)}")
    if result.tables:
        rows = [
            (table_text(row.table, row.target_table), time_text(row.watermark), row.state_text) for row in result.tables
        ]
        print_table(("table", "applied to", "state"), rows)
    _print_lines((*_export_lines(result, options), *_unwell_lines(result, options)))
    print_notes((*filter(None, [result.went_back]), *result.notes))


def _print_lines(lines: Iterable[str]) -> None:
    every = list(lines)
    for line in (*every, *masked_note(every)):
        out(line)


def _export_lines(result: StatusResult, options: str) -> Iterator[str]:
    """Returns what is to be run again, unless it is still at work."""
    for one in result.exports:
        tables = f" ({some_of(one.tables)})" if one.tables else ""
        again = "with its --table" if len(one.tables) > 1 else "to continue"
        yield (
            f"the export {one.export} is not completely loaded{tables}; if no load-export of it is running, run it"
            f" again {again}:"
        )
        only = one.tables[0] if len(one.tables) == 1 else None
        yield f"  {hint_with_options(load_export_command(one.export, only), options)}"
        yield from (f"  {table}: {without_table_name(table, reason)}" for table, reason in one.reasons.items())
    for loading in result.resyncs:
        yield f"the resync of {loading.table} is not finished, and the target has the table as it was; if no resync"
        yield "of it is running, run it again, which resumes, or give it up:"
        yield f"  {hint_with_options(resync_command(loading.table), options)}"
        yield f"  {hint_with_options(forget_command(loading.consumer), options)}"


def _unwell_lines(result: StatusResult, options: str) -> Iterator[str]:
    for row in result.unwell:
        if row.state == "stopped":
            yield f"{row.table} is stopped: {without_table_name(row.table, row.error)}"
            yield from way_back(row.table, row, options)
        elif row.state == "missing":
            yield without_table_name(row.table, row.error)
            yield from way_back(row.table, row, options)
        elif row.state == "waits":
            yield waiting_line(row.table, row)
        yield from lacking_lines(row.table, row, options, result)


def _tables_text(result: StatusResult) -> str:
    """Returns how many tables are in each state."""
    states = Counter({"ok": result.tables_ok})
    states += Counter(row.state for row in result.tables if row.state != "ok")
    states += Counter(_trouble(row) for row in result.unwell if row.state == "ok")
    return ", ".join(f"{count:,} {state}" for state, count in states.items()) or "none"


def _complete_text(result: StatusResult) -> str:
    """Returns the moment up to which all tables are complete, unless some need somebody, and its lag."""
    needing = Counter(row.state for row in result.tables if row.state in ("stopped", "missing"))
    states = ", ".join(f"{count:,} {state}" for state, count in needing.items())
    return f"{_moment_text(result)}, but {states}" if states else _moment_text(result)


def _moment_text(result: StatusResult) -> str:
    if result.lag_seconds is None:
        return f"- ({result.slowest} has nothing yet)" if result.slowest else "-"
    text = f"{time_text(result.watermark)}, {duration_text(result.lag_seconds)} behind now"
    if result.behind_checkpoint_seconds is not None:
        text += f", {duration_text(result.behind_checkpoint_seconds)} behind the checkpoint"
    return text if result.slowest is None else f"{text} ({result.slowest} is the slowest)"


def _checkpoint_text(result: StatusResult) -> str:
    if result.checkpoint_ts is None or result.checkpoint_age_seconds is None:
        return "not known"
    return f"{time_text(result.checkpoint_ts)}, {duration_text(result.checkpoint_age_seconds)} old"


def _unread_text(unread: Unread) -> str:
    """Returns what is still to be read, and until when it exists."""
    if not unread.files:
        return "nothing"
    text = f"{count_text(unread.files, 'file')}, {size_text(unread.bytes)}"
    if unread.oldest_date:
        text += f", the oldest in the folders of {unread.oldest_date}"
    if unread.days_left is not None:
        deleted = (
            "which TiCDC may have deleted"
            if unread.days_left <= 0
            else f"which TiCDC deletes in {count_text(unread.days_left, 'day')}"
        )
        text += f", {deleted} (file-expiration-days = {unread.expiration_days})"
    return text
