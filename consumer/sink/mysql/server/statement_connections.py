"""Connections for upstream's statements, which may have to wait for locks: any number of threads shares a few."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from consumer.sink.mysql.server.connection import SILENCE_SECONDS, connect
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.server.statement_sessions import AT_A_TIME, mark, wait_for_listening
from consumer.sink.mysql.settings import MySqlSettings

_IDLES = SILENCE_SECONDS / 4
"""Seconds after which one is not used again: the server ends it before long."""


class StatementConnections:
    """At most `most` at a time. If none is free, the caller waits. A connection with an error is not used again."""

    def __init__(self, settings: MySqlSettings) -> None:
        self.most = min(settings.worker_count, AT_A_TIME)
        self._settings = settings
        self._free = threading.BoundedSemaphore(self.most)
        self._idle: list[tuple[float, pymysql.Connection]] = []
        self._lock = threading.Lock()
        self.sessions: dict[pymysql.Connection, int] = {}
        """The server's numbers of those that are open."""

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

    def wait_for_lost(self, cursor: pymysql.cursors.Cursor) -> None:
        """What was sent on connections that are lost, also by another process, comes no more. Raises TargetBusy."""
        wait_for_listening(cursor, self._settings.name, list(self.sessions.values()))

    def _new(self) -> pymysql.Connection:
        connection = connect(self._settings, "ddl", autocommit=True)
        self.sessions[connection] = connection.thread_id()
        try:
            with connection.cursor() as cursor:
                mark(cursor, self._settings.name, beside=len(self.sessions) - 1)
        except pymysql.MySQLError as error:
            self._close(connection)
            raise translate(error, "start") from error
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
