"""Writes folded changes to Parquet in the staging folder, on executors. The driver publishes them.

A staged file has ``put`` (or, of a table with no key, ``n``, by how many copies more or fewer, or ``copies``, how many
there must be), ``row``, which identifies the row (see
`fold.identity.identities`), and for each column of the target either ``cN`` of its own type, or ``tN`` as text where a
value is none of that type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from consumer.codec.batches import added_and_removed
from consumer.errors import RowRefused
from consumer.fold.identity import identities
from consumer.model.load import LoadTarget, Receipt
from consumer.model.steps import Window
from consumer.sink.columnar.table import ColumnarTarget, Held
from consumer.sink.columnar.values import to_arrow
from consumer.sink.refused import refused_changes
from consumer.sink.staging import save

SHARED = "use --master local[*], or put the DuckDB file on a file system that all workers share"


@dataclass(frozen=True, slots=True)
class ParquetWriter:
    """`folder` belongs to one load: once it is gone, nothing can be staged in it."""

    folder: str

    @contextmanager
    def session(self) -> Iterator[ParquetSession]:
        yield ParquetSession(self.folder)


class ParquetSession:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def write(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        """Stage puts and deletes by key. The same changes again are the same file again, which counts once.

        Raises RowRefused, LeaseHeld once this writer is locked out, TargetUnavailable where the disk does not take it.
        """
        put = changes.column("put")
        puts = int(pc.sum(pc.cast(put, pa.int64()), min_count=0).as_py())
        staged = self._stage(target, changes, {"put": put})
        return Receipt(puts, changes.num_rows - puts, staged)

    def write_together(self, parts: Sequence[tuple[LoadTarget, pa.Table]]) -> Sequence[Receipt | None]:
        """Each table has files of its own."""
        return [None] * len(parts)

    def write_multiset(self, target: LoadTarget, changes: pa.Table, window: Window) -> Receipt:
        """Stage the net copies of rows of a table with no key; the driver looks whether `window` is already there."""
        return Receipt(*added_and_removed(changes), self._stage(target, changes, {"n": changes.column("n")}))

    def write_copies(self, target: LoadTarget, rows: pa.Table) -> Receipt:
        """Stage how many copies of rows there must be."""
        copies = rows.column("n")
        return Receipt(0, 0, self._stage(target, rows, {"copies": copies}))

    def _stage(self, target: LoadTarget, changes: pa.Table, columns: dict[str, pa.ChunkedArray]) -> str:
        assert isinstance(target.settings, ColumnarTarget)
        for position, (column, held) in enumerate(zip(target.columns, target.settings.held, strict=True)):
            values = changes.column(f"c{position}")
            convert = partial(to_arrow, column, held=held, in_key=position in target.key)
            try:
                typed = convert(values)
            except RowRefused as error:
                raise refused_changes(convert, values, target, changes) from error
            as_text = held is Held.TIME and typed is values
            columns[f"{'t' if as_text else 'c'}{position}"] = typed
        columns["row"] = pa.chunked_array([identities(changes, target.key)])
        return self._save(target, pa.table(columns))

    def _save(self, target: LoadTarget, table: pa.Table) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="snappy", use_dictionary=False, write_statistics=False)
        return save(self._folder, target.table, sink.getvalue(), ".parquet", SHARED)
