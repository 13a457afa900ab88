"""An HTTP proxy before a server on 127.0.0.1: counts requests, and fails them as bad networks and busy servers do."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Self

Fault = Literal["reset", "busy", "slow", "truncated", "short", "empty", "refused"]
FAULTS: tuple[Fault, ...] = ("reset", "busy", "slow", "truncated", "short", "empty")
"""Those that pass. `truncated` breaks off, `short` says that half of the body is all of it, `empty` that there is
none."""
_BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_REFUSED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"
_HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive"}


class FaultProxy:
    """`fault` is asked for each request, with its method and path, what should befall it (None: nothing)."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.fault: Callable[[str, str], Fault | None] = lambda method, path: None
        self.requests: list[tuple[str, str, str]] = []
        """Method, path with query, and the range asked for ("" for none)."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def listings(self) -> int:
        return sum("list-type=2" in path for _, path, _ in self.requests)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, proxy: FaultProxy, *rest: object) -> None:
        self.proxy = proxy
        super().__init__(*rest)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        return None

    def do_GET(self) -> None:
        self.proxy.requests.append((self.command, self.path, self.headers.get("Range", "")))
        fault = self.proxy.fault(self.command, self.path)
        if fault == "reset":
            self._reset()
        elif fault in ("busy", "refused"):
            body = _BUSY if fault == "busy" else _REFUSED
            self._answer(503 if fault == "busy" else 403, [("Content-Type", "application/xml")], body)
        else:
            self._forward(fault)

    do_HEAD = do_GET  # noqa: N815

    def _forward(self, fault: Fault | None) -> None:
        connection = HTTPConnection("127.0.0.1", self.proxy.target, timeout=60)
        connection.request(self.command, self.path, headers=dict(self.headers))
        answer = connection.getresponse()
        body = answer.read()
        headers = [pair for pair in answer.getheaders() if pair[0].lower() not in {*_HOP_BY_HOP, "content-length"}]
        connection.close()
        if fault == "truncated":
            self._answer(answer.status, headers, body[: len(body) // 2], announced=len(body))
            self._reset()
        elif fault == "short":
            self._answer(answer.status, headers, body[: len(body) // 2])
        elif fault == "empty":
            self._answer(answer.status, headers, b"")
        elif fault == "slow":
            self._answer(answer.status, headers, body[:1], announced=len(body))
            time.sleep(0.05)
            self.wfile.write(body[1:])
        else:
            self._answer(answer.status, headers, body)

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, announced: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
            self.wfile.flush()

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
