"""The rows of a file, as decoders of all protocols return them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from consumer.codec.batches import Flags, Ints, Origin
from consumer.codec.errors import Place
from consumer.codec.lines import Block, LineEnds

LineAt = Callable[[int], int]
"""The number, from 1, of the line that begins at an offset of the file. Costs a read of the file up to there."""


@dataclass(frozen=True, slots=True)
class BlockRows:
    """The rows of a block, one at least. `ts` is ``es << 18`` where `exact` is false; where that is None, rows have no
    time, and `ts` is 0.

    For rules about changes: `kinds` says which rows are UPDATEs, and which are DELETEs or the old row of an UPDATE.
    `images` are the rows themselves, one for each of some of them, without the first four columns; they need values in
    the columns at these positions: CannotBeExact where a DELETE has only its key. `old_images` is what UPDATEs found.

    `counts` takes the sizes of files that make up the block, and gives how many of the rows each has: ValueError where
    one is not wholly in one file. `changes` makes the change table (see `codec.batches`) of some of them, in file
    order: raises CorruptFile, SchemaDrift, CannotBeExact.
    """

    ts: Ints
    exact: Flags | None
    counts: Callable[[Ints], Ints]
    changes: Callable[[Flags, Origin], pa.Table]
    kinds: Callable[[], tuple[Flags, Flags]]
    images: Callable[[Flags, Sequence[int]], pa.Table]
    old_images: Callable[[Flags], pa.Table]


class Time(NamedTuple):
    """When a line says that its change was: `exact` where that is a commit-ts, else ``es << 18``."""

    ts: int
    exact: bool


class RowFile(Protocol):
    """A file, or several of the same columns one after the other, whose rows are decoded. `header` is the length of a
    first line that is no row."""

    @property
    def place(self) -> Place: ...
    @property
    def ends(self) -> LineEnds: ...
    @property
    def header(self) -> int: ...

    def rows(self, block: Block, line_at: LineAt, blame: bool = True) -> BlockRows | None:
        """None where all lines are blank. Raises CorruptFile, SchemaDrift; without `blame` any line of the block may be
        named, and no reason."""

    def time(self, line: bytes) -> Time | None:
        """What a line that is no row says of its time, as far as that can be seen."""
