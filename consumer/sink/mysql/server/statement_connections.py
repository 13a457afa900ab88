"""Connections for upstream's statements, which may have to wait for locks. Any number of threads shares a few
connections.

Their sessions have a mark, by which others find sessions that were abandoned. A statement that was sent to such a
session can arrive late: a proxy, or a stalled network, delivers it after the client has given up the connection. No
epoch locks out a statement. So before a statement is retried, the consumer waits until no marked session can still
receive one: the server ends a session when its connection breaks, or when nothing arrives.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pymysql

from consumer.errors import TargetBusy
from consumer.sink.mysql.progress.lease import get_lock, lock_name
from consumer.sink.mysql.server import connection as server
from consumer.sink.mysql.server.connection import SILENCE_SECONDS, connect_to_server, flavor_from_greeting
from consumer.sink.mysql.server.errors import server_error
from consumer.sink.mysql.settings import MySqlSettings

_IDLES = SILENCE_SECONDS / 4
"""Seconds after which an idle connection is not used again: the server ends it soon."""
AT_A_TIME = 32
"""The number of sessions of a consumer name that send statements at a time. More would only wait for one another."""
_MOST = 2 * AT_A_TIME
"""The number of sessions that can be marked: a killed client can have left some that still run a statement."""
_WAIT_SECONDS, _LOOKS_EVERY = 5.0, 0.02


class StatementConnections:
    """At most `most` connections at a time. If none is free, the caller waits. A connection with an error is not used
    again."""

    def __init__(self, settings: MySqlSettings) -> None:
        self.most = min(settings.worker_count, AT_A_TIME)
        self._settings = settings
        self._free = threading.BoundedSemaphore(self.most)
        self._idle: list[tuple[float, pymysql.Connection]] = []
        self._lock = threading.Lock()
        self.sessions: dict[pymysql.Connection, int] = {}
        """The server's session numbers of open connections with a mark."""

    @contextmanager
    def cursor(self) -> Iterator[pymysql.cursors.Cursor]:
        """Yields a cursor of one of the connections. Every pymysql error is raised as a ConsumerError."""
        with self._free:
            connection = self._idling() or self._new()
            try:
                with connection.cursor() as cursor:
                    yield cursor
            except pymysql.MySQLError as error:
                self._close(connection)
                raise server_error(error, "ddl") from error
            except BaseException:
                self._close(connection)
                raise
            with self._lock:
                self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        """Closes idle connections. A later use opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            self._close(connection)

    @contextmanager
    def waiting_longer(self, cursor: pymysql.cursors.Cursor) -> Iterator[None]:
        """Waits longer for locks that others hold while the context lasts. A statement that has failed for a lock would
        fail again if the lock is often taken."""
        longer = server.longest_try(self._settings)
        if longer <= server.SHORT_LOCK_WAIT_SECONDS or flavor_from_greeting(cursor.connection).name == "tidb":
            yield
            return
        server.wait_for_locks(cursor, longer, longer)
        yield
        server.wait_for_locks(cursor, server.SHORT_LOCK_WAIT_SECONDS, server.SHORT_LOCK_WAIT_SECONDS)

    def wait_for_lost(self, cursor: pymysql.cursors.Cursor) -> None:
        """Waits until statements that were sent on lost connections, also by another process, can no longer arrive.
        Raises TargetBusy."""
        wait_for_listening(cursor, self._settings.name, self.sessions.values())

    def _new(self) -> pymysql.Connection:
        connection = connect_to_server(self._settings, "ddl", autocommit=True)
        try:
            with connection.cursor() as cursor:
                mark(cursor, self._settings.name, marked=len(self.sessions))
        except pymysql.MySQLError as error:
            self._close(connection)
            raise server_error(error, "start") from error
        self.sessions[connection] = connection.thread_id()
        return connection

    def _idling(self) -> pymysql.Connection | None:
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < _IDLES:
                    return connection
                self._close(connection)
        return None

    def _close(self, connection: pymysql.Connection) -> None:
        self.sessions.pop(connection, None)
        connection.close()


def mark(cursor: pymysql.cursors.Cursor, name: str, marked: int = 0) -> None:
    """Marks the session of `cursor` as one that is sent statements of the consumer `name`, until it ends. `marked` is
    the number of other sessions that certainly have a mark."""
    locks = _locks(name)
    for lock in locks[marked:] + locks[:marked]:
        if get_lock(cursor, lock, 0):
            return


def unmark(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """Removes the session's mark: it sends no more statements."""
    cursor.execute("DO " + ", ".join(["RELEASE_LOCK(%s)"] * _MOST), _locks(name))


def wait_for_listening(cursor: pymysql.cursors.Cursor, name: str, but: Collection[int] = ()) -> None:
    """Waits until no marked session of `name` can still receive a statement, except this session and `but`. `but` are
    the sessions in use; they are read again at each look, because others are opened meanwhile. A session that runs a
    statement does not receive another, but TiDB does not show which ones do. Raises TargetBusy if it takes long."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while listening := _listening(cursor, name, but):
        if time.monotonic() > deadline:
            raise TargetBusy(
                f"the target has {listening} of a connection that is lost, and a statement that was sent to it"
                " can still come",
                hint="try again: the server ends such a session within two minutes; nothing is lost",
            )
        time.sleep(_LOOKS_EVERY)


def _listening(cursor: pymysql.cursors.Cursor, name: str, but: Collection[int]) -> str:
    """Returns how to call such a session in a message; "" if there is none."""
    cursor.execute("SELECT CONNECTION_ID(), " + ", ".join(["IS_USED_LOCK(%s)"] * _MOST), _locks(name))
    own_number, *holders = cursor.fetchone()
    if flavor_from_greeting(cursor.connection).name == "tidb":  # TiDB only shows how many other sessions have a lock
        others_in_use = len({*but} - {own_number})
        return "a session" if sum(holder not in (own_number, None) for holder in holders) > others_in_use else ""
    others = set(holders) - {own_number, None, *but}
    if not others:
        return ""
    cursor.execute(
        "SELECT COALESCE(MIN(id), 0) FROM information_schema.processlist WHERE command = 'Sleep' AND id IN %s",
        (others,),
    )
    number = int(cursor.fetchone()[0])
    return f"session {number}" if number else ""


def _locks(name: str) -> list[str]:
    stem = lock_name(name)
    return [f"{stem}.{number}" for number in range(_MOST)]
