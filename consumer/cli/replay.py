"""`replay`: a stretch of history."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.session import Invocation

From = Annotated[
    str | None,
    typer.Option("--from-ts", metavar="TSO|TIME", help="Changes after this moment; without it from the start."),
]
To = Annotated[
    str | None,
    typer.Option("--to-ts", metavar="TSO|TIME", help="Changes up to this moment; without it to the checkpoint."),
]


def replay(call: Invocation, from_ts: From = None, to_ts: To = None) -> int:
    """Apply exactly the changes between two moments, into any target. When it is killed, run it again: it goes on, for
    its progress has a name of its own, made of --name and the range."""
    from consumer import app

    return call.finish(app.replay(call.settings, call.observer, from_ts, to_ts))


COMMAND = Command(
    "replay",
    replay,
    "storage-consumer replay --upstream-uri 's3://bucket/cdc?protocol=canal-json&region=eu-central-1' "
    "--downstream-uri duckdb:///march.duckdb --from-ts 2026-03-01T00:00:00Z --to-ts 2026-04-01T00:00:00Z",
)
