"""Secrets that a setting names instead of holding them: ``env:NAME`` or ``file:PATH`` in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from consumer.config.uri import REFERENCES, secret_values
from consumer.errors import BadConfig
from consumer.storage.parameters import SECRETS

_NAMED = SECRETS | {"password"}
_MOST_BYTES = 64 << 10
_PARAMETER = re.compile(rf"(?<=[?&])([^=&#]+)=({REFERENCES}[^&#]*)")


def resolved(uri: str, setting: str, env: Mapping[str, str]) -> str:
    """`uri` with what its secret parameters name. Raises BadConfig, in which `setting` is the URI's name."""

    def value(found: re.Match[str]) -> str:
        if found[1].lower().replace("_", "-") not in _NAMED:
            return found[0]
        return f"{found[1]}={quote(read_secret(unquote(found[2]), f'{found[1]} in {setting}', env), safe='')}"

    return _PARAMETER.sub(value, uri)


def resolved_pairs(
    pairs: Iterable[tuple[str, str]], setting: str, env: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """`pairs` with what the values of secret names name. Raises BadConfig."""

    def value(name: str, text: str) -> str:
        named = secret_values(((name, text),)) and re.match(REFERENCES, text)
        return read_secret(text, f"{name} in {setting}", env) if named else text

    return tuple((name, value(name, text)) for name, text in pairs)


def read_secret(reference: str, what: str, env: Mapping[str, str]) -> str:
    """What ``env:NAME`` or ``file:PATH`` names. Raises BadConfig, in which `what` is the setting's name."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        found = env.get(place, "")
        if not found:
            raise BadConfig(f"{what} names the environment's variable {place}, which is not set")
        return found
    try:
        with Path(place).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        found = content.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadConfig(f"{what} names the file {place}, which cannot be read: {reason}") from None
    if not found or len(content) > _MOST_BYTES:
        raise BadConfig(f"{what} names the file {place}, which is {'empty' if not found else 'too long for a secret'}")
    return found
