"""One line on a terminal that says how far a round is. rich is loaded when the first round starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar:
    """Counts the tables of a round that have been written to; on stderr, gone when the round is over."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._rows = 0
        self._tables: set[str] = set()

    def start(self, tables: int, size: int) -> None:
        """Begin a round of `tables` tables and `size` bytes."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.stop()
        self._rows, self._tables = 0, set()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("tables, {task.fields[rows]:,} rows"),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            transient=True,
        )
        self._task = self._progress.add_task(f"applying {size / 1e6:,.1f} MB", total=tables, rows=0)
        self._progress.start()

    def advance(self, table: str, rows: int) -> None:
        """A step of `table` is done."""
        if self._progress is None or self._task is None:
            return
        self._rows += rows
        self._tables.add(table)
        self._progress.update(self._task, completed=len(self._tables), rows=self._rows)

    def stop(self) -> None:
        """Clear the line."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
