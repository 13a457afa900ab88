"""`inspect`: what is in the storage."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.inspect_text import print_inspected
from consumer.cli.json_form import inspect_as_json
from consumer.cli.session import Invocation
from consumer.config.settings import InspectSettings
from consumer.errors import BadConfig, CheckpointMissing

TimeRange = Annotated[
    bool,
    typer.Option(
        "--time-range", help="Print the first and last commit-ts of each table (reads both ends of each file)."
    ),
]

Toml = Annotated[
    bool, typer.Option("--toml", help="Print only the changefeed's TOML as the files show it, to be used as --config.")
]


def inspect(call: Invocation, time_range: TimeRange = False, toml: Toml = False) -> int:
    """Print what is in the storage: checkpoint, tables, the changefeed's options as the files show them, what is wrong,
    and how to start. Needs no target and no other setting."""
    from consumer import app

    result = app.inspect(call.settings, call.observer, time_range)
    if toml and not result.tables:
        raise BadConfig(next(iter(result.findings), "there is nothing that TiCDC writes"))
    # As `once` ends there: a changefeed may still begin in this place.
    code = CheckpointMissing.exit_code if result.checkpoint_ts is None and not result.tables else 0
    as_text = partial(print, result.toml) if toml else partial(print_inspected, result)
    return call.show(lambda: inspect_as_json(result), as_text, code)


COMMAND = Command(
    "inspect",
    inspect,
    "storage-consumer inspect --upstream-uri 's3://bucket/cdc?region=eu-central-1' --tables 'shop.*'",
    settings=InspectSettings,
)
