"""Writes folded changes to Parquet in the staging folder, on executors. The driver publishes them.

A staged file has ``put`` (or, of a table with no key, ``n``, by how many copies more or fewer, or ``copies``, how many
there must be), ``row``, which identifies the row (see
`fold.identity.identities`), and for each column of the target either ``cN`` of its own type, or ``tN`` as text where a
value is none of that type.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from consumer.errors import BadConfig, ConsumerError, LeaseHeld, RowRefused, TargetUnavailable
from consumer.fold.identity import identities
from consumer.model.load import LoadTarget, Receipt
from consumer.model.steps import Window
from consumer.sink.columnar.table import ColumnarTarget, Held
from consumer.sink.columnar.values import to_arrow
from consumer.sink.refused import refused_changes


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

    def write_multiset(self, target: LoadTarget, changes: pa.Table, window: Window) -> Receipt:
        """Stage the net copies of rows of a table with no key; the driver looks whether `window` is already there."""
        copies = changes.column("n")
        added = pc.sum(pc.filter(copies, pc.greater(copies, 0)), min_count=0).as_py()
        removed = pc.sum(pc.filter(copies, pc.less(copies, 0)), min_count=0).as_py()
        staged = self._stage(target, changes, {"n": copies})
        return Receipt(int(added), -int(removed), staged)

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
        return self._save(pa.table(columns))

    def _save(self, table: pa.Table) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="snappy", use_dictionary=False, write_statistics=False)
        content = sink.getvalue()
        path = os.path.join(self._folder, hashlib.blake2b(content, digest_size=16).hexdigest() + ".parquet")
        written = f"{path}.{os.getpid()}.{id(self)}"
        try:
            with pa.OSFile(written, "wb") as file:
                file.write(content)
            os.replace(written, path)
        except FileNotFoundError as error:
            raise self._without_folder() from error
        except OSError as error:
            raise TargetUnavailable(
                f"the staging folder {self._folder} cannot be written: {error}", hint="make room, then run again"
            ) from error
        return path

    def _without_folder(self) -> ConsumerError:
        staging = os.path.dirname(os.path.dirname(self._folder))
        if os.path.isdir(staging):
            return LeaseHeld(
                f"this writer was locked out: its folder {self._folder} is gone", hint="the load is tried again"
            )
        return BadConfig(
            f"a Spark worker does not see the folder {staging}, in which rows are staged",
            hint="use --master local[*], or put the DuckDB file on a file system that all workers share",
        )
