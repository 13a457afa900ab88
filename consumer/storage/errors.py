"""Translates errors of other libraries to the consumer's own errors. They are recognised by class name, so no library
is imported here."""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterator
from contextlib import contextmanager

from consumer.errors import BadConfig, ConsumerError, StorageUnavailable
from consumer.model.texts import one_line
from consumer.storage.settings import StorageSettings

FOREIGN: dict[str, type[ConsumerError]] = {
    # Python, and what fsspec raises for every storage
    "OSError": StorageUnavailable,
    "FSTimeoutError": StorageUnavailable,
    "ImportError": BadConfig,
    # S3: botocore
    "NoCredentialsError": BadConfig,
    "PartialCredentialsError": BadConfig,
    "ProfileNotFound": BadConfig,
    "InvalidRegionError": BadConfig,
    "NoRegionError": BadConfig,
    "ParamValidationError": BadConfig,
    "BotoCoreError": StorageUnavailable,
    "ClientError": StorageUnavailable,
    "ResponseParserError": StorageUnavailable,
    # Google Cloud Storage: gcsfs, google-auth
    "DefaultCredentialsError": BadConfig,
    "MalformedError": BadConfig,
    "GoogleAuthError": StorageUnavailable,
    "HttpError": StorageUnavailable,
    # Azure: azure-core
    "ClientAuthenticationError": BadConfig,
    "AzureError": StorageUnavailable,
}
"""By the name of the nearest class: a class stands before those that it inherits from."""

REFUSED_LOGINS = frozenset(
    {
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidToken",
        "ExpiredToken",
        "ExpiredTokenException",
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "InvalidBucketName",
        "AuthenticationFailed",
        "InvalidResourceName",
        "401",
    }
)
"""Answers of a server that a retry does not change."""
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
"""Answers that a retry does not change: a scheduled run would retry for ever."""


class _Known(enum.StrEnum):
    """Refusals that have a hint of their own, with the words that report them."""

    DENIED = "access is denied"
    ABSENT = "it is not there"
    NOT_A_FOLDER = "it is not a directory"
    CLOCK = "the clock of this machine is wrong"


_RIGHTS = (
    "check the login's rights (on S3 s3:GetObject and s3:ListBucket), and the location: without rights, the answer"
    " is often the same as for a bucket that does not exist"
)
_NO_LOGIN = frozenset({"NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "DefaultCredentialsError"})
"""Classes of errors for a login that is not found where each machine looks for it."""
_ARCHIVED = {
    "InvalidObjectState": "it is archived (a Glacier class) and must be restored first",
    "BlobArchived": "it is archived and must be rehydrated first",
}
_REASONS = {
    errno.ENOENT: _Known.ABSENT,
    errno.ENOTDIR: _Known.NOT_A_FOLDER,
    errno.ELOOP: "it is a symbolic link that leads to itself",
    errno.EACCES: _Known.DENIED,
    errno.EPERM: _Known.DENIED,
    errno.EIO: "the device reports an error",
    errno.ESTALE: "the mount is stale",
    errno.ETIMEDOUT: "it does not answer in time",
    errno.ECONNREFUSED: "the connection is refused",
    errno.EMFILE: "this process may open no more files",
}
_REASONS_BY_CLASS = {"FileNotFoundError": _Known.ABSENT, "PermissionError": _Known.DENIED}
_REASONS_BY_CODE = {
    "NoSuchBucket": _Known.ABSENT,
    "NoSuchKey": _Known.ABSENT,
    "ContainerNotFound": _Known.ABSENT,
    "BlobNotFound": _Known.ABSENT,
    "InvalidAccessKeyId": "the login is refused",
    "SignatureDoesNotMatch": "the login is refused",
    "InvalidToken": "the login is refused",
    "ExpiredToken": "the login has expired",
    "ExpiredTokenException": "the login has expired",
    **_ARCHIVED,
    "AuthorizationHeaderMalformed": "the region is another",
    "PermanentRedirect": "the region is another",
    "AuthenticationFailed": "the login is refused",
    "AuthorizationFailure": _Known.DENIED,
    "AuthorizationPermissionMismatch": _Known.DENIED,
    "401": "the login is refused",
    "404": _Known.ABSENT,
    "AccessDenied": _Known.DENIED,
    "403": _Known.DENIED,
    "SlowDown": "the storage is too busy",
    "RequestTimeTooSkewed": _Known.CLOCK,
}


@contextmanager
def translated_errors(settings: StorageSettings, what: str, path: str = "", doing: str = "read") -> Iterator[None]:
    """A context in which an error of another library becomes a ConsumerError, chained; other errors pass.

    `what` is what was being read, for the message; `path` is its path below the upstream URI ("" for the whole);
    `doing` is the verb.
    """
    try:
        yield
    except BaseException as error:
        if (own_error := translate_error(error, settings, what, path, doing)) is not None:
            raise own_error from error
        raise


def translate_error(
    error: BaseException, settings: StorageSettings, what: str, path: str = "", doing: str = "read"
) -> ConsumerError | None:
    """Returns `error` as a ConsumerError without secrets, or None if none of its classes is in `FOREIGN`."""
    kind = next((FOREIGN[base.__name__] for base in type(error).__mro__ if base.__name__ in FOREIGN), None)
    if kind is None:
        return None
    if kind is BadConfig and isinstance(error, ImportError):
        hint = "install the package of this storage: ticdc-storage-consumer[gcs] or [azure]"
        return BadConfig(f"{settings.scheme}:// needs a package that is not installed: {error}", hint=hint)
    if refusal_code(error) in REFUSED_LOGINS | _NO_BUCKET or isinstance(error, NotADirectoryError):
        kind = BadConfig
    location = f"{settings.identity.rstrip('/')}/{path}" if path else settings.identity
    known_reason = _known(error)
    reason = _reason(error, known_reason)
    if doing == "write":
        hint = "check that dead-letters can be reached, and that its login may write there; nothing is lost"
        return kind(f"cannot write {what} {location}: {settings.redact(reason)}", hint=hint)
    return kind(
        f"cannot read {what} {location}: {settings.redact(reason)}",
        hint=_hint(error, kind, known_reason, settings.called),
        path=path,
    )


def _hint(error: BaseException, kind: type[ConsumerError], known_reason: str | None, uri: str) -> str:
    if known_reason is _Known.NOT_A_FOLDER:
        return f"give the folder that `metadata` is in as the location in {uri}, not a file"
    if type(error).__name__ in _NO_LOGIN:
        return f"name the login in {uri}, or in the environment: on a cluster in that of the workers, too"
    if kind is BadConfig:
        return f"check the login and the location in {uri}"
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return "raise the limit of open files: ulimit -n 1024"
    if refusal_code(error) in _ARCHIVED:
        return "have the storage restore it to a class that can be read at once, and keep the changefeed's files there"
    if known_reason is _Known.DENIED:
        return _RIGHTS
    if known_reason is _Known.CLOCK:
        return "set it (the storage takes requests of about the present only), then run again; nothing is lost"
    return f"check the location in {uri}" if known_reason is _Known.ABSENT else "check that it can be reached"


def refusal_code(error: BaseException | None) -> str:
    """Returns the code with which a server refused, from an error or its cause; "" if there is none."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
        if (code := getattr(error, "error_code", None)) is not None:  # azure-core's, an enum
            return str(getattr(code, "value", code))
        if type(error).__name__ == "HttpError":  # gcsfs's, the status
            return str(getattr(error, "code", ""))
        error = error.__cause__
    return ""


def _known(error: BaseException) -> str | None:
    """Returns the reason in words, if the error is a common one."""
    if isinstance(error, OSError) and error.errno in _REASONS:
        return _REASONS[error.errno]
    return _REASONS_BY_CLASS.get(type(error).__name__) or _REASONS_BY_CODE.get(refusal_code(error))


def _reason(error: BaseException, known_reason: str | None) -> str:
    """Returns the reason in one line."""
    code = refusal_code(error)
    if known_reason:
        return f"{known_reason} ({code})" if code else known_reason
    text = one_line(str(error))
    return f"{text} ({type(error).__name__})" if text else type(error).__name__
