"""S3 through botocore: requests are made as they are, so that answers can be checked."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import Any

from consumer.storage.settings import StorageSettings

CONNECTIONS = 32
_CLIENTS: dict[tuple[int, StorageSettings], S3Client] = {}
"""One client a process: connections do not survive a fork."""
_MAKING = threading.Lock()


def s3_client(settings: StorageSettings) -> S3Client:
    """The client of this process; any thread may use it."""
    key = (os.getpid(), settings)
    with _MAKING:
        if key not in _CLIENTS:
            _CLIENTS[key] = S3Client(settings)
    return _CLIENTS[key]


class S3Client:
    """Calls S3's operations by botocore's names and arguments, and raises botocore's errors, untranslated."""

    def __init__(self, settings: StorageSettings) -> None:
        from botocore.config import Config
        from botocore.session import Session

        options = settings.client_options()
        session = Session(profile=options.pop("profile", None))
        # A page of a listing has a thousand times: nobody asks for them, and reading them is half of the work.
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
        config = Config(
            s3=options.pop("s3", None),
            connect_timeout=5,
            read_timeout=20,
            # What may pass is tried again in one place, bodies that break off included.
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=CONNECTIONS,
            # Servers other than Amazon's do not all know the checksums that are sent unasked.
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self._client = session.create_client("s3", config=config, **options)

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """The answer; its ``Body``, where it has one, as bytes."""
        answer: dict[str, Any] = getattr(self._client, operation)(**request)
        if "Body" in answer:
            with closing(answer["Body"]) as body:
                answer["Body"] = body.read()
        return answer
