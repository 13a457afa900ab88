"""Where the storage is and how it is reached: TiCDC's sink URI as a value."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any
from urllib.parse import unquote, urlsplit

from consumer.errors import BadConfig

_SCHEMES = {"file": "file", "s3": "s3", "gcs": "gcs", "gs": "gcs", "azblob": "azblob", "azure": "azblob"}
_UPSTREAM = "the upstream URI"
_WHOSE = ("account-name", "endpoint")
_SHORTEST_SECRET = 6
"""The least length of a secret that is masked also inside of words."""
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """One upstream. `scheme` is file, s3, gcs or azblob. `prefix` has no slash at its ends, but for file it is the
    absolute path. `options` are how to reach the storage, `parameters` are the changefeed's own. `called` is the name
    of the URI in messages."""

    scheme: str
    bucket: str
    prefix: str
    options: tuple[tuple[str, str], ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    called: str = field(default=_UPSTREAM, compare=False)

    @classmethod
    def from_uri(cls, uri: str, called: str = _UPSTREAM) -> StorageSettings:
        """Reads a sink URI as TiCDC does: a ``+`` is a plus sign. Raises BadConfig without the URI's secrets."""
        scheme, bucket, path, query = _split(uri, called)
        if scheme == "file" and bucket not in ("", "localhost"):
            raise BadConfig("a file:// URI needs an absolute path, with three slashes: file:///dir")
        if scheme != "file" and not bucket:
            raise BadConfig(f"{called} names no bucket: {scheme}://BUCKET/PREFIX")
        parameters = dict(_parameters(query))
        option_names = STORAGE_OPTIONS[scheme]
        parameters = {_option_name(name, option_names): value for name, value in parameters.items()}
        if unknown := sorted(parameters.keys() - option_names - CHANGEFEED_PARAMETERS):
            raise _not_known(unknown[0], scheme, called)
        options = {name: value for name, value in parameters.items() if name in option_names}
        _check(options, called)
        return cls(
            scheme,
            "" if scheme == "file" else bucket,
            posixpath.normpath(f"/{path.lstrip('/')}") if scheme == "file" else path.strip("/"),
            tuple(sorted(options.items())),
            {name: value for name, value in parameters.items() if name not in options},
            called,
        )

    @property
    def identity(self) -> str:
        """Scheme, bucket and prefix, nothing else: two URIs of one upstream have the same identity."""
        return f"{self.scheme}://{self.base}"

    @property
    def place(self) -> tuple[str, ...]:
        """The identity and its owner: a bucket behind another endpoint, or a container of another account, is another
        one."""
        return self.identity, *(value for name, value in self.options if name in _WHOSE)

    def above(self) -> Iterator[StorageSettings]:
        """Yields the locations that this one is in, the nearest first, up to the bucket or the root."""
        prefix = self.prefix
        while prefix.strip("/"):
            prefix = posixpath.dirname(prefix)
            yield replace(self, prefix=prefix)

    @property
    def base(self) -> str:
        """The upstream's root in its own storage: ``bucket/prefix``, or the directory."""
        return self.prefix if self.scheme == "file" else f"{self.bucket}/{self.prefix}".rstrip("/")

    def redact(self, text: str) -> str:
        """Returns `text` with every secret of these settings as ``***``."""
        for name, value in (*self.options, *self.parameters.items()):
            if name in SECRETS and value:
                text = _secret_in_texts(value).sub("***", text)
        return text

    def fsspec_options(self) -> dict[str, Any]:
        """Returns the arguments of this storage's fsspec filesystem. Listings are not cached: each one asks the storage
        again."""
        options = dict(self.options)
        match self.scheme:
            case "gcs":
                arguments = {"token": options.get("credentials-file"), "endpoint_url": options.get("endpoint")}
            case "azblob":
                arguments = _azure_options(options)
            case "s3":
                arguments = _s3_options(options)
            case _:
                return {}
        return {"use_listings_cache": False} | {name: value for name, value in arguments.items() if value is not None}

    def __repr__(self) -> str:
        all_values = {**dict(self.options), **self.parameters}
        shown = {name: "***" if name in SECRETS else value for name, value in all_values.items()}
        return f"StorageSettings({self.identity!r}, {shown})"


def _secret_in_texts(value: str) -> re.Pattern[str]:
    """Returns the pattern of where `value` is masked. A short one is a part of common words too, so it is masked only
    where it stands by itself."""
    form = re.escape(value)
    return re.compile(form if len(value) >= _SHORTEST_SECRET else rf"(?<!\w){form}(?!\w)")


def _split(uri: str, called: str) -> tuple[str, str, str, str]:
    """Returns scheme (TiCDC's synonyms resolved), bucket, path and query. Errors do not repeat their texts."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise BadConfig(f"{called} is not a URI") from error
    if parts.scheme not in _SCHEMES:
        scheme_text = f"scheme {parts.scheme!r}" if parts.scheme else "no scheme"
        raise BadConfig(
            f"{called} has {scheme_text}; known are {', '.join(f'{name}://' for name in _SCHEMES)}",
            hint="give a folder of this machine as file:///its/path" if not parts.scheme else "",
        )
    if parts.fragment or "#" in uri:
        raise BadConfig(f"{called} has a '#'; write it as %23")
    if "@" in parts.netloc:
        raise BadConfig(f"{called} has a login before its bucket; give it as query parameters")
    return _SCHEMES[parts.scheme], parts.netloc, unquote(parts.path), parts.query


def _parameters(query: str) -> Iterator[tuple[str, str]]:
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        yield unquote(name), unquote(value)


def _option_name(name: str, option_names: Collection[str]) -> str:
    """Returns the name in its standard form: TiCDC's storage library compares its options in lower case and with
    dashes, TiCDC itself compares its own as they are."""
    spelled = name.lower().replace("_", "-")
    return spelled if spelled in option_names else name


def _not_known(name: str, scheme: str, called: str) -> BadConfig:
    matches = get_close_matches(name.lower(), STORAGE_OPTIONS[scheme] | CHANGEFEED_PARAMETERS, n=1)
    suggestion = f"; did you mean {matches[0]}?" if matches else ""
    return BadConfig(f"parameter {name!r} of {called} is not known for {scheme}:// storage{suggestion}")


def _check(options: Mapping[str, str], called: str) -> None:
    endpoint = options.get("endpoint", "")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise BadConfig(f"parameter 'endpoint' of {called} must begin with http:// or https://")
    for name in ("force-path-style", "use-accelerate-endpoint"):
        if options.get(name, "true").lower() not in _FLAGS:
            raise BadConfig(f"parameter {name!r} of {called} is neither true nor false")
    if "role-arn" in options:
        raise BadConfig(
            f"parameter 'role-arn' of {called} is not supported",
            hint="assume the role outside, and give access-key, secret-access-key and session-token, or a profile",
        )
    if options.keys() & {"account-key", "sas-token"} and "account-name" not in options:
        raise BadConfig(f"account-key and sas-token of {called} need account-name, which is missing")
    if ("access-key" in options) != ("secret-access-key" in options):
        raise BadConfig(f"access-key and secret-access-key of {called} go together, but one is missing")


def _azure_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Puts a login in a connection string: nothing else takes ``http://`` and an endpoint with a path, and no
    environment variable overrides it. Without a login Azure's own rules find one."""
    account, endpoint = options.get("account-name"), options.get("endpoint", "")
    logins = {
        "AccountKey": options.get("account-key"),
        "SharedAccessSignature": options.get("sas-token", "").lstrip("?"),
    }
    login = next((f"{name}={value}" for name, value in logins.items() if value), None)
    if login is None:
        return {"account_name": account, "account_host": urlsplit(endpoint).netloc or None}
    address = endpoint.rstrip("/") or f"https://{account}.blob.core.windows.net"
    return {"connection_string": f"BlobEndpoint={address};AccountName={account};{login}"}


def _s3_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Buckets behind an endpoint of one's own are addressed by path, unless the URI sets it otherwise."""
    endpoint = options.get("endpoint") or None
    by_path = _FLAGS[options.get("force-path-style", "true" if endpoint else "false").lower()]
    s3: dict[str, Any] = {"addressing_style": "path"} if by_path else {}
    if _FLAGS[options.get("use-accelerate-endpoint", "false").lower()]:
        s3["use_accelerate_endpoint"] = True
    return {
        "key": options.get("access-key"),
        "secret": options.get("secret-access-key"),
        "token": options.get("session-token"),
        "profile": options.get("profile"),
        "endpoint_url": endpoint,
        "client_kwargs": {"region_name": options["region"]} if options.get("region") else None,
        "config_kwargs": {"s3": s3} if s3 else None,
    }


STORAGE_OPTIONS = {
    "file": frozenset[str](),
    "s3": frozenset(
        {
            "endpoint",
            "region",
            "access-key",
            "secret-access-key",
            "session-token",
            "force-path-style",
            "use-accelerate-endpoint",
            "profile",
            "provider",
            "role-arn",
            "external-id",
            "storage-class",
            "sse",
            "sse-kms-key-id",
            "acl",
            "object-lock-enabled",
        }
    ),
    "gcs": frozenset({"endpoint", "credentials-file", "storage-class", "predefined-acl"}),
    "azblob": frozenset(
        {
            "endpoint",
            "account-name",
            "account-key",
            "sas-token",
            "access-tier",
            "encryption-scope",
            "encryption-key",
        }
    ),
}
"""The options of each kind of storage. Those that only affect how objects are written change nothing for a reader."""

SECRETS = frozenset(
    {
        "access-key",
        "secret-access-key",
        "session-token",
        "account-key",
        "sas-token",
        "encryption-key",
        "schema-registry",
    }
)
"""Options whose values are never shown; a registry's address can contain a login."""

CHANGEFEED_PARAMETERS = frozenset(
    """
    protocol terminator date-separator enable-partition-separator output-column-id worker-count flush-interval
    flush-concurrency file-size file-index-digit file-index-width file-expiration-days file-cleanup-cron-spec
    spool-disk-quota spool-base-dir enable-table-across-nodes use-table-id-as-path output-raw-change-event
    transaction-atomicity enable-old-value
    enable-tidb-extension output-row-key only-output-updated-columns delete-only-output-handle-key-columns
    content-compatible max-batch-size max-message-bytes schema-registry encoding-format
    avro-decimal-handling-mode avro-bigint-unsigned-handling-mode avro-include-before-value
    avro-enable-watermark debezium-disable-schema debezium-include-start-ts debezium-decimal-handling-mode
    debezium-bigint-unsigned-handling-mode debezium-binary-handling-mode simple-include-start-ts
    kafka-version kafka-client-id partition-num replication-factor compression auto-create-topic required-acks
    dial-timeout read-timeout write-timeout
    """.split()
)
"""What TiCDC takes in the URI of a storage sink besides the storage's own options: those of the sink, of the codecs,
and of message queues, which have no effect."""
