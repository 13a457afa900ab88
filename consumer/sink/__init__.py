"""Targets, found by the scheme of the downstream URI. Each is imported only when it is asked for."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from consumer.errors import BadConfig
from consumer.target import Sink

SCHEMES = ("mysql", "mariadb", "tidb", "duckdb")
TESTS_OWN = "memory"
"""The scheme of a target that ends with its process: nobody is told of it."""


def sink_for(
    uri: str, *, name: str, time_zone: str = "UTC", worker_count: int = 16, allow_triggers: bool = False
) -> Sink:
    """The target that `uri` names, not yet reached, with its progress under the consumer name `name`.

    `time_zone` is the changefeed's, by name or offset. `worker_count` bounds the connections to a server; targets
    without one have no use for it. Raises BadConfig.
    """
    match urlsplit(uri).scheme:
        case "mysql" | "mariadb" | "tidb":
            from consumer.sink.mysql.settings import MySqlSettings
            from consumer.sink.mysql.sink import MySqlSink

            settings = MySqlSettings.from_uri(uri, name=name, time_zone=time_zone)
            bounded = settings.worker_count if "worker-count=" in uri else worker_count
            triggers = settings.allow_triggers or allow_triggers
            return MySqlSink(replace(settings, worker_count=bounded, allow_triggers=triggers))
        case "duckdb":
            from consumer.sink.duckdb.settings import DuckDbSettings
            from consumer.sink.duckdb.sink import DuckDbSink

            return DuckDbSink(DuckDbSettings.from_uri(uri, name=name, time_zone=time_zone))
        case "memory":
            from consumer.sink.memory.sink import MemorySink

            return MemorySink.from_uri(uri, name=name)
        case other:
            known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise BadConfig(f"the downstream URI's scheme {other!r} is none of {known}")
