"""Foreign errors become the consumer's, by the name of their class, and keep no secret."""

from __future__ import annotations

import builtins
import errno

import botocore.exceptions
import fsspec.exceptions
import pytest

from consumer.errors import BadConfig, ConsumerError, StorageUnavailable
from consumer.storage.errors import translate_error, translated_errors
from consumer.storage.settings import StorageSettings

SETTINGS = StorageSettings.from_uri("s3://bucket/p?access-key=AK&secret-access-key=s3cr3t")


def _client_error(code: str) -> botocore.exceptions.ClientError:
    return botocore.exceptions.ClientError({"Error": {"Code": code, "Message": "no"}}, "GetObject")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EIO, "x"), StorageUnavailable),
        (PermissionError(errno.EACCES, "x"), StorageUnavailable),
        (FileNotFoundError("bucket/p"), StorageUnavailable),
        (TimeoutError(), StorageUnavailable),
        (ConnectionResetError(), StorageUnavailable),
        (fsspec.exceptions.FSTimeoutError(), StorageUnavailable),
        (botocore.exceptions.EndpointConnectionError(endpoint_url="http://x"), StorageUnavailable),
        (botocore.exceptions.ReadTimeoutError(endpoint_url="http://x"), StorageUnavailable),
        (botocore.exceptions.NoCredentialsError(), BadConfig),
        (botocore.exceptions.ProfileNotFound(profile="x"), BadConfig),
        (_client_error("SlowDown"), StorageUnavailable),
        (_client_error("SignatureDoesNotMatch"), BadConfig),
        (_client_error("AuthorizationHeaderMalformed"), BadConfig),
        (ImportError("Please install gcsfs"), BadConfig),
    ],
)
def test_each_has_its_branch(error: BaseException, kind: type[ConsumerError]) -> None:
    found = translate_error(error, SETTINGS, "the storage")
    assert type(found) is kind
    assert found.hint
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        botocore.exceptions.NoCredentialsError(),
        botocore.exceptions.PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
        botocore.exceptions.ProfileNotFound(profile="x"),
    ],
)
def test_a_login_that_is_not_found_may_be_lacking_on_a_worker_alone(error: BaseException) -> None:
    found = translate_error(error, SETTINGS, "the storage")
    assert found is not None
    assert "in that of the workers, too" in found.hint


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("ExpiredToken", BadConfig, "the login has expired (ExpiredToken)"),
        ("InvalidObjectState", StorageUnavailable, "it is archived (a Glacier class) and must be restored first"),
    ],
)
def test_answers_of_s3_are_told_in_words(code: str, kind: type[ConsumerError], words: str) -> None:
    found = translate_error(_client_error(code), SETTINGS, "file", "d/t/1/CDC000001.json")
    assert found is not None
    assert (type(found), found.path) == (kind, "d/t/1/CDC000001.json")
    assert words in found.message
    assert code != "InvalidObjectState" or "restore it" in found.hint


def _every_class(root: type) -> set[type]:
    return {root}.union(*(_every_class(child) for child in root.__subclasses__()))


def test_every_error_of_botocore_has_a_branch() -> None:
    roots = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)
    classes = {found for root in roots for found in _every_class(root)}
    assert len(classes) > 50
    for found in classes:
        assert translate_error(found.__new__(found), SETTINGS, "x") is not None


@pytest.mark.parametrize("name", ["ValueError", "KeyError", "RuntimeError", "KeyboardInterrupt", "TypeError"])
def test_bugs_are_not_disguised(name: str) -> None:
    bug = getattr(builtins, name)("x")
    assert translate_error(bug, SETTINGS, "the storage") is None
    with pytest.raises(type(bug)), translated_errors(SETTINGS, "the storage"):
        raise bug


def _refused() -> None:
    try:
        raise _client_error("InvalidAccessKeyId")
    except botocore.exceptions.ClientError as error:
        raise PermissionError("no") from error


def test_the_cause_is_chained_and_its_code_decides() -> None:
    sentence = r"cannot read file s3://bucket/p/db/t: access is denied \(InvalidAccessKeyId\)"
    with pytest.raises(BadConfig, match=sentence) as caught, translated_errors(SETTINGS, "file", "db/t"):
        _refused()
    assert isinstance(caught.value.__cause__, PermissionError)


def test_secrets_in_foreign_texts_are_hidden() -> None:
    found = translate_error(OSError("https://host/?sig=s3cr3t\nby AK"), SETTINGS, "the storage")
    assert found is not None
    assert found.message == "cannot read the storage s3://bucket/p: https://host/?sig=*** by *** (OSError)"
