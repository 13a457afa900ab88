"""Passwords of any characters, from any place. A command that prints one runs for each connection, and is not shown."""

from __future__ import annotations

import os
import shlex
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from consumer.errors import BadConfig, ConsumerError, TargetUnavailable
from consumer.sink.mysql.server import connection as module
from consumer.sink.mysql.server.connection import connect_to_server, password_of
from consumer.sink.mysql.settings import MySqlSettings
from tests.certificates import Authority
from tests.servers import MariaDb
from tests.unit.sink.mysql.test_hostile_server import GREETING

TOKEN = "token-of-a-minute"


def settings(command: str, uri: str = "mysql://replica@127.0.0.1/") -> MySqlSettings:
    return MySqlSettings.from_uri(f"{uri}?password-command={quote(command)}", name="c", time_zone="UTC")


@pytest.fixture
def replica(mariadb: MariaDb) -> Iterator[MariaDb]:
    mariadb.execute(f"CREATE OR REPLACE USER replica IDENTIFIED BY '{TOKEN}'")
    yield mariadb
    mariadb.execute("DROP USER replica")


@pytest.mark.parametrize("password", ["p+ss w@rd", "pässwörd", "密码😀", "a'b\"c\\d%", "#?&=/"])
def test_a_password_is_sent_as_it_is(password: str, replica: MariaDb) -> None:
    literal = password.replace("\\", "\\\\").replace("'", "''")
    replica.execute(f"CREATE OR REPLACE USER replica IDENTIFIED BY '{literal}'")
    coded = quote(password, safe="+")
    for uri in (f"mysql://replica:{coded}@127.0.0.1:{replica.port}/", f"{replica.url('replica')}?password={coded}"):
        connect_to_server(MySqlSettings.from_uri(uri, name="c"), "dml").close()


def test_the_command_is_run_for_each_connection(replica: MariaDb, tmp_path: Path) -> None:
    script = tmp_path / "a token's command"
    script.write_text(f"#!/bin/sh\necho run >> {shlex.quote(str(tmp_path / 'runs'))}\nprintf '%s' \"$1\"\n")
    script.chmod(0o755)
    wanted = settings(f"{shlex.quote(str(script))} {TOKEN}", replica.url("replica"))
    for _ in range(3):
        connect_to_server(wanted, "dml").close()
    assert (tmp_path / "runs").read_text() == "run\n" * 3


def test_no_shell_reads_it(tmp_path: Path) -> None:
    assert password_of(settings(f"echo $HOME; touch {tmp_path}/made `id` | cat")) == (
        f"$HOME; touch {tmp_path}/made `id` | cat".encode()
    )
    assert not (tmp_path / "made").exists()
    assert password_of(settings("sh -c 'echo $HOME'")) == os.environ["HOME"].encode()


@pytest.mark.parametrize(
    ("command", "kind", "told"),
    [
        ("/no/such/program x", BadConfig, "/no/such/program cannot be run: No such file"),
        (f"sh -c 'echo {TOKEN}; echo {TOKEN} >&2; exit 3'", TargetUnavailable, "sh ended with exit code 3"),
        ("true", TargetUnavailable, "true printed nothing"),
        (f"printf '{TOKEN}\\n{TOKEN}\\n'", TargetUnavailable, "printf printed more than one line"),
        (f"sh -c 'echo {TOKEN}; sleep 9'", TargetUnavailable, "sh did not end within 0.2 s"),
    ],
)
def test_one_that_fails(command: str, kind: type[ConsumerError], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WITHIN", 0.2)
    with pytest.raises(kind, match=told) as caught:
        connect_to_server(settings(command), "dml")
    shown = f"{caught.value!r} {caught.value.hint} {caught.value.__cause__} {settings(command)!r}"
    assert TOKEN not in shown


def test_a_password_the_server_refuses_is_not_shown(replica: MariaDb) -> None:
    with pytest.raises(BadConfig, match="Access denied") as caught:
        connect_to_server(settings("echo another-token", replica.url("replica")), "dml")
    assert "another-token" not in f"{caught.value!r} {caught.value.__cause__!r}"


@pytest.mark.parametrize("query", ["password=a&password-command=b", "password-command=", "password-command=a%20'b"])
def test_what_is_refused(query: str) -> None:
    with pytest.raises(BadConfig, match="password"):
        MySqlSettings.from_uri(f"mysql://u@h/?{query}", name="c")
    with pytest.raises(BadConfig, match="more than one password"):
        MySqlSettings.from_uri("mysql://u:p@h/?password=q", name="c")


def test_a_token_reaches_a_server_that_asks_for_it_in_plain_text_over_tls(tmp_path: Path) -> None:
    """As RDS and Aurora do for IAM logins."""
    authority = Authority(tmp_path, "authority")
    server = PlainServer(*authority.sign("server", "127.0.0.1"))
    uri = f"mysql://replica@127.0.0.1:{server.port}/?ssl-ca={authority.file}&password-command=echo%20{TOKEN}"
    with pytest.raises(ConsumerError):  # it hangs up then
        connect_to_server(MySqlSettings.from_uri(uri, name="c"), "dml")
    server.close()
    assert server.received[4:] == TOKEN.encode() + b"\0"


class PlainServer:
    """Asks for TLS, then for the password as it is."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self.received = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        plain, _ = self._socket.accept()
        plain.sendall(_packet(0, GREETING))
        plain.recv(36)  # the request for TLS: its length is fixed
        with self._context.wrap_socket(plain, server_side=True) as peer:
            peer.recv(4096)
            peer.sendall(_packet(3, b"\xfemysql_clear_password\x00"))
            self.received = peer.recv(4096)


def _packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body
