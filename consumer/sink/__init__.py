"""Targets, found by the scheme of the downstream URI. Each is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from urllib.parse import urlsplit

from consumer.errors import BadConfig
from consumer.model.process import signals_later
from consumer.target import Sink, TargetOptions

_SERVERS = ("mysql", "mariadb", "tidb")

TARGETS = {
    **dict.fromkeys(_SERVERS, "consumer.sink.mysql.sink"),
    "duckdb": "consumer.sink.duckdb.sink",
}
"""By scheme, the module whose ``open_sink(uri, options)`` opens the target. A new target is one more line."""
ONE_AT_A_TIME = frozenset({"duckdb"})
"""Schemes of targets that one consumer at a time can take, whatever its name."""


def schemes() -> str:
    """The forms that a downstream URI can have, for messages."""
    return ", ".join(f"{scheme}://" for scheme in TARGETS)


def sink_for(uri: str, options: TargetOptions) -> Sink:
    """The target that `uri` names, not yet reached. Raises BadConfig."""
    scheme = urlsplit(uri).scheme
    if scheme not in TARGETS:
        raise BadConfig(f"the downstream URI's scheme {scheme!r} is none of {schemes()}")
    with signals_later():
        module = import_module(TARGETS[scheme])
    sink: Sink = module.open_sink(uri, options)
    return sink
