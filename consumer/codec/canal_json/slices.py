"""canal-JSON, one row change a line -> change tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from consumer.codec.batches import Origin
from consumer.codec.canal_json.changes import ChangeBuilder
from consumer.codec.canal_json.faults import RowLines
from consumer.codec.canal_json.rows import Flags, Ints, RowParser, Rows
from consumer.codec.faults import Place
from consumer.codec.lines import LineEnds, SliceLines
from consumer.codec.sight import with_sight
from consumer.model.load import Dialect, FileSlice, FileStat, LoadTarget
from consumer.model.names import MAX_TSO
from consumer.ports import RangeReader


class SliceDecoder:
    """Decodes the rows of one slice that lie inside its window, holding about `block_bytes` of the file at a time."""

    def __init__(
        self,
        reader: RangeReader,
        piece: FileSlice,
        target: LoadTarget,
        dialect: Dialect,
        block_bytes: int = 8 << 20,
    ) -> None:
        self._piece = piece
        self._place = Place.of(piece, target)
        self._lines = SliceLines(reader, piece, LineEnds(dialect.terminator), self._place, block_bytes)
        self._parser = RowParser(target)
        self._builder = ChangeBuilder(target, self._place, dialect.clock)
        self.stat = FileStat(piece.path, 0, 0, 0)
        """What has been read so far: complete once `batches` is exhausted."""

    def batches(self) -> Iterator[pa.Table]:
        """Change tables (see `codec.batches`) in file order, none of them empty.

        Raises CorruptFile, SchemaDrift, CannotBeExact, StorageUnavailable.
        """
        for block in self._lines.blocks():
            lines = RowLines(block, self._lines.line_at, self._place)
            try:
                rows = self._parser.parse(block.text)
            except ValueError as error:
                raise lines.fault(self._parser) from error
            inside = self._inside(rows)
            origin = Origin.of(self._piece, self.stat.rows, rows.count)
            changes = self._builder.changes(rows, inside, origin, lines)
            self._count(rows, inside)
            if changes.num_rows:
                yield changes

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line of the file that begins at `offset`. Reads the file up to there."""
        return self._lines.line_at(offset)

    def _inside(self, rows: Rows) -> Flags:
        after, upto = self._window(rows)
        return (rows.ts > after) & (rows.ts <= upto)

    def _count(self, rows: Rows, inside: Flags) -> None:
        after, upto = self._window(rows)
        stat = self.stat
        late = rows.ts[rows.ts > upto]
        next_ts = min(int(late.min()), stat.next_ts or MAX_TSO) if late.size else stat.next_ts
        coarse = rows.ts[inside & ~rows.exact]
        counted = FileStat(
            stat.path,
            stat.rows + rows.count,
            stat.dropped + int(np.count_nonzero(rows.ts <= after)),
            next_ts,
            max(stat.coarse_ts, int(coarse.max())) if coarse.size else stat.coarse_ts,
        )
        self.stat = with_sight(counted, stat, rows.ts, (after, upto), self._piece.seen)

    def _window(self, rows: Rows) -> tuple[Ints, Ints]:
        """The window of each row."""
        exact, coarse = self._piece.exact, self._piece.coarse
        return np.where(rows.exact, exact.after, coarse.after), np.where(rows.exact, exact.upto, coarse.upto)
