"""`plan`: look, change nothing."""

from __future__ import annotations

from consumer.cli.command import Command
from consumer.cli.output import plan_as_json, print_json, print_plan
from consumer.cli.session import Call
from consumer.cli.text import readers_may_leave


def plan(call: Call) -> int:
    """Print the steps that `once` would do now, and change nothing."""
    from consumer import app

    result = app.plan(call.settings, call.observer)
    with readers_may_leave():
        if call.settings.json_output:
            print_json(plan_as_json(result))
        else:
            print_plan(result)
    return 0


COMMAND = Command(
    "plan", plan, "storage-consumer plan --config changefeed.toml --upstream-uri file:///data/cdc --tables 'shop.*'"
)
