"""`plan`: look, change nothing."""

from __future__ import annotations

from consumer.cli.command import Command
from consumer.cli.json_form import plan_as_json
from consumer.cli.plan_text import print_plan
from consumer.cli.session import Invocation


def plan(call: Invocation) -> int:
    """Print the steps that `once` would do now, and change nothing."""
    from consumer import app

    result = app.plan(call.settings, call.observer)
    return call.show(lambda: plan_as_json(result), lambda: print_plan(result, call.options))


COMMAND = Command(
    "plan", plan, "storage-consumer plan --config changefeed.toml --upstream-uri file:///data/cdc --tables 'shop.*'"
)
