"""The executors' side of the sink: a session writes folded changes through one connection."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.model.load import LoadTarget, Receipt
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.sink.mysql.progress.epochs import LOADS
from consumer.sink.mysql.rows import multiset, replace
from consumer.sink.mysql.rows.batches import pieces
from consumer.sink.mysql.rows.blank_puts import end_in_blanks, look_for_blanks, may_lose, record_blanks
from consumer.sink.mysql.rows.deletes import delete_statements
from consumer.sink.mysql.rows.load_data import NotLoaded, load
from consumer.sink.mysql.rows.no_values import rows_told
from consumer.sink.mysql.rows.staged import is_staged, make_stage, staged, write_staged
from consumer.sink.mysql.rows.transactions import Transactions
from consumer.sink.mysql.rows.values import by_key, error_values, mysql_target
from consumer.sink.mysql.settings import MySqlSettings

_PUT_ROWS = 100_000
_PUT_BYTES = 32 << 20
_DELETE_ROWS = 20_000
_Put = Callable[[pymysql.cursors.Cursor, LoadTarget, pa.Table, int], None]
"""Writes rows into a target: by LOAD DATA, or by statements."""


@dataclass(frozen=True, slots=True)
class MySqlWriter:
    """Opens sessions that write while `epoch` is in force in `lane`, where the driver's lane is not below `driver`."""

    settings: MySqlSettings
    epoch: int
    lane: int = LOADS
    driver: int = 0

    def session(self) -> MySqlSession:
        return MySqlSession(self)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The content of one transaction: `deletes` come first."""

    puts: pa.Table | None
    deletes: pa.Table | None


class MySqlSession:
    """A ports.WriteSession. It connects when there is something to write.

    Raises, beside what the port names: LeaseHeld, ProgressMoved, TargetBusy, TargetUnavailable, BadConfig, RowRefused,
    SchemaDrift, TableMissing, CorruptFile, CannotBeExact.
    """

    def __init__(self, writer: MySqlWriter) -> None:
        self._settings, self._epoch = writer.settings, writer.epoch
        self._transactions = Transactions(writer.settings, writer.epoch, writer.lane, writer.driver)
        self._local_infile = True
        self._looked: set[TableName] = set()

    def __enter__(self) -> MySqlSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transactions.close()

    def write(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        """REPLACE the puts and delete the deleted keys, in transactions of bounded size, all deletes first; in one
        transaction where all rows must be there before one is written."""
        with rows_told(target, changes):
            return self._write_all(target, changes)

    def _write_all(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        if not changes.num_rows:
            return Receipt(puts=0, deletes=0)
        is_put = changes.column("put")
        rows = changes.select([f"c{position}" for position in range(len(target.columns))])
        puts = by_key(target, rows.filter(is_put))
        deletes = by_key(target, rows.filter(pc.invert(is_put)).select([f"c{position}" for position in target.key]))
        self._beware_of_blanks(target, puts)
        batches = [_Batch(puts if puts.num_rows else None, deletes)] if target.whole else _batches(puts, deletes)
        defaulted = sum(self._write(target, batch) for batch in batches)
        proofs = self._transactions.proofs()
        return Receipt(puts=puts.num_rows, deletes=deletes.num_rows, defaulted=defaulted, proofs=proofs)

    def _beware_of_blanks(self, target: LoadTarget, puts: pa.Table) -> None:
        """REPLACE loses no row as long as no text of its keys ends in a blank, there or here."""
        if not puts.num_rows:
            return
        here = end_in_blanks(target, puts)
        if not here and not mysql_target(target).looked and target.table not in self._looked:
            here = self._transactions.run(str(target.table), lambda cursor: look_for_blanks(cursor, target))
            self._looked.add(target.table)
        if here and not is_staged(target):
            raise may_lose(target)

    def write_multiset(self, target: LoadTarget, changes: pa.Table, window: Window) -> Receipt:
        """Count copies up and down, and record the progress, in one transaction."""
        if not changes.num_rows:
            return Receipt(puts=0, deletes=0)
        self._beware_of_blanks(target, changes)

        def work(cursor: pymysql.cursors.Cursor) -> Receipt:
            packet = self._transactions.max_allowed_packet
            return multiset.apply(cursor, self._settings, self._epoch, target, changes, window, packet)

        with rows_told(target, changes):
            receipt = self._transactions.run(str(target.table), work)
        return dataclasses.replace(receipt, proofs=self._transactions.proofs())

    def write_copies(self, target: LoadTarget, rows: pa.Table) -> Receipt:
        """In transactions of bounded size."""
        added = removed = 0
        with rows_told(target, rows):
            for piece in pieces(rows, _DELETE_ROWS, _PUT_BYTES):
                more, less = self._transactions.run(str(target.table), partial(self._make_copies, target, piece))
                added, removed = added + more, removed + less
        return Receipt(added, removed, proofs=self._transactions.proofs())

    def _make_copies(self, target: LoadTarget, rows: pa.Table, cursor: pymysql.cursors.Cursor) -> tuple[int, int]:
        return multiset.make_copies(cursor, target, rows, self._transactions.max_allowed_packet)

    def _write(self, target: LoadTarget, batch: _Batch) -> int:
        """Returns how many of the rows took the target's defaults."""
        if self._can_load(target, batch.puts):
            try:
                return self._in_transaction(target, batch, _load)
            except NotLoaded as reason:
                self._local_infile = not reason.switched_off
        return self._in_transaction(target, batch, replace.put)

    def _in_transaction(self, target: LoadTarget, batch: _Batch, put: _Put) -> int:
        def work(cursor: pymysql.cursors.Cursor) -> int:
            for deletes in () if batch.deletes is None else pieces(batch.deletes, _DELETE_ROWS, _PUT_BYTES):
                for statement in delete_statements(target, deletes):
                    cursor.execute(statement)
            if batch.puts is None:
                return 0
            if not is_staged(target):
                put(cursor, target, batch.puts, self._transactions.max_allowed_packet)
                return 0
            for piece in pieces(batch.puts, _PUT_ROWS, _PUT_BYTES):
                put(cursor, staged(target), piece, self._transactions.max_allowed_packet)
            if end_in_blanks(target, batch.puts):
                record_blanks(cursor, target, True)
            with replace.not_strict(cursor) if _has_odd(target, batch.puts) else nullcontext():
                return write_staged(cursor, target)

        def before(cursor: pymysql.cursors.Cursor) -> None:
            if is_staged(target) and batch.puts is not None:
                make_stage(cursor, target)

        return self._transactions.run(str(target.table), work, before)

    def _can_load(self, target: LoadTarget, puts: pa.Table | None) -> bool:
        """LOAD DATA is quicker for any number of rows. TiDB's is optimistic: it fails where two meet at a key."""
        settings = mysql_target(target)
        safe = settings.flavor != "tidb" or not (settings.secondary_unique or is_staged(target))
        return puts is not None and safe and settings.local_infile and self._local_infile


def _batches(puts: pa.Table, deletes: pa.Table) -> Iterator[_Batch]:
    """Every delete comes before the first put, or with it."""
    *early, last = chain([None], pieces(deletes, _DELETE_ROWS, _PUT_BYTES))
    first, *later = chain(pieces(puts, _PUT_ROWS, _PUT_BYTES) if puts.num_rows else [None])
    yield from (_Batch(None, piece) for piece in early if piece is not None)
    if first is not None or last is not None:
        yield _Batch(first, last)
    yield from (_Batch(piece, None) for piece in later)


def _load(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: pa.Table, packet: int) -> None:
    odd = pc.greater(error_values(target, puts), 0)
    if pc.any(odd).as_py():
        replace.put(cursor, target, puts.filter(odd), packet)
        puts = puts.filter(pc.invert(odd))
    load(cursor.connection, target, puts)


def _has_odd(target: LoadTarget, puts: pa.Table) -> bool:
    return bool(pc.any(pc.greater(error_values(target, puts), 0)).as_py())
