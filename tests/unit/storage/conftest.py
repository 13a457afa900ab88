"""A part of the real S3 server's bucket for each test, read through a proxy that counts and can fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fault_proxy import FaultProxy
from tests.s3_server import BUCKET, READER, S3Server

_NUMBERS = itertools.count()


class Bucket:
    """A prefix of its own. `proxy` stands between the reader and the server."""

    def __init__(self, server: S3Server, proxy: FaultProxy, prefix: str = "") -> None:
        self.server, self.proxy = server, proxy
        self.prefix = prefix or f"test {next(_NUMBERS)}"

    def uri(self, *, login: tuple[str, str] = READER, bucket: str = BUCKET) -> str:
        return self.server.uri(self.prefix, login=login, bucket=bucket, endpoint=self.proxy.endpoint)

    def put(self, path: str, content: bytes) -> None:
        self.server.put(f"{self.prefix}/{path}", content)

    def put_all(self, contents: dict[str, bytes]) -> None:
        self.server.put_all({f"{self.prefix}/{path}": content for path, content in contents.items()})

    def put_directory(self, directory: Path) -> None:
        self.server.put_directory(directory, self.prefix)


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[Bucket]:
    with FaultProxy(s3_server.port) as proxy:
        yield Bucket(s3_server, proxy)
