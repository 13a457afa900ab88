"""URIs that keep their secrets in a repr, and a scrubber for every text that leaves the program."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from urllib.parse import unquote, urlsplit

MASK = "***"

REFERENCES = "(?:env|file):"
"""What a secret parameter begins with that names its secret instead of holding it: that is shown."""

_SECRET_NAME = r"[\w.-]*(?:key|secret|token|passw|credential|signature|sas)[\w.-]*"
# A quote at the end belongs to the shell command around the URI.
_SECRET_PARAMETER = re.compile(rf"([?&]{_SECRET_NAME}=)(?!{REFERENCES})[^&#\s]*?(?=['\"]?(?:[&#\s]|$))", re.IGNORECASE)
# Greedy up to the last "@": a password may hold any character, and too much masked is better than too little.
# Without "scheme://" in front the text begins with the user.
_PASSWORD = re.compile(r"((?:://|^(?![A-Za-z][A-Za-z0-9+.-]*://)/*)[^:/?#@\s]*:)\S*(@)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_SHORTEST_SECRET = 6
"""Shorter ones are common words too: masking them everywhere would make messages unreadable."""


class Uri(str):
    """A URI whose repr keeps its secrets; as a string (parsing, joining, comparing) it is whole."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redact(self))


def redact(uri: str) -> str:
    """`uri` with its password and secret parameters masked."""
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}\2", uri))


def is_masked(uri: str) -> bool:
    """Whether a secret of `uri` is the mask, as in a command that was pasted from our own output."""
    return MASK in _secrets(uri)


def scrubber(*uris: str, secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """A function that masks the secrets of any URI in a text, and those of `uris` and `secrets` wherever they stand."""
    known = {*secrets, *(value for uri in uris for value in _secrets(uri))}
    longest_first = sorted((value for value in known if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)

    def scrub(text: str) -> str:
        masked = _URI.sub(lambda found: redact(found[0]), text)
        for secret in longest_first:
            masked = masked.replace(secret, MASK)
        return masked

    return scrub


def secret_values(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """The values whose names say that they are secrets."""
    return [value for name, value in pairs if re.fullmatch(_SECRET_NAME, name, re.IGNORECASE)]


def _secrets(uri: str) -> list[str]:
    """Passwords and secret parameters of `uri`, as they are written and decoded."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return []  # not a URI: what looks like one in it is still masked by its form
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    found = secret_values((name, value) for name, _, value in pairs)
    if parts.password:
        found.append(parts.password)
    return found + [unquote(value) for value in found]
