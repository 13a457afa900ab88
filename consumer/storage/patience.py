"""Which of S3's failures are retried, and for how long."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from consumer.model.times import between, sleep

ATTEMPTS = 6
"""Retries for a busy server or a bad network: up to about ten seconds in all."""
ATTEMPTS_TO_REACH = 3
"""Retries for a server that is not found or silent: a wrong address must be reported soon."""
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
"""By the name of a class or of one that it inherits from: neither botocore nor aiohttp is imported here."""

T = TypeVar("T")


def patiently(call: Callable[[], T]) -> T:
    """`call`, retried with growing random pauses while its error may pass; then its last error."""
    attempts = 0
    while True:
        try:
            return call()
        except Exception as error:
            attempts += 1
            most = ATTEMPTS_TO_REACH if _unreachable(error) else ATTEMPTS
            if attempts >= most or not may_pass(error):
                raise
        sleep(between(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempts - 1))))


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= 500 or status == 429 or response.get("Error", {}).get("Code") in _REFUSALS
    return not _names(error).isdisjoint(_BROKEN | _UNREACHABLE)


def _unreachable(error: BaseException) -> bool:
    """aiobotocore says of a connection that breaks under a request, too, that there is none: the server was there."""
    under = getattr(error, "kwargs", {}).get("error")
    return not _names(error).isdisjoint(_UNREACHABLE) and getattr(under, "errno", None) != errno.ECONNRESET


def _names(error: BaseException) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}
