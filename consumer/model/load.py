"""What travels between driver and executors: small frozen values, pickled as they are."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.errors import ConsumerError
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.steps import Window


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the changefeed writes rows. `terminator` ends each canal-JSON line."""

    protocol: str = "canal-json"
    terminator: bytes = b"\r\n"


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """One table's target as an executor must know it.

    `columns` are the columns to decode and write, in the target's order, with the target's spelling of their names
    in `names` (same positions). `key` are positions in `columns` of the handle key; () for a table with no key.
    `ordered`: the target compares keys more coarsely than bytes, so one task on one connection applies deletes, then
    puts.
    `settings` is the sink's own frozen value, or None.
    """

    table: TableName
    columns: tuple[Column, ...]
    names: tuple[str, ...]
    key: tuple[int, ...]
    ordered: bool = False
    settings: object | None = None


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A byte range of a file: the lines that begin in ``[offset, offset + length)``; `size` is the whole file's.

    `position` is above every position of the slices before it in its series.
    """

    path: str
    offset: int
    length: int
    size: int
    series: int
    position: int
    exact: Window
    coarse: Window


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One table's load: `number` identifies it within a job."""

    number: int
    target: LoadTarget
    window: Window
    slices: tuple[FileSlice, ...]
    dialect: Dialect

    @property
    def bytes(self) -> int:
        return sum(piece.length for piece in self.slices)


@dataclass(frozen=True, slots=True)
class FileStat:
    """What reading one slice found: rows in all, rows at or below the window (dropped), and `next_ts`, the lowest
    commit-ts above the window (0: none, the slice is done). `coarse_ts` is the greatest ``es << 18`` of the rows inside
    the window that have no commit-ts, 0 for none.
    """

    path: str
    rows: int
    dropped: int
    next_ts: int
    coarse_ts: int = 0


@dataclass(frozen=True, slots=True)
class Receipt:
    """One write that the target has taken. `staged` names what must still be published by the driver ("" for none)."""

    puts: int
    deletes: int
    staged: str = ""


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """All that came back of one LoadTask. With `error` set nothing of it may be recorded as progress."""

    task: LoadTask
    files: tuple[FileStat, ...]
    receipts: tuple[Receipt, ...]
    error: ConsumerError | None = None

    @property
    def table(self) -> TableName:
        return self.task.target.table

    @property
    def rows(self) -> int:
        return sum(stat.rows for stat in self.files)

    @property
    def dropped_rows(self) -> int:
        return sum(stat.dropped for stat in self.files)

    @property
    def puts(self) -> int:
        return sum(receipt.puts for receipt in self.receipts)

    @property
    def deletes(self) -> int:
        return sum(receipt.deletes for receipt in self.receipts)
