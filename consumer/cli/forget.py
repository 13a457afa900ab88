"""`forget`: a consumer name that is retired."""

from __future__ import annotations

from typing import Annotated

import typer

from consumer.cli.command import Command
from consumer.cli.json_form import forgotten_as_json
from consumer.cli.session import Invocation
from consumer.cli.text import out
from consumer.config.settings import TargetSettings
from consumer.errors import BadConfig

Yes = Annotated[bool, typer.Option("--yes", help="Remove it. Without this flag, only print what would be removed.")]


def forget(call: Invocation, yes: Yes = False) -> int:
    """Remove the progress of a consumer name that is no longer used. The target's tables stay as they are, and
    other names may apply to them from then on. Needs no storage."""
    from consumer import app

    if "name" not in call.settings.model_fields_set:
        raise BadConfig("forget needs --name", hint="give the name to be forgotten with --name")
    sentence = app.forget(call.settings, call.observer, yes)
    return call.show(lambda: forgotten_as_json(sentence), lambda: out(sentence))


COMMAND = Command(
    "forget",
    forget,
    "storage-consumer forget --name old --yes --downstream-uri mysql://root@127.0.0.1:3306/",
    settings=TargetSettings,
)
