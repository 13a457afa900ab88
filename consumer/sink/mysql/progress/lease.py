"""Admits one writer at a time.

Liveness is a server lock (GET_LOCK) on a separate connection. The server frees it when the holder dies, so the next run
begins at once. Fencing is by the epochs (see epochs.py).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from consumer.errors import ConsumerError, LeaseHeld
from consumer.sink.mysql.progress.epochs import STATEMENTS, check_epoch
from consumer.sink.mysql.server.connection import connect_to_server, flavor_from_greeting
from consumer.sink.mysql.server.errors import errno, server_error
from consumer.sink.mysql.settings import MySqlSettings

_WAIT_SECONDS = 5
_HEARTBEAT_SECONDS = 15
_LAST_STATEMENTS_SECONDS = 5
_GIVEN_UP = 1105
"""The error by which TiDB ends a wait early, once it has checked its maximum number of times."""


def lock_name(name: str) -> str:
    """Returns the server lock of the consumer `name`."""
    return "storage_consumer." + hashlib.sha256(name.encode()).hexdigest()[:40]


def get_lock(cursor: pymysql.cursors.Cursor, lock: str, seconds: int) -> bool:
    """Returns whether the session has taken the lock within that time. pymysql's errors pass through."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            cursor.execute("SELECT GET_LOCK(%s, %s)", (lock, seconds))
            return bool(cursor.fetchone()[0])
        except pymysql.MySQLError as error:
            if errno(error) != _GIVEN_UP or flavor_from_greeting(cursor.connection).name != "tidb":
                raise
        if time.monotonic() > deadline:
            return False


class LeaseLock:
    """The server lock of one consumer name, held from `take` to `release` on a separate connection.

    A thread keeps the connection from idling. If this process's machine dies silently, the server frees the lock after
    SILENCE_SECONDS. If the connection is lost, the thread takes the lock again. If another consumer was faster, the
    epoch stops this one.
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
        """Takes the lock. Raises LeaseHeld if it is not free within a few seconds, TargetUnavailable, BadConfig."""
        self._connection = self._taken()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def follow(self, cursor: pymysql.cursors.Cursor) -> None:
        """Takes the lock on the server of `cursor`, unless it is held there: the target's address may now lead to
        another server. Raises as `take`. pymysql's errors of `cursor` pass through."""
        cursor.execute("SELECT IS_USED_LOCK(%s)", (self._lock_name,))
        holder = cursor.fetchone()[0]
        with self._in_use:
            ours = self._connection
            if ours is not None and ours.open:
                if holder is not None and self._is_held(ours, holder):
                    return
                ours.close()
            self._connection = self._taken()

    @contextmanager
    def guarding(self, epoch: int) -> Iterator[None]:
        """Keeps other consumers from taking over while the context lasts: they wait for its open transaction.
        Statements commit by themselves, so their own connections cannot hold the epoch. Several threads can use it.
        Raises LeaseHeld."""
        with self._in_use:
            self._epoch = max(self._epoch, epoch)  # an abandoned thread has an earlier one
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
        """Frees the lock. It may be called twice. It waits some seconds for a statement that still runs, so that no
        other consumer takes over meanwhile."""
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

    def _taken(self) -> pymysql.Connection:
        """Returns a new connection that has the lock."""
        connection = connect_to_server(self._settings, "dml", autocommit=True)
        try:
            if not self._get(connection, _WAIT_SECONDS):
                raise LeaseHeld(
                    f"another consumer named {self._settings.name!r} is running: {self._holder(connection)}",
                    hint="wait until it has ended, or end it; another --name is for another upstream, not for the same"
                    " tables",
                )
        except pymysql.MySQLError as error:
            connection.close()
            raise server_error(error, "start") from error
        except LeaseHeld:
            connection.close()
            raise
        return connection

    def _is_held(self, connection: pymysql.Connection, holder: object) -> bool:
        """Returns whether the connection has the lock. A connection that was ended holds its locks a moment longer.
        TiDB tells other sessions that each holder has the number 1."""
        try:
            connection.ping(reconnect=False)
            if flavor_from_greeting(connection).name == "tidb":
                return self._get(connection, 0)
        except pymysql.MySQLError:
            return False
        return bool(connection.thread_id() == holder)

    def _connected(self) -> pymysql.Connection:
        if self._connection is None or not self._connection.open:
            self._connection = connect_to_server(self._settings, "dml", autocommit=True)
        return self._connection

    def _begin_guard(self, connection: pymysql.Connection) -> None:
        try:
            connection.begin()
            with connection.cursor() as cursor:
                check_epoch(cursor, self._settings.name, self._epoch, STATEMENTS)
        except pymysql.MySQLError as error:
            connection.close()
            raise server_error(error, "start") from error
        except ConsumerError:
            self._end_guard(connection)  # a consumer that raises the epochs would wait for it
            raise

    def _end_guard(self, connection: pymysql.Connection) -> None:
        try:
            connection.rollback()
        except pymysql.MySQLError:
            connection.close()

    def _get(self, connection: pymysql.Connection, seconds: int) -> bool:
        """Takes the lock. This succeeds if the connection has it already, so it is the heartbeat, too."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT COALESCE(IS_USED_LOCK(%s) = CONNECTION_ID(), 0)", (self._lock_name,))
            if cursor.fetchone()[0]:
                return True
            return get_lock(cursor, self._lock_name, seconds)

    def _holder(self, connection: pymysql.Connection) -> str:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT holder, since FROM storage_consumer.lease WHERE name = %s AND slot = 0", (self._settings.name,)
            )
            row = cursor.fetchone()
        return f"{row[0]} since {row[1]} UTC" if row else "it is just starting"
