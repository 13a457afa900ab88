"""Connections for upstream's statements, which may have to wait for locks: any number of threads shares a few."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from consumer.sink.mysql.server.connection import SILENCE_SECONDS, connect
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.settings import MySqlSettings

_IDLES = SILENCE_SECONDS / 4
"""Seconds after which one is not used again: the server ends it before long."""


class StatementConnections:
    """At most `most` at a time. If none is free, the caller waits. A connection with an error is not used again."""

    def __init__(self, settings: MySqlSettings) -> None:
        self.most = settings.worker_count
        self._settings = settings
        self._free = threading.BoundedSemaphore(self.most)
        self._idle: list[tuple[float, pymysql.Connection]] = []
        self._lock = threading.Lock()

    @contextmanager
    def cursor(self) -> Iterator[pymysql.cursors.Cursor]:
        """A cursor of one of them. Every pymysql error leaves here as a ConsumerError."""
        with self._free:
            connection = self._idling() or connect(self._settings, "ddl", autocommit=True)
            try:
                with connection.cursor() as cursor:
                    yield cursor
            except pymysql.MySQLError as error:
                connection.close()
                raise translate(error, "ddl") from error
            except BaseException:
                connection.close()
                raise
            with self._lock:
                self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        """Close idle connections. A later use opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _idling(self) -> pymysql.Connection | None:
        with self._lock:
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < _IDLES:
                    return connection
                connection.close()
        return None
