"""Connections to the target: the session for each purpose, TLS by MySQL's own modes (``ssl-mode``), and the password.
The password is in the settings, or a command prints it (a token that is valid for minutes)."""

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
from consumer.sink.mysql.server.errors import server_error
from consumer.sink.mysql.server.wire import Connection
from consumer.sink.mysql.settings import MySqlSettings, SslMode

Purpose = Literal["dml", "ddl"]
FlavorName = Literal["mysql", "mariadb", "tidb"]

_SQL_MODES: dict[Purpose, str] = {
    # ALLOW_INVALID_DATES: TiDB holds '2023-02-31' if its user's mode allowed it. Strict: a changed value is an error.
    "dml": "STRICT_TRANS_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES",
    # The default mode without the parts that refuse statements which upstream has already accepted.
    "ddl": "NO_ENGINE_SUBSTITUTION,IGNORE_SPACE,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES",
}
_NO_LIMIT = 2**64 - 1
SESSION_MARK = "@storage_consumer_session"
"""Holds the purpose of a session that this program has set."""
_LOOK_MILLISECONDS = 60_000
LOCK_WAIT_SECONDS = 10
"""Seconds to wait for a row or table that others hold, if the settings allow so long a wait (`longest_try`). A waiting
statement blocks the target's readers that come after it."""
SHORT_LOCK_WAIT_SECONDS = 1
"""Seconds of the first wait. After it the lock is reported, and other work continues. The minimum that all servers
accept."""
_ALL_STATEMENTS = 15
"""For a Galera node: a statement of any kind sees what was committed on any node before it began. The next connection
may be to another node, which applies a little later."""
_READ_TIMEOUT_SECONDS = {"dml": 1800, "ddl": None}
SILENCE_SECONDS = 90
"""After this number of seconds without traffic the server treats a client as dead: it ends the connection, and frees
what its transaction holds. This program's sessions are never silent during a transaction. One that idles between two is
opened again."""
_TLS_HINT = (
    "give the authority that signed the server's certificate (ssl-ca=/path/ca.pem in --downstream-uri), or ask for"
    " less: ssl-mode=VERIFY_CA, REQUIRED (encrypted, the server not checked), PREFERRED or DISABLED"
)
_WITHIN = 30
"""In seconds."""


@dataclass(frozen=True, slots=True)
class Flavor:
    """The kind of server: its name, and its own version (TiDB's, not the MySQL version that it claims)."""

    name: FlavorName
    version: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Flavor:
        """Parses the result of ``SELECT VERSION()``: ``8.0.36``, ``10.11.6-MariaDB-1``, ``8.0.11-TiDB-v7.5.0``."""
        name: FlavorName = "tidb" if "TiDB" in text else "mariadb" if "MariaDB" in text else "mysql"
        version = text.rpartition("TiDB-")[2] if name == "tidb" else text.removeprefix("5.5.5-")
        match = re.search(r"\d+(?:\.\d+)*", version)
        return cls(name, tuple(int(part) for part in match.group().split(".")) if match else ())


def flavor_from_greeting(connection: pymysql.Connection) -> Flavor:
    """Returns the kind of server from its greeting, without a query."""
    return Flavor.parse(connection.get_server_info())


def query_flavor(connection: pymysql.Connection) -> Flavor:
    """Queries the server for its kind."""
    with connection.cursor() as cursor:
        # The session still has the server's default limit, maybe a millisecond. Other servers ignore the hint.
        cursor.execute(f"SELECT /*+ MAX_EXECUTION_TIME({_LOOK_MILLISECONDS}) */ VERSION()")
        return Flavor.parse(cursor.fetchone()[0])


def connect_to_server(
    settings: MySqlSettings, purpose: Purpose, autocommit: bool = False, *, loads: bool = False
) -> pymysql.Connection:
    """Returns a connection whose session is set for `purpose`: "dml" for rows and progress, "ddl" for upstream's
    statements. `loads` says that it may send rows by LOAD DATA LOCAL.

    Raises BadConfig (login, certificates) and TargetUnavailable. pymysql does not reconnect by itself, so a connection
    keeps this session.
    """
    try:
        connection = _open(settings, purpose, autocommit, loads)
    except pymysql.MySQLError as error:
        raise _translated(settings, error) from error
    try:
        flavor = query_flavor(connection)
        with connection.cursor() as cursor:
            # pymysql trusts the autocommit flag of MySQL's login answer, which a global default can make wrong.
            values = [*session_assignments(settings, purpose, flavor), f"SESSION autocommit = {int(autocommit)}"]
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
    """Raises BadConfig if the session was not set by `connect_to_server`. `mark` is the value of SESSION_MARK. A proxy
    that pools connections gives each transaction any session of the server, with other settings."""
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
        # Only the flag is set: with `local_infile` pymysql would open the files that a server asks for.
        client_flag=CLIENT.LOCAL_FILES if loads else 0,
        **tls_options(settings),
        connect_timeout=settings.connect_timeout,
        read_timeout=_READ_TIMEOUT_SECONDS[purpose],
    )


def session_assignments(settings: MySqlSettings, purpose: Purpose, flavor: Flavor) -> list[str]:
    """Returns the assignments of one SET statement. They cover everything that defaults of the server could change for
    this program and that any user may set. Raises BadConfig for a setting that the server does not have."""
    if settings.write_source and flavor.name != "tidb":
        raise BadConfig(
            f"{settings.address} is a server of {flavor.name}, and only TiDB has marks for changes (write-source)",
            hint="leave write-source out of --downstream-uri",
        )
    lock_wait = SHORT_LOCK_WAIT_SECONDS if purpose == "ddl" else longest_try(settings)
    values: dict[str, Any] = {
        "sql_mode": _SQL_MODES[purpose],
        "foreign_key_checks": 0,  # TiDB's changes include the results of its cascades
        "time_zone": "+00:00",  # the decoder's zone for TIMESTAMPs; a statement sets its own
        "unique_checks": 1,
        "sql_select_limit": _NO_LIMIT,  # a truncated answer looks like a complete one
        "sql_notes": 1,  # only a note reports digits or blanks that strict mode cuts off
        "innodb_lock_wait_timeout": lock_wait,
        "net_read_timeout": SILENCE_SECONDS,
        "net_write_timeout": SILENCE_SECONDS,
        # A statement's connection must end before the transaction that guards it (see lease.py).
        "wait_timeout": SILENCE_SECONDS if purpose == "dml" else SILENCE_SECONDS // 2,
        # TiDB's default for a CREATE that names no character set.
        "character_set_server": "utf8mb4",
        "collation_server": "utf8mb4_bin",
    }
    if flavor.name == "tidb":
        values |= {"tidb_txn_mode": "pessimistic", "allow_auto_random_explicit_insert": 1}
        values |= {"tidb_low_resolution_tso": 0, "tidb_enable_external_ts_read": 0}  # both would read older data
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
            values["sql_if_exists"] = 0  # a refused statement must not look as if it had run
    else:
        values["max_execution_time"] = 0
    if flavor.name == "mariadb" and purpose == "ddl":
        values["sql_mode"] += ",TIME_ROUND_FRACTIONAL"  # as TiDB and MySQL do; a truncated value would differ
        values["innodb_strict_mode"] = 0  # InnoDB's row size limit is not TiDB's: only a row that exceeds it fails
        if flavor.version >= (10, 3, 7):
            values["alter_algorithm"] = "DEFAULT"  # another algorithm refuses statements that it cannot execute
    if flavor.name == "mysql" and flavor.version >= (8,):
        values["show_create_table_verbosity"] = 0
    if flavor.name == "mysql" and flavor.version >= (8, 4) and purpose == "ddl":
        values["restrict_fk_on_non_standard_key"] = 0  # TiDB requires an index on the referenced columns, of any kind
    return [f"SESSION {name} = {literal(value) if isinstance(value, str) else value}" for name, value in values.items()]


def longest_try(settings: MySqlSettings) -> int:
    """Returns the seconds for which one try may wait for locks of others."""
    return max(SHORT_LOCK_WAIT_SECONDS, int(min(LOCK_WAIT_SECONDS, settings.longest_lock_wait)))


def wait_for_locks(cursor: pymysql.cursors.Cursor, rows: int, tables: int) -> None:
    """Sets the seconds for which the session waits for rows and tables that others hold. TiDB has no limit for
    tables."""
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (rows,))
    if flavor_from_greeting(cursor.connection).name != "tidb":
        cursor.execute("SET SESSION lock_wait_timeout = %s", (tables,))


@contextmanager
def short_lock_waits(cursor: pymysql.cursors.Cursor) -> Iterator[None]:
    """Waits shortly for locks of others while the context lasts. Otherwise all work of the driver would wait with it.
    After an error the session is closed."""
    cursor.execute("SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout")
    before = cursor.fetchone()
    wait_for_locks(cursor, SHORT_LOCK_WAIT_SECONDS, SHORT_LOCK_WAIT_SECONDS)
    yield
    wait_for_locks(cursor, *before)


def file_session(flavor: str) -> str:
    """Returns the statement that sets a session in which statements of a file write rows as those of "dml" do."""
    values = (
        f"NAMES utf8mb4 COLLATE utf8mb4_bin, SESSION sql_mode = '{_SQL_MODES['dml']}', SESSION foreign_key_checks = 0"
    )
    more = (
        "allow_auto_random_explicit_insert = 1"
        if flavor == "tidb"
        # One connection writes several tables, and must accept statements without a key or a limit.
        else "completion_type = 'NO_CHAIN', SESSION sql_safe_updates = 0, SESSION sql_big_selects = 1"
    )
    return f"SET {values}, SESSION unique_checks = 1, SESSION time_zone = '+00:00', SESSION {more}"


def is_in_a_cluster(cursor: pymysql.cursors.Cursor) -> bool:
    """Returns whether the server is a node of a Galera cluster."""
    return variable_is(cursor, "wsrep_on", "ON")


def variable_is(cursor: pymysql.cursors.Cursor, name: str, value: str) -> bool:
    """Returns whether the server has this variable with this value."""
    cursor.execute(f"SHOW VARIABLES LIKE '{name}'")
    row = cursor.fetchone()
    return row is not None and row[1] == value


def _declare_timestamps(cursor: pymysql.cursors.Cursor) -> None:
    """Makes a bare TIMESTAMP column nullable, as in TiDB. Servers without that setting are refused: they would store
    the current time for NULL."""
    cursor.execute("SELECT @@explicit_defaults_for_timestamp")
    if not cursor.fetchone()[0]:
        cursor.execute("SET SESSION explicit_defaults_for_timestamp = 1")


def _translated(settings: MySqlSettings, error: pymysql.MySQLError) -> Exception:
    translated = BadConfig(str(error.args[-1]), hint=_TLS_HINT) if _unproven(error) else server_error(error, "start")
    translated.message = f"{settings.user}@{settings.address}: {translated.message}"
    return translated


def ssl_mode_of(settings: MySqlSettings) -> SslMode:
    """Returns the URI's `ssl-mode`. Without it a server on another host must prove its identity."""
    if settings.ssl_mode:
        return settings.ssl_mode
    near = not settings.ssl_ca and (settings.socket or _is_loopback(settings.host))
    return "PREFERRED" if near else "VERIFY_IDENTITY"


def tls_options(settings: MySqlSettings) -> dict[str, Any]:
    """Returns arguments for pymysql's connect. Raises BadConfig for unusable files."""
    match ssl_mode_of(settings):
        case "DISABLED":
            return {"ssl_disabled": True}
        case "PREFERRED" if not settings.ssl_cert:
            return {}
        case mode:
            return {"ssl": _context(mode, settings.ssl_ca, settings.ssl_cert, settings.ssl_key)}


@lru_cache(maxsize=8)
def _context(mode: SslMode, authority: str, certificate: str, key: str) -> ssl.SSLContext:
    """Returns one context for all connections of the process: reading the system's certificates takes 20 ms."""
    try:
        context = ssl.create_default_context(cafile=authority or None)
        context.check_hostname = mode == "VERIFY_IDENTITY"
        context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("VERIFY") else ssl.CERT_NONE
        # Certificates that servers generate themselves lack what newer versions of Python require.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate:
            context.load_cert_chain(certificate, key or None)
    except OSError as error:
        raise BadConfig(f"the downstream's ssl-ca, ssl-cert or ssl-key cannot be used: {error}") from error
    return context


def _unproven(error: BaseException) -> bool:
    """Returns whether a connection failed because the server has no TLS, or does not prove its identity. A connection
    that ended during the handshake does not count: a server that is killed does that."""
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
    """Returns the password. Runs the command, if there is one, without a shell, at each call. Its output is shown
    nowhere. Raises BadConfig if it cannot be run, TargetUnavailable if it fails."""
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
