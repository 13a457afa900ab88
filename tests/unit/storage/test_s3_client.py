"""Pages of a listing are as botocore reads them."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from consumer.storage.s3 import BEFORE_PARSE, S3Client, is_transient, read_files
from consumer.storage.settings import StorageSettings
from tests.s3_server import BUCKET
from tests.unit.storage.conftest import Bucket

PATHS = ["plain/CDC1.json", "a b/c+d%20e/&amp;<x>'\".json", "größe/表/😀.json", "empty.json", "z/CDC2.json"]


@pytest.fixture
def own(s3: Bucket) -> S3Client:
    s3.put_all({path: b"x" * number for number, path in enumerate(PATHS)})
    return S3Client(StorageSettings.from_uri(s3.uri()))


@pytest.fixture
def plain(s3: Bucket, own: S3Client) -> S3Client:
    """botocore alone."""
    client = S3Client(StorageSettings.from_uri(s3.uri()))
    client._files.s3.meta.events.unregister(BEFORE_PARSE, read_files)
    return client


@pytest.mark.parametrize("more", [{}, {"MaxKeys": 2}, {"Delimiter": "/"}, {"StartAfter": "zzz"}], ids=str)
def test_a_page_is_as_botocore_reads_it(s3: Bucket, own: S3Client, plain: S3Client, more: dict[str, Any]) -> None:
    request = {"Bucket": BUCKET, "Prefix": f"{s3.prefix}/", **more}
    found, wanted = (_page(client, request) for client in (own, plain))
    for file in wanted.get("Contents", ()):
        del file["StorageClass"]  # nobody asks for it: so it is seen that botocore did not read these
    assert found == wanted


def test_all_keys_come_as_they_were_written(s3: Bucket, own: S3Client) -> None:
    page = _page(own, {"Bucket": BUCKET, "Prefix": f"{s3.prefix}/"})
    found = {file["Key"].removeprefix(f"{s3.prefix}/"): file["Size"] for file in page["Contents"]}
    assert found == {path: number for number, path in enumerate(PATHS)}


@pytest.mark.parametrize("space", [' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', ""])
def test_members_that_stand_between_files_are_botocores(space: str) -> None:
    files = ["<Key/><Size>1</Size><Owner><ID>o</ID></Owner>", "<Key>b</Key><Size>2</Size><ETag>e</ETag>"]
    first, second = (f"<Contents>{file}</Contents>" for file in files)
    body = f"<ListBucketResult{space}>{first}<IsTruncated>true</IsTruncated>{second}<Name>n</Name></ListBucketResult>"
    answer, taken = {"status_code": 200, "body": body.encode()}, dict[str, Any]()
    read_files(answer, taken)
    assert taken == {"Contents": [{"Key": "", "Size": 1}, {"Key": "b", "Size": 2, "ETag": "e"}]}
    rest = {element.tag.rpartition("}")[2]: element.text for element in ET.fromstring(answer["body"])}
    assert rest == {"IsTruncated": "true", "Name": "n"}


NO_PAGES = {
    "nothing": "",
    "text": "busy",
    "half a page": "<ListBucketResult><Contents><Key>a</Key>",
    "files without sizes": "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
    "a proxy's": "<html><body><p>back soon</p></body></html>",
    "another answer": "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>",
}


@pytest.mark.parametrize("status", [200, 204])
@pytest.mark.parametrize("body", NO_PAGES.values(), ids=NO_PAGES)
def test_a_success_that_is_no_page_is_no_empty_listing(body: str, status: int) -> None:
    with pytest.raises(ResponseParserError, match="no listing") as caught:
        read_files({"status_code": status, "body": body.encode()}, {})
    assert is_transient(caught.value)


@pytest.mark.parametrize("status", [200, 404, 502])
def test_an_error_is_left_to_botocore(status: int) -> None:
    answer, taken = {"status_code": status, "body": b"<Error><Code>SlowDown</Code></Error>"}, dict[str, Any]()
    read_files(answer, taken)
    assert (answer["body"], taken) == (b"<Error><Code>SlowDown</Code></Error>", {})


def test_an_error_is_botocores(s3: Bucket, own: S3Client) -> None:
    with pytest.raises(ClientError, match=r"NoSuchBucket|AccessDenied"):
        own.call("list_objects_v2", Bucket="nothing-there")


def test_a_request_that_a_signal_breaks_off_is_given_up(s3: Bucket, own: S3Client) -> None:
    """One that goes on would be told of with a trace, when the process ends."""
    s3.proxy.fault = lambda method, path: time.sleep(5)
    before, main = asyncio.all_tasks(own._files.loop), threading.main_thread().ident
    threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        own.call("list_objects_v2", Bucket=BUCKET)
    deadline = time.monotonic() + 1
    while asyncio.all_tasks(own._files.loop) - before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _page(client: S3Client, request: dict[str, Any]) -> dict[str, Any]:
    page = client.call("list_objects_v2", **request)
    del page["ResponseMetadata"]
    return page
