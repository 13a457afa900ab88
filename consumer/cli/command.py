"""How a command is declared: a body, an example, and its own flags; the settings' flags are added to each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo

from consumer.cli.session import OfAll, execute
from consumer.config.fields import Part
from consumer.config.settings import Settings
from consumer.config.spelling import flag_of, given_by
from consumer.config.table_filter import table_filter
from consumer.errors import BadConfig
from consumer.model.names import TableName

Body = Callable[..., int]
"""Takes an Invocation and the command's own flags by name; returns the exit code."""


Table = Annotated[str, typer.Option("--table", metavar="DB.T", help="The table; `a.b`.`c` where a name holds a dot.")]
"""One table, for `parse_table`."""
READS: tuple[Part, ...] = ("storage", "target", "names", "process")
"""The parts of the settings for a command that compares the target with the storage."""
APPLIES: tuple[Part, ...] = (*READS, "spark", "bad rows", "applying")
_FIRST = ("upstream_uri", "downstream_uri", "name", "tz", "tables", "start_ts", "flush_interval", "json_output")
"""The settings that --help shows first, of those that the command uses."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, its help (the body's docstring), an example to run, and what the settings are about that it
    uses. It takes the flags of all settings, so that one set of flags fits all commands, and shows those it uses.
    `of_all` is what takes the body's place for several consumers, with the body; None: the command is for one.
    `applies`: it writes rows of the storage, and leaves the metrics of that."""

    name: str
    body: Body
    example: str
    uses: tuple[Part, ...]
    endless: bool = False
    settings: type[Settings] = Settings
    of_all: OfAll | None = None
    applies: bool = False

    @property
    def help(self) -> str:
        return inspect.getdoc(self.body) or ""

    @property
    def summary(self) -> str:
        """The first sentence of the help: typer would cut it in the list of the commands."""
        return " ".join(self.help.split()).partition(". ")[0].rstrip(".") + "."

    @property
    def own(self) -> list[inspect.Parameter]:
        """The parameters of its own flags."""
        signature = inspect.signature(self.body, eval_str=True)
        return [p.replace(kind=p.KEYWORD_ONLY) for name, p in signature.parameters.items() if name != "call"]

    @property
    def flags(self) -> dict[str, bool]:
        """Its own flags, and whether each takes a value."""
        given = ((parameter.name, *get_args(parameter.annotation)[:2]) for parameter in self.own)
        options = ((name, kind) for name, kind, info in given if not isinstance(info, ArgumentInfo))
        return {f"--{name.replace('_', '-')}": kind is not bool for name, kind in options}

    def callback(self) -> Callable[..., None]:
        """Returns the function for which typer parses flags."""
        own = self.own

        def run(config: str | None, help_all: bool, **given: Any) -> None:
            extras = {parameter.name: given.pop(parameter.name) for parameter in own}
            # Switches that are off and lists with nothing in them were not given; an empty text was, and is refused.
            flags = {field: value for field, value in given.items() if value or value == ""}
            body = partial(self.body, **extras)
            code = execute(
                body,
                flags,
                config,
                kind=self.settings,
                endless=self.endless,
                of_all=self.of_all,
                applies=self.applies,
            )
            raise typer.Exit(code)

        parameters = [*own, _config_flag(), *_setting_flags(self.uses), _help_all_flag(self.uses)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run


def command(
    example: str,
    uses: tuple[Part, ...],
    *,
    endless: bool = False,
    settings: type[Settings] = Settings,
    of_all: OfAll | None = None,
    applies: bool = False,
) -> Callable[[Body], Command]:
    """Declares the function below it as the command of its name. `program.COMMANDS` lists all of them."""
    return lambda body: Command(
        body.__name__.replace("_", "-"), body, example, uses, endless, settings, of_all, applies
    )


def _config_flag() -> inspect.Parameter:
    option = typer.Option(
        "--config", metavar="FILE", help="The changefeed's TOML, with our own [consumer] table in it."
    )
    return _parameter("config", Annotated[str | None, option], None)


def _help_all_flag(uses: Collection[Part]) -> inspect.Parameter:
    def show(context: typer.Context, wanted: bool) -> None:
        if wanted:
            for parameter in context.command.params:
                field = str(parameter.name)
                if field in Settings.model_fields:
                    parameter.hidden = given_by(field).part not in uses  # type: ignore[attr-defined]
            print(context.get_help())
            raise typer.Exit

    option = typer.Option("--help-all", help="Show all flags of this command.", callback=show, is_eager=True)
    return _parameter("help_all", Annotated[bool, option], False)


def _setting_flags(uses: Collection[Part]) -> list[inspect.Parameter]:
    return [_setting_flag(field, uses) for field in Settings.model_fields if flag_of(field)]


def _setting_flag(field: str, uses: Collection[Part]) -> inspect.Parameter:
    hidden = field not in _FIRST or given_by(field).part not in uses
    info = Settings.model_fields[field]
    spellings = ["-v", "--verbose"] if field == "verbose" else [flag_of(field)]
    text = (info.description or "").replace("`", "")
    metavar = given_by(field).metavar
    if not metavar:
        return _parameter(field, Annotated[bool, typer.Option(*spellings, help=text, hidden=hidden)], False)
    if info.default and isinstance(info.default, (str, int)):
        text += f"  [default: {info.default}]"
    option = typer.Option(*spellings, metavar=metavar, help=text, hidden=hidden)
    kind = list[str] if given_by(field).several else str
    return _parameter(field, Annotated[kind | None, option], None)


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# Table names as people write them: ``db.table``, with backticks where a name holds a dot.

_PART = r"(?:`((?:[^`]|``)+)`|([^`.]+))"
_NAME = re.compile(rf"{_PART}\.{_PART}", re.DOTALL)


def parse_table(text: str) -> TableName:
    """Returns the table that ``--table`` names. Raises BadConfig."""
    found = _NAME.fullmatch(text)
    if found is None:
        raise BadConfig(f"--table is refused: '{text}' is not of the form db.table; quote a name with a dot: `a.b`.`c`")
    database, table = (quoted.replace("``", "`") or plain for quoted, plain in _pairs(found))
    return TableName(database, table)


def parse_owner(text: str) -> TableName:
    """Returns what a statement belongs to: a table, or a database alone. Raises BadConfig."""
    alone = re.fullmatch(_PART, text, re.DOTALL)
    return TableName((alone[1] or "").replace("``", "`") or alone[2], "") if alone else parse_table(text)


def wanted_tables(texts: Iterable[str], case_sensitive: bool) -> Callable[[TableName], bool]:
    """Returns a function that tells whether one of several ``--table``, which can also be rules, names a table. Raises
    BadConfig."""
    rules = [_wanted_by(text, case_sensitive) for text in texts]
    return lambda table: any(rule(table) for rule in rules)


def _wanted_by(text: str, case_sensitive: bool) -> Callable[[TableName], bool]:
    with suppress(BadConfig):
        if (name := parse_table(text)) and not set(text) & set("*?[/"):
            return lambda table: table == name
    try:
        return table_filter((text,), case_sensitive).matches
    except ValueError as problem:
        raise BadConfig(f"--table is refused: {problem}") from None


def _pairs(found: re.Match[str]) -> list[tuple[str, str]]:
    groups = [group or "" for group in found.groups()]
    return [(groups[0], groups[1]), (groups[2], groups[3])]
