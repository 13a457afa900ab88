"""Opens a target by the scheme of the downstream URI. The module of a target is imported only when it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from urllib.parse import urlsplit

from consumer.errors import BadConfig
from consumer.model.process import signals_later
from consumer.target import Sink, TargetOptions

_SERVERS = ("mysql", "mariadb", "tidb")
_LAKES = ("delta", "iceberg")

TARGETS = {
    **dict.fromkeys(_SERVERS, "consumer.sink.mysql.sink"),
    "duckdb": "consumer.sink.duckdb.sink",
    **dict.fromkeys(_LAKES, "consumer.sink.lake.sink"),
}
"""Maps each scheme to the module whose ``open_sink(uri, options)`` opens the target. A new target is one more line."""
ONE_AT_A_TIME = frozenset({"duckdb", *_LAKES})
"""Schemes of targets that admit one consumer at a time, whatever its name."""


def schemes() -> str:
    """Returns the possible forms of a downstream URI, for messages."""
    return ", ".join(f"{scheme}://" for scheme in TARGETS)


def sink_for(uri: str, options: TargetOptions) -> Sink:
    """Returns the target that `uri` names. It has not been connected to yet. Raises BadConfig."""
    scheme = urlsplit(uri).scheme
    if scheme not in TARGETS:
        hint = "a lake on S3 has Iceberg tables, whose catalog is elsewhere: docs/lakes.md" if "s3" in scheme else ""
        raise BadConfig(f"the downstream URI's scheme {scheme!r} is none of {schemes()}", hint=hint)
    if options.layouts.rules and scheme not in _LAKES:
        raise BadConfig(
            f"[[consumer.lake-tables]] is for lakes, and the target is a {scheme}://",
            hint="leave it out, or give it in the [[consumer.targets]] that is a lake",
        )
    with signals_later():
        module = import_module(TARGETS[scheme])
    sink: Sink = module.open_sink(uri, options)
    return sink


def spark_properties(uri: str) -> Mapping[str, str]:
    """Returns the properties with which Spark must be started for the target that `uri` names. Raises BadConfig."""
    if urlsplit(uri).scheme not in _LAKES:
        return {}
    properties: Mapping[str, str] = import_module("consumer.sink.lake.jars").properties(uri)
    return properties
