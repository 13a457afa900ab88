"""Writers that write into the target's tables at once, as LOAD DATA and REPLACE do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from consumer.errors import LeaseHeld, ProgressMoved, TableMissing
from consumer.model.load import LoadTarget, Receipt
from consumer.model.progress import ProgressChange, TableProgress
from consumer.model.steps import Window
from consumer.target import ArrowTable
from tests.support.memory.sink import MemorySession
from tests.support.memory.store import merge, merge_multiset

if TYPE_CHECKING:
    from tests.simulate.server import Server


@dataclass(frozen=True)
class SimulatedWriter:
    """Writes into the tables at once."""

    server: Server
    epoch: int
    number: int
    known: int
    """The mark of what the driver had written last when the load began."""

    @contextmanager
    def session(self, patience: float = 0.0) -> Iterator[SimulatedSession]:
        yield SimulatedSession(self)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a writer of the simulation stays in its process")


class SimulatedSession(MemorySession):
    def __init__(self, writer: SimulatedWriter) -> None:
        super().__init__(writer.server.store, writer.epoch, writer.number)
        self._server, self._known = writer.server, writer.known

    def write(self, target: LoadTarget, changes: ArrowTable) -> Receipt:
        table = self._check(target)
        rows = changes.to_pylist()
        merge(table, target, rows)
        puts = sum(row["put"] for row in rows)
        return Receipt(puts, len(rows) - puts, proofs=self._proofs())

    def write_multiset(self, target: LoadTarget, changes: ArrowTable, window: Window) -> Receipt:
        table, server = self._check(target), self._server
        rows = changes.to_pylist()
        added = sum(max(row["n"], 0) for row in rows)
        known = server.progress
        if known.table(target.table).applied_ts < window.end:
            merge_multiset(table, target, rows)
            place = TableProgress.moved(window.end)
            server.store.progress["default"] = known.after(ProgressChange(tables={target.table: place}))
        return Receipt(added, added - sum(row["n"] for row in rows), proofs=self._proofs())

    def write_copies(self, target: LoadTarget, rows: ArrowTable) -> Receipt:
        merge_multiset(self._check(target), target, [{**row, "copies": row["n"]} for row in rows.to_pylist()])
        return Receipt(0, 0, proofs=self._proofs())

    def _proofs(self) -> tuple[int, ...]:
        proof = self._server.mark()
        self._server.keep_past()
        return (proof,)

    def _check(self, target: LoadTarget) -> Any:
        server = self._server
        server.check_up()
        server.check_lock([target.table])
        if self._number not in server.store.at_work:
            raise LeaseHeld("this writer was locked out")
        if not server.has(self._known):
            raise ProgressMoved("the target has lost what was there when this load began")
        if target.table not in server.store.tables:
            raise TableMissing("the table is gone since the load began", table=str(target.table))
        return server.store.tables[target.table]
