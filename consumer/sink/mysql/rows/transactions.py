"""Transactions of one task's connection. Each checks the epoch first, and is retried if that helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pymysql

from consumer.errors import Retryable
from consumer.model import patience
from consumer.model.times import now
from consumer.sink.mysql.progress.epochs import check_epoch, leave_proof, new_proof
from consumer.sink.mysql.server import connection as server
from consumer.sink.mysql.server.connection import connect, greeted, wait_for_locks
from consumer.sink.mysql.server.errors import LOCK_WAIT_TIMEOUT, errno_behind, translate
from consumer.sink.mysql.settings import MySqlSettings

T = TypeVar("T")


class Transactions:
    """Opens its connection with the first transaction, and again after it was lost. Not for several threads."""

    def __init__(self, settings: MySqlSettings, epoch: int, lane: int, driver: int, patience: float = 0.0) -> None:
        self._settings, self._epochs = settings, (epoch, lane, driver)
        self._patience = min(patience, settings.longest_lock_wait)
        self._proofs: list[int] = []
        self._connection: pymysql.Connection | None = None
        self._lock_wait = 0
        self.max_allowed_packet = 0

    def run(
        self,
        table: str,
        work: Callable[[pymysql.cursors.Cursor], T],
        before: Callable[[pymysql.cursors.Cursor], None] = lambda _: None,
        patient: bool = True,
    ) -> T:
        """Do `work` in one transaction and commit it; `before` prepares the session, each time right before the
        transaction begins. Both must bear being repeated from their start.

        What others hold is waited for shortly, and then, where the session has patience, for so long; all transactions
        behind one that waited in vain wait shortly. Who is not `patient` does not try again.

        Raises LeaseHeld at once when the epoch is over, ProgressMoved where the target went back behind it, TargetBusy
        and TargetUnavailable after some seconds, and what `work` raises; then nothing of it has taken effect, but for a
        commit whose answer was lost.
        """
        proof, since, wait = new_proof(), now(), server.SHORT_LOCK_WAIT_SECONDS

        def met(error: Retryable, _: float) -> None:
            nonlocal wait
            left = self._patience - (now() - since)
            if errno_behind(error) != LOCK_WAIT_TIMEOUT:
                return
            if left <= 0:
                self._patience = 0.0
                raise error
            wait = max(wait, min(server.LOCK_WAIT_SECONDS, int(left)))

        seconds = min(patience.WRITE_SECONDS, self._settings.max_wait) if patient else 0
        result = patience.with_retries(lambda: self._once(table, work, before, proof, wait), seconds, met)
        self._proofs.append(proof)
        return result

    def proofs(self) -> tuple[int, ...]:
        """What the transactions since the last call have left in the target."""
        proofs, self._proofs = self._proofs, []
        return tuple(proofs)

    def close(self) -> None:
        """Close the connection; what was not committed is rolled back. It may be called twice."""
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _once(
        self,
        table: str,
        work: Callable[[pymysql.cursors.Cursor], T],
        before: Callable[[pymysql.cursors.Cursor], None],
        proof: int,
        wait: int,
    ) -> T:
        try:
            connection = self._open()
            with connection.cursor() as cursor:
                if wait != self._lock_wait:
                    wait_for_locks(cursor, wait, wait)
                    self._lock_wait = wait
                before(cursor)
                check_epoch(cursor, self._settings.name, *self._epochs)
                result = work(cursor)
                leave_proof(cursor, self._settings.name, proof)
            connection.commit()
        except pymysql.MySQLError as error:
            self._roll_back()
            raise translate(error, "rows", table=table) from error
        except BaseException:
            self._roll_back()
            raise
        return result

    def _open(self) -> pymysql.Connection:
        if self._connection is None:
            connection = connect(self._settings, "dml", loads=True)
            self._connection, self._lock_wait = connection, server.longest_try(self._settings)  # a session's own
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@max_allowed_packet")
                self.max_allowed_packet = int(cursor.fetchone()[0])
        return self._connection

    def _roll_back(self) -> None:
        """Leave the transaction. A connection to TiDB is out of step after a failed LOAD DATA: it is not used again."""
        connection = self._connection
        if connection is None:
            return
        if not connection.open or _is_tidb(connection):
            self.close()
            return
        try:
            connection.rollback()
        except pymysql.MySQLError:
            self.close()


def _is_tidb(connection: pymysql.Connection) -> bool:
    return greeted(connection).name == "tidb"
