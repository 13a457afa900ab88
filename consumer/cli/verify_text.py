"""What `verify` found, as text."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.cli.text import out, print_table, table_text, time_text
from consumer.model.check import Counted, Difference, TableCheck, VerifyResult
from consumer.model.names import behind_name
from consumer.model.texts import cut, duration_text

_SHOWN = 120


def print_verify(result: VerifyResult) -> None:
    """A line for each table, then the rows that differ, then what was not compared."""
    rows = [_row(check) for check in result.tables]
    print_table(("table", "at", "state", "rows", "missing", "extra", "differ"), rows, (3, 4, 5, 6))
    for check in result.tables:
        for line in _lines(check):
            out(line)
    if result.excluded:
        out(f"note: the table rules leave out {result.excluded:,} tables, which were not compared")
    if not result.tables:
        out("no table was compared")
        return
    equal = sum(check.state == "equal" for check in result.tables)
    out(f"{equal:,} of {len(result.tables):,} tables are equal, compared whole, in {duration_text(result.seconds)}")


def _row(check: TableCheck) -> tuple[str, ...]:
    counted = check.counted
    numbers = (counted.expected, counted.missing, counted.extra, counted.differing)
    shown = ("-",) * 4 if check.error is not None else tuple(f"{number:,}" for number in numbers)
    return (table_text(check.table, check.target_table), time_text(check.watermark), check.state, *shown)


def _lines(check: TableCheck) -> Iterator[str]:
    if check.repaired is not None:
        yield from _differences(f"{check.table} was", check.repaired)
        right = max(check.repaired.differences - check.counted.differences, 0)
        yield f"{check.table}: {right:,} of {check.repaired.differences:,} rows that differed are right now"
    yield from _differences(str(check.table), check.counted)
    for note in check.notes:
        yield f"note: {check.table}: {note}"
    if check.error is not None:
        yield f"{check.table} was not compared: {behind_name(check.table, check.error.sentence())}"


def _differences(head: str, counted: Counted) -> Iterator[str]:
    for difference in counted.shown:
        yield f"{head} {_difference(difference)}"
    left = counted.differences - sum(difference.copies for difference in counted.shown)
    if left > 0:
        yield f"{head} ... and {left:,} more (--show)"


def _difference(row: Difference) -> str:
    key = ", ".join(f"{name}={_value(value)}" for name, value in row.key)
    copies = f" ({row.copies:,} copies)" if row.copies > 1 else ""
    if not row.values:
        return f"{row.kind}: {key}{copies}"
    changed = "; ".join(f"{name} must be {_value(ours)}, is {_value(theirs)}" for name, ours, theirs in row.values)
    return f"{row.kind}: {key}: {changed}"


def _value(value: str | None) -> str:
    if value is None:
        return "NULL"
    return repr(cut(value, _SHOWN))
