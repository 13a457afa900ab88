"""Sink URIs as TiCDC reads them, and no secret that leaves them."""

from __future__ import annotations

import pickle

import pytest

from consumer.errors import BadConfig
from consumer.storage.settings import StorageSettings

S3 = "s3://bucket/a/b/?endpoint=http://127.0.0.1:9000&access-key=AK&secret-access-key=s/e+c%3Dr&session-token=tok"


@pytest.mark.parametrize(
    ("uri", "identity"),
    [
        ("file:///data/cdc?protocol=canal-json", "file:///data/cdc"),
        ("file:///data//cdc/../cdc/", "file:///data/cdc"),
        ("file:///my%20data/%25x", "file:///my data/%x"),
        ("s3://bucket/a/b/?region=eu", "s3://bucket/a/b"),
        ("s3://bucket?protocol=csv", "s3://bucket"),
        ("gs://bucket/p", "gcs://bucket/p"),
        ("gcs://bucket/p", "gcs://bucket/p"),
        ("azure://container/p", "azblob://container/p"),
        ("azblob://container/p", "azblob://container/p"),
    ],
)
def test_the_identity_is_scheme_bucket_and_prefix(uri: str, identity: str) -> None:
    assert StorageSettings.from_uri(uri).identity == identity


def test_s3_options_reach_the_filesystem() -> None:
    settings = StorageSettings.from_uri(f"{S3}&region=eu-1&worker-count=3")
    assert settings.fsspec_options() == {
        "use_listings_cache": False,
        "key": "AK",
        "secret": "s/e+c=r",
        "token": "tok",
        "endpoint_url": "http://127.0.0.1:9000",
        "client_kwargs": {"region_name": "eu-1"},
        "config_kwargs": {"s3": {"addressing_style": "path"}},
    }


@pytest.mark.parametrize(
    ("query", "config"),
    [
        ("", None),
        ("?force-path-style=true", {"s3": {"addressing_style": "path"}}),
        ("?endpoint=https://x&force_path_style=false", None),
        ("?use-accelerate-endpoint=true", {"s3": {"use_accelerate_endpoint": True}}),
    ],
)
def test_buckets_are_addressed_by_path_behind_an_endpoint(query: str, config: object) -> None:
    assert StorageSettings.from_uri(f"s3://b/p{query}").fsspec_options().get("config_kwargs") == config


def test_options_of_other_clouds_reach_their_filesystems() -> None:
    gcs = StorageSettings.from_uri("gcs://b/p?credentials-file=/key.json&endpoint=http://g")
    azure = StorageSettings.from_uri("azblob://c/p?account-name=n&account-key=k&endpoint=https://n.example.com")
    local = StorageSettings.from_uri("file:///d")
    assert gcs.fsspec_options() == {
        "use_listings_cache": False,
        "token": "/key.json",
        "endpoint_url": "http://g",
    }
    assert azure.fsspec_options() == {
        "use_listings_cache": False,
        "connection_string": "BlobEndpoint=https://n.example.com;AccountName=n;AccountKey=k",
    }
    assert local.fsspec_options() == {}


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (
            "account-name=n&sas-token=%3Fsv=1%26sig=a%2Fb",
            {
                "connection_string": "BlobEndpoint=https://n.blob.core.windows.net;AccountName=n;SharedAccessSignature=sv=1&sig=a/b"
            },
        ),
        ("account-name=n&endpoint=https://n.example.com/", {"account_name": "n", "account_host": "n.example.com"}),
    ],
)
def test_a_sas_token_and_a_login_of_the_environment(query: str, options: dict[str, str]) -> None:
    found = StorageSettings.from_uri(f"azblob://c/p?{query}").fsspec_options()
    assert found == {"use_listings_cache": False, **options}


def test_the_changefeeds_own_parameters_are_kept() -> None:
    uri = "file:///d?protocol=canal-json&enable-tidb-extension=true&flush-interval=5s&kafka-version=2.4.0"
    uri += "&spool-base-dir=/data/spool&spool-disk-quota=10737418240"
    assert StorageSettings.from_uri(uri).parameters == {
        "protocol": "canal-json",
        "enable-tidb-extension": "true",
        "flush-interval": "5s",
        "kafka-version": "2.4.0",
        "spool-base-dir": "/data/spool",
        "spool-disk-quota": "10737418240",
    }


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("/data/cdc", "no scheme"),
        ("hdfs://x/y", "scheme 'hdfs'"),
        ("s3:///prefix", "names no bucket"),
        ("file://data/cdc", "three slashes"),
        ("file:///d?protocoll=csv", "parameter 'protocoll'"),
        ("file:///d?spool-dir=/data", "did you mean spool-base-dir?"),
        ("file:///d?access-key=AK", "parameter 'access-key'"),
        ("gcs://b/p?region=x", "parameter 'region'"),
        ("azblob://c/p?account-key=k", "need account-name"),
        ("s3://b/p?endpoint=127.0.0.1:9000", "must begin with http"),
        ("s3://b/p?force-path-style=maybe", "neither true nor false"),
        ("s3://b/p?role-arn=arn:aws:iam::1:role/x", "'role-arn'"),
        ("s3://b/p?access-key=AK", "go together"),
        ("s3://b/p?access-key=AK&secret-access-key=a#b", "%23"),
        ("s3://AK:secret@b/p", "login before its bucket"),
        ("s3://[b/p", "not a URI"),
    ],
)
def test_what_cannot_be_right_is_refused_in_one_sentence(uri: str, sentence: str) -> None:
    with pytest.raises(BadConfig, match=sentence) as caught:
        StorageSettings.from_uri(uri)
    assert "\n" not in str(caught.value)
    assert "secret@" not in str(caught.value)


def test_secrets_are_never_shown() -> None:
    settings = StorageSettings.from_uri(f"{S3}&schema-registry=http://user:pw@registry")
    assert "'access-key': '***'" in repr(settings)
    for secret in ("'AK'", "s/e+c=r", "tok'", "pw@"):
        assert secret not in repr(settings) + str(settings) + settings.identity
    assert settings.redact("signed with s/e+c=r by AK") == "signed with *** by ***"


def test_a_short_secret_leaves_the_words_that_it_is_a_part_of() -> None:
    settings = StorageSettings.from_uri("s3://b/p?access-key=AKIDLONG&secret-access-key=e")
    text = "the key xAKIDLONGx with 'e' is refused by the server"
    assert settings.redact(text) == "the key x***x with '***' is refused by the server"


def test_settings_travel() -> None:
    settings = StorageSettings.from_uri(S3)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert len({settings, StorageSettings.from_uri(S3)}) == 1


@pytest.mark.parametrize(
    ("parameter", "near"),
    [
        ("worker_count", "worker-count"),
        ("Protocol", "protocol"),
        ("output_raw_change_event", "output-raw-change-event"),
    ],
)
def test_a_parameter_that_ticdc_does_not_know_by_this_name(parameter: str, near: str) -> None:
    with pytest.raises(BadConfig, match=rf"'{parameter}' .* did you mean {near}\?"):
        StorageSettings.from_uri(f"file:///data/cdc?{parameter}=1")


def test_the_storages_own_options_are_compared_as_its_library_does() -> None:
    uri = "s3://bucket?Access_Key=AK&secret_access_key=s&REGION=eu"
    assert StorageSettings.from_uri(uri).fsspec_options()["key"] == "AK"
