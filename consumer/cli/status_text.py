"""Where the target is, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from consumer.cli.run_text import masked_note, quarantined_lines, way_back
from consumer.cli.text import out, print_notes, print_table, table_text, time_text
from consumer.model.names import behind_name
from consumer.model.result import StatusResult, UnreadStatus
from consumer.model.texts import duration_text, size_text


def print_status(result: StatusResult, options: str) -> None:
    """How far the target is, then every table that is not simply there."""
    if result.upstream is None:
        out("nothing applied yet")
        print_notes(result.notes)
        return
    out(f"upstream    {result.upstream}")
    out(f"tables      {_tables_text(result)}")
    out(f"applied     {time_text(result.applied_ts)}")
    out(f"complete    {_complete_text(result)}")
    out(f"checkpoint  {_checkpoint_text(result)}")
    if result.unread is not None:
        out(f"unread      {_unread_text(result.unread)}")
    if result.tables:
        rows = [(table_text(row.table, row.target_table), time_text(row.watermark), row.state) for row in result.tables]
        print_table(("table", "applied to", "state"), rows)
    lines = list(_unwell_lines(result, options))
    for line in (*lines, *masked_note(lines)):
        out(line)
    print_notes(result.notes)


def _unwell_lines(result: StatusResult, options: str) -> Iterator[str]:
    for row in result.unwell:
        if row.state == "stopped":
            yield f"{row.table} is stopped: {behind_name(row.table, row.error)}"
            yield from way_back(row.table, row, options)
        elif row.state == "missing":
            yield behind_name(row.table, row.error)
            yield from way_back(row.table, row, options)
        elif row.state == "waits":
            yield f"{row.table} {row.error}"
        yield from quarantined_lines(row.table, row, options)


def _tables_text(result: StatusResult) -> str:
    """How many tables are in each state."""
    states = Counter({"ok": result.ok}) + Counter(row.state for row in result.tables if row.state != "ok")
    return ", ".join(f"{count:,} {state}" for state, count in states.items()) or "none"


def _complete_text(result: StatusResult) -> str:
    """The moment up to which all tables are complete, and how far that is behind."""
    if result.lag_seconds is None:
        return "-"
    text = f"{time_text(result.watermark)}, {duration_text(result.lag_seconds)} behind now"
    if result.behind_checkpoint_seconds is not None:
        text += f", {duration_text(result.behind_checkpoint_seconds)} behind the checkpoint"
    return text if result.slowest is None else f"{text} ({result.slowest.table} is the slowest)"


def _checkpoint_text(result: StatusResult) -> str:
    if result.checkpoint_ts is None or result.checkpoint_age_seconds is None:
        return "not known"
    return f"{time_text(result.checkpoint_ts)}, {duration_text(result.checkpoint_age_seconds)} old"


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
