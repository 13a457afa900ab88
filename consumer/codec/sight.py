"""What the commit-ts of a file's rows tell beside the rows: from when to when they are, and which came late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from consumer.errors import CameLate
from consumer.model.load import FileStat, LoadTask
from consumer.model.names import MAX_TSO

Ints = npt.NDArray[np.int64]


def with_sight(
    stat: FileStat, before: FileStat, ts: Ints, window: tuple[Ints, Ints], seen: tuple[int, ...]
) -> FileStat:
    """`stat` with what rows with these `ts` add to what was found `before` in their file; `window` is that of each."""
    after, upto = window
    first, last, unseen = before.first_ts, before.last_ts, before.unseen_ts
    timed, dropped = ts[ts <= upto], ts[ts <= after]
    if timed.size:
        first, last = min(int(timed.min()), first or MAX_TSO), max(int(timed.max()), last)
    if dropped.size and seen:
        late = dropped[np.searchsorted(seen, dropped, side="right") % 2 == 0]
        unseen = min(int(late.min()), unseen or MAX_TSO) if late.size else unseen
    return replace(stat, first_ts=first, last_ts=last, unseen_ts=unseen)


def refuse_late(stats: Sequence[FileStat], task: LoadTask) -> None:
    """Raises CameLate where a file holds a row that the table's progress says was there before, and was not."""
    late = [stat for stat in stats if stat.unseen_ts]
    if late:
        others = f" (so have {len(late) - 1} files more)" if len(late) > 1 else ""
        raise CameLate(
            f"it has a row of commit-ts {late[0].unseen_ts}{others}, and the table was complete up to"
            f" {task.window.after} without it: the file was not there then",
            hint="load the table again with resync, or go on without such rows with --accept-gap; whoever copies a"
            " storage must bring `metadata` last",
            table=str(task.target.table),
            path=late[0].path,
        )
