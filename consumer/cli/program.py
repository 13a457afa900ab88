"""The command line: every command, and what is around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from consumer import __version__
from consumer.cli.apply import backfill, load_export, once, replay, resync, run
from consumer.cli.by_hand import forget, maintain, retry, skip_ddl
from consumer.cli.changes import changes
from consumer.cli.check import check
from consumer.cli.command import Command
from consumer.cli.inspect import inspect
from consumer.cli.lake_at import lake_at
from consumer.cli.plan import plan
from consumer.cli.session import print_json
from consumer.cli.status import status
from consumer.cli.undo import undo
from consumer.cli.verify import verify
from consumer.config.settings import Settings
from consumer.config.spelling import flag_of, given_by
from consumer.errors import BadConfig, Code
from consumer.results import Failure

COMMANDS: tuple[Command, ...] = (
    run, once, backfill, load_export, replay, plan, status, verify, inspect, check, changes, undo, retry, resync,
    skip_ddl, forget, maintain, lake_at,
)  # fmt: skip

_EPILOG = (
    "Exit codes: 0 done, nothing new is 0 too; 1 a bug; 2 bad usage or settings; 3 some tables stopped, the rest done; "
    "4 try again later; 5 a person has to decide: a table stopped for a refused statement or for missing files, or the "
    "upstream is another one; 6 the target differs (verify). Of several tables, 5 counts before 4, and 4 before 3."
)

UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for words that it cannot parse: it gives only some of its kinds a public name."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"storage-consumer {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


def build(commands: Iterable[Command] = COMMANDS) -> typer.Typer:
    """Returns the command line of these commands."""
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
    """Runs the command line with the words `given`. Returns the exit code."""
    # The first word is the command: only what follows it can be flags of the settings.
    # Where it names a command, typer needs to know only that one: all of them are a tenth of a start.
    named = [command for command in COMMANDS if [command.name] == list(given[:1])]
    words = [*given[:1], *with_two_dashes(given[1:], named)]
    try:
        return int(build(named or COMMANDS)(prog_name="storage-consumer", args=words, standalone_mode=False) or 0)
    except UsageError as error:
        error.show()
        if "--json" in words:
            print_json(Failure(code=Code.BAD_CONFIG, error=error.format_message(), exit_code=BadConfig.exit_code))
        return BadConfig.exit_code


# Go's way of writing flags, which TiCDC's sample consumer has: one dash, and true or false after a switch.

_LIST = "--tables"


def with_two_dashes(arguments: Sequence[str], commands: Iterable[Command] = COMMANDS) -> list[str]:
    """Returns `arguments` of one of `commands`, with its long flags written the way this command line parses them.
    ``-name X`` and ``-name=X`` get their second dash; ``--json=true`` loses its value; the rules after ``--tables``
    each get their flag. Everything else, values too, stays as it is."""
    done: list[str] = []
    rest = list(arguments)
    valued = {
        "--config": True,
        "--help-all": False,
        **{flag: bool(given_by(field).metavar) for field, flag in _setting_flags()},
    }
    for command in commands:
        valued |= command.flags
    while rest:
        argument = rest.pop(0)
        name, equals, value = _split(argument)
        if name == _LIST and not equals:
            if not rest or rest[0].startswith("-"):
                done.append(_LIST)  # refused: without a rule every table would be taken
            while rest and not rest[0].startswith("-"):
                done += [_LIST, rest.pop(0)]
        elif valued.get(name):
            done.append(f"{name}{equals}{value}")
            done += [rest.pop(0)] if rest and not equals else []
        elif name in valued:
            done += [] if equals and value.lower() in ("false", "f", "0") else [name]
        else:
            done.append(argument)
    return done


def _split(argument: str) -> tuple[str, str, str]:
    name, equals, value = argument.partition("=")
    if name.startswith("-") and not name.startswith("--") and len(name) > 2:
        name = f"-{name}"
    return name, equals, value


def _setting_flags() -> list[tuple[str, str]]:
    return [(field, flag) for field in Settings.model_fields if (flag := flag_of(field))]
