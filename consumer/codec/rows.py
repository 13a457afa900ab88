"""The rows of a block, as decoders of all protocols return them. Computes which of them lie inside the windows of their
slices, with statistics of their times; and which of their values a conversion refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from consumer.codec.change_table import Flags, Ints, Origin
from consumer.codec.errors import FileCoordinates
from consumer.codec.lines import Block, LineEnds
from consumer.errors import CameLate, CorruptFile, TableError
from consumer.model.columns import Column
from consumer.model.hints import accept_command, resync_command
from consumer.model.load import FileSlice, FileStat, LoadTarget, LoadTask
from consumer.model.texts import count_text
from consumer.model.times import MAX_TSO

LineAt = Callable[[int], int]
"""Returns the number, from 1, of the line that begins at an offset of the file. It reads the file up to there."""


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block, at least one. `ts` is ``es << 18`` where `exact` is false. If `exact` is None, rows have no
    time, and `ts` is 0.

    For rules about changes: `kinds` returns which rows are UPDATEs, and which are DELETEs or the old row of an UPDATE.
    `images` returns some of the rows themselves, without the first four columns. They need values in the columns at
    these positions: it raises CannotBeExact if a DELETE has only its key. `old_images` returns the rows as they were
    before the UPDATEs.

    `counts` takes the sizes of the files that make up the block, and returns how many of the rows each has. It raises
    ValueError if a row is not wholly in one file. `changes` makes the change table (see `codec.change_table`) of some
    rows, in file order. It raises CorruptFile, SchemaDrift, CannotBeExact.
    """

    ts: Ints
    exact: Flags | None
    counts: Callable[[Ints], Ints]
    changes: Callable[[Flags, Origin], pa.Table]
    kinds: Callable[[], tuple[Flags, Flags]]
    images: Callable[[Flags, Sequence[int]], pa.Table]
    old_images: Callable[[Flags], pa.Table]


ChangesOf = Callable[[BlockRows, Flags, Origin], pa.Table]
"""Makes the change table of some rows of a block: all changes, or those that rules leave. It raises the errors of
these."""


def all_changes(rows: BlockRows, inside: Flags, origin: Origin) -> pa.Table:
    """A `ChangesOf` without rules."""
    return rows.changes(inside, origin)


class Time(NamedTuple):
    """The time of a change as its line shows it: a commit-ts if `exact`, else ``es << 18``."""

    ts: int
    exact: bool


class RowFile(Protocol):
    """A file, or several of the same columns one after the other, whose rows are decoded. `header` is a first line that
    is no row, b"" for none."""

    @property
    def place(self) -> FileCoordinates: ...
    @property
    def ends(self) -> LineEnds: ...
    @property
    def header(self) -> bytes: ...

    def rows(self, block: Block, line_at: LineAt, blame: bool = True) -> BlockRows | None:
        """Returns the rows, or None if all lines are blank. Raises CorruptFile, SchemaDrift. Without `blame` the error
        may name any line of the block, and no reason."""

    def time(self, line: bytes) -> Time | None:
        """Returns the time of a line that is no row, as far as it can be seen."""


def rows_in_window(pieces: Sequence[FileSlice], rows: BlockRows, counts: Ints) -> tuple[Flags, list[FileStat]]:
    """Returns which rows of some slices lie inside the windows of these, and the statistics of each slice. The rows of
    one slice come after those of another, `counts` of each. Rows without a time are all inside."""
    if rows.exact is None:
        items = zip(pieces, counts.tolist(), strict=True)
        return np.ones(len(rows.ts), np.bool_), [FileStat(piece.path, count, 0, 0) for piece, count in items]
    early = rows.ts <= _of_rows([(piece.exact.after, piece.coarse.after) for piece in pieces], rows.exact, counts)
    late = rows.ts > _of_rows([(piece.exact.end, piece.coarse.end) for piece in pieces], rows.exact, counts)
    inside, timed, starts = ~(early | late), ~late, np.cumsum(counts) - counts
    numbers = {
        "rows": counts,
        "dropped": np.add.reduceat(early, starts, dtype=np.int64),
        "next_ts": _least(rows.ts, late, starts),
        "coarse_ts": _greatest(rows.ts, inside & ~rows.exact, starts),
        "first_ts": np.minimum.reduceat(rows.ts, starts),
        "last_ts": _greatest(rows.ts, timed, starts),
    }
    of_slices = [dict(zip(numbers, row, strict=True)) for row in np.stack(list(numbers.values()), axis=1).tolist()]
    stats = [FileStat(piece.path, **items) for piece, items in zip(pieces, of_slices, strict=True)]
    for number, (piece, start) in enumerate(zip(pieces, starts.tolist(), strict=True)):
        if piece.seen and stats[number].dropped:
            of_slice = slice(start, start + stats[number].rows)
            unseen = _unseen(rows.ts[of_slice][early[of_slice]], piece.seen)
            stats[number] = replace(stats[number], unseen_ts=unseen)
    return inside, stats


def _of_rows(bounds: Sequence[tuple[int, int]], exact: Flags, counts: Ints) -> Ints:
    """Returns the bound of each row, or the one of all rows. `bounds` has two for each slice: of its rows with and
    without commit-ts."""
    with_ts, without = np.array(bounds, np.int64).T
    if len(bounds) > 1:
        with_ts, without = np.repeat(with_ts, counts), np.repeat(without, counts)
    bound: Ints = with_ts if np.all(exact) else np.where(exact, with_ts, without)
    return bound


def _least(ts: Ints, which: Flags, starts: Ints) -> Ints:
    """Returns the least time of the rows `which` of each slice, 0 if there are none."""
    least = np.minimum.reduceat(np.where(which, ts, MAX_TSO), starts)
    return np.where(np.logical_or.reduceat(which, starts), least, 0)


def _greatest(ts: Ints, which: Flags, starts: Ints) -> Ints:
    greatest: Ints = np.maximum.reduceat(np.where(which, ts, 0), starts)
    return greatest


def _unseen(dropped: Ints, seen: tuple[int, ...]) -> int:
    """Returns the least time of rows that should not exist there, 0 if there are none."""
    late = dropped[np.searchsorted(seen, dropped, side="right") % 2 == 0]
    return int(late.min()) if late.size else 0


def refuse_late(stats: Sequence[FileStat], task: LoadTask) -> None:
    """Raises CameLate if a file has a row that, by the table's progress, should have been there before."""
    late = [stat for stat in stats if stat.unseen_ts]
    if late:
        more_files = f" (so have {count_text(len(late) - 1, 'more file')})" if len(late) > 1 else ""
        raise CameLate(
            f"it has a row of commit-ts {late[0].unseen_ts}{more_files}, and the table was complete up to"
            f" {task.window.after} without it: the file was not there then",
            hint="a copy of a storage must get `metadata` last; load the table again: "
            + resync_command(task.target.table)
            + "\nor continue without such rows: "
            + accept_command(task.target.table),
            table=str(task.target.table),
            path=late[0].path,
        )


def required_columns(target: LoadTarget, layout: Iterable[Column]) -> dict[int, str]:
    """Returns the columns of the target, by position, that are NOT NULL in the rows' schema file, whose columns are
    `layout`."""
    names = {column.name for column in layout if not column.nullable}
    return {n: column.name for n, column in enumerate(target.columns) if column.name in names}


def first_null(columns: Sequence[pa.Array], required: Mapping[int, str], whole: Flags) -> tuple[str, int] | None:
    """Returns one of the `required` columns, and a row that is NULL in it, among the rows that are used `whole`: puts,
    and old rows whose values are written or identify rows. Other rows may lack the value."""
    for position, name in required.items():
        if columns[position].null_count:
            null = whole & columns[position].is_null().to_numpy(zero_copy_only=False)
            if null.any():
                return name, int(np.argmax(null))
    return None


Values = TypeVar("Values", pa.Array, pa.ChunkedArray, pa.Table)


def first_refused(convert: Callable[[Values], object], values: Values) -> tuple[int, TableError]:
    """Returns the position of the first value that `convert` refuses, and its error; there must be one."""
    low, high = 0, len(values)
    refusal = _refusal(convert, values)
    while high - low > 1:
        middle = (low + high) // 2
        part_refusal = _refusal(convert, values.slice(low, middle - low))
        low, high = (low, middle) if part_refusal else (middle, high)
        refusal = part_refusal or refusal
    return low, _refusal(convert, values.slice(low, 1)) or refusal or CorruptFile("a value is not right")


def every_refused(
    convert: Callable[[Values], object], values: Values, start: int = 0
) -> Iterator[tuple[int, TableError]]:
    """Yields the position of each value that `convert` refuses, counted from `start`, and its error."""
    refusal = _refusal(convert, values)
    if refusal is None:
        return
    if len(values) == 1:
        yield start, refusal
        return
    middle = len(values) // 2
    yield from every_refused(convert, values.slice(0, middle), start)
    yield from every_refused(convert, values.slice(middle), start + middle)


def _refusal(convert: Callable[[Values], object], values: Values) -> TableError | None:
    try:
        convert(values)
    except TableError as error:
        return error
    return None
