"""The stacks of all threads, at the address where TiCDC's sample consumer serves its profiles."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from consumer.errors import BadConfig

ADDRESS = ("127.0.0.1", 6060)
PATH = "/debug/pprof/"


@contextmanager
def serving(address: tuple[str, int] = ADDRESS) -> Iterator[str]:
    """Serve the stacks under PATH within it; yields the URL. Raises BadConfig when the port is taken."""
    try:
        server = ThreadingHTTPServer(address, _Stacks)
    except OSError as problem:
        raise BadConfig(
            f"enable-profiling: {address[0]}:{address[1]} cannot be listened on ({problem.strerror})",
            hint="Another process has the port; leave --enable-profiling out.",
        ) from problem
    threading.Thread(target=server.serve_forever, name="profiling", daemon=True).start()
    try:
        yield f"http://{address[0]}:{server.server_port}{PATH}"
    finally:
        server.shutdown()
        server.server_close()


def stacks() -> str:
    """The stack of every thread, as Python prints it."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    shown = ((names.get(ident, "?"), frame) for ident, frame in sys._current_frames().items())
    return "\n".join(f"{name}:\n{''.join(traceback.format_stack(frame))}" for name, frame in shown)


class _Stacks(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path.startswith(PATH)
        body = stacks().encode() if found else b"not found\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not part of the consumer's log."""
