"""A MySQL proxy that pools: each transaction of a client goes to any session of the server that is idle."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from typing import Self

_OK, _LOCAL, _EOF, _ERR = 0x00, 0xFB, 0xFE, 0xFF
_QUIT = 0x01
_IN_TRANSACTION, _MORE_RESULTS = 0x01, 0x08
_SHORT = 9
"""An EOF packet is shorter; a row that begins like one is longer."""


class PoolingProxy:
    """Before the server on `port`. A session that a client has logged on with is everybody's from then on, and as many
    commands as are run at a time have one each. Not for clients that prepare statements or leave EOF packets out."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._idle: deque[socket.socket] = deque()
        self._changed = threading.Condition()
        self.url = f"mysql://root@127.0.0.1:{self._listening.getsockname()[1]}/"
        self.handed_over = 0
        """How often a client got another session than the one before."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        with self._changed:
            for session in self._idle:
                session.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        last = self._log_on(client)
        held: socket.socket | None = None
        try:
            with client:
                while True:
                    command = _packet(client)
                    if command[4] == _QUIT:
                        return
                    if held is None:
                        held = self._take()
                        self.handed_over += held is not last
                        last = held
                    held.sendall(command)
                    if not _answer(held, client) & _IN_TRANSACTION:
                        held = self._give(held)
        except (OSError, EOFError):
            pass
        finally:
            if held is not None:
                held.close()  # in the middle of a transaction, which the server ends

    def _log_on(self, client: socket.socket) -> socket.socket:
        session = socket.create_connection(("127.0.0.1", self._port))
        session.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(_without_tls(_packet(session)))
        while True:
            session.sendall(_packet(client))
            answer = _packet(session)
            client.sendall(answer)
            if answer[4] == _OK:
                self._give(session)
                return session

    def _take(self) -> socket.socket:
        with self._changed:
            self._changed.wait_for(lambda: self._idle)
            return self._idle.popleft()

    def _give(self, session: socket.socket) -> None:
        with self._changed:
            self._idle.append(session)
            self._changed.notify()


def _answer(session: socket.socket, client: socket.socket) -> int:
    """Pass on the answer to one command; the session's status behind it."""
    status = _MORE_RESULTS
    while status & _MORE_RESULTS:
        first = _pass_on(session, client)
        if first[4] == _LOCAL:
            while len(data := _packet(client)) > 4:
                session.sendall(data)
            session.sendall(data)
            first = _pass_on(session, client)
        if first[4] == _ERR:
            return 0
        if first[4] == _OK:
            status = _status_of_ok(first[5:])
            continue
        for _ in range(2):  # the columns, then the rows
            while not _ends(packet := _pass_on(session, client)):
                pass
            if packet[4] == _ERR:
                return 0
        status = struct.unpack("<H", packet[7:9])[0]
    return status


def _without_tls(greeting: bytes) -> bytes:
    """Behind the version are the session's number, eight bytes of the challenge, a zero, and what the server can do."""
    changed = bytearray(greeting)
    changed[greeting.index(0, 5) + 1 + 4 + 8 + 1 + 1] &= ~0x08
    return bytes(changed)


def _ends(packet: bytes) -> bool:
    return packet[4] == _ERR or (packet[4] == _EOF and len(packet) - 4 < _SHORT)


def _status_of_ok(body: bytes) -> int:
    for _ in range(2):  # rows changed, and the last number given
        width = {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(body[0], 1)
        body = body[width:]
    return int(struct.unpack("<H", body[:2])[0])


def _pass_on(session: socket.socket, client: socket.socket) -> bytes:
    packet = _packet(session)
    client.sendall(packet)
    return packet


def _packet(source: socket.socket) -> bytes:
    """One packet with its four bytes of head."""
    head = _exactly(source, 4)
    return head + _exactly(source, int.from_bytes(head[:3], "little"))


def _exactly(source: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return bytes(found)
