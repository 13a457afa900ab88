"""`once`: for schedules."""

from __future__ import annotations

from consumer.cli.command import Command
from consumer.cli.session import Invocation
from consumer.cli.several import in_turn


def once(call: Invocation) -> int:
    """Apply everything up to the checkpoint that is in the storage now, then end. Made for schedules."""
    from consumer import app

    return call.finish(app.once(call.settings, call.observer, call.loader))


COMMAND = Command(
    "once",
    once,
    "storage-consumer once --upstream-uri 'file:///data/cdc?protocol=canal-json' "
    "--downstream-uri duckdb:///replica.duckdb --json",
    of_all=in_turn,
)
