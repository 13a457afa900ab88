"""The only wiring: joins storage, pipeline, Spark and sink as the settings say. There is one function for each
command."""

from __future__ import annotations

from consumer.app.check import check
from consumer.app.commands import backfill, forget, lake_at, maintain, once, plan, run, skip_ddl
from consumer.app.inspect import inspect
from consumer.app.load_export import load_export
from consumer.app.parts import loader_of
from consumer.app.replay import replay
from consumer.app.resync import resync
from consumer.app.retry import retry
from consumer.app.several import AGAIN_AFTER, run_all
from consumer.app.status import status
from consumer.app.verify import verify

__all__ = [
    "AGAIN_AFTER",
    "backfill",
    "check",
    "forget",
    "inspect",
    "lake_at",
    "load_export",
    "loader_of",
    "maintain",
    "once",
    "plan",
    "replay",
    "resync",
    "retry",
    "run",
    "run_all",
    "skip_ddl",
    "status",
    "verify",
]
