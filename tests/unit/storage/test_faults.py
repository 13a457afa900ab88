"""Busy servers and bad networks: what passes is waited for, what stays ends in one sentence, nothing is cut short."""

from __future__ import annotations

import os
import random
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from consumer.errors import BadConfig, ConsumerError, StorageChanged, StorageUnavailable
from consumer.model.files import StoredFile
from consumer.storage import s3
from consumer.storage.reader import ChangefeedReader
from consumer.storage.s3 import S3Client
from consumer.storage.settings import StorageSettings
from tests.fault_proxy import FAULTS, Fault
from tests.s3_server import READER, S3Server
from tests.unit.storage.conftest import Bucket

CONTENT = bytes(random.Random(1).randbytes(300_000))


def _reader(uri: str) -> ChangefeedReader:
    return ChangefeedReader(StorageSettings.from_uri(uri), "day")


def _listed(reader: ChangefeedReader) -> dict[str, StoredFile]:
    listing = reader.listing(5)
    files = [file for group in listing.files.values() for file in group]
    return {file.path: StoredFile(file.path, file.size, file.stamp) for file in files}


def _without_condition(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name != "IfMatch"}


@pytest.fixture
def folder(s3: Bucket) -> Bucket:
    s3.put_all(
        {f"d/t/5/CDC{number:020d}.json": CONTENT[: number * 100] for number in range(1, 31)} | {"metadata": b"{}"}
    )
    return s3


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_survived(folder: Bucket, fault: Fault) -> None:
    left = [fault]
    folder.proxy.fault = lambda method, path: left.pop() if left else None
    reader = _reader(folder.uri())
    files = _listed(reader)
    assert len(files) == 30
    assert left == []
    left.append(fault)
    file = files["d/t/5/CDC00000000000000000030.json"]
    assert reader.range_reader().read(file, 1000, 5000) == CONTENT[1000:3000]
    assert left == []


def test_a_new_connection_that_breaks_is_tried_again(folder: Bucket) -> None:
    """No other is open yet, so the HTTP client does not try again by itself."""
    left: list[Fault] = ["reset"] * 4
    folder.proxy.fault = lambda method, path: left.pop() if left else None
    assert len(_listed(_reader(folder.uri()))) == 30
    assert left == []


def test_faults_at_random_change_nothing(folder: Bucket) -> None:
    rnd = random.Random(7)
    folder.proxy.fault = lambda method, path: rnd.choice(FAULTS) if rnd.random() < 0.25 else None
    reader = _reader(folder.uri())
    files = _listed(reader)
    assert [files[path].size for path in sorted(files)] == [number * 100 for number in range(1, 31)]
    for file in files.values():
        offset = rnd.randrange(file.size)
        assert reader.range_reader().read(file, offset, 1 << 20) == CONTENT[offset : file.size]


@pytest.mark.parametrize("fault", ["busy", "reset", "truncated"])
def test_a_fault_that_stays_ends_in_a_sentence(folder: Bucket, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "ATTEMPTS", 3)
    reader = _reader(folder.uri())
    file = next(iter(_listed(reader).values()))
    folder.proxy.fault = lambda method, path: fault
    for look in (reader.checkpoint, lambda: reader.listing(5), lambda: reader.range_reader().read(file, 0, 90)):
        with pytest.raises(StorageUnavailable, match="cannot read") as caught:
            look()
        assert caught.value.exit_code == 4
        assert "\n" not in str(caught.value)
        assert not any(secret in str(caught.value) for secret in READER)


def test_what_no_second_attempt_changes_is_asked_once(folder: Bucket) -> None:
    reader = _reader(folder.uri())
    folder.proxy.fault = lambda method, path: "refused"
    folder.proxy.requests.clear()
    with pytest.raises(StorageUnavailable, match=r"access is denied \(AccessDenied\)"):
        reader.listing(5)
    assert len(folder.proxy.requests) == 1


def test_a_server_that_is_not_there_is_told_soon() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        uri = f"s3://b/p?endpoint=http://127.0.0.1:{closed.getsockname()[1]}&access-key=AK&secret-access-key=s3cr3t"
        started = time.monotonic()
        with pytest.raises(StorageUnavailable, match="cannot read file s3://b/p/metadata") as caught:
            _reader(uri).checkpoint()
    assert time.monotonic() - started < 20
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("heeded", [True, False], ids=["If-Match", "no If-Match"])
def test_an_object_that_was_written_anew_is_noticed(
    heeded: bool, folder: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`heeded`: not every server, or cache in front of one, does."""
    if not heeded:
        call = S3Client.call
        monkeypatch.setattr(
            S3Client, "call", lambda self, operation, **request: call(self, operation, **_without_condition(request))
        )
    reader = _reader(folder.uri())
    file = _listed(reader)["d/t/5/CDC00000000000000000030.json"]
    folder.put(file.path, CONTENT[-3000:])
    with pytest.raises(StorageChanged, match=r"CDC0+30.json: it was rewritten after it was listed") as caught:
        reader.range_reader().read(file, 0, 10)
    assert caught.value.exit_code == 4
    again = _listed(reader)[file.path]
    assert reader.range_reader().read(again, 0, 10) == CONTENT[-3000:-2990]


def test_a_local_file_that_was_written_anew_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "d/t/5/CDC000001.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"first")
    reader = _reader(f"file://{tmp_path}")
    (file,) = _listed(reader).values()
    assert reader.range_reader().read(file, 0, 9) == b"first"
    state = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    with pytest.raises(StorageChanged):
        reader.range_reader().read(file, 0, 9)
    with pytest.raises(StorageUnavailable, match="only 5 of 9 bytes came"):
        reader.range_reader().read(StoredFile(file.path, 9, ""), 0, 9)


def test_credentials_that_may_only_read_suffice(s3_server: S3Server, folder: Bucket) -> None:
    """And the ones used in all of these tests can do nothing else."""
    from botocore.exceptions import ClientError
    from botocore.session import Session

    client = Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=s3_server.endpoint,
        aws_access_key_id=READER[0],
        aws_secret_access_key=READER[1],
    )
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_object(Bucket="ticdc", Key=f"{folder.prefix}/x", Body=b"x")
    reader: ChangefeedReader = _reader(folder.uri())
    file = next(iter(_listed(reader).values()))
    assert len(reader.range_reader().read(file, 0, file.size)) == file.size


@pytest.mark.parametrize("error", [ConsumerError, BadConfig])
def test_our_own_errors_are_not_tried_again(error: type[ConsumerError]) -> None:
    assert not s3.is_transient(error("x"))
