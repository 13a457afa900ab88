"""Emulators of Google Cloud Storage, Azure Blob Storage and AWS Glue, in memory, on 127.0.0.1, on free ports."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.servers import free_port

BUCKET = "ticdc"
_START_SECONDS = 120
_ROOT = Path(__file__).parents[1]
AZURITE = "azurite is not installed: npm install --prefix build/azurite azurite"
"""Why a test is skipped."""
_MOTO = _ROOT / "build" / "moto" / "bin" / "moto_server"


class CloudServer(Protocol):
    """An emulator with one bucket (container), `BUCKET`."""

    @property
    def endpoint(self) -> str: ...
    def start(self) -> CloudServer: ...
    def stop(self) -> None: ...
    def put(self, key: str, content: bytes) -> None: ...
    def uri(self, prefix: str, *, bucket: str = BUCKET, login: str = "") -> str:
        """`login`: query parameters in the place of those that are right."""


class _Process:
    """A server's process, with its log in a temporary folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cloud-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self, *command: str) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.endpoint}/", timeout=5):
                return True
        except HTTPError:
            return True
        except OSError:
            return False


class GcsServer(_Process):
    """gcp-storage-emulator. It asks nobody for a login."""

    def start(self) -> GcsServer:
        place = ("-H", "127.0.0.1", "--port", str(self.port), "--in-memory", "--default-bucket", BUCKET)
        self.launch(sys.executable, "-m", "gcp_storage_emulator", "start", "--quiet", *place)
        return self

    def put(self, key: str, content: bytes) -> None:
        place = f"{self.endpoint}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quote(key, safe='')}"
        headers = {"Content-Type": "application/octet-stream"}
        with urlopen(Request(place, data=content, headers=headers), timeout=20):
            pass

    def uri(self, prefix: str, *, bucket: str = BUCKET, login: str = "") -> str:
        more = f"&{login}" if login else ""
        return f"gcs://{bucket}/{quote(prefix)}?protocol=canal-json&endpoint={self.endpoint}{more}"


class AzureServer(_Process):
    """Azurite, with the account and the key that are its own."""

    ACCOUNT = "devstoreaccount1"
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    OTHER_KEY = base64.b64encode(b"another key, made for this test.").decode()

    def start(self) -> AzureServer:
        azurite = azurite_blob()
        assert azurite is not None, AZURITE
        place = ("--blobHost", "127.0.0.1", "--blobPort", str(self.port))
        options = ("--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent")
        self.launch(azurite, *place, *options)
        with self._service() as service:
            service.create_container(BUCKET)
        return self

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.ACCOUNT}"

    def put(self, key: str, content: bytes, encoding: str | None = None) -> None:
        from azure.storage.blob import ContentSettings

        with self._service() as service:
            settings = ContentSettings(content_encoding=encoding)
            service.get_blob_client(BUCKET, key).upload_blob(content, overwrite=True, content_settings=settings)

    def uri(self, prefix: str, *, bucket: str = BUCKET, login: str = "") -> str:
        login = login or f"account-name={self.ACCOUNT}&account-key={quote(self.KEY, safe='')}"
        return f"azblob://{bucket}/{quote(prefix)}?protocol=canal-json&endpoint={self.endpoint}&{login}"

    def sas_token(self) -> str:
        """One that may read and list, for an hour."""
        from datetime import UTC, datetime, timedelta

        from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

        return str(
            generate_account_sas(
                self.ACCOUNT,
                self.KEY,
                ResourceTypes(service=True, container=True, object=True),
                AccountSasPermissions(read=True, list=True),
                datetime.now(UTC) + timedelta(hours=1),
            )
        )

    def _service(self):  # type: ignore[no-untyped-def]
        from azure.storage.blob import BlobServiceClient

        return BlobServiceClient(self.endpoint, credential=self.KEY)


def azurite_blob() -> str | None:
    """Where Azurite's blob server is, None where it is not installed."""
    own = _ROOT / "build" / "azurite" / "node_modules" / ".bin"
    return shutil.which("azurite-blob", path=str(own)) or shutil.which("azurite-blob")


class GlueServer(_Process):
    """Moto's Glue, which believes every login."""

    is_there = _MOTO.exists()

    def start(self) -> GlueServer:
        self.launch(str(_MOTO), "-H", "127.0.0.1", "-p", str(self.port))
        return self

    def clear(self) -> None:
        """Removes all databases and tables."""
        with urlopen(Request(f"{self.endpoint}/moto-api/reset", method="POST"), timeout=20):
            pass
