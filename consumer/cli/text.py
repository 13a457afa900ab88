"""Values and tables as people read them. rich is loaded when there is a table to draw on a
terminal: it takes milliseconds a row."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from consumer.errors import BadConfig
from consumer.model.names import TableName
from consumer.model.texts import visible
from consumer.model.times import MAX_TSO, tso_to_time

MOST_ROWS = 500


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Around what is written to stdout: whoever reads it may have seen enough (``| head``), or a terminal may be
    closed, which is no error.

    Raises BadConfig where stdout cannot be written (a full disk).
    """
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
    """Lines on stderr, where there is somebody to read them: whoever has left changes no exit code."""
    with suppress(OSError):
        print(*map(visible, lines), sep="\n", file=sys.stderr, flush=True)


def out(*lines: str) -> None:
    """Lines on stdout, for a person."""
    print(*map(visible, lines), sep="\n")


def time_text(tso: int) -> str:
    """The moment of a TSO, in UTC."""
    if tso >= MAX_TSO:
        return "the end of the storage"
    return f"{tso_to_time(tso):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z" if tso else "-"


def table_text(table: TableName, target_table: str) -> str:
    """A table's name, with the one that it has in the target ("": the same)."""
    return f"{table} -> {target_table}" if target_table else str(table)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> None:
    """Draw a table on stdout; columns in `numbers` stand to the right. At most MOST_ROWS, the rest is counted."""
    shown = [[visible(cell) for cell in row] for row in rows[:MOST_ROWS]]
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

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for position, heading in enumerate(headings):
        is_number = position in numbers
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout)
    with console.capture() as drawn:
        console.print(table)
    print(drawn.get(), end="")


def print_notes(notes: Sequence[str]) -> None:
    """A line each."""
    for note in notes:
        out(f"note: {note}")
