"""Results as people read them: tables, what a run did, and what to do next. rich is only loaded to draw a table on a
terminal: it takes milliseconds a row."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import Literal, TextIO

from consumer.config.secrets import MASK
from consumer.errors import BadConfig, Code
from consumer.model.hints import hint_with_options, resync_command, retry_command
from consumer.model.names import TableName, without_table_name
from consumer.model.progress import is_replay
from consumer.model.texts import count_text, duration_text, printable, some_of
from consumer.model.times import time_text
from consumer.results import LoadedExport, Result, RunResult, TableResult, TableStatus

MOST_ROWS = 500
_BETWEEN = "   "
"""What stands between the columns of a table."""
_COMMAND = "storage-consumer "
_SHOWN = 0.1
"""Seconds that are worth reporting."""
_HEADINGS = ("table", "changes", "rows", "puts", "deletes", "DDL", "dropped", "applied to", "state")


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """A context for writing to stdout: its reader may have stopped reading (``| head``), or a terminal may be closed,
    which is no error. Raises BadConfig if stdout cannot be written (a full disk)."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # What Python still holds for stdout goes nowhere, or its own flush at the end would complain.
        on_terminal = stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError) and not (on_terminal and error.errno == errno.EIO):
            raise BadConfig(f"stdout cannot be written ({error.strerror}); what was applied is recorded") from error


def say(*lines: str) -> None:
    """Prints lines on stderr, if somebody reads them: a reader that has left changes no exit code."""
    with suppress(OSError):
        print(*_fitted(lines, sys.stderr), sep="\n", file=sys.stderr, flush=True)


def out(*lines: str) -> None:
    """Prints lines on stdout, for a person."""
    print(*_fitted(lines, sys.stdout), sep="\n")


def exact(line: str) -> None:
    """Prints a line on stdout for another program, as it is. On a terminal its control characters have no effect."""
    print(printable(line) if sys.stdout.isatty() else line)


def _fitted(lines: Iterable[str], stream: TextIO) -> Iterator[str]:
    """Breaks lines that are longer than the terminal is wide between words; the terminal would break them anywhere. A
    command stays on one line of its own, because it is to be pasted."""
    width = shutil.get_terminal_size().columns if stream is not None and stream.isatty() else sys.maxsize
    for line in map(printable, lines):
        fore, command, more = line.partition(_COMMAND)
        if len(line) <= width or not fore.strip():
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from wrap(fore, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        if command:
            yield indent + command + more


def table_text(table: TableName, target_table: str) -> str:
    """Returns a table's name, with the one that it has in the target ("": the same)."""
    return f"{table} -> {target_table}" if target_table else str(table)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> None:
    """Draws a table on stdout; columns in `numbers` are aligned to the right. It has at most MOST_ROWS, and the rest is
    counted."""
    shown = [[printable(cell) for cell in row] for row in rows[:MOST_ROWS]]
    if sys.stdout.isatty():
        _draw(headings, shown, numbers)
    else:
        # Lines are not broken: whoever reads them wants to find things with grep.
        widths = [max(map(len, cells)) for cells in zip(headings, *shown, strict=True)]
        for cells in (headings, ["─" * width for width in widths], *shown):
            places = zip(cells, widths, range(len(widths)), strict=True)
            print("  ".join(c.rjust(w) if n in numbers else c.ljust(w) for c, w, n in places).rstrip())
    if len(rows) > MOST_ROWS:
        print(f"... and {len(rows) - MOST_ROWS:,} more (all of them with --json)")


def _draw(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    words = [
        max(len(word) for cell in cells for word in (*cell.split(), "")) for cells in zip(headings, *rows, strict=True)
    ]
    if sum(words) + len(_BETWEEN) * (len(words) - 1) > console.width:
        for name, *cells in rows:
            pairs = (f"{heading} {cell}" for heading, cell in zip(headings[1:], cells, strict=True) if cell)
            out(name, "  " + ", ".join(pairs))
        return
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        is_number = position in numbers
        side: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(heading, justify=side, min_width=words[position], no_wrap=is_number)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    with console.capture() as drawn:
        console.print(table)
    print(drawn.get(), end="")


def print_notes(notes: Sequence[str]) -> None:
    """Prints a line for each note."""
    for note in notes:
        out(f"note: {note}")


def print_run(result: RunResult) -> None:
    """Prints a summary table, then what a person has to do."""
    if result.export is None and not any(_has_news(table) for table in result.tables.values()):
        complete = result.checkpoint_ts and result.error is None and not result.unfinished
        early = "nothing was applied before the end"
        if result.rounds and not result.checkpoint_ts:
            early = "nothing was applied: the storage's checkpoint is 0"
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
    if rows:
        print_table(_HEADINGS, rows, numbers=range(1, 7))
    quiet = len(result.tables) - len(rows)
    spark = f" (Spark start {duration_text(result.spark_seconds)})" if result.spark_seconds else ""
    waited = f", the target took {duration_text(result.target_seconds)}" if result.target_seconds >= _SHOWN else ""
    took = f"{duration_text(result.seconds)}{spark}{waited}"
    if result.export is not None:
        out(*_export_lines(result.export, time_text(result.checkpoint_ts), took))
        return
    idle = f", {count_text(quiet, 'table')} without changes" if quiet else ""
    out(f"checkpoint {time_text(result.checkpoint_ts)}, {took}{idle}")


def _export_lines(export: LoadedExport, moment: str, took: str) -> Iterator[str]:
    """Returns what became of the export's tables, and what comes next."""
    yield f"{count_text(export.loaded, 'table')} loaded from the export, as of {moment}; {took}"
    if export.loaded_before:
        yield f"{count_text(export.loaded_before, 'table')} loaded by an earlier run"
    if export.not_loaded:
        yield f"{count_text(len(export.not_loaded), 'table')} not loaded: {some_of(export.not_loaded)}"
    if export.left_out:
        yield f"{count_text(export.left_out, 'table')} of the export left out by --table or --tables"
    if export.loaded or export.loaded_before:
        yield f"next: `once` or `run` with these settings applies the changes after {moment} to these tables"


def _place(table: TableResult, result: RunResult) -> str:
    """Returns a short text if possible: then the rows of most tables fit into a terminal of 80 columns."""
    whole = "checkpoint" if result.export is None else "export"
    return whole if table.watermark == result.checkpoint_ts else time_text(table.watermark)


def _has_news(table: TableResult) -> bool:
    return table.state != "ok" or any(_counts(table)) or bool(table.quarantined or table.accepted)


def _counts(table: TableResult) -> tuple[int, ...]:
    return table.changes, table.rows, table.puts, table.deletes, table.ddl, table.dropped_rows


def stopped_lines(result: RunResult, options: str, told: Collection[TableName]) -> Iterable[str]:
    """Returns for each table that is not healthy: why, unless the same stream has `told` that already, what to do, and
    the command that restores it."""
    for name, table in sorted(result.tables.items()):
        if table.state == "waits":
            yield waiting_line(name, table)
        elif table.state == "stopped":
            lines = list(way_back(name, table, options))
            if name not in told:
                yield f"{name} is stopped: {without_table_name(name, table.error)}"
            elif lines:
                yield f"{name} is stopped, for the reason above:"
            yield from lines
        yield from lacking_lines(name, table, options, result)


def waiting_line(name: TableName, table: TableResult | TableStatus) -> str:
    """Returns what a table waits for."""
    for_statement = table.code is Code.WAITS_FOR_STATEMENT
    return f"{name} {table.error}" if for_statement else f"{name} waits: {without_table_name(name, table.error)}"


def lacking_lines(name: TableName, table: TableResult | TableStatus, options: str, of: Result) -> Iterable[str]:
    """Returns how many rows the table lacks, the first of them, and what applies them; and what it lacks as accepted
    losses."""
    if table.quarantined:
        yield f"{name} lacks {count_text(table.quarantined, 'quarantined row')}; the first: {table.bad_row}"
        yield f"  once the row is repaired: {hint_with_options(retry_command(name), options)}"
    for loss in table.accepted:
        yield f"{name}: accepted as lost: {loss.sentence()}"
    if table.accepted and table.resync:
        yield f"  once nothing is missing: {hint_with_options(resync_command(name), options)}"
    elif table.accepted and not is_replay(of.name or ""):
        yield "  the storage cannot load it again: load an export of it with `load-export` and its --table"


def masked_note(lines: Iterable[str]) -> Iterable[str]:
    """Returns what to know about commands in `lines` from which secrets were removed."""
    if any(MASK in line and "storage-consumer " in line for line in lines):
        yield (
            f"{MASK} in a command stands for a secret: put it there, or leave the flag out and set"
            " STORAGE_CONSUMER_UPSTREAM_URI or STORAGE_CONSUMER_DOWNSTREAM_URI"
        )


def way_back(name: TableName, table: TableResult | TableStatus, options: str) -> Iterable[str]:
    """Returns what to do about a stopped table. Loading it again from the storage does not help with a refused
    statement or a file that is damaged or missing, which it would meet again, nor if a setting or a right is wrong."""
    if table.hint:
        yield from (f"  {line}" for line in hint_with_options(table.hint, options).split("\n"))
    if table.resync and table.hint.allows_reload and not table.version:
        yield f"  to load it again: {hint_with_options(resync_command(name), options)}"
