"""The executors' side of the sink: a session writes folded changes through one connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.model.load import LoadTarget, Receipt
from consumer.model.steps import Window
from consumer.sink.mysql import multiset, replace
from consumer.sink.mysql.batches import pieces
from consumer.sink.mysql.deletes import delete_statements
from consumer.sink.mysql.load_data import NotLoaded, load
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.transactions import Transactions
from consumer.sink.mysql.values import by_key, error_values, mysql_target

_PUT_ROWS = 100_000
_PUT_BYTES = 32 << 20
_DELETE_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class MySqlWriter:
    """Opens sessions that write while `epoch` is in force."""

    settings: MySqlSettings
    epoch: int

    def session(self) -> MySqlSession:
        return MySqlSession(self.settings, self.epoch)


@dataclass(frozen=True, slots=True)
class _Batch:
    """What goes into one transaction: `deletes` first."""

    puts: pa.Table | None
    deletes: pa.Table | None


class MySqlSession:
    """A ports.WriteSession. It connects when there is something to write.

    Raises, beside what the port names: LeaseHeld, TargetBusy, TargetUnavailable, BadConfig, RowRefused, SchemaDrift,
    TableMissing, CorruptFile.
    """

    def __init__(self, settings: MySqlSettings, epoch: int) -> None:
        self._settings, self._epoch = settings, epoch
        self._transactions = Transactions(settings, epoch)
        self._local_infile = True

    def __enter__(self) -> MySqlSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transactions.close()

    def write(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        """REPLACE the puts and delete the deleted keys, in transactions of bounded size, all deletes first."""
        is_put = changes.column("put")
        rows = changes.select([f"c{position}" for position in range(len(target.columns))])
        puts = by_key(target, rows.filter(is_put))
        deletes = by_key(target, rows.filter(pc.invert(is_put)).select([f"c{position}" for position in target.key]))
        for batch in _batches(puts, deletes):
            self._write(target, batch)
        return Receipt(puts=puts.num_rows, deletes=deletes.num_rows)

    def write_multiset(self, target: LoadTarget, changes: pa.Table, window: Window) -> Receipt:
        """Count copies up and down, and record the progress, in one transaction."""
        if not changes.num_rows:
            return Receipt(puts=0, deletes=0)

        def work(cursor: pymysql.cursors.Cursor) -> Receipt:
            packet = self._transactions.max_allowed_packet
            return multiset.apply(cursor, self._settings, self._epoch, target, changes, window, packet)

        return self._transactions.run(str(target.table), work)

    def _write(self, target: LoadTarget, batch: _Batch) -> None:
        if self._can_load(target, batch.puts):
            try:
                self._transactions.run(str(target.table), lambda cursor: _load(cursor, target, batch, self._packet))
                return
            except NotLoaded as reason:
                self._local_infile = not reason.switched_off
        self._transactions.run(str(target.table), lambda cursor: _replace(cursor, target, batch, self._packet))

    @property
    def _packet(self) -> int:
        return self._transactions.max_allowed_packet

    def _can_load(self, target: LoadTarget, puts: pa.Table | None) -> bool:
        """LOAD DATA is quicker for any number of rows. TiDB's is optimistic: it fails where two meet at a key."""
        settings = mysql_target(target)
        safe = settings.flavor != "tidb" or not settings.secondary_unique
        return puts is not None and safe and settings.local_infile and self._local_infile


def _batches(puts: pa.Table, deletes: pa.Table) -> Iterator[_Batch]:
    """Every delete comes before the first put, or with it."""
    *early, last = chain([None], pieces(deletes, _DELETE_ROWS, _PUT_BYTES))
    first, *later = chain(pieces(puts, _PUT_ROWS, _PUT_BYTES) if puts.num_rows else [None])
    yield from (_Batch(None, piece) for piece in early if piece is not None)
    if first is not None or last is not None:
        yield _Batch(first, last)
    yield from (_Batch(piece, None) for piece in later)


def _load(cursor: pymysql.cursors.Cursor, target: LoadTarget, batch: _Batch, packet: int) -> None:
    _delete(cursor, target, batch.deletes)
    assert batch.puts is not None
    odd = pc.greater(error_values(target, batch.puts), 0)
    if pc.any(odd).as_py():
        replace.put(cursor, target, batch.puts.filter(odd), packet)
        load(cursor.connection, target, batch.puts.filter(pc.invert(odd)))
    else:
        load(cursor.connection, target, batch.puts)


def _replace(cursor: pymysql.cursors.Cursor, target: LoadTarget, batch: _Batch, packet: int) -> None:
    _delete(cursor, target, batch.deletes)
    if batch.puts is not None:
        replace.put(cursor, target, batch.puts, packet)


def _delete(cursor: pymysql.cursors.Cursor, target: LoadTarget, deletes: pa.Table | None) -> None:
    if deletes is not None:
        for statement in delete_statements(target, deletes):
            cursor.execute(statement)
