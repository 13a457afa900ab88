"""A server that asks for a file of this machine gets none; one away from this host must prove who it is."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from consumer.errors import BadConfig, ConsumerError, TargetUnavailable
from consumer.sink.mysql.server.connection import Purpose, connect_to_server, ssl_mode_of
from consumer.sink.mysql.settings import MySqlSettings

SECRET = b"the secret of this machine"
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
_PROTOCOL_41, _TLS, _SECURE, _PLUGIN_AUTH, _LOCAL_FILES = 0x200, 0x800, 0x8000, 0x80000, 0x80


def greeting(flags: int) -> bytes:
    """With which a server of these abilities begins."""
    begin = b"\x0a8.0.36\x00" + struct.pack("<I", 1) + b"saltsalt\x00" + struct.pack("<H", flags & 0xFFFF)
    begin += b"\x2d" + struct.pack("<HH", 2, flags >> 16) + b"\x15" + bytes(10) + b"saltsaltsalt\x00"
    return begin + b"mysql_native_password\x00"


GREETING = greeting(_PROTOCOL_41 | _TLS | _SECURE | _PLUGIN_AUTH)
"""Of a server with TLS."""
TLS_REQUEST_BYTES = 36
"""What a client answers before the handshake begins."""


class HostileServer:
    """Lets anybody in, answers `answered` statements, and then asks for the file `wanted`. `asks`: it answers the login
    with that, and reads on."""

    def __init__(self, wanted: Path, answered: int, asks: bytes = b"") -> None:
        self._wanted, self._left, self._asks = wanted, answered, asks
        self.received = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        peer, _ = self._socket.accept()
        with peer:
            self._send(peer, 0, greeting(_PROTOCOL_41 | _SECURE | _PLUGIN_AUTH | _LOCAL_FILES))
            if not peer.recv(4096):
                return
            if self._asks:
                self._send(peer, 2, self._asks)
                self._read_all(peer)
                return
            self._send(peer, 2, _OK)
            while peer.recv(4096):
                self._left -= 1
                if self._left < 0:
                    self._send(peer, 1, b"\xfb" + str(self._wanted).encode())
                    self._read_all(peer)
                    return
                self._send(peer, 1, _OK)

    def _read_all(self, peer: socket.socket) -> None:
        peer.settimeout(0.5)
        with contextlib.suppress(OSError):
            while more := peer.recv(4096):
                self.received += more

    def _send(self, peer: socket.socket, number: int, body: bytes) -> None:
        peer.sendall(struct.pack("<I", len(body))[:3] + bytes([number]) + body)


@pytest.fixture
def wanted(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    return file


def settings(port: int) -> MySqlSettings:
    return MySqlSettings("127.0.0.1", port, "u", "", "c", connect_timeout=5)


@pytest.mark.parametrize(("purpose", "loads"), [("dml", False), ("dml", True), ("ddl", False)])
def test_no_file_is_sent(purpose: Purpose, loads: bool, wanted: Path) -> None:
    """In answer to SELECT VERSION(), after the two statements with which a connection begins."""
    server = HostileServer(wanted, 2)
    with pytest.raises(BadConfig, match="asked for a file"):
        connect_to_server(settings(server.port), purpose, loads=loads)
    server.close()
    assert server.received == b""


@pytest.mark.parametrize("answered", [0, 1])
def test_none_at_the_beginning_of_a_connection_either(answered: int, wanted: Path) -> None:
    server = HostileServer(wanted, answered)
    with pytest.raises(ConsumerError):
        connect_to_server(settings(server.port), "dml", loads=True)
    server.close()
    assert SECRET not in server.received


@pytest.mark.parametrize(
    ("uri", "mode"),
    [
        ("mysql://u@127.0.0.1/", "PREFERRED"),
        ("mysql://u@localhost/", "PREFERRED"),
        ("mysql://u@[::1]/", "PREFERRED"),
        ("mysql://u@away/?socket=/run/my.sock", "PREFERRED"),
        ("mysql://u@db.example/", "VERIFY_IDENTITY"),
        ("mysql://u@10.0.0.7/", "VERIFY_IDENTITY"),
        ("mysql://u@127.0.0.1/?ssl-ca=/ca.pem", "VERIFY_IDENTITY"),
        ("mysql://u@db.example/?ssl-mode=disabled", "DISABLED"),
        ("mysql://u@127.0.0.1/?ssl-mode=verify_ca", "VERIFY_CA"),
    ],
)
def test_what_is_asked_of_a_server(uri: str, mode: str) -> None:
    assert ssl_mode_of(MySqlSettings.from_uri(uri, name="c")) == mode


def test_a_mode_that_does_not_exist() -> None:
    with pytest.raises(BadConfig, match="DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY"):
        MySqlSettings.from_uri("mysql://u@h/?ssl-mode=maybe", name="c")


@pytest.mark.parametrize("mode", ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_a_server_without_tls_is_refused_where_it_is_asked_for(mode: str, wanted: Path) -> None:
    server = HostileServer(wanted, 9)
    with pytest.raises(BadConfig, match="SSL is required") as caught:
        connect_to_server(replace(settings(server.port), ssl_mode=mode), "dml")
    assert "ssl-mode" in caught.value.hint
    server.close()


@pytest.mark.parametrize("method", [b"mysql_clear_password", b"dialog"])
@pytest.mark.parametrize("mode", ["PREFERRED", "DISABLED"])
def test_no_password_in_plain_text_without_tls(method: bytes, mode: str, wanted: Path) -> None:
    prompt = b"\x04Password: " if method == b"dialog" else b""
    server = HostileServer(wanted, 0, asks=b"\xfe" + method + b"\x00" + prompt)
    with pytest.raises(BadConfig, match="password in plain text") as caught:
        connect_to_server(replace(settings(server.port), password=SECRET.decode(), ssl_mode=mode), "dml")
    assert "ssl-mode" in caught.value.hint
    server.close()
    assert SECRET not in server.received


@pytest.mark.parametrize("purpose", ["dml", "ddl"])
@pytest.mark.parametrize("says", [b"", struct.pack("<I", len(GREETING)) + GREETING], ids=["nothing", "its greeting"])
def test_a_server_that_stands_still_is_not_waited_for_longer_than_a_connection(says: bytes, purpose: Purpose) -> None:
    """The system takes connections for it meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peers = []

        def greet() -> None:
            peer, _ = listening.accept()
            peer.sendall(says)
            peers.append(peer)

        thread = threading.Thread(target=greet)
        thread.start()
        started = time.monotonic()
        with pytest.raises(TargetUnavailable, match="timed out"):
            connect_to_server(replace(settings(int(listening.getsockname()[1])), connect_timeout=1), purpose)
        assert time.monotonic() - started < 20
        thread.join()
        peers[0].close()


def test_a_server_that_ends_in_the_handshake_is_tried_again() -> None:
    """As one that is killed does: nothing is said of its identity."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet_and_end() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(struct.pack("<I", len(GREETING)) + GREETING)
                received = 0
                while received <= TLS_REQUEST_BYTES:
                    received += len(peer.recv(4096))

        thread = threading.Thread(target=greet_and_end)
        thread.start()
        with pytest.raises(TargetUnavailable, match=r"EOF occurred|gone away|Lost connection|reset"):
            connect_to_server(settings(int(listening.getsockname()[1])), "dml")
        thread.join()
