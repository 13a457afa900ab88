"""One writer at a time.

Liveness is a server lock (GET_LOCK) on a connection of its own: the server frees it when the holder dies, so the next
run begins at once. Fencing is an epoch row: every write transaction holds a share lock on it until it commits, and who
takes over raises the epoch by an UPDATE, which waits for those transactions: also for the statement of a killed client,
which a server finishes. A client that is gone without a word has no statement: the server ends its transaction after
SILENCE_SECONDS.

Epochs are kept by lane. The driver has one, its statements have one, and each load that is under way has one: the end
of a load raises that one alone, so an attempt that comes late is refused, and other loads go on.
"""

from __future__ import annotations

import hashlib
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from consumer.errors import ConsumerError, LeaseHeld
from consumer.sink.mysql.connection import SESSION_MARK, Flavor, Purpose, check_session, connect
from consumer.sink.mysql.errors import translate
from consumer.sink.mysql.settings import MySqlSettings

TIDB_SLOTS = 64
"""Rows of a lane. TiDB has no share locks: a transaction locks one of them at random, a new epoch locks them all. Other
servers have the first alone."""

DRIVER, STATEMENTS, LOADS = 0, 1, 2
"""Lanes: the driver's own transactions, statements while they run, and the first of the loads'."""

_WAIT_SECONDS = 5
_HEARTBEAT_SECONDS = 15
_FENCE_WAIT_SECONDS = 1500
_LAST_STATEMENTS_SECONDS = 5


def check_epoch(
    cursor: pymysql.cursors.Cursor, name: str, epoch: int, lane: int = DRIVER, purpose: Purpose = "dml"
) -> None:
    """First statement of every write transaction: raises LeaseHeld unless `epoch` is the one in force in `lane`, and
    keeps it in force until the transaction ends. Raises BadConfig in a session that is not ours for `purpose`.
    pymysql's errors pass through."""
    tidb = _slots(cursor) > 1
    cursor.execute(
        f"SELECT epoch, holder, since, {SESSION_MARK} FROM storage_consumer.lease WHERE name = %s AND slot = %s "
        + ("FOR UPDATE" if tidb else "LOCK IN SHARE MODE"),
        (name, lane * TIDB_SLOTS + (random.randrange(TIDB_SLOTS) if tidb else 0)),
    )
    row = cursor.fetchone()
    if row is not None:
        check_session(row[3], purpose)
    if row is not None and row[0] > epoch and lane >= LOADS:
        raise LeaseHeld("this writer comes too late: its load has ended, or another consumer has taken over")
    if row is None or row[0] != epoch:
        holder = f"{row[1]} since {row[2]} UTC" if row else "nobody: its progress was removed"
        raise LeaseHeld(
            f"the consumer {name!r} was taken over by {holder}",
            hint="end the other one, then run again: only one consumer of a name can run",
        )


def raise_epoch(cursor: pymysql.cursors.Cursor, name: str, held: int | None) -> int:
    """Lock out all writers of earlier epochs, once their transactions have ended; returns the epoch of every lane now.

    `held` is the epoch that must be in force (None: any, the caller has the server lock). Raises LeaseHeld. The caller
    commits.
    """
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (_FENCE_WAIT_SECONDS,))
    for lane in (DRIVER, STATEMENTS):
        _make_lane(cursor, name, lane)
    cursor.execute("SELECT MAX(epoch) FROM storage_consumer.lease WHERE name = %s FOR UPDATE", (name,))
    epoch = int(cursor.fetchone()[0])
    if held is not None:
        check_epoch(cursor, name, held)
    cursor.execute(
        "UPDATE storage_consumer.lease SET epoch = %s, holder = %s, since = UTC_TIMESTAMP(3) WHERE name = %s",
        (epoch + 1, holder_text(), name),
    )
    return epoch + 1


def raise_lane(cursor: pymysql.cursors.Cursor, name: str, lane: int) -> int:
    """Lock out the writers of one load, once their transactions have ended; returns the lane's epoch now. The caller
    holds the driver's epoch, and commits."""
    _make_lane(cursor, name, lane)
    slots = (lane * TIDB_SLOTS, (lane + 1) * TIDB_SLOTS - 1)
    cursor.execute(
        "UPDATE storage_consumer.lease SET epoch = epoch + 1 WHERE name = %s AND slot BETWEEN %s AND %s", (name, *slots)
    )
    cursor.execute(
        "SELECT MAX(epoch) FROM storage_consumer.lease WHERE name = %s AND slot BETWEEN %s AND %s", (name, *slots)
    )
    return int(cursor.fetchone()[0])


def _make_lane(cursor: pymysql.cursors.Cursor, name: str, lane: int) -> None:
    first = lane * TIDB_SLOTS
    cursor.executemany(
        "INSERT IGNORE INTO storage_consumer.lease (name, slot, epoch, holder, since) VALUES (%s, %s, %s, %s, %s)",
        [(name, slot, 0, holder_text(), "1970-01-01") for slot in range(first, first + _slots(cursor))],
    )


def holder_text() -> str:
    """Who this process is, for whoever finds the lease held."""
    return f"{socket.gethostname()[:200]} (pid {os.getpid()})"


def lock_name(name: str) -> str:
    """The server lock of the consumer `name`."""
    return "storage_consumer." + hashlib.sha256(name.encode()).hexdigest()[:40]


class LeaseLock:
    """The server lock of one consumer name, held from `take` to `release` on a connection of its own.

    A thread keeps the connection from idling: where this process's machine dies without a word, the server frees the
    lock after SILENCE_SECONDS. Where the connection is lost, the thread takes the lock again; if another consumer
    was faster, the epoch stops this one.
    """

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings
        self._lock_name = lock_name(settings.name)
        self._connection: pymysql.Connection | None = None
        self._in_use = threading.Lock()
        self._guards = 0
        self._epoch = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> None:
        """Raises LeaseHeld when it is not free within a few seconds, TargetUnavailable, BadConfig."""
        connection = connect(self._settings, "dml", autocommit=True)
        try:
            if not self._get(connection, _WAIT_SECONDS):
                raise LeaseHeld(
                    f"another consumer named {self._settings.name!r} is at work: {self._holder(connection)}",
                    hint="wait until it has ended, or end it; another --name is for another upstream, not for the same"
                    " tables",
                )
        except pymysql.MySQLError as error:
            connection.close()
            raise translate(error, "start") from error
        except LeaseHeld:
            connection.close()
            raise
        self._connection = connection
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    @contextmanager
    def guarding(self, epoch: int) -> Iterator[None]:
        """While it lasts nobody takes over: whoever tries waits for the transaction that is open meanwhile. Statements
        commit by themselves, so their own connections cannot hold the epoch. For several threads. Raises LeaseHeld."""
        with self._in_use:
            self._epoch = epoch
            if not self._guards:
                self._begin_guard(self._connected())
            self._guards += 1
        try:
            yield
        finally:
            with self._in_use:
                self._guards -= 1
                if not self._guards and self._connection is not None and self._connection.open:
                    self._end_guard(self._connection)

    def release(self) -> None:
        """Free the lock. It may be called twice. A statement that still runs is waited for, for some seconds: nobody
        is to take over between its guard and itself."""
        deadline = time.monotonic() + _LAST_STATEMENTS_SECONDS
        while self._guards and time.monotonic() < deadline:
            time.sleep(0.02)
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=_HEARTBEAT_SECONDS)
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _beat(self) -> None:
        while not self._stop.wait(_HEARTBEAT_SECONDS):
            try:
                with self._in_use:
                    self._beat_once()
            except (pymysql.MySQLError, ConsumerError):
                continue  # the next beat tries again; until then the epoch is the guard

    def _beat_once(self) -> None:
        lost = self._connection is None or not self._connection.open
        connection = self._connected()
        if not self._get(connection, 0):
            connection.close()
        elif lost and self._guards:
            self._begin_guard(connection)

    def _connected(self) -> pymysql.Connection:
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._settings, "dml", autocommit=True)
        return self._connection

    def _begin_guard(self, connection: pymysql.Connection) -> None:
        try:
            connection.begin()
            with connection.cursor() as cursor:
                check_epoch(cursor, self._settings.name, self._epoch, STATEMENTS)
        except pymysql.MySQLError as error:
            connection.close()
            raise translate(error, "start") from error

    def _end_guard(self, connection: pymysql.Connection) -> None:
        try:
            connection.rollback()
        except pymysql.MySQLError:
            connection.close()

    def _get(self, connection: pymysql.Connection, seconds: int) -> bool:
        """Taking a lock that this connection has already is a success, so this is the heartbeat too."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT COALESCE(IS_USED_LOCK(%s) = CONNECTION_ID(), 0)", (self._lock_name,))
            if cursor.fetchone()[0]:
                return True
            cursor.execute("SELECT GET_LOCK(%s, %s)", (self._lock_name, seconds))
            return bool(cursor.fetchone()[0])

    def _holder(self, connection: pymysql.Connection) -> str:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT holder, since FROM storage_consumer.lease WHERE name = %s AND slot = 0", (self._settings.name,)
            )
            row = cursor.fetchone()
        return f"{row[0]} since {row[1]} UTC" if row else "it is just starting"


def _slots(cursor: pymysql.cursors.Cursor) -> int:
    return TIDB_SLOTS if Flavor.parse(cursor.connection.get_server_info()).name == "tidb" else 1
