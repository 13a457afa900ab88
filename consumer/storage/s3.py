"""S3, and other servers with its protocol, through s3fs.

A listing is one walk over the keys, in the server's order, that leaps over spans: after a page that ends inside a span
comes the page behind that span. So it takes no more requests than a plain walk, and no more than one for each span and
one for each thousand new keys. Long walks are cut at spans and at known folders and run in parallel. That needs the
keys in byte order, as S3 returns them; a server that is seen to have another order gets one walk from beginning to end.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar
from xml.etree import ElementTree as ET

from consumer.errors import StorageUnavailable
from consumer.model.files import StoredFile
from consumer.model.times import between, sleep
from consumer.ports import Stored
from consumer.storage.errors import refusal_code, translated_errors
from consumer.storage.files import changed_error, check_length, nanoseconds
from consumer.storage.settings import StorageSettings
from consumer.storage.spans import Spans

PAGE = 1000
"""Keys in a page, the most that S3 returns."""
SHORT_PAGE = 100
"""Keys requested after a leap if a long span follows: mostly a few new keys, and then keys of that span."""
PART = 3
"""Requests that are worth a thread of their own."""
_OF_A_FOLDER = 3
"""Keys of a folder outside of spans: its last file, its index file and its schema file."""
THREADS = 16


class _Unordered(Exception):
    """Keys do not come in byte order, or parallel walks do not meet."""


class _NoLeaps(Exception):
    """The server does not begin at the key that was requested."""


@dataclass(slots=True)
class _Walk:
    """The files of one walk that began after the key `after`. `first` is the first key that the server returned,
    listed or not. `first_after_end` is the first that it returned of those after the walk's end. Both are "" if
    there is none."""

    after: str
    files: list[StoredFile] = field(default_factory=list)
    first: str = ""
    first_after_end: str = ""

    def meets(self, following: _Walk) -> bool:
        """Returns whether the server has nothing between the two walks, whatever its order is, except files of the span
        that lies between them."""
        return self.first_after_end == following.first or "" < self.first_after_end <= following.after


@dataclass(frozen=True, slots=True)
class S3Files:
    """The files of a bucket or prefix. A file's stamp is its etag."""

    settings: StorageSettings

    def scan(self, spans: Spans) -> list[StoredFile]:
        with translated_errors(self.settings, "the storage"):
            parts = list(_parts(spans))
            if len(parts) > 1:
                try:
                    with ThreadPoolExecutor(THREADS, thread_name_prefix="listing") as pool:
                        walks = list(pool.map(lambda part: self._walk(spans, part[0], part[1], in_order=True), parts))
                    if all(walk.meets(following) for walk, following in pairwise(walks)):
                        return [file for walk in walks for file in walk.files]
                except (_Unordered, _NoLeaps):
                    pass
            try:
                return self._walk(spans, "", None, in_order=False).files
            except _NoLeaps:
                return self._walk(spans, "", None, in_order=False, leaps=False).files

    def folders(self) -> list[str]:
        with translated_errors(self.settings, "the storage"):
            prefixes = self._page({"Delimiter": "/"}).get("CommonPrefixes", ())
        return [entry["Prefix"][len(self._key("")) :].rstrip("/") for entry in prefixes]

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        with translated_errors(self.settings, "file", file.path):
            try:
                content = self._range(file.path, offset, length, file.stamp)
            except Exception as error:
                if refusal_code(error) in ("PreconditionFailed", "412"):
                    raise changed_error(file.path) from error
                raise
            return check_length(file, offset, length, content)

    def read_if_there(self, path: str, length: int) -> bytes | None:
        with translated_errors(self.settings, "file", path):
            try:
                return self._range(path, 0, length)
            except Exception as error:
                if refusal_code(error) == "InvalidRange":
                    return b""
                if refusal_code(error) in ("NoSuchKey", "404"):
                    return None
                raise

    def write(self, path: str, content: bytes) -> None:
        request = {"Bucket": self.settings.bucket, "Key": self._key(path), "Body": content}
        with translated_errors(self.settings, "file", path, "write"):
            call_with_retries(lambda: s3_client(self.settings).call("put_object", **request))

    def _walk(self, spans: Spans, after: str, end: str | None, in_order: bool, leaps: bool = True) -> _Walk:
        """Returns the files outside of spans, with keys above `after` and below `end`, read page by page. Without
        `leaps` the files inside of spans are requested too, and dropped. Raises _Unordered if the keys are to be
        `in_order` and are not, and _NoLeaps."""
        walk, leapt = _Walk(after), set[str]()
        request = self._leap(spans, after) if after else {}
        begin = after
        while True:
            page = self._page(request)
            files = [file for entry in page.get("Contents", ()) if (file := self._stored(entry)) is not None]
            # If keys have another order, a server that begins again can do so with a greater key.
            if files and (files[0].path <= begin or (leapt and files[0].path == walk.first)):
                raise _NoLeaps
            if in_order and any(first >= second for first, second in pairwise([after, *(f.path for f in files)])):
                raise _Unordered
            walk.first = walk.first or (files[0].path if files else "")
            walk.files.extend(file for file in files if spans.covering(file.path) is None and not _reached(file, end))
            token = page.get("NextContinuationToken")
            if files and _reached(files[-1], end):
                walk.first_after_end = next(file.path for file in files if _reached(file, end))
                return walk
            if not page.get("IsTruncated", token is not None):
                return walk
            after = files[-1].path if files else after
            span = spans.covering(after) if leaps else None
            if span is None and token is None:
                raise StorageUnavailable("the storage's listing breaks off: it says that there is more, but not where")
            if span is None:
                begin, request = "" if files else begin, {"ContinuationToken": token}
            elif span.end in leapt:
                raise _NoLeaps
            else:
                begin = after = span.end
                leapt.add(span.end)
                request = self._leap(spans, after)

    def _leap(self, spans: Spans, after: str) -> dict[str, Any]:
        following = spans.after(after)
        short = following is not None and following.count >= PAGE
        return {"StartAfter": self._key(after), "MaxKeys": SHORT_PAGE if short else PAGE}

    def _page(self, request: dict[str, Any]) -> dict[str, Any]:
        client = s3_client(self.settings)
        location = {"Bucket": self.settings.bucket, "Prefix": self._key("")}
        page: dict[str, Any] = call_with_retries(lambda: client.call("list_objects_v2", **location, **request))
        return page

    def _stored(self, entry: dict[str, Any]) -> StoredFile | None:
        path = entry["Key"][len(self._key("")) :]
        if not path or path.endswith("/"):
            return None
        return StoredFile(path, entry["Size"], entry["ETag"], nanoseconds(entry.get("LastModified")))

    def _key(self, path: str) -> str:
        return f"{self.settings.prefix}/{path}" if self.settings.prefix else path

    def _range(self, path: str, offset: int, length: int, stamp: str = "") -> bytes:
        """Makes one request. No storage has empty ranges."""
        if length <= 0:
            return b""
        request: dict[str, Any] = {"IfMatch": stamp} if stamp.strip('"') else {}

        def attempt() -> bytes:
            answer = s3_client(self.settings).call(
                "get_object",
                Bucket=self.settings.bucket,
                Key=self._key(path),
                Range=f"bytes={offset}-{offset + length - 1}",
                **request,
            )
            if not _is_that(stamp, answer.get("ETag", "")):
                raise changed_error(path)
            content: bytes = answer["Body"]
            if "ContentRange" not in answer:  # a server without ranges sends everything
                return content[offset : offset + length]
            _check_range(answer["ContentRange"], content)
            return content

        return call_with_retries(attempt)


def _is_that(stamp: str, answered: str) -> bool:
    """Returns whether the answer is the object that was requested: not every server or cache honours ``If-Match``.
    Proxies mark etags as weak."""
    requested, received = (etag.removeprefix("W/").strip('"') for etag in (stamp, answered))
    return not requested or not received or requested == received


def _check_range(content_range: str, content: bytes) -> None:
    """Checks that all bytes came that the answer announced: ``bytes FIRST-LAST/SIZE``. Raises an error that is
    retried."""
    from botocore.exceptions import IncompleteReadError

    first, last = content_range.removeprefix("bytes ").partition("/")[0].split("-")
    expected = int(last) - int(first) + 1
    if len(content) != expected:
        raise IncompleteReadError(actual_bytes=len(content), expected_bytes=expected)


def _parts(spans: Spans) -> Iterable[tuple[str, str | None]]:
    """Returns where to cut the walk for threads. Each part begins after a span, or at a known folder, and ends where a
    later one begins. No file has the name of a folder with a slash, so each file is on exactly one side of a cut."""
    pieces = [(span.first, span.end, min(span.count / PAGE, 1)) for span in spans.all]
    listed = (folder for folder in spans.looked_into if spans.covering(folder) is None)
    pieces = sorted([*pieces, *((folder, folder, _OF_A_FOLDER / PAGE) for folder in listed)])
    requests = sum(request_count for *_, request_count in pieces)
    part_count = max(min(int(requests / PART), THREADS), 1)
    begins, ends = [""], list[str | None]()
    passed = 0.0
    for first, end, request_count in pieces:
        passed += request_count
        if passed >= requests * len(begins) / part_count and len(begins) < part_count:
            ends.append(first)
            begins.append(end)
    return zip(begins, [*ends, None], strict=True)


def _reached(file: StoredFile, end: str | None) -> bool:
    return end is not None and file.path >= end


CONNECTIONS = 32
_CLIENTS: dict[tuple[int, StorageSettings], S3Client] = {}
"""One client for each process: connections do not survive a fork."""
_MAKING = threading.Lock()
BEFORE_PARSE = "before-parse.s3.ListObjectsV2"
_PAGE = "ListBucketResult"
_ENTRY, _MEMBERS = "Contents", frozenset({"Key", "Size", "ETag", "LastModified"})


def s3_client(settings: StorageSettings) -> S3Client:
    """Returns the client of this process; any thread may use it."""
    key = (os.getpid(), settings)
    with _MAKING:
        if key not in _CLIENTS:
            _CLIENTS[key] = S3Client(settings)
    return _CLIENTS[key]


class S3Client:
    """Calls S3's operations by botocore's names and arguments, and raises botocore's errors as they are.

    The filesystem's own methods would list in their own way, and do not report a body that breaks off.
    """

    def __init__(self, settings: StorageSettings) -> None:
        from aiobotocore.session import AioSession
        from s3fs import S3FileSystem

        options = settings.fsspec_options()
        session = AioSession(profile=options.pop("profile", None))
        # A page of a listing has a thousand times. Nothing needs them, and reading them is half of the work.
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
        session.register(BEFORE_PARSE, read_files)
        config = {
            **options.pop("config_kwargs", {}),
            "connect_timeout": 5,
            "read_timeout": 20,
            # Transient errors are retried in one place, including bodies that break off.
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": CONNECTIONS,
            # Not all servers other than Amazon's know the checksums that are sent by default.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
        self._files = S3FileSystem(session=session, config_kwargs=config, skip_instance_cache=True, **options)
        self._files.connect()

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """Returns the answer, with its ``Body``, if it has one, as bytes. A request that a signal interrupts is
        cancelled."""
        future = asyncio.run_coroutine_threadsafe(self._call(operation, request), self._files.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        client = await self._files.get_s3(request["Bucket"])
        answer: dict[str, Any] = await getattr(client, operation)(**request)
        if "Body" in answer:
            async with answer["Body"] as body:
                answer["Body"] = await body.read()
        return answer


def read_files(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Takes the files out of a page of a listing, with their needed members, before botocore parses it: botocore takes
    four times as long for a thousand files. Everything else is left to botocore, also errors.

    Raises an error that is retried for a success that is no page: botocore would read a lost body, or a page of some
    proxy, as a listing without files.
    """
    if response_dict["status_code"] >= 300:
        return
    try:
        page = ET.fromstring(response_dict["body"])
        if _name(page) == "Error":
            return
        files = [_file(element) for element in page if _name(element) == _ENTRY]
    except (ET.ParseError, KeyError, ValueError) as error:
        raise _no_page() from error
    if _name(page) != _PAGE:
        raise _no_page()
    if files:
        customized_response_dict[_ENTRY] = files
        page[:] = [element for element in page if _name(element) != _ENTRY]
        response_dict["body"] = ET.tostring(page)


def _no_page() -> Exception:
    from botocore.parsers import ResponseParserError

    error: Exception = ResponseParserError("the answer is no listing: something between, as a proxy, may have made it")
    return error


def _file(entry: ET.Element) -> dict[str, Any]:
    members: dict[str, Any] = {name: part.text or "" for part in entry if (name := _name(part)) in _MEMBERS}
    return members | {"Size": int(members["Size"])}


def _name(element: ET.Element) -> str:
    """Returns the tag without its namespace."""
    return element.tag.rpartition("}")[2]


ATTEMPTS = 6
"""Attempts for a busy server or a bad network: up to about ten seconds in all."""
ATTEMPTS_TO_REACH = 3
"""Attempts for a server that is not found or does not answer: a wrong address must be reported soon."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.3, 8.0

_REFUSALS = frozenset(
    {
        "SlowDown",
        "ServiceUnavailable",
        "InternalError",
        "RequestTimeout",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
_UNREACHABLE = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyConnectionError"})
_BROKEN = frozenset(
    {"HTTPClientError", "IncompleteReadError", "ResponseParserError", "ProtocolError", "ClientPayloadError"}
)
"""Names of error classes or of their base classes: neither botocore nor aiohttp is imported here."""

T = TypeVar("T")


def call_with_retries(call: Callable[[], T]) -> T:
    """Returns the result of `call`, which is retried with growing random pauses while its error is transient. Raises
    its last error."""
    attempts = 0
    while True:
        try:
            return call()
        except Exception as error:
            attempts += 1
            max_attempts = ATTEMPTS_TO_REACH if _unreachable(error) else ATTEMPTS
            if attempts >= max_attempts or not is_transient(error):
                raise
        sleep(between(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempts - 1))))


def is_transient(error: BaseException) -> bool:
    """Returns whether the same request may succeed a moment later."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or status == 429 or response.get("Error", {}).get("Code") in _REFUSALS
    return not _names(error).isdisjoint(_BROKEN | _UNREACHABLE)


def _unreachable(error: BaseException) -> bool:
    """Returns whether the server was not reached. aiobotocore reports a connection that breaks during a request in the
    same way, but then the server was reached."""
    cause = getattr(error, "kwargs", {}).get("error")
    return not _names(error).isdisjoint(_UNREACHABLE) and getattr(cause, "errno", None) != errno.ECONNRESET


def _names(error: BaseException) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}
