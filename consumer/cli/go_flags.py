"""Go's way of writing flags, which TiCDC's sample consumer has: one dash, and true or false after a switch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from consumer.config.settings import Settings
from consumer.config.spelling import flag_of, metavar_of

_OWN_VALUES = ("--config", "--table", "--version", "--reason", "--from-ts", "--to-ts")
_LIST = "--tables"


def with_two_dashes(arguments: Sequence[str]) -> list[str]:
    """`arguments` with known long flags written the way this command line parses them.

    ``-name X`` and ``-name=X`` get their second dash; ``--json=true`` loses its value; the rules after ``--tables``
    each get their flag. Everything else, values too, stays as it is.
    """
    done: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = _split(argument)
        if name == _LIST and not equals:
            if not rest or rest[0].startswith("-"):
                done.append(_LIST)  # refused: without a rule every table would be taken
            while rest and not rest[0].startswith("-"):
                done += [_LIST, rest.pop(0)]
        elif name in _with_value():
            done.append(f"{name}{equals}{value}")
            done += [rest.pop(0)] if rest and not equals else []
        elif name in _switches():
            done += [] if equals and value.lower() in ("false", "f", "0") else [name]
        else:
            done.append(argument)
    return done


def _split(argument: str) -> tuple[str, str, str]:
    name, equals, value = argument.partition("=")
    if name.startswith("-") and not name.startswith("--") and len(name) > 2:
        name = f"-{name}"
    return name, equals, value


def _with_value() -> set[str]:
    return {*_OWN_VALUES, *_flags(field for field in Settings.model_fields if metavar_of(field))}


def _switches() -> set[str]:
    return {"--yes", *_flags(field for field in Settings.model_fields if not metavar_of(field))}


def _flags(fields: Iterable[str]) -> list[str]:
    return [flag for flag in map(flag_of, fields) if flag]
