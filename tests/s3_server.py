"""A real S3 server for tests: SeaweedFS in a temporary folder, on 127.0.0.1, on free ports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen
from uuid import uuid4

from tests.servers import free_port

BUCKET = "ticdc"
WRITER, READER = ("AKIDWRITER", "wr/it+er"), ("AKIDREADER", "re/ad+er")
"""Access key and secret of an identity that may do everything, and of one that may only list and read."""
_START_SECONDS, _STARTS = 90, 3
_GRPC = 10_000
"""What SeaweedFS's own tools add to the filer's port."""
_WEED = str(Path(sys.executable).parent / "weed")
_IDENTITIES = {
    "identities": [
        {
            "name": name,
            "credentials": [{"accessKey": login[0], "secretKey": login[1]}],
            "actions": actions,
        }
        for name, login, actions in (
            ("writer", WRITER, ["Admin", "Read", "List", "Tagging", "Write"]),
            ("reader", READER, [f"Read:{BUCKET}", f"List:{BUCKET}"]),
        )
    ]
}


class S3Server:
    """SeaweedFS with one bucket. What a test reads from it goes through `READER`, which cannot write."""

    def __init__(self, identities: Sequence[Mapping[str, Any]] = ()) -> None:
        """`identities`: more of them, as SeaweedFS's configuration has them."""
        self._identities = {"identities": [*_IDENTITIES["identities"], *identities]}
        self.folder = Path(tempfile.mkdtemp(prefix="s3-"))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> S3Server:
        """It has seven ports and a master that must become its own leader: a start that fails is tried again, on other
        ports."""
        (self.folder / "s3.json").write_text(json.dumps(self._identities))
        for attempt in range(1, _STARTS + 1):
            self.port, self._filer_port, self._catalog_port = free_port(), free_port(beside=_GRPC), free_port()
            self.__dict__.pop("_client", None)
            (self.folder / "data").mkdir()
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, cwd=self.folder)
            try:
                self._wait()
                break
            except RuntimeError:
                if attempt == _STARTS:
                    raise
                self._kill()
                shutil.rmtree(self.folder / "data")
        return self

    def stop(self) -> None:
        self._kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=60)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def catalog(self) -> str:
        """Its own catalog of Iceberg tables, as Iceberg's REST protocol has it; a login is that of S3."""
        return f"http://127.0.0.1:{self._catalog_port}"

    def table_bucket(self) -> str:
        """A new one: a bucket whose tables that catalog has."""
        name = f"tables-{uuid4().hex[:8]}"
        self._connected("s3tables").create_table_bucket(name=name)
        return f"s3://{name}"

    def uri(
        self, prefix: str, *, login: tuple[str, str] = READER, bucket: str = BUCKET, endpoint: str = "", extra: str = ""
    ) -> str:
        keys = f"access-key={quote(login[0], safe='')}&secret-access-key={quote(login[1], safe='')}"
        return f"s3://{bucket}/{quote(prefix)}?protocol=canal-json&endpoint={endpoint or self.endpoint}&{keys}{extra}"

    def client(self) -> Any:
        """A botocore client of the identity that may write."""
        return self._client

    @cached_property
    def _client(self) -> Any:
        return self._connected("s3")

    def _connected(self, service: str) -> Any:
        from botocore.config import Config
        from botocore.session import Session

        return Session().create_client(
            service,
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=WRITER[0],
            aws_secret_access_key=WRITER[1],
            config=Config(s3={"addressing_style": "path"}, max_pool_connections=32),
        )

    def put(self, key: str, content: bytes) -> None:
        self.client().put_object(Bucket=BUCKET, Key=key, Body=content)

    def put_all(self, objects: Mapping[str, bytes]) -> None:
        """Past the S3 door, at a third of its cost: into the filer behind it."""
        with closing(HTTPConnection("127.0.0.1", self._filer_port, timeout=60)) as filer:
            for key, content in objects.items():
                headers = {"Content-Type": "application/octet-stream"}
                filer.request("PUT", f"/buckets/{BUCKET}/{quote(key)}", content, headers)
                answer = filer.getresponse()
                assert answer.status < 300, (key, answer.read())
                answer.read()

    def put_directory(self, directory: Path, prefix: str) -> None:
        """SeaweedFS takes a backslash in a key for a slash: files with one in their names are left out."""
        files = (path for path in directory.rglob("*") if path.is_file() and "\\" not in str(path))
        self.put_all({f"{prefix}/{path.relative_to(directory).as_posix()}": path.read_bytes() for path in files})

    def copy_directory(self, directory: Path) -> None:
        """What lies in `directory` becomes the bucket's, past the S3 door: many times faster, for very many files."""
        folders = [str(path) for path in directory.iterdir()]
        filer = f"http://127.0.0.1:{self._filer_port}/buckets/{BUCKET}/"
        subprocess.run([_WEED, "filer.copy", "-c=32", *folders, filer], check=True, capture_output=True)

    def delete(self, keys: Iterable[str]) -> None:
        client = self.client()
        for key in keys:
            client.delete_object(Bucket=BUCKET, Key=key)

    def _command(self) -> list[str]:
        ports = {"master": free_port(), "volume": free_port(), "filer": self._filer_port}
        grpc = [f"-{part}.port.grpc={free_port()}" for part in ("master", "volume", "s3")]
        return [
            _WEED,
            "-logtostderr=true",
            "server",
            f"-dir={self.folder / 'data'}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            *(f"-{part}.port={port}" for part, port in ports.items()),
            *grpc,
            f"-filer.port.grpc={self._filer_port + _GRPC}",
            "-master.volumeSizeLimitMB=1024",
            "-volume.max=1000",  # each bucket has some of its own
            "-filer",
            "-s3",
            f"-s3.port={self.port}",
            "-s3.ip.bind=127.0.0.1",
            f"-s3.port.iceberg={self._catalog_port}",
            "-s3.port.lance=0",
            f"-s3.config={self.folder / 's3.json'}",
        ]

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urlopen(f"{self.endpoint}/healthz", timeout=5):
                    pass
                client = self.client()
                client.create_bucket(Bucket=BUCKET)
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
                client.delete_object(Bucket=BUCKET, Key="ready")
                return
            except (URLError, OSError, _client_error()) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"the S3 server did not start: {error}\n{log}") from error
                time.sleep(0.1)


def _client_error() -> type[Exception]:
    from botocore.exceptions import ClientError

    return ClientError
