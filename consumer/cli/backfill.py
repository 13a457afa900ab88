"""`backfill`: fill an empty target."""

from __future__ import annotations

from consumer.cli.command import Command
from consumer.cli.session import Invocation
from consumer.cli.several import in_turn


def backfill(call: Invocation) -> int:
    """Fill an empty target from the start of the storage, then end. Refuses a target with progress or rows."""
    from consumer import app

    return call.finish(app.backfill(call.settings, call.observer, call.loader))


COMMAND = Command(
    "backfill",
    backfill,
    "storage-consumer backfill --upstream-uri 's3://bucket/cdc?protocol=canal-json&region=eu-central-1' "
    "--downstream-uri mysql://root@127.0.0.1:3306/ --worker-count 8",
    of_all=in_turn,
)
