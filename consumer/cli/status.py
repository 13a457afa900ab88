"""`status`: where the target is."""

from __future__ import annotations

from consumer.cli.command import Command
from consumer.cli.output import print_json, print_status, status_as_json
from consumer.cli.session import Call
from consumer.cli.text import readers_may_leave


def status(call: Call) -> int:
    """Print how far the target is, how far behind, and which tables are stopped and why."""
    from consumer import app

    result = app.status(call.settings, call.observer)
    with readers_may_leave():
        if call.settings.json_output:
            print_json(status_as_json(result))
        else:
            print_status(result, call.options)
    return 0


COMMAND = Command(
    "status", status, "storage-consumer status --upstream-uri 'file:///data/cdc?protocol=canal-json' --json"
)
