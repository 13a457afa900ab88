"""Which rows are inside the windows of their slices, and statistics of their commit-ts: from when to when they are, and
which came late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from consumer.codec.batches import Flags, Ints
from consumer.codec.rows import BlockRows
from consumer.errors import CameLate
from consumer.model.load import FileSlice, FileStat, LoadTask
from consumer.model.times import MAX_TSO


def windowed(pieces: Sequence[FileSlice], rows: BlockRows, counts: Ints) -> tuple[Flags, list[FileStat]]:
    """Which rows of some slices lie inside the windows of these, and what each slice's rows are. The rows of one slice
    come after those of another, `counts` of each; without a time all are inside."""
    if rows.exact is None:
        found = zip(pieces, counts.tolist(), strict=True)
        return np.ones(len(rows.ts), np.bool_), [FileStat(piece.path, count, 0, 0) for piece, count in found]
    early = rows.ts <= _of_rows([(piece.exact.after, piece.coarse.after) for piece in pieces], rows.exact, counts)
    late = rows.ts > _of_rows([(piece.exact.end, piece.coarse.end) for piece in pieces], rows.exact, counts)
    inside, timed, starts = ~(early | late), ~late, np.cumsum(counts) - counts
    numbers = {
        "rows": counts,
        "dropped": np.add.reduceat(early, starts, dtype=np.int64),
        "next_ts": _least(rows.ts, late, starts),
        "coarse_ts": _greatest(rows.ts, inside & ~rows.exact, starts),
        "first_ts": _least(rows.ts, timed, starts),
        "last_ts": _greatest(rows.ts, timed, starts),
    }
    of_slices = [dict(zip(numbers, row, strict=True)) for row in np.stack(list(numbers.values()), axis=1).tolist()]
    stats = [FileStat(piece.path, **found) for piece, found in zip(pieces, of_slices, strict=True)]
    for number, (piece, start) in enumerate(zip(pieces, starts.tolist(), strict=True)):
        if piece.seen and stats[number].dropped:
            of_slice = slice(start, start + stats[number].rows)
            unseen = _unseen(rows.ts[of_slice][early[of_slice]], piece.seen)
            stats[number] = replace(stats[number], unseen_ts=unseen)
    return inside, stats


def _of_rows(bounds: Sequence[tuple[int, int]], exact: Flags, counts: Ints) -> Ints:
    """The bound of each row, or the one of all: `bounds` are those of each slice's rows with and without commit-ts."""
    with_ts, without = np.array(bounds, np.int64).T
    if len(bounds) > 1:
        with_ts, without = np.repeat(with_ts, counts), np.repeat(without, counts)
    bound: Ints = with_ts if np.all(exact) else np.where(exact, with_ts, without)
    return bound


def _least(ts: Ints, which: Flags, starts: Ints) -> Ints:
    """The least time of those rows of each slice, 0 for none."""
    least = np.minimum.reduceat(np.where(which, ts, MAX_TSO), starts)
    return np.where(np.logical_or.reduceat(which, starts), least, 0)


def _greatest(ts: Ints, which: Flags, starts: Ints) -> Ints:
    greatest: Ints = np.maximum.reduceat(np.where(which, ts, 0), starts)
    return greatest


def _unseen(dropped: Ints, seen: tuple[int, ...]) -> int:
    """The least time of rows that should not be there, 0 for none."""
    late = dropped[np.searchsorted(seen, dropped, side="right") % 2 == 0]
    return int(late.min()) if late.size else 0


def refuse_late(stats: Sequence[FileStat], task: LoadTask) -> None:
    """Raises CameLate if a file holds a row that, by the table's progress, should have been there before."""
    late = [stat for stat in stats if stat.unseen_ts]
    if late:
        others = f" (so have {len(late) - 1} files more)" if len(late) > 1 else ""
        raise CameLate(
            f"it has a row of commit-ts {late[0].unseen_ts}{others}, and the table was complete up to"
            f" {task.window.after} without it: the file was not there then",
            hint="load the table again with resync, or go on without such rows with --accept-gap; a copy of a"
            " storage must get `metadata` last",
            table=str(task.target.table),
            path=late[0].path,
        )
