"""`inspect`: what is in the storage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Annotated

import typer

from consumer.cli.command import command
from consumer.cli.session import Invocation
from consumer.cli.text import masked_note, out, print_table
from consumer.codec import protocol_of
from consumer.config.settings import InspectSettings
from consumer.errors import BadConfig, CheckpointMissing
from consumer.model.texts import count_text, size_text
from consumer.model.times import time_text
from consumer.results import Detected, InspectedTable, InspectResult

_HEADINGS = ("table", "versions", "DDL", "files", "bytes", "partitions", "dispatchers", "dates", "")
_TIMES = ("first row", "last row")
_FIRST, _ALWAYS = (0, 3, 4, 2, 8), 3
"""The columns that are shown without -v, and how many of them are shown whatever they hold."""
_NUMBERS = range(1, 7)
TimeRange = Annotated[
    bool,
    typer.Option(
        "--time-range", help="Print the first and last commit-ts of each table (reads both ends of each file)."
    ),
]

Toml = Annotated[
    bool, typer.Option("--toml", help="Print only the changefeed's TOML as the files show it, to be used as --config.")
]


@command(
    "storage-consumer inspect --upstream-uri 's3://bucket/cdc?region=eu-central-1' --tables 'shop.*'",
    ("storage", "process"),
    settings=InspectSettings,
)
def inspect(call: Invocation, time_range: TimeRange = False, toml: Toml = False) -> int:
    """Print what is in the storage: checkpoint, tables, what is wrong, and how to start; with -v the changefeed's
    options as the files show them too. Needs no target and no other setting."""
    from consumer import app

    result = app.inspect(call.settings, call.observer, time_range)
    if toml and not result.tables:
        raise BadConfig(next(iter(result.findings), "there is nothing that TiCDC writes"))
    # As `once` ends there: a changefeed may still begin in this place.
    code = CheckpointMissing.exit_code if result.checkpoint_ts is None and not result.tables else 0
    as_text = partial(print, result.toml) if toml else partial(print_inspected, result, call.settings.verbose)
    return call.show(result, as_text, code)


def print_inspected(result: InspectResult, verbose: bool) -> None:
    """Prints totals, what is wrong, a line for each table, and how to start. `verbose`: everything that the files
    show."""
    files, size = sum(t.files for t in result.tables), sum(t.bytes for t in result.tables)
    out(f"upstream    {result.upstream}")
    shown = f"{time_text(result.checkpoint_ts)} ({result.checkpoint_ts})" if result.checkpoint_ts else "not known"
    out(f"checkpoint  {shown}")
    out(f"content     {count_text(len(result.tables), 'table')}, {count_text(files, 'data file')}, {size_text(size)}")
    for name, text in _options(result.changefeed):
        if verbose or name == "rows":
            out(f"{name:<12}{text}")
    zone = "not in the files: --tz is the changefeed's time zone"
    out(f"time zone   {zone}, UTC below" if "--tz UTC" in result.command else f"time zone   {zone}")
    for finding in result.findings:
        out(f"finding: {finding}")
    if result.tables:
        out()
        _print_tables(result.tables, verbose)
    if result.toml and result.tables:
        if verbose:
            out("", "# changefeed.toml", *result.toml.split("\n"))
        out("", "to start:", result.command)
        for line in masked_note([result.command]):
            out(line)


def _options(detected: Detected) -> Iterator[tuple[str, str]]:
    dialect = detected.dialect
    if dialect is None:
        yield "rows", "none to look at"
    else:
        without = f"without commit-ts: {protocol_of(dialect).commit_ts_key} is off"
        times = "with commit-ts" if detected.with_commit_ts else without
        yield (
            "rows",
            f"{dialect.protocol}, {times}; lines end with {_shown(dialect.terminator)}"
            f" ({count_text(detected.sampled, 'file')} read)",
        )
    levels = [f"date-separator {detected.date_separator}"] if detected.date_separator else []
    levels += [f"numbers of {count_text(detected.file_index_digit, 'digit')}"] if detected.file_index_digit else []
    levels += {True: ["a partition level"], False: ["no partition level"], None: []}[detected.partition_separator]
    levels += ["dispatcher ids (enable-table-across-nodes)"] if detected.across_nodes else []
    levels += ["table ids (use-table-id-as-path)"] if detected.table_ids else []
    if levels:
        yield "paths", ", ".join(levels)
    yield "written by", f"TiCDC's {detected.architecture} architecture" if detected.architecture else "not known"


def _shown(terminator: bytes) -> str:
    return repr(terminator).removeprefix("b").strip("'")


def _print_tables(tables: tuple[InspectedTable, ...], verbose: bool) -> None:
    """Prints a line for each table; columns that are empty for all tables are left out. On a terminal their times are
    separate, so that most lines fit into 80 columns."""
    rows = []
    for table in tables:
        dates = " to ".join(dict.fromkeys(filter(None, (table.first_date, table.last_date))))
        row = [str(table.table), f"{table.versions:,}", f"{table.ddl:,}", f"{table.files:,}", size_text(table.bytes)]
        row += [_count(table.partitions), _count(table.dispatchers), dates, "" if table.exists else "dropped"]
        rows.append(row)
    times = [[_time(table.first_ts), _time(table.last_ts)] for table in tables]
    used = [
        n for n in (range(len(_HEADINGS)) if verbose else _FIRST) if n in _FIRST[:_ALWAYS] or any(r[n] for r in rows)
    ]
    numbers = [place for place, number in enumerate(used) if number in _NUMBERS]
    headings, shown = [_HEADINGS[number] for number in used], [[row[number] for number in used] for row in rows]
    with_times, apart = any(map(any, times)), sys.stdout.isatty()
    if with_times and not apart:
        headings, shown = [*headings, *_TIMES], [[*row, *time] for row, time in zip(shown, times, strict=True)]
    print_table(headings, shown, numbers)
    if with_times and apart:
        out()
        print_table(["table", *_TIMES], [[row[0], *time] for row, time in zip(rows, times, strict=True)])


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _time(tso: int | None) -> str:
    return time_text(tso) if tso else ""
