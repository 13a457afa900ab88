"""The flags of the command line, as the commands declare them."""

from __future__ import annotations

import inspect
from typing import get_args

from consumer.cli.command import Command
from consumer.config.settings import Settings
from consumer.config.spelling import flag_of


def flags_of_settings() -> set[str]:
    """Those that most commands take."""
    return {flag_of(field) for field in Settings.model_fields}


def own_flags(command: Command) -> set[str]:
    """Those that are declared by the command itself."""
    return {
        declared
        for parameter in inspect.signature(command.callback()).parameters.values()
        for option in get_args(parameter.annotation)[1:]
        for declared in option.param_decls or (f"--{parameter.name.replace('_', '-')}",)
    }
