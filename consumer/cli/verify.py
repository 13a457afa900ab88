"""`verify`: is the target equal to the storage?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from consumer.cli.command import READS, command, parse_table
from consumer.cli.session import Invocation, tell
from consumer.cli.text import out, print_table, table_text
from consumer.errors import BadConfig
from consumer.model.check import Counted, Difference, Repairing, TableCheck, VerifyResult
from consumer.model.hints import hint_with_options
from consumer.model.names import without_table_name
from consumer.model.texts import count_text, duration_text, shortened
from consumer.model.times import time_text
from consumer.results import VerifyReport

_SHOWN = 120
Table = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="DB.T", help="Only this table. Can be given several times."),
]
Show = Annotated[int, typer.Option("--show", metavar="N", help="The most rows that differ to print of each table.")]
Ranges = Annotated[
    int,
    typer.Option("--ranges-at-a-time", metavar="N", help="The most ranges of rows to read from the target at a time."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 if anything could not be compared, though nothing differs.")
]
MakeRight = Annotated[
    bool, typer.Option("--repair", help="Write the rows that differ as the storage has them, and compare them again.")
]
RepairSql = Annotated[
    str,
    typer.Option("--repair-sql", metavar="FILE", help="Write to FILE the statements that make the rows right."),
]


@command(
    "storage-consumer verify --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri mysql://root@127.0.0.1:3306/",
    (*READS, "spark"),
)
def verify(
    call: Invocation,
    table: Table = None,
    show: Show = 10,
    ranges_at_a_time: Ranges = 2,
    strict: Strict = False,
    repair: MakeRight = False,
    repair_sql: RepairSql = "",
) -> int:
    """Compare the rows of the target with the storage, and print what differs. Changes nothing without --repair."""
    from consumer import app

    if show < 0 or ranges_at_a_time < 1:
        raise BadConfig("--show must not be below 0, and --ranges-at-a-time not below 1")
    if repair and repair_sql:
        raise BadConfig("--repair writes the rows, --repair-sql only statements: give one of the two")
    names = [parse_table(text) for text in table or ()]
    repairing = Repairing(repair, repair_sql)
    result = app.verify(call.settings, call.observer, names, show, ranges_at_a_time, repairing=repairing)
    result = result.scrubbed(call.settings.scrub)
    error = result.verdict(strict)
    code = 0 if error is None else error.exit_code
    report = VerifyReport.of(result)
    call.show(report if error is None else report.ended_by(error), lambda: print_verify(result), code)
    if error is not None:
        tell(error.sentence(), hint_with_options(error.hint, call.options), call.settings.scrub)
    return code


def print_verify(result: VerifyResult) -> None:
    """Prints a line for each table, then the rows that differ, then what was not compared."""
    rows = [_row(check) for check in result.tables]
    print_table(("table", "at", "state", "rows", "missing", "extra", "differ"), rows, (3, 4, 5, 6))
    for check in result.tables:
        for line in _lines(check):
            out(line)
    if result.excluded:
        left_out = count_text(result.excluded, "table, which was", "tables, which were")
        out(f"note: the table rules leave out {left_out} not compared; one that rules include again begins with `once`")
    if not result.tables:
        out("no table was compared")
        return
    equal = sum(check.state == "equal" for check in result.tables)
    every = count_text(len(result.tables), "table is", "tables are")
    out(f"{equal:,} of {every} equal, compared whole, in {duration_text(result.seconds)}")


def _row(check: TableCheck) -> tuple[str, ...]:
    counted = check.counted
    numbers = (counted.expected, counted.missing, counted.extra, counted.differing)
    shown = ("-",) * 4 if check.error is not None else tuple(f"{number:,}" for number in numbers)
    return (table_text(check.table, check.target_table), time_text(check.watermark), check.state, *shown)


def _lines(check: TableCheck) -> Iterator[str]:
    if check.repaired is not None:
        yield from _differences(f"{check.table}, before the repair,", check.repaired)
        right = max(check.repaired.differences - check.counted.differences, 0)
        every = count_text(check.repaired.differences, "row that differed", "rows that differed")
        yield f"{check.table}: {right:,} of {every} made right"
    yield from _differences(str(check.table), check.counted)
    for note in check.notes:
        yield f"note: {check.table}: {note}"
    if check.error is not None:
        yield f"{check.table} was not compared: {without_table_name(check.table, check.error.sentence())}"


def _differences(head: str, counted: Counted) -> Iterator[str]:
    for difference in counted.shown:
        yield f"{head} {_difference(difference)}"
    left = counted.differences - sum(difference.copies for difference in counted.shown)
    if left > 0:
        yield f"{head} ... and {left:,} more (--show)"


def _difference(row: Difference) -> str:
    key = ", ".join(f"{name}={_value(value)}" for name, value in row.key)
    copies = f" ({count_text(row.copies, 'copy', 'copies')})" if row.copies > 1 else ""
    if not row.values:
        return f"{row.kind}: {key}{copies}"
    changed = "; ".join(f"{name} must be {_value(ours)}, is {_value(theirs)}" for name, ours, theirs in row.values)
    return f"{row.kind}: {key}: {changed}"


def _value(value: str | None) -> str:
    if value is None:
        return "NULL"
    return repr(shortened(value, _SHOWN))
