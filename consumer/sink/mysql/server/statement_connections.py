"""Connections for upstream's statements, which may have to wait for locks: any number of threads shares a few.

Their sessions have a mark, by which others find those that are left. What such a session was sent can come late: a
proxy, or a network that stood still, delivers it after the client has given the connection up. No epoch locks out a
statement. So who tries one again first waits until no session is left that listens: the server ends it when its
connection breaks, or when nothing comes.
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
from consumer.sink.mysql.server.connection import SILENCE_SECONDS, connect, greeted
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.settings import MySqlSettings

_IDLES = SILENCE_SECONDS / 4
"""Seconds after which one is not used again: the server ends it before long."""
AT_A_TIME = 32
"""Sessions of a consumer name that send statements at a time: more of them would only wait for one another."""
_MOST = 2 * AT_A_TIME
"""Those that can be marked: a killed client can have left some that still run a statement."""
_WAIT_SECONDS, _LOOKS_EVERY = 5.0, 0.02


class StatementConnections:
    """At most `most` at a time. If none is free, the caller waits. A connection with an error is not used again."""

    def __init__(self, settings: MySqlSettings) -> None:
        self.most = min(settings.worker_count, AT_A_TIME)
        self._settings = settings
        self._free = threading.BoundedSemaphore(self.most)
        self._idle: list[tuple[float, pymysql.Connection]] = []
        self._lock = threading.Lock()
        self.sessions: dict[pymysql.Connection, int] = {}
        """The server's numbers of those that are open and have a mark."""

    @contextmanager
    def cursor(self) -> Iterator[pymysql.cursors.Cursor]:
        """A cursor of one of them. Every pymysql error leaves here as a ConsumerError."""
        with self._free:
            connection = self._idling() or self._new()
            try:
                with connection.cursor() as cursor:
                    yield cursor
            except pymysql.MySQLError as error:
                self._close(connection)
                raise translate(error, "ddl") from error
            except BaseException:
                self._close(connection)
                raise
            with self._lock:
                self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        """Close idle connections. A later use opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            self._close(connection)

    @contextmanager
    def waiting_longer(self, cursor: pymysql.cursors.Cursor) -> Iterator[None]:
        """For locks that others hold: what has failed for one would go on failing where it is often taken."""
        longer = server.longest_try(self._settings)
        if longer <= server.SHORT_LOCK_WAIT_SECONDS or greeted(cursor.connection).name == "tidb":
            yield
            return
        server.wait_for_locks(cursor, longer, longer)
        yield
        server.wait_for_locks(cursor, server.SHORT_LOCK_WAIT_SECONDS, server.SHORT_LOCK_WAIT_SECONDS)

    def wait_for_lost(self, cursor: pymysql.cursors.Cursor) -> None:
        """What was sent on connections that are lost, also by another process, comes no more. Raises TargetBusy."""
        wait_for_listening(cursor, self._settings.name, self.sessions.values())

    def _new(self) -> pymysql.Connection:
        connection = connect(self._settings, "ddl", autocommit=True)
        try:
            with connection.cursor() as cursor:
                mark(cursor, self._settings.name, beside=len(self.sessions))
        except pymysql.MySQLError as error:
            self._close(connection)
            raise translate(error, "start") from error
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


def mark(cursor: pymysql.cursors.Cursor, name: str, beside: int = 0) -> None:
    """The session of `cursor` is sent statements of the consumer `name`, from now on until it ends. `beside` is how
    many others surely have a mark."""
    locks = _locks(name)
    for lock in locks[beside:] + locks[:beside]:
        if get_lock(cursor, lock, 0):
            return


def unmark(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """It sends no more of them."""
    cursor.execute("DO " + ", ".join(["RELEASE_LOCK(%s)"] * _MOST), _locks(name))


def wait_for_listening(cursor: pymysql.cursors.Cursor, name: str, but: Collection[int] = ()) -> None:
    """Wait until there is no marked session of `name` that a statement could still come to, but this one and `but`:
    those in use, read at each look, as others open some meanwhile. One that runs a statement listens to nothing, but
    a TiDB does not tell it from others. Raises TargetBusy where it takes long."""
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
    """What it is called; "" where there is none."""
    cursor.execute("SELECT CONNECTION_ID(), " + ", ".join(["IS_USED_LOCK(%s)"] * _MOST), _locks(name))
    own, *holders = cursor.fetchone()
    if greeted(cursor.connection).name == "tidb":  # it says only how many other sessions have a lock
        others_in_use = len({*but} - {own})
        return "a session" if sum(holder not in (own, None) for holder in holders) > others_in_use else ""
    others = set(holders) - {own, None, *but}
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
