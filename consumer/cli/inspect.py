"""`inspect`: what is in the storage."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.inspected import inspect_as_json, print_inspected
from consumer.cli.output import print_json
from consumer.cli.session import Call
from consumer.cli.text import readers_may_leave
from consumer.config.settings import InspectSettings

TimeRange = Annotated[
    bool, typer.Option("--time-range", help="Tell the first and last commit-ts of each table: reads each file's ends.")
]


def inspect(call: Call, time_range: TimeRange = False) -> int:
    """Print what is in the storage: checkpoint, tables, the changefeed's options as the files show them, what is wrong,
    and how to start. Needs no target and no other setting."""
    from consumer import app

    result = app.inspect(call.settings, call.observer, time_range)
    with readers_may_leave():
        if call.settings.json_output:
            print_json(inspect_as_json(result))
        else:
            print_inspected(result)
    return 0


COMMAND = Command(
    "inspect",
    inspect,
    "storage-consumer inspect --upstream-uri 's3://bucket/cdc?region=eu-central-1' --tables 'shop.*'",
    settings=InspectSettings,
)
