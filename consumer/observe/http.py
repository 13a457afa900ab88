"""A small HTTP server on a thread of its own, which answers GET."""

from __future__ import annotations

import base64
import binascii
import hmac
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6
from urllib.parse import parse_qs, urlsplit

from consumer.errors import BadConfig

TEXT = "text/plain; charset=utf-8"
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self';"
    " frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of every answer. Names in it come from others."""
_SECONDS = 10.0
"""Seconds for which a client may be silent."""


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    content_type: str = TEXT
    status: int = 200


Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Site:
    """What is served at a path, or below one that ends with ``/`` and is not the root. `token` is what a client must
    present, as a bearer or as the password of basic authentication; "": nothing. Paths in `open` need none."""

    routes: Mapping[str, Callable[[Query], Answer]]
    token: str = ""
    open: frozenset[str] = field(default_factory=frozenset)

    def answer(self, path: str, query: Query, authorization: str) -> Answer:
        known = [at for at in self.routes if path == at or (at.endswith("/") and at != "/" and path.startswith(at))]
        if not known:
            return Answer(b"not found\n", status=404)
        if self.token and known[0] not in self.open and not self._shown(authorization):
            return Answer(b"a token is needed\n", status=401)
        return self.routes[known[0]](query)

    def _shown(self, authorization: str) -> bool:
        kind, _, value = authorization.partition(" ")
        if kind.lower() == "basic":
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return False
        return hmac.compare_digest(value.encode(), self.token.encode())


@contextmanager
def serving(site: Site, address: tuple[str, int], setting: str) -> Iterator[str]:
    """Serves `site` within the context; yields its URL. Raises BadConfig, which names `setting`, if the port is
    taken."""
    host, port = address
    try:
        server = _Server((host, port), site)
    except OSError as problem:
        raise BadConfig(
            f"{setting}: {host}:{port} cannot be listened on ({problem.strerror or problem})",
            hint=f"another process has the port, or the address is not this machine's; leave --{setting} out, or give"
            " another one",
        ) from problem
    threading.Thread(target=server.serve_forever, name=setting, daemon=True).start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], site: Site) -> None:
        self.site = site
        if ":" in address[0]:
            self.address_family = AF_INET6
        super().__init__(address, _Requests)


class _Requests(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SECONDS

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(target.query).items()}
        try:
            answer = self.server.site.answer(target.path, query, self.headers.get("Authorization", ""))
        except Exception as error:  # whoever asks is told, and the replication goes on
            answer = Answer(f"this is a bug in the consumer: {type(error).__name__}\n".encode(), status=500)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in _SAFE.items():
            self.send_header(name, value)
        if answer.status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="storage-consumer"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not part of the consumer's log."""
