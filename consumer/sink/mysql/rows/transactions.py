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
from consumer.sink.mysql.server.connection import connect_to_server, flavor_from_greeting, wait_for_locks
from consumer.sink.mysql.server.errors import LOCK_WAIT_TIMEOUT, server_errno, server_error
from consumer.sink.mysql.settings import MySqlSettings

T = TypeVar("T")


class Transactions:
    """Opens its connection with the first transaction, and again after a loss. One thread uses it."""

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
        """Does `work` in one transaction and commits it. `before` prepares the session each time right before the
        transaction begins. Both must be repeatable from their start.

        A lock of others is first waited for shortly. Then it is waited for as long as the session's patience allows.
        After a wait in vain, all later transactions wait only shortly. Without `patient` nothing is retried.

        Raises LeaseHeld at once when the epoch is over, ProgressMoved if the target moved backwards, TargetBusy and
        TargetUnavailable after some seconds, and the errors of `work`. Then nothing of it has taken effect, except
        after a commit whose answer was lost.
        """
        proof, since, wait = new_proof(), now(), server.SHORT_LOCK_WAIT_SECONDS

        def before_retry(error: Retryable, _: float) -> None:
            nonlocal wait
            remaining_seconds = self._patience - (now() - since)
            if server_errno(error) != LOCK_WAIT_TIMEOUT:
                return
            if remaining_seconds <= 0:
                self._patience = 0.0
                raise error
            wait = max(wait, min(server.LOCK_WAIT_SECONDS, int(remaining_seconds)))

        seconds = min(patience.WRITE_SECONDS, self._settings.max_wait) if patient else 0
        result = patience.with_retries(lambda: self._once(table, work, before, proof, wait), seconds, before_retry)
        self._proofs.append(proof)
        return result

    def proofs(self) -> tuple[int, ...]:
        """Returns the proofs that the transactions since the last call have left in the target."""
        proofs, self._proofs = self._proofs, []
        return tuple(proofs)

    def close(self) -> None:
        """Closes the connection. Uncommitted changes are rolled back. It may be called twice."""
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
            raise server_error(error, "rows", table=table) from error
        except BaseException:
            self._roll_back()
            raise
        return result

    def _open(self) -> pymysql.Connection:
        if self._connection is None:
            connection = connect_to_server(self._settings, "dml", loads=True)
            self._connection, self._lock_wait = connection, server.longest_try(self._settings)  # a session's own
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@max_allowed_packet")
                self.max_allowed_packet = int(cursor.fetchone()[0])
        return self._connection

    def _roll_back(self) -> None:
        """Ends the transaction. A connection to TiDB is out of step after a failed LOAD DATA, so it is not used
        again."""
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
    return flavor_from_greeting(connection).name == "tidb"
