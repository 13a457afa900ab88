"""The driver's own connection and its transactions under the epoch. It is opened when needed, and again after a
loss."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import pymysql

from consumer.errors import BadConfig, TargetUnavailable
from consumer.sink.mysql.progress.epochs import DriverEpoch
from consumer.sink.mysql.server.connection import (
    SILENCE_SECONDS,
    Flavor,
    Purpose,
    connect_to_server,
    flavor_from_greeting,
)
from consumer.sink.mysql.server.errors import Doing, server_error
from consumer.sink.mysql.settings import MySqlSettings

Result = TypeVar("Result")


class Driver:
    """One connection, which one thread uses at a time. Every pymysql error is raised as a ConsumerError."""

    def __init__(self, settings: MySqlSettings) -> None:
        self._settings = settings
        self._connection: pymysql.Connection | None = None
        self._used = 0.0
        self._in_use = threading.RLock()
        self._epoch: DriverEpoch | None = None

    @property
    def flavor(self) -> Flavor:
        """Returns the kind of server, from its greeting."""
        return flavor_from_greeting(self._open())

    @contextmanager
    def cursor(self, doing: Doing = "start") -> Iterator[pymysql.cursors.Cursor]:
        """Yields a cursor in a transaction for reading, which is rolled back at the end. DDL on it commits by
        itself."""
        with self._in_use:
            connection = self._open()
            try:
                connection.begin()  # takes a new snapshot, and shows that the session is alive
                with connection.cursor() as cursor:
                    yield cursor
                connection.rollback()
            except pymysql.MySQLError as error:
                self.close()
                raise server_error(error, doing) from error
            except BaseException:
                self.close()
                raise

    @property
    def epoch(self) -> DriverEpoch:
        """Raises BadConfig before `begins_at`."""
        if self._epoch is None:
            raise BadConfig("the target was not acquired: only the one writer of a consumer name may write")
        return self._epoch

    def begins_at(self, epoch: int | None) -> None:
        """Sets the epoch of the driver's lane. None: this consumer is no longer the writer."""
        self._epoch = None if epoch is None else DriverEpoch(self._settings.name, epoch)

    @contextmanager
    def transaction(self) -> Iterator[pymysql.cursors.Cursor]:
        """Yields a cursor in a write transaction, committed at the end. Raises LeaseHeld unless the driver's epoch is
        in force, and ProgressMoved if the target moved backwards."""
        with self.cursor() as cursor, self.writing(cursor):
            yield cursor

    @contextmanager
    def writing(self, cursor: pymysql.cursors.Cursor, purpose: Purpose = "dml") -> Iterator[None]:
        """As `transaction`, on the connection of `cursor`, where it begins the transaction. pymysql's errors pass
        through."""
        with self._in_use:
            self.epoch.raise_in(cursor, purpose)
            yield
            cursor.connection.commit()
            self.epoch.committed()

    def retried(self, action: Callable[[], Result]) -> Result:
        """Runs `action`, again on a new connection if the old one was lost: the server may have ended it while it was
        idle. To wait longer, call this again."""
        try:
            return action()
        except TargetUnavailable:
            return action()

    def read(self, look: Callable[[pymysql.cursors.Cursor], Result]) -> Result:
        """Returns what `look` returns in one transaction; `retried`."""

        def action() -> Result:
            with self.cursor() as cursor:
                return look(cursor)

        return self.retried(action)

    def close(self) -> None:
        """Gives up the connection. The next use opens another. The server rolls back an open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(pymysql.MySQLError):  # the server or another thread may have closed it
                connection.close()

    def _open(self) -> pymysql.Connection:
        if time.monotonic() - self._used > SILENCE_SECONDS / 2:
            self.close()
        if self._connection is None or not self._connection.open:
            self._connection = connect_to_server(self._settings, "dml", loads=self._settings.staged)
        self._used = time.monotonic()
        return self._connection
