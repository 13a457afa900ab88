"""Secrets stay out of every text."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.config.load import load
from consumer.config.secrets import Uri, redact, scrubber
from consumer.errors import BadConfig
from consumer.sink.mysql.settings import MySqlSettings
from consumer.storage.settings import StorageSettings

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
        ("iceberg://c?s3.access-key-id=a&jdbc.password=b&token=c&uri=http://h", "iceberg://c?s3.access-key-id=***&jdbc.password=***&token=***&uri=http://h"),
        ("iceberg://c?header.Authorization=Bearer%20b&type=rest", "iceberg://c?header.Authorization=***&type=rest"),
        ("iceberg://c?uri=jdbc:postgresql://u:p@h/d&type=jdbc", "iceberg://c?uri=jdbc:postgresql://u:***@h/d&type=jdbc"),
        ("iceberg://c?uri=jdbc%3Amysql%3A%2F%2Fu%3Ap%40h%2Fd&x=a%20b", "iceberg://c?uri=jdbc:***@h/d&x=a%20b"),
        ("iceberg://c?uri=jdbc%3Apostgresql%3A%2F%2Fh%2Fd%3Fpassword%3Dp&type=jdbc", "iceberg://c?uri=jdbc:postgresql://h/d%3Fpassword%3D***&type=jdbc"),
        ("jdbc:sqlserver://h;user=u;password=p", "jdbc:sqlserver://h;user=u;password=***"),
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


ENV = {"AK": "AKIAEXAMPLE", "PW": "p@ss wörd+&/#?", "SPARK": "topsecret"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("abc/def+GHI=\n")
    return tmp_path / "secret"


def test_a_secret_can_stand_in_the_environment_or_in_a_file(file: Path) -> None:
    flags = {
        "upstream_uri": f"s3://b/p?protocol=canal-json&access-key=env:AK&secret-access-key=file:{file}",
        "downstream_uri": "mysql://u@h/?password=env:PW",
        "spark_conf": ["spark.hadoop.fs.s3a.secret.key=env:SPARK", "spark.x=env:SPARK"],
    }
    settings = load(flags, ENV).settings
    storage = dict(StorageSettings.from_uri(settings.upstream_uri).options)
    assert (storage["access-key"], storage["secret-access-key"]) == ("AKIAEXAMPLE", "abc/def+GHI=")
    assert MySqlSettings.from_uri(settings.downstream_uri, name="c").password == ENV["PW"]
    assert [value for _, value in settings.spark_conf] == ["topsecret", "env:SPARK"]
    assert settings.scrub(f"AKIAEXAMPLE abc/def+GHI= {ENV['PW']} topsecret") == "*** *** *** ***"
    assert not any(secret in repr(settings) for secret in (*ENV.values(), "abc/def", "w%C3%B6rd"))


def test_secrets_of_a_catalog_are_masked_wherever_they_stand() -> None:
    database = "uri=jdbc%3Apostgresql%3A%2F%2Fu%3Atopsecret%40h%2Fd%3FsslPassword%3Dothersecret"
    uri = f"iceberg://c?type=jdbc&{database}&s3.secret-access-key=env:PW&warehouse=s3://b/p"
    settings = load({"upstream_uri": S3, "downstream_uri": uri}, ENV).settings
    assert settings.scrub(f"no {ENV['PW']}, topsecret, othersecret") == "no ***, ***, ***"
    assert not any(secret in repr(settings) for secret in ("topsecret", "othersecret", "w%C3%B6rd"))


def test_what_names_a_secret_is_shown(file: Path) -> None:
    uri = f"s3://b/p?access-key=env:AK&secret-access-key=file:{file}&session-token=verysecret"
    assert redact(uri) == f"s3://b/p?access-key=env:AK&secret-access-key=file:{file}&session-token=***"


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("env:NOTHING", "variable NOTHING, which is not set"),
        ("env:", "is not set"),
        ("file:/no/such/file", "/no/such/file, which cannot be read: No such file"),
        ("file:/dev/null", "/dev/null, which is empty"),
        ("file:/dev/zero", "/dev/zero, which is too long for a secret"),
        ("file:/tmp", "/tmp, which cannot be read: Is a directory"),
    ],
)
def test_a_secret_that_is_not_where_it_should_be(reference: str, told: str) -> None:
    with pytest.raises(BadConfig, match=f"password in --downstream-uri names .*{told}"):
        load({"upstream_uri": S3, "downstream_uri": f"mysql://u@h/?password={reference}"}, {})


def test_other_parameters_are_what_they_are(file: Path) -> None:
    flags = {"upstream_uri": f"gcs://b/p?protocol=canal-json&credentials-file=file:{file}", "downstream_uri": MYSQL}
    settings = load(flags, {}).settings
    assert dict(StorageSettings.from_uri(settings.upstream_uri).options)["credentials-file"] == f"file:{file}"


@pytest.mark.parametrize(
    ("to", "shown"),
    [
        ("https://hooks.example/services/T0/hidden", "https://hooks.example/.."),
        ("https://me:hidden@hooks.example?t=hidden", "https://hooks.example/.."),
        ("curl -H 'Authorization: Bearer hidden' https://x", "curl .."),
        ("TOKEN=hidden tell", "a command"),
        ("/bin/tell", "/bin/tell"),
    ],
)
def test_who_is_told_is_shown_without_secrets(to: str, shown: str) -> None:
    given = {"upstream_uri": "file:///a?protocol=canal-json", "notify": [to]}
    text = repr(load(given, {}).settings)
    assert f"notify=('{shown}',)" in text
    assert "hidden" not in text
