"""Real servers for tests: each in a temporary folder, on 127.0.0.1, on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Self

import pymysql
from pymysql.constants import CLIENT, ER

_START_SECONDS = 120
_FIRST_PORT, _LAST_PORT = 10_240, 32_000
_ports, _given = Random(), set[int]()
_SYSTEM_DATABASES = {"mysql", "information_schema", "metrics_schema", "performance_schema", "sys", "test"}
_SYSTEM_USERS = {"root", "", "mariadb.sys", "mysql.sys", "mysql.session", "mysql.infoschema"}


class SqlServer(ABC):
    """A server of its own, with its stock character set. `folder` keeps its data over `end` and `start`."""

    name: str
    integer: str
    """How it shows the type of an INT."""
    nopad_collation: str
    """Its collation that compares bytes, trailing blanks too."""

    def __init__(self, template: Path | None, options: Sequence[str] = ()) -> None:
        """`template`: the data folder that it begins with; without one it makes its own."""
        self._template, self._options = template, tuple(options)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name.lower()}-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        data = self.folder / "data"
        if self._template is not None and not data.exists():
            shutil.copytree(self._template, data)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(data), stdout=log, stderr=log)
        self._wait()
        return self

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def stop(self) -> None:
        """Shut down in order and remove the folder."""
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """Shut down in order; the data stays."""
        self._signal("terminate")

    def kill(self) -> None:
        """kill -9; the data stays."""
        self._signal("kill")

    def url(self, user: str = "root", password: str = "") -> str:
        return f"mysql://{user}{':' + password if password else ''}@127.0.0.1:{self.port}/"

    def connect(self, **options: Any) -> pymysql.Connection:
        wanted: dict[str, Any] = {"user": "root", "autocommit": True, "charset": "utf8mb4", "local_infile": True}
        return pymysql.connect(host="127.0.0.1", port=self.port, **{**wanted, **options})

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run the statements as root; rows of the last one."""
        connection = self.connect(ssl_disabled=True)  # to prepare TLS costs more than most statements
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def learn_zone(self, zone: str) -> None:
        """Have the server know the time zone of this name."""
        if self.execute(f"SELECT CONVERT_TZ('2024-01-01', '+00:00', '{zone}')") == [(None,)]:
            command = [*self._zone_reader(), f"/usr/share/zoneinfo/{zone}", zone]
            statements = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            connection = self.connect(database="mysql", client_flag=CLIENT.MULTI_STATEMENTS)
            with connection, connection.cursor() as cursor:
                cursor.execute(statements)
                while cursor.nextset():
                    pass

    def drop_all(self) -> None:
        """Back to empty: no user database, no user but root, no connection that a failed test left behind."""
        self.kill_clients()
        for (name,) in self.execute("SHOW DATABASES"):
            if name.lower() not in _SYSTEM_DATABASES:
                self._drop_database(name)
        for user, host in self.execute("SELECT user, host FROM mysql.user"):
            if user not in _SYSTEM_USERS:
                self.execute(f"DROP USER '{user}'@'{host}'")

    def _drop_database(self, name: str) -> None:
        """A killed MariaDB can leave a file of no table in a database's folder, which keeps the database from going."""
        statement = "DROP DATABASE `" + name.replace("`", "``") + "`"
        try:
            self.execute(statement)
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.DB_DROP_RMDIR:
                raise
            for file in (self.folder / "data" / name).iterdir():
                file.unlink()
            self.execute(statement)

    def kill_clients(self) -> None:
        """End every connection, as when the clients' processes die."""
        connection = self.connect(ssl_disabled=True)
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND host <> ''")
            for (number,) in cursor.fetchall():
                with contextlib.suppress(pymysql.err.OperationalError):  # one that went by itself
                    cursor.execute(f"KILL CONNECTION {number}")
        connection.close()

    @abstractmethod
    def _program(self) -> Sequence[str]:
        """The server's command, with the options that only it has."""

    @abstractmethod
    def _zone_reader(self) -> Sequence[str]:
        """The command that turns a time zone file into statements."""

    def _command(self, data: Path) -> list[str]:
        return [
            *self._program(),
            *as_root(),
            f"--datadir={data}",
            f"--socket={self.folder}/sock",
            f"--pid-file={self.folder}/pid",
            f"--tmpdir={self._own_tmpdir()}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--local-infile=1",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=256M",
            "--performance-schema=OFF",
            "--max-allowed-packet=64M",
            "--max-connections=200",
            *self._options,
        ]

    def _own_tmpdir(self) -> Path:
        """A server that starts removes the temporary tables that it finds, also those of another one that runs."""
        folder = self.folder / "tmp"
        folder.mkdir(exist_ok=True)
        return folder

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.connect(ssl_disabled=True).close()
                return
            except pymysql.MySQLError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    log = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.name} did not start: {error}\n{log}") from error
                time.sleep(0.05)

    def _signal(self, verb: str) -> None:
        if self._process is not None and self._process.poll() is None:
            getattr(self._process, verb)()
            self._process.wait(timeout=60)
        self._process = None


class MariaDb(SqlServer):
    """A mariadbd."""

    name = "MariaDB"
    integer = "int(11)"
    nopad_collation = "utf8mb4_nopad_bin"

    def _program(self) -> Sequence[str]:
        return [mariadbd(), "--no-defaults"]

    def _zone_reader(self) -> Sequence[str]:
        return ["mariadb-tzinfo-to-sql"]


def mariadb_template(folder: Path) -> Path:
    """A freshly installed data folder, to be copied by each server."""
    data = folder / "template"
    installer = shutil.which("mariadb-install-db") or "/usr/bin/mariadb-install-db"
    command = [installer, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
    own_tmpdir = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        [*command, "--skip-test-db", *as_root()], capture_output=True, text=True, check=False, env=own_tmpdir
    )
    if done.returncode:
        raise RuntimeError(f"MariaDB cannot install its data folder: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return data


def mariadbd() -> str:
    """The server's path; a RuntimeError where it is not installed."""
    found = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise RuntimeError("mariadbd is not installed")
    return found


def as_root() -> Sequence[str]:
    """What a server that root starts wants to be told."""
    return ["--user=root"] if os.getuid() == 0 else []


def free_port(beside: int = 0) -> int:
    """One below those that the kernel gives to outgoing connections, which could take it before the server does; never
    the same twice. The one that is `beside` further on is free too."""
    while True:
        port = _ports.randrange(_FIRST_PORT, _LAST_PORT - beside)
        wanted = {port, port + beside}
        if not wanted & _given and all(map(_is_free, wanted)):
            _given.update(wanted)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False
