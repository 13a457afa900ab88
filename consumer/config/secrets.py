"""Secrets of settings: URIs that keep theirs in a repr, a scrubber for every text that leaves the program, and secrets
that a setting names instead of holding them: ``env:NAME`` or ``file:PATH`` in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.storage.settings import SECRETS

MASK = "***"

REFERENCES = "(?:env|file):"
"""What a secret parameter begins with that names its secret instead of holding it: that is shown."""

_SECRET_NAME = r"[\w.-]*(?:key|secret|token|passw|credential|signature|sas|authorization)[\w.-]*"
# A quote at the end belongs to the shell command around the URI.
_SECRET_PARAMETER = re.compile(rf"([?&;]{_SECRET_NAME}=)(?!{REFERENCES})[^&#\s]*?(?=['\"]?(?:[&#\s]|$))", re.IGNORECASE)
# Greedy up to the last "@": a password may hold any character, and too much masked is better than too little.
# Without "scheme://" in front the text begins with the user.
_PASSWORD = re.compile(r"((?:://|^(?![A-Za-z][A-Za-z0-9+.-]*://)/*)[^:/?#@\s]*:)\S*(@)")
_QUOTED = re.compile(r"(?<==)[^&#\s]*%[^&#\s]*")
"""A parameter's value that can be another URI, as that of a catalog's database."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_WORDS = frozenset({"password", "passwords", "passwd", "secret", "secrets", "credential", "credentials", "signature"})
"""Words of sentences about secrets: who has one of them for a secret is not helped by a mask there."""
_SHORTEST_SECRET = 6
"""Shorter ones are common words too: masking them everywhere would make messages unreadable."""


class Uri(str):
    """A URI whose repr keeps its secrets; as a string (parsing, joining, comparing) it is whole."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redact(self))


def redact(uri: str) -> str:
    """`uri` with its password and secret parameters masked, and those of a URI that is a parameter's value."""
    masked = _SECRET_PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}\2", uri))

    def within(found: re.Match[str]) -> str:
        plain = unquote(found[0])
        hidden = redact(plain) if plain != found[0] else plain
        return quote(hidden, safe=":/*@") if hidden != plain else found[0]

    return _QUOTED.sub(within, masked)


def is_masked(uri: str) -> bool:
    """Whether a secret of `uri` is the mask, as in a command that was pasted from our own output."""
    return MASK in _secrets(uri)


def scrubber(*uris: str, secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """A function that masks the secrets of any URI in a text, and those of `uris` and `secrets` wherever they stand."""
    known = {*secrets, *(value for uri in uris for value in _secrets(uri))}
    longest_first = sorted((value for value in known if _is_masked_anywhere(value)), key=len, reverse=True)

    def scrub(text: str) -> str:
        masked = _URI.sub(lambda found: redact(found[0]), text)
        for secret in longest_first:
            masked = masked.replace(secret, MASK)
        return masked

    return scrub


def _is_masked_anywhere(secret: str) -> bool:
    return len(secret) >= _SHORTEST_SECRET and secret.lower() not in _WORDS


def secret_values(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The values whose names say that they are secrets."""
    return [value for name, value in pairs if re.fullmatch(_SECRET_NAME, name, re.IGNORECASE)]


def _secrets(uri: str) -> list[str]:
    """Passwords and secret parameters of `uri`, as they are written and decoded, and those of a URI that is a value."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return []  # not a URI: what looks like one in it is still masked by its form
    pairs = [(name, value) for name, _, value in (pair.partition("=") for pair in re.split("[&;]", parts.query))]
    found = secret_values(pairs)
    if parts.password:
        found.append(parts.password)
    within = [unquote(value) for name, value in pairs if name == "uri"]
    inner = [secret for value in within for secret in _secrets(value.removeprefix("jdbc:"))]
    return found + [unquote(value) for value in found] + inner


# Secrets that are named

_NAMED = re.compile(rf"{'|'.join(SECRETS)}|(?!.*file$){_SECRET_NAME}", re.IGNORECASE)
"""A name that ends with `file` has a file for its value anyway."""
_MOST_BYTES = 64 << 10
_PARAMETER = re.compile(rf"(?<=[?&])([^=&#]+)=({REFERENCES}[^&#]*)")


def resolved(uri: str, setting: str, env: Mapping[str, str]) -> str:
    """`uri` with what its secret parameters name. Raises BadConfig, in which `setting` is the URI's name."""

    def value(found: re.Match[str]) -> str:
        if not _NAMED.fullmatch(found[1].replace("_", "-")):
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
