"""Connections to the target: the session that each purpose needs, TLS by MySQL's own names for how much is asked of it
(``ssl-mode``), and the password: the one of the settings, or what a command prints (a token lives for minutes).
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import pymysql
from pymysql.constants import CLIENT

from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.names import literal
from consumer.sink.mysql.server.errors import translate
from consumer.sink.mysql.server.wire import Connection
from consumer.sink.mysql.settings import MySqlSettings, SslMode

Purpose = Literal["dml", "ddl"]
FlavorName = Literal["mysql", "mariadb", "tidb"]

_SQL_MODES: dict[Purpose, str] = {
    # ALLOW_INVALID_DATES: TiDB holds '2023-02-31' where its user's mode let it in. Strict: a changed value is an error.
    "dml": "STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES",
    # The default mode less what refuses statements that upstream has taken already.
    "ddl": "NO_ENGINE_SUBSTITUTION,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES",
}
_NO_LIMIT = 2**64 - 1
SESSION_MARK = "@storage_consumer_session"
"""Holds the purpose of each session that is set as one of ours."""
_LOOK_MILLISECONDS = 60_000
LOCK_WAIT_SECONDS = 10
"""Seconds to wait for a row or table that others hold, if so much can be waited at all (`longest_try`). A waiting
statement blocks the target's readers behind it."""
SHORT_LOCK_WAIT_SECONDS = 1
"""The first time: then it is told, and others go on. The least that all servers take."""
_ALL_STATEMENTS = 15
"""Of a Galera node: whichever kind a statement is of, it sees what was committed on any node before it began. The next
connection may be one to another node, which applies a little later."""
_READ_TIMEOUT_SECONDS = {"dml": 1800, "ddl": None}
SILENCE_SECONDS = 90
"""After that many seconds of silence the server treats a client as dead: it ends the connection, and frees what its
transaction holds. No session of ours is silent in the middle of a transaction; one that idles between two is opened
again."""
_TLS_HINT = (
    "give the authority that signed the server's certificate (ssl-ca=/path/ca.pem in --downstream-uri), or ask for"
    " less: ssl-mode=VERIFY_CA, REQUIRED (encrypted, the server not checked), PREFERRED or DISABLED"
)
_WITHIN = 30
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """The kind of server: its name, and its own version (TiDB's, not the MySQL version it speaks)."""

    name: FlavorName
    version: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Flavor:
        """From ``SELECT VERSION()``: ``8.0.36``, ``10.11.6-MariaDB-1``, ``8.0.11-TiDB-v7.5.0``."""
        name: FlavorName = "tidb" if "TiDB" in text else "mariadb" if "MariaDB" in text else "mysql"
        own = text.rpartition("TiDB-")[2] if name == "tidb" else text.removeprefix("5.5.5-")
        found = re.search(r"\d+(?:\.\d+)*", own)
        return cls(name, tuple(int(part) for part in found.group().split(".")) if found else ())


def greeted(connection: pymysql.Connection) -> Flavor:
    """What the server is, from its greeting: it is not asked."""
    return Flavor.parse(connection.get_server_info())


def flavor_of(connection: pymysql.Connection) -> Flavor:
    """Ask the server for its kind."""
    with connection.cursor() as cursor:
        # The session has the server's default yet, which may be a millisecond; other servers pass over the hint.
        cursor.execute(f"SELECT /*+ MAX_EXECUTION_TIME({_LOOK_MILLISECONDS}) */ VERSION()")
        return Flavor.parse(cursor.fetchone()[0])


def connect(
    settings: MySqlSettings, purpose: Purpose, autocommit: bool = False, *, loads: bool = False
) -> pymysql.Connection:
    """A connection whose session is set for `purpose`: "dml" for rows and progress, "ddl" for upstream's statements.
    `loads`: it may send rows by LOAD DATA LOCAL.

    Raises BadConfig (login, certificates) and TargetUnavailable. pymysql does not reconnect by itself, so a
    connection has this session for all its life.
    """
    try:
        connection = _open(settings, purpose, autocommit, loads)
    except pymysql.MySQLError as error:
        raise _translated(settings, error) from error
    try:
        flavor = flavor_of(connection)
        with connection.cursor() as cursor:
            # pymysql believes what MySQL says of it at the login, which is not what its global default makes of it.
            values = [*session_of(settings, purpose, flavor), f"SESSION autocommit = {int(autocommit)}"]
            cursor.execute("SET " + ", ".join([*values, f"{SESSION_MARK} = '{purpose}'"]))
            if flavor.name != "tidb" and is_in_a_cluster(cursor):
                cursor.execute(f"SET SESSION wsrep_sync_wait = {_ALL_STATEMENTS}")
            if purpose == "ddl" and flavor.name != "tidb":
                _declare_timestamps(cursor)
    except BadConfig:
        connection.close()
        raise
    except pymysql.MySQLError as error:
        connection.close()
        raise _translated(settings, error) from error
    return connection


def check_session(mark: str | None, purpose: Purpose) -> None:
    """`mark` is what SESSION_MARK holds: raises BadConfig where the session is none that `connect` has set. A proxy
    that pools connections gives each transaction some session of the server, with settings that are not ours."""
    if mark != purpose:
        raise BadConfig(
            "statements of one connection reach several sessions of the server: a proxy before it pools connections",
            hint="name the server itself in --downstream-uri, or have the proxy keep a session for each connection",
        )


def _open(settings: MySqlSettings, purpose: Purpose, autocommit: bool, loads: bool) -> pymysql.Connection:
    return Connection(
        host=settings.host,
        port=settings.port,
        unix_socket=settings.socket or None,
        user=settings.user,
        password=password_of(settings),
        charset="utf8mb4",
        collation="utf8mb4_bin",
        autocommit=autocommit,
        # Only the flag: with `local_infile` pymysql would open the files that a server asks for.
        client_flag=CLIENT.LOCAL_FILES if loads else 0,
        **tls_options(settings),
        connect_timeout=settings.connect_timeout,
        read_timeout=_READ_TIMEOUT_SECONDS[purpose],
    )


def session_of(settings: MySqlSettings, purpose: Purpose, flavor: Flavor) -> list[str]:
    """The assignments of one SET statement: all that defaults of the server could change for us, and any user may set.
    Raises BadConfig for a setting that the server does not have."""
    if settings.write_source and flavor.name != "tidb":
        raise BadConfig(
            f"{settings.address} is a server of {flavor.name}, and only TiDB has marks for changes (write-source)",
            hint="leave write-source out of --downstream-uri",
        )
    lock_wait = SHORT_LOCK_WAIT_SECONDS if purpose == "ddl" else longest_try(settings)
    values: dict[str, Any] = {
        "sql_mode": _SQL_MODES[purpose],
        "foreign_key_checks": 0,  # TiDB's changes hold what its cascades did
        "time_zone": "+00:00",  # as the decoder has TIMESTAMPs; a statement sets its own
        "unique_checks": 1,
        "sql_select_limit": _NO_LIMIT,  # a cut answer looks like a whole one
        "sql_notes": 1,  # a note is all that tells of digits or blanks that strict mode cuts off
        "innodb_lock_wait_timeout": lock_wait,
        "net_read_timeout": SILENCE_SECONDS,
        "net_write_timeout": SILENCE_SECONDS,
        # A statement's own connection goes before the transaction that guards it (see lease.py).
        "wait_timeout": SILENCE_SECONDS if purpose == "dml" else SILENCE_SECONDS // 2,
        # What TiDB means by a CREATE that names no character set.
        "character_set_server": "utf8mb4",
        "collation_server": "utf8mb4_bin",
    }
    if flavor.name == "tidb":
        values |= {"tidb_txn_mode": "pessimistic", "allow_auto_random_explicit_insert": 1}
        values |= {"tidb_low_resolution_tso": 0, "tidb_enable_external_ts_read": 0}  # both read what was before
        values["tidb_placement_mode"] = "IGNORE"  # a changefeed has no policies; TiCDC leaves them out, too
        if settings.write_source:
            values["tidb_cdc_write_source"] = settings.write_source
    else:
        values |= {"lock_wait_timeout": lock_wait, "sql_safe_updates": 0, "sql_big_selects": 1}
        values["sql_quote_show_create"] = 1  # definitions of two sessions are compared
        values["completion_type"] = "NO_CHAIN"  # no COMMIT ends the connection or begins a transaction
        values["default_storage_engine"] = values["default_tmp_storage_engine"] = "InnoDB"  # with transactions
    if flavor.name == "mariadb":
        values["max_statement_time"] = 0
        if flavor.version >= (10, 5, 2):
            values["sql_if_exists"] = 0  # what is refused must not look as if it had run
    else:
        values["max_execution_time"] = 0
    if flavor.name == "mariadb" and purpose == "ddl":
        values["sql_mode"] += ",TIME_ROUND_FRACTIONAL"  # as TiDB and MySQL do; a value cut short would be another one
        values["innodb_strict_mode"] = 0  # InnoDB's row size limit is not TiDB's: let the row that breaks it say so
        if flavor.version >= (10, 3, 7):
            values["alter_algorithm"] = "DEFAULT"  # another one refuses what it cannot do
    if flavor.name == "mysql" and flavor.version >= (8,):
        values["show_create_table_verbosity"] = 0
    if flavor.name == "mysql" and flavor.version >= (8, 4) and purpose == "ddl":
        values["restrict_fk_on_non_standard_key"] = 0  # TiDB asks for an index on what a key refers to, of any kind
    return [f"SESSION {name} = {literal(value) if isinstance(value, str) else value}" for name, value in values.items()]


def longest_try(settings: MySqlSettings) -> int:
    """For how many seconds one try may wait for what others hold."""
    return max(SHORT_LOCK_WAIT_SECONDS, int(min(LOCK_WAIT_SECONDS, settings.longest_lock_wait)))


def wait_for_locks(cursor: pymysql.cursors.Cursor, rows: int, tables: int) -> None:
    """For how many seconds the session waits for rows and tables that others hold, from here on. TiDB has no limit for
    tables."""
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (rows,))
    if greeted(cursor.connection).name != "tidb":
        cursor.execute("SET SESSION lock_wait_timeout = %s", (tables,))


@contextmanager
def waiting_shortly(cursor: pymysql.cursors.Cursor) -> Iterator[None]:
    """For what others hold; else all that the driver does would wait with it. After an error the session is closed."""
    cursor.execute("SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout")
    before = cursor.fetchone()
    wait_for_locks(cursor, SHORT_LOCK_WAIT_SECONDS, SHORT_LOCK_WAIT_SECONDS)
    yield
    wait_for_locks(cursor, *before)


def file_session(flavor: str) -> str:
    """The statement that sets a session in which statements of a file write rows as those of "dml" do."""
    values = (
        f"NAMES utf8mb4 COLLATE utf8mb4_bin, SESSION sql_mode = '{_SQL_MODES['dml']}', SESSION foreign_key_checks = 0"
    )
    more = (
        "allow_auto_random_explicit_insert = 1"
        if flavor == "tidb"
        # Tables follow one another on one connection, and statements need no key or limit to be taken.
        else "completion_type = 'NO_CHAIN', SESSION sql_safe_updates = 0, SESSION sql_big_selects = 1"
    )
    return f"SET {values}, SESSION unique_checks = 1, SESSION time_zone = '+00:00', SESSION {more}"


def is_in_a_cluster(cursor: pymysql.cursors.Cursor) -> bool:
    """Whether it is a node of a Galera cluster."""
    return variable_is(cursor, "wsrep_on", "ON")


def variable_is(cursor: pymysql.cursors.Cursor, name: str, value: str) -> bool:
    """Whether the server has such a variable, and it is that."""
    cursor.execute(f"SHOW VARIABLES LIKE '{name}'")
    row = cursor.fetchone()
    return row is not None and row[1] == value


def _declare_timestamps(cursor: pymysql.cursors.Cursor) -> None:
    """Make a bare TIMESTAMP column nullable, as TiDB means it. Servers without that setting are refused: they would
    store the current time for NULL."""
    cursor.execute("SELECT @@explicit_defaults_for_timestamp")
    if not cursor.fetchone()[0]:
        cursor.execute("SET SESSION explicit_defaults_for_timestamp = 1")


def _translated(settings: MySqlSettings, error: pymysql.MySQLError) -> Exception:
    known = BadConfig(str(error.args[-1]), hint=_TLS_HINT) if _unproven(error) else translate(error, "start")
    known.message = f"{settings.user}@{settings.address}: {known.message}"
    return known


def mode_of(settings: MySqlSettings) -> SslMode:
    """The URI's `ssl-mode`; without it a server on another host must prove its identity."""
    if settings.ssl_mode:
        return settings.ssl_mode
    near = not settings.ssl_ca and (settings.socket or _is_loopback(settings.host))
    return "PREFERRED" if near else "VERIFY_IDENTITY"


def tls_options(settings: MySqlSettings) -> dict[str, Any]:
    """Arguments for pymysql's connect. Raises BadConfig for unusable files."""
    match mode_of(settings):
        case "DISABLED":
            return {"ssl_disabled": True}
        case "PREFERRED" if not settings.ssl_cert:
            return {}
        case mode:
            return {"ssl": _context(mode, settings.ssl_ca, settings.ssl_cert, settings.ssl_key)}


@lru_cache(maxsize=8)
def _context(mode: SslMode, authority: str, certificate: str, key: str) -> ssl.SSLContext:
    """One for all connections of the process: reading the system's certificates takes 20 ms."""
    try:
        context = ssl.create_default_context(cafile=authority or None)
        context.check_hostname = mode == "VERIFY_IDENTITY"
        context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("VERIFY") else ssl.CERT_NONE
        # Certificates that servers make for themselves lack what newer Pythons ask for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except OSError as error:
        raise BadConfig(f"the downstream's ssl-ca, ssl-cert or ssl-key cannot be used: {error}") from error
    return context


def _unproven(error: BaseException) -> bool:
    """Whether a connection failed because the server has no TLS, or does not prove its identity; not where it ended in
    the middle of the handshake, as that of a server that is killed does."""
    cause = getattr(error, "original_exception", error)
    if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return False
    return isinstance(cause, ssl.SSLError) or (len(error.args) > 1 and "SSL is required" in str(error.args[1]))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def password_of(settings: MySqlSettings) -> bytes:
    """Runs the command, without a shell, at each call. Nothing that it prints is shown anywhere. Raises BadConfig where
    it cannot be run, TargetUnavailable where it fails."""
    if not settings.password_command:
        return settings.password.encode()
    program = settings.password_command[0]
    try:
        done = subprocess.run(
            settings.password_command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN, check=False
        )
    except OSError as error:
        raise BadConfig(
            f"password-command in --downstream-uri: {program} cannot be run: {error.strerror}",
            hint="give the path of a program of this machine, and of each machine that executors run on",
        ) from None
    except subprocess.TimeoutExpired:
        raise _failed(program, f"did not end within {_WITHIN} s") from None
    if done.returncode:
        raise _failed(program, f"ended with exit code {done.returncode}")
    password = done.stdout.removesuffix(b"\n").removesuffix(b"\r")
    if not password or b"\n" in password:
        raise _failed(program, "printed more than one line" if password else "printed nothing")
    return password


def _failed(program: str, how: str) -> TargetUnavailable:
    return TargetUnavailable(
        f"password-command in --downstream-uri: {program} {how}",
        hint="run it by hand as this user; what it prints is not shown here",
    )
