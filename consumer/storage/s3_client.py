"""One s3fs filesystem, used for its connections: requests are made as they are, so that answers can be checked."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any
from xml.etree import ElementTree as ET

from consumer.storage.settings import StorageSettings

CONNECTIONS = 32
_CLIENTS: dict[tuple[int, StorageSettings], S3Client] = {}
"""One client a process: connections do not survive a fork."""
_MAKING = threading.Lock()
BEFORE_PARSE = "before-parse.s3.ListObjectsV2"
_PAGE = "ListBucketResult"
_ENTRY, _MEMBERS = "Contents", frozenset({"Key", "Size", "ETag", "LastModified"})


def s3_client(settings: StorageSettings) -> S3Client:
    """The client of this process; any thread may use it."""
    key = (os.getpid(), settings)
    with _MAKING:
        if key not in _CLIENTS:
            _CLIENTS[key] = S3Client(settings)
    return _CLIENTS[key]


class S3Client:
    """Calls S3's operations by botocore's names and arguments, and raises botocore's errors, untranslated.

    The filesystem's own methods would list in their own way, and say nothing of a body that breaks off.
    """

    def __init__(self, settings: StorageSettings) -> None:
        from aiobotocore.session import AioSession
        from s3fs import S3FileSystem

        options = settings.fsspec_options()
        session = AioSession(profile=options.pop("profile", None))
        # A page of a listing has a thousand times: nobody asks for them, and reading them is half of the work.
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
        session.register(BEFORE_PARSE, read_files)
        config = {
            **options.pop("config_kwargs", {}),
            "connect_timeout": 5,
            "read_timeout": 20,
            # What may pass is tried again in one place, bodies that break off included.
            "retries": {"total_max_attempts": 1, "mode": "standard"},
            "max_pool_connections": CONNECTIONS,
            # Servers other than Amazon's do not all know the checksums that are sent unasked.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
        self._files = S3FileSystem(session=session, config_kwargs=config, skip_instance_cache=True, **options)
        self._files.connect()

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """The answer; its ``Body``, where it has one, as bytes. A request that a signal breaks off is given up."""
        asked = asyncio.run_coroutine_threadsafe(self._call(operation, request), self._files.loop)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()
            raise

    async def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        client = await self._files.get_s3(request["Bucket"])
        answer: dict[str, Any] = await getattr(client, operation)(**request)
        if "Body" in answer:
            async with answer["Body"] as body:
                answer["Body"] = await body.read()
        return answer


def read_files(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Take the files out of a page of a listing, with what is asked of them, before botocore parses it: for each of a
    thousand files it takes four times as long. All else is left to botocore, errors too.

    Raises what is tried again for a success that is no page: botocore would read a body that was lost, or a page of
    some proxy, as a listing without files.
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
    """Without its namespace."""
    return element.tag.rpartition("}")[2]
