"""Secrets stay out of every text."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.config.load import load
from consumer.config.uri import Uri, redact, scrubber
from consumer.errors import BadConfig

S3 = "s3://bucket/p?protocol=canal-json&access-key=AKIAEXAMPLE&secret-access-key=abc/def+GHI%3D&region=eu"
MYSQL = "mysql://root:hunter%402024@db.example:3306/"


def test_settings_print_themselves_without_secrets() -> None:
    flags = {"upstream_uri": S3, "downstream_uri": MYSQL, "spark_conf": ["spark.hadoop.fs.s3a.secret.key=topsecret"]}
    settings = load(flags, {}).settings
    for shown in (repr(settings), str(settings), repr(settings.upstream_uri)):
        assert not any(secret in shown for secret in ("AKIAEXAMPLE", "abc/def", "hunter", "topsecret"))
    assert "region=eu" in repr(settings)
    assert settings.upstream_uri == S3
    assert f"{settings.downstream_uri}?x=1" == MYSQL + "?x=1"


def test_scrubbed_texts_lose_written_and_decoded_secrets() -> None:
    scrub = scrubber(S3, MYSQL, secrets=["topsecret"])
    text = "tried abc/def+GHI%3D and abc/def+GHI= and hunter@2024 and topsecret at s3://other/?secret-access-key=zzzzzz"
    assert scrub(text) == "tried *** and *** and *** and *** at s3://other/?secret-access-key=***"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("mysql://root@h:3306/", "mysql://root@h:3306/"),
        ("mysql://root:pw@h:3306/", "mysql://root:***@h:3306/"),
        ("root:pw@h:3306/", "root:***@h:3306/"),
        ("//root:p://w@h:3306/", "//root:***@h:3306/"),
        ("mysql:/root:pw@h:3306/", "mysql:***@h:3306/"),
        ("mysql://root:p@w/x?y#z@h/", "mysql://root:***@h/"),
        ("mysql://:pw@h/", "mysql://:***@h/"),
        ("azblob://c/p?account-name=n&account-key=k%3D&sas-token=s", "azblob://c/p?account-name=n&account-key=***&sas-token=***"),
        ("gcs://b/p?credentials-file=/f", "gcs://b/p?credentials-file=***"),
        ("file:///dir?protocol=canal-json", "file:///dir?protocol=canal-json"),
    ],
)  # fmt: skip
def test_redacted_uris(uri: str, shown: str) -> None:
    assert redact(uri) == shown


@given(st.text(st.characters(blacklist_categories=("Cs", "Zs", "Zl", "Zp", "Cc")), min_size=8))
def test_no_password_is_shown(password: str) -> None:
    uri = f"mysql://root:{password}@host:3306/"
    assert repr(Uri(uri)) == "'mysql://root:***@host:3306/'"


def test_a_uri_travels_whole() -> None:
    copy = pickle.loads(pickle.dumps(Uri(MYSQL)))
    assert copy == MYSQL
    assert repr(copy) == "'mysql://root:***@db.example:3306/'"


@pytest.mark.parametrize(
    "flags",
    [
        {"upstream_uri": S3 + "&unknown-parameter=1"},
        {"upstream_uri": "ftp://u:AKIAEXAMPLE@h/?secret-access-key=abc/def"},
        {"upstream_uri": S3, "downstream_uri": "pg://u:hunter2024@h/"},
        {"upstream_uri": S3, "tz": "hunter"},
    ],
)
def test_errors_do_not_repeat_secrets(flags: dict[str, str]) -> None:
    with pytest.raises(BadConfig) as caught:
        load(flags, {})
    told = f"{caught.value} {caught.value.hint} {caught.value.__cause__}"
    assert not any(secret in told for secret in ("AKIAEXAMPLE", "abc/def", "hunter2024"))


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_masked_uri_keeps_the_quotes_around_it(quote: str) -> None:
    uri = "s3://bucket/p?access-key=AKIAEXAMPLE&secret-access-key=abc'def"
    command = f"once --upstream-uri {quote}{uri}{quote} --tz UTC"
    masked = f"once --upstream-uri {quote}s3://bucket/p?access-key=***&secret-access-key=***{quote} --tz UTC"
    assert scrubber(uri)(command) == masked
