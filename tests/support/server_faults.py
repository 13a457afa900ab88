"""Faults of a server's connections, at chosen statements of a run: what is sent is looked at, COMMITs too."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pymysql
import pytest
from pymysql.constants import COMMAND

from consumer.sink.mysql.server.wire import Connection
from tests.support.crashes import Crash

Fault = Literal["cut", "lost", "killed before", "killed behind"]
FAULTS: tuple[Fault, ...] = ("cut", "lost", "killed before", "killed behind")
"""The connection is gone before the statement is sent; the server has executed it, and its answer is lost; the process
dies before it is sent, or before its answer comes. A LOAD DATA is then asked for its rows, and gets none."""
_ANSWER_SECONDS = 30.0


class Fuse:
    """Counts statements; the one numbered `moment` meets `fault`, and is kept."""

    def __init__(self, fault: Fault, moment: int) -> None:
        self.sent, self.statement = 0, ""
        self._fault, self._moment, self._lock = fault, moment, threading.Lock()

    @property
    def burnt(self) -> bool:
        return bool(self.statement)

    def __call__(self, statement: str) -> Fault | None:
        with self._lock:
            self.sent += 1
            if self.sent - 1 != self._moment:
                return None
            self.statement = statement
            return self._fault


@contextmanager
def faulty(befalls: Callable[[str], Fault | None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`befalls` is asked for each statement that a connection of this process sends."""
    used: list[Connection] = []

    def sent(connection: Connection, command: int, sql: Any) -> None:
        text = sql.decode(errors="replace") if isinstance(sql, bytes | bytearray) else str(sql)
        used.append(connection)
        fault = befalls(text) if command == COMMAND.COM_QUERY else None
        if fault is None or fault in ("lost", "killed behind"):
            pymysql.Connection._execute_command(connection, command, sql)
        if fault is None:
            return
        if fault in ("lost", "killed behind"):
            select.select([connection._sock], [], [], _ANSWER_SECONDS)
        if fault in ("cut", "lost"):
            connection._force_close()
            raise pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
        for one in used:  # the server sees every connection of a dead process end
            one._force_close()
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "_execute_command", sent, raising=False)
        yield
