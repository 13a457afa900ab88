"""The executors' side of the sink. A session writes folded changes through one connection. Or it stages them in files,
each an Arrow file of the session's own rows, until the driver writes all rows of a round in one transaction."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.codec.change_table import added_and_removed
from consumer.errors import StagedRowsGone
from consumer.model.load import LoadTarget, Receipt
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.sink.mysql.progress.epochs import LOADS
from consumer.sink.mysql.rows import multiset
from consumer.sink.mysql.rows.staged import begin_unlocked
from consumer.sink.mysql.rows.statements import by_statements, row_slices
from consumer.sink.mysql.rows.transactions import Transactions
from consumer.sink.mysql.rows.values import by_key, check_values, refused_row_named
from consumer.sink.mysql.rows.write import (
    DELETE_ROWS,
    NEIGHBOURS_ROWS,
    PUT_BYTES,
    PUT_ROWS,
    NotLoaded,
    Put,
    by_load_data,
    can_load,
    make_stages,
    write_rows,
)
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.tables.blanks import end_in_blanks, look_for_blanks, may_lose
from consumer.sink.mysql.target import mysql_target
from consumer.sink.staging import save

_SHARED_FOLDER = "use --master local[*], or name a folder that all workers share: staging=.. in --downstream-uri"
_KIND = b"kind"


@dataclass(frozen=True, slots=True)
class MySqlWriter:
    """Opens sessions that write while `epoch` is in force in `lane`, and the driver's lane is not below `driver`.
    `folder` is where they stage rows. "" says that they write them directly."""

    settings: MySqlSettings
    epoch: int
    lane: int = LOADS
    driver: int = 0
    folder: str = ""

    def session(self, patience: float = 0.0) -> closing[MySqlSession]:
        return closing(MySqlSession(self, patience))


@dataclass(frozen=True, slots=True)
class _Batch:
    """The content of one transaction. `deletes` come first."""

    puts: pa.Table | None
    deletes: pa.Table | None

    @property
    def rows(self) -> tuple[int, int]:
        """Returns the numbers of puts and of deletes."""
        puts, deletes = (0 if rows is None else rows.num_rows for rows in (self.puts, self.deletes))
        return puts, deletes


class MySqlSession:
    """A target.WriteSession. It connects when there is something to write.

    In addition to the port's errors it raises LeaseHeld, ProgressMoved, TargetBusy, TargetUnavailable, BadConfig,
    RowRefused, SchemaDrift, TableMissing, CorruptFile, CannotBeExact.
    """

    def __init__(self, writer: MySqlWriter, patience: float = 0.0) -> None:
        self._settings, self._epoch, self._folder = writer.settings, writer.epoch, writer.folder
        self._transactions = Transactions(writer.settings, writer.epoch, writer.lane, writer.driver, patience)
        self._local_infile = True
        self._looked: set[TableName] = set()

    def close(self) -> None:
        self._transactions.close()

    def write(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        """Replaces the puts and deletes the deleted keys, in transactions of bounded size, all deletes first. It uses
        one transaction if all rows must be there before one is written."""
        with refused_row_named(target, changes):
            return self._write_all(target, changes)

    def _write_all(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        if not changes.num_rows:
            return Receipt(puts=0, deletes=0)
        puts, deletes = puts_and_deletes(target, changes)
        self._beware_of_blanks(target, puts)
        if self._folder:
            return self._staged(target, StagedKind.CHANGES, changes, puts.num_rows, deletes.num_rows)
        batches = (
            [_Batch(puts if puts.num_rows else None, deletes)]
            if target.in_one_call
            else _batches(target, puts, deletes)
        )
        defaulted = sum(self._write(target, batch) for batch in batches)
        proofs = self._transactions.proofs()
        return Receipt(puts=puts.num_rows, deletes=deletes.num_rows, defaulted=defaulted, proofs=proofs)

    def write_packed(self, parts: Sequence[tuple[LoadTarget, pa.Table]]) -> Sequence[Receipt | None]:
        """Writes in one transaction the parts that take one and need no stage: for small tables most of the time is
        overhead."""
        batches: dict[int, tuple[LoadTarget, _Batch]] = {}
        for number, (target, changes) in enumerate(() if self._folder else parts):
            puts, deletes = puts_and_deletes(target, changes)
            self._beware_of_blanks(target, puts)
            table_batches = list(_batches(target, puts, deletes))
            if len(table_batches) == 1 and _is_plain(target):
                batches[number] = target, table_batches[0]
        receipts: dict[int, Receipt] = {}
        if len(batches) > 1 and self._written(list(batches.values())):
            proofs = self._transactions.proofs()
            receipts = {number: Receipt(*batch.rows, proofs=proofs) for number, (_, batch) in batches.items()}
        return [receipts.get(number) for number in range(len(parts))]

    def _written(self, batches: Sequence[tuple[LoadTarget, _Batch]]) -> bool:
        """Writes the batches in one transaction, tried once. While it waits for a lock, it holds the locks of the other
        tables' rows, so it does not wait long."""

        def work(cursor: pymysql.cursors.Cursor) -> None:
            for target, batch in batches:
                self._write_batch(cursor, target, batch, self._put(target, shared=True))

        first = batches[0][0]
        try:
            self._transactions.run(
                str(first.table), work, lambda cursor: begin_unlocked(cursor, mysql_target(first).server), patient=False
            )
        except NotLoaded as reason:
            self._transactions.close()
            self._local_infile = not reason.switched_off
            return False
        except BaseException:
            self._transactions.close()
            raise
        return True

    def _staged(self, target: LoadTarget, kind: StagedKind, rows: pa.Table, puts: int, deletes: int) -> Receipt:
        """Stages `rows` in a file, after a check that their values can be written."""
        check_values(target, rows)
        return Receipt(
            puts, deletes, stage_rows(self._folder, target.table, kind, rows), proofs=self._transactions.proofs()
        )

    def _beware_of_blanks(self, target: LoadTarget, puts: pa.Table) -> None:
        """Raises RowsCollide if a text of the unique keys ends in a blank, in the table or in `puts`: REPLACE could
        lose a row then."""
        if not puts.num_rows:
            return
        here = end_in_blanks(target, puts)
        if not here and not mysql_target(target).looked and target.table not in self._looked:
            here = self._transactions.run(str(target.table), lambda cursor: look_for_blanks(cursor, target))
            self._looked.add(target.table)
        if here and not mysql_target(target).is_staged:
            raise may_lose(target)

    def write_multiset(self, target: LoadTarget, changes: pa.Table, window: Window) -> Receipt:
        """Changes the counts of copies and records the progress, in one transaction."""
        if not changes.num_rows:
            return Receipt(puts=0, deletes=0)
        self._beware_of_blanks(target, changes)
        if self._folder:
            with refused_row_named(target, changes):
                return self._staged(target, StagedKind.NET, changes, *added_and_removed(changes))

        def work(cursor: pymysql.cursors.Cursor) -> Receipt:
            packet = self._transactions.max_allowed_packet
            return multiset.apply_counts(cursor, self._settings, self._epoch, target, changes, window, packet)

        with refused_row_named(target, changes):
            receipt = self._transactions.run(str(target.table), work)
        return dataclasses.replace(receipt, proofs=self._transactions.proofs())

    def write_copies(self, target: LoadTarget, rows: pa.Table) -> Receipt:
        """Writes in transactions of bounded size."""
        added = removed = 0
        with refused_row_named(target, rows):
            if self._folder:
                return self._staged(target, StagedKind.COPIES, rows, 0, 0)
            for piece in row_slices(rows, DELETE_ROWS, PUT_BYTES):
                more, less = self._transactions.run(str(target.table), partial(self._make_copies, target, piece))
                added, removed = added + more, removed + less
        return Receipt(added, removed, proofs=self._transactions.proofs())

    def _make_copies(self, target: LoadTarget, rows: pa.Table, cursor: pymysql.cursors.Cursor) -> tuple[int, int]:
        return multiset.make_copies(cursor, target, rows, self._transactions.max_allowed_packet)

    def _write(self, target: LoadTarget, batch: _Batch) -> int:
        """Returns how many of the rows got the target's defaults."""
        if batch.puts is not None and self._put(target) is by_load_data:
            try:
                return self._in_transaction(target, batch, by_load_data)
            except NotLoaded as reason:
                self._local_infile = not reason.switched_off
        return self._in_transaction(target, batch, by_statements)

    def _put(self, target: LoadTarget, shared: bool = False) -> Put:
        return by_load_data if self._local_infile and can_load(target, shared) else by_statements

    def _in_transaction(self, target: LoadTarget, batch: _Batch, put: Put) -> int:
        def work(cursor: pymysql.cursors.Cursor) -> int:
            return self._write_batch(cursor, target, batch, put)

        has_puts = batch.puts is not None
        return self._transactions.run(str(target.table), work, lambda cursor: make_stages(cursor, target, has_puts))

    def _write_batch(self, cursor: pymysql.cursors.Cursor, target: LoadTarget, batch: _Batch, put: Put) -> int:
        puts, deletes = (([] if rows is None else [rows]) for rows in (batch.puts, batch.deletes))
        return write_rows(cursor, target, puts, deletes, self._transactions.max_allowed_packet, put)


def _is_plain(target: LoadTarget) -> bool:
    """Returns whether the rows are written without a stage or an end of versions."""
    return not mysql_target(target).is_staged and target.ending is None


def puts_and_deletes(target: LoadTarget, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Returns the rows to write, and the keys of the rows to remove. Raises CorruptFile."""
    is_put = changes.column("put")
    rows = changes.select([f"c{position}" for position in range(len(target.columns))])
    keys = rows.select([f"c{position}" for position in target.key])
    if pc.all(is_put).as_py():
        return by_key(target, rows), keys.slice(rows.num_rows)
    return by_key(target, rows.filter(is_put)), by_key(target, keys.filter(pc.invert(is_put)))


def _batches(target: LoadTarget, puts: pa.Table, deletes: pa.Table) -> Iterator[_Batch]:
    """Yields batches. Every delete comes before the first put, or with it."""
    most = NEIGHBOURS_ROWS if mysql_target(target).secondary_unique else PUT_ROWS
    *early, last = chain([None], row_slices(deletes, min(most, DELETE_ROWS), PUT_BYTES))
    first, *later = chain(row_slices(puts, most, PUT_BYTES) if puts.num_rows else [None])
    yield from (_Batch(None, piece) for piece in early if piece is not None)
    if first is not None or last is not None:
        yield _Batch(first, last)
    yield from (_Batch(piece, None) for piece in later)


class StagedKind(StrEnum):
    """What the rows of a file require, as the calls of a WriteSession do: puts and deletes by key, net changes of a
    table with no key, or how many copies of a row must exist."""

    CHANGES = "changes"
    NET = "net"
    COPIES = "copies"


def stage_rows(folder: str, table: TableName, kind: StagedKind, rows: pa.Table) -> str:
    """Stages `rows` of `table` in the folder of a load, and returns the path of their file. Raises as
    `staging.save`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema.with_metadata({_KIND: kind.encode()})) as file:
        file.write_table(rows)
    return save(folder, table, sink.getvalue(), ".arrow", _SHARED_FOLDER)


def read_staged_rows(path: str) -> tuple[StagedKind, pa.Table]:
    """Returns the rows of a file. They are memory-mapped, so the system can drop their pages. Raises StagedRowsGone."""
    try:
        with pa.memory_map(path) as file:
            rows = pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise StagedRowsGone(
            f"staged rows are gone or damaged: {error}",
            hint="run again: nothing was published, and the rows are staged again",
        ) from error
    return StagedKind(rows.schema.metadata[_KIND].decode()), rows.replace_schema_metadata(None)
