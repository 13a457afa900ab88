"""The command line: every command, and what is around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from consumer import __version__
from consumer.cli import backfill, forget, inspect, once, plan, replay, resync, retry, run, skip_ddl, status, verify
from consumer.cli.command import Command
from consumer.cli.go_flags import with_two_dashes
from consumer.cli.json_form import NOBODY, error_as_json, print_json
from consumer.errors import BadConfig

COMMANDS = tuple(
    module.COMMAND
    for module in (run, once, backfill, replay, plan, status, verify, inspect, retry, resync, skip_ddl, forget)
)

_EPILOG = (
    "Exit codes: 0 done, nothing new is 0 too; 1 a bug; 2 bad usage or settings; 3 some tables stopped, the rest done; "
    "4 try again later; 5 needs a person; 6 the target differs (verify)."
)

UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for words that it cannot make sense of: it gives only some of its kinds a public name."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"storage-consumer {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


def build(commands: Iterable[Command] = COMMANDS) -> typer.Typer:
    """The command line of these commands."""
    app = typer.Typer(
        name="storage-consumer",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def consumer(version: Version = False) -> None:
        """Keep a target equal to a TiDB cluster, from the files that TiCDC writes to object storage."""

    for command in commands:
        example = f"\b\nExample:\n  {command.example}"
        app.command(command.name, help=command.help, short_help=command.summary, epilog=example)(command.callback())
    return app


def run_program(given: Sequence[str]) -> int:
    """Run the command line with the words `given`; the exit code."""
    # The first word is the command: only what follows it can be flags of the settings.
    words = [*given[:1], *with_two_dashes(given[1:])]
    # Where the word names a command, typer needs to know only that one: all of them are a tenth of a start.
    named = [command for command in COMMANDS if [command.name] == words[:1]]
    try:
        return int(build(named or COMMANDS)(prog_name="storage-consumer", args=words, standalone_mode=False) or 0)
    except UsageError as error:
        error.show()
        if "--json" in words:
            print_json(NOBODY.around(error_as_json(BadConfig(error.format_message()), 0.0), BadConfig.exit_code))
        return BadConfig.exit_code
