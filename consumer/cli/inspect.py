"""`inspect`: what is in the storage."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.inspect_text import print_inspected
from consumer.cli.json_form import inspect_as_json
from consumer.cli.session import Call
from consumer.config.settings import InspectSettings
from consumer.errors import BadConfig

TimeRange = Annotated[
    bool, typer.Option("--time-range", help="Tell the first and last commit-ts of each table: reads each file's ends.")
]

Toml = Annotated[
    bool, typer.Option("--toml", help="Print only the changefeed's TOML as the files show it, to be used as --config.")
]


def inspect(call: Call, time_range: TimeRange = False, toml: Toml = False) -> int:
    """Print what is in the storage: checkpoint, tables, the changefeed's options as the files show them, what is wrong,
    and how to start. Needs no target and no other setting."""
    from consumer import app

    result = app.inspect(call.settings, call.observer, time_range)
    if toml and not result.tables:
        raise BadConfig(next(iter(result.findings), "there is nothing that TiCDC writes"))
    return call.show(lambda: inspect_as_json(result), lambda: print(result.toml) if toml else print_inspected(result))


COMMAND = Command(
    "inspect",
    inspect,
    "storage-consumer inspect --upstream-uri 's3://bucket/cdc?region=eu-central-1' --tables 'shop.*'",
    settings=InspectSettings,
)
