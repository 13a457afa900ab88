"""A bucket behind the few S3 requests that a reader makes, served from a directory on 127.0.0.1."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

BUCKET = "ticdc"
ACCESS_KEY = "AKIDEXAMPLE"


@dataclass
class Bucket:
    """`objects` by key. Listings hold at most `page` keys, so that they have to be continued."""

    port: int = 0
    page: int = 7
    objects: dict[str, bytes] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)

    def uri(self, prefix: str, access_key: str = ACCESS_KEY, bucket: str = BUCKET) -> str:
        login = f"access-key={access_key}&secret-access-key=se/cr+et"
        return f"s3://{bucket}/{prefix}?protocol=canal-json&endpoint=http://127.0.0.1:{self.port}&{login}"

    def add_directory(self, directory: Path, prefix: str) -> None:
        for path in directory.rglob("*"):
            if path.is_file():
                self.objects[f"{prefix}/{path.relative_to(directory).as_posix()}"] = path.read_bytes()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, bucket: Bucket, *rest: object) -> None:
        self.bucket = bucket
        super().__init__(*rest)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        return None

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
            self._refuse(403, "InvalidAccessKeyId")
        elif bucket != BUCKET:
            self._refuse(404, "NoSuchBucket")
        elif not key:
            self._list(parse_qs(url.query, keep_blank_values=True))
        elif key not in self.bucket.objects:
            self._refuse(404, "NoSuchKey")
        else:
            self._object(self.bucket.objects[key])

    def _list(self, query: dict[str, list[str]]) -> None:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        keys = sorted(key for key in self.bucket.objects if key.startswith(prefix) and key > after)
        shown, rest = keys[: self.bucket.page], keys[self.bucket.page :]
        contents = "".join(self._entry(key) for key in shown)
        more = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if rest else ""
        truncated = "true" if rest else "false"
        body = f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{contents}{more}</ListBucketResult>"
        self._answer(200, body.encode(), {"Content-Type": "application/xml"})

    def _entry(self, key: str) -> str:
        content = self.bucket.objects[key]
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-11-21T08:00:00.000Z</LastModified>"
            f"<ETag>&quot;{md5(content).hexdigest()}&quot;</ETag><Size>{len(content)}</Size></Contents>"
        )

    def _object(self, content: bytes) -> None:
        status, headers = 200, {"ETag": f'"{md5(content).hexdigest()}"'}
        if wanted := self.headers.get("Range"):
            self.bucket.ranges.append(wanted)
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last), len(content) - 1) if last else len(content) - 1
            headers["Content-Range"] = f"bytes {first}-{end}/{len(content)}"
            status, content = 206, content[int(first) : end + 1]
        self._answer(status, content, headers)

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self._answer(status, body, {"Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def s3() -> Iterator[Bucket]:
    bucket = Bucket()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, bucket))
    server.daemon_threads = True
    bucket.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield bucket
    server.shutdown()
    server.server_close()
    thread.join()
