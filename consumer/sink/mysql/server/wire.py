"""All that this program uses of pymysql's private parts. If a new version renames one, `tests/test_private_names.py`
shows which."""

from __future__ import annotations

import re
import socket
import ssl
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pymysql
from pymysql.connections import MySQLResult
from pymysql.constants import COMMAND
from pymysql.cursors import SSCursor

from consumer.errors import BadConfig

_PACKET_BYTES = 256 * 1024
"""A quarter of the smallest default max_allowed_packet of the servers."""
_IN_PLAIN = (b"mysql_clear_password", b"dialog")
"""Login methods that send the password unencrypted."""


_DENIED_A_DATABASE = 1044
"""The only refusal in which a server does not name the right that the user lacks."""


class Connection(pymysql.Connection):  # type: ignore[misc]  # pymysql has no types
    """pymysql's connection, with five differences:

    1. A login is waited for as long as a connection, in all its steps: the system continues to accept connections for a
       server that is stopped.
    2. One TLS context serves all connections that do not check the server.
    3. No server can make it send a file: `load_local` answers that request itself, from memory.
    4. No server gets the password in plain text unless the connection is encrypted (or does not leave this machine).
    5. It closes at once, even while another thread waits for an answer. pymysql would wait for that answer, and no
       signal ends such a wait.
    """

    _read_timeout: int | None
    _write_timeout: int | None
    _sock: socket.socket | None

    def connect(self, sock: Any = None) -> None:
        timeouts = self._read_timeout, self._write_timeout
        # The handshake uses the timeout that was set last, whichever it is.
        self._read_timeout = self._write_timeout = self.connect_timeout
        try:
            super().connect(sock)
        finally:
            self._read_timeout, self._write_timeout = timeouts

    def _force_close(self) -> None:
        sock = self._sock
        if sock is not None:
            with suppress(OSError):  # it may be closed already
                sock.shutdown(socket.SHUT_RDWR)
        super()._force_close()

    def _create_ssl_ctx(self, sslp: object) -> ssl.SSLContext:
        return _unverified_context() if sslp == {} else super()._create_ssl_ctx(sslp)

    def _process_auth(self, plugin_name: bytes, *more: Any) -> Any:
        if plugin_name in _IN_PLAIN and not self._secure:
            raise BadConfig(
                "the server asks for the password in plain text, and the connection is not encrypted",
                hint="ask for TLS, best for one that proves the server: ssl-mode=VERIFY_IDENTITY in --downstream-uri",
            )
        return super()._process_auth(plugin_name, *more)

    def query(self, sql: str | bytes, unbuffered: bool = False) -> int:
        try:
            return int(super().query(sql, unbuffered))
        except pymysql.MySQLError as error:
            if error.args[:1] == (_DENIED_A_DATABASE,) and (right := _right_for(sql)):
                error.args = (_DENIED_A_DATABASE, f"{error.args[1]}, whose right {right} it lacks")
            raise

    def _read_query_result(self, unbuffered: bool = False) -> int:
        self._result = None
        result = _NoFiles(self)
        result.init_unbuffered_query() if unbuffered else result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows)


def load_local(connection: pymysql.Connection, statement: str, data: memoryview) -> int:
    """Executes a LOAD DATA LOCAL with `data` as the file's content. Returns the number of warnings."""
    connection._execute_command(COMMAND.COM_QUERY, statement)
    result = _FromMemory(connection, data)
    result.read()
    return int(result.warning_count)


def fetch_packets(cursor: SSCursor, most: int) -> list[bytes]:
    """Returns the next rows of an answer as the server sent them, none after the last. `decode_columns` decodes them.
    Raises pymysql's errors, as fetching does."""
    result = cursor._result
    rows: list[bytes] = []
    while len(rows) < most and result.unbuffered_active:
        packet = result.connection._read_packet()
        if result._check_packet_is_eof(packet):
            result.unbuffered_active, result.connection = False, None
        else:
            rows.append(packet.get_all_data())
    return rows


def has_texts(cursor: SSCursor) -> list[bool]:
    """Returns for each column of the answer whether its values are text, not bytes."""
    return [encoding is not None for encoding, _ in cursor._result.converters]


class _NoFiles(MySQLResult):  # type: ignore[misc]
    """The answer to a statement that sends no file."""

    connection: Any

    def _finish_unbuffered_query(self) -> None:
        # It reads the rest of a result. A broken connection has none, and an error here could not be caught in `del`.
        if self.connection is not None and not self.connection.open:
            self.unbuffered_active = False
            self.connection = None
        super()._finish_unbuffered_query()

    def _read_load_local_packet(self, first_packet: Any) -> None:
        self.connection._force_close()
        raise BadConfig(
            "the server asked for a file of this machine in answer to a statement that sends none: it is no target",
            hint="check the address in --downstream-uri, and ask for TLS that proves the server (ssl-mode)",
        )


class _FromMemory(MySQLResult):  # type: ignore[misc]
    """The answer to a LOAD DATA LOCAL. It sends a buffer whenever the server asks for a file: TiDB executes a statement
    that waited for a lock again, and asks once more."""

    def __init__(self, connection: pymysql.Connection, data: memoryview) -> None:
        super().__init__(connection)
        self._data = data

    def _read_load_local_packet(self, first_packet: Any) -> None:
        answer = first_packet
        while answer.is_load_local_packet():
            for start in range(0, len(self._data), _PACKET_BYTES):
                self.connection.write_packet(bytes(self._data[start : start + _PACKET_BYTES]))
            self.connection.write_packet(b"")
            answer = self.connection._read_packet()
        self._read_ok_packet(answer)


def _right_for(sql: str | bytes) -> str:
    """Returns the database right that a statement needs, "" if its error message names it."""
    text = sql.decode(errors="replace") if isinstance(sql, bytes) else sql
    words = re.findall(r"\w+", text[:200])[:3]
    match [word.upper() for word in words]:
        case ["CREATE", "TEMPORARY", *_]:
            return "CREATE TEMPORARY TABLES"
        case ["LOCK", *_]:
            return "LOCK TABLES"
        case [("CREATE" | "ALTER" | "DROP") as verb, "DATABASE" | "SCHEMA", *_]:
            return str(verb)
    return ""


@lru_cache(maxsize=1)
def _unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
