"""Secrets of settings: URIs whose repr hides them, a scrubber for every text that leaves the program, and secrets that
a setting names instead of holding them: ``env:NAME`` or ``file:PATH`` in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from consumer.errors import BadConfig
from consumer.storage.settings import SECRETS

MASK = "***"

REFERENCES = "(?:env|file):"
"""The beginning of a secret parameter that names its secret instead of holding it; such a value is shown."""

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
"""Words of sentences about secrets: masking them there would not help anyone who has such a word as a secret."""
_SHORTEST_SECRET = 6
"""Shorter ones are common words too: masking them everywhere would make messages unreadable."""


class Uri(str):
    """A URI whose repr hides its secrets; as a string (parsing, joining, comparing) it is complete."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(redact(self))


def redact(uri: str) -> str:
    """Returns `uri` with its password and secret parameters masked, and those of a URI that is a parameter's value."""
    masked = _SECRET_PARAMETER.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}\2", uri))

    def within(match: re.Match[str]) -> str:
        plain = unquote(match[0])
        hidden = redact(plain) if plain != match[0] else plain
        return quote(hidden, safe=":/*@") if hidden != plain else match[0]

    return _QUOTED.sub(within, masked)


def is_masked(uri: str) -> bool:
    """Returns whether a secret of `uri` is the mask, as in a command that was pasted from our own output."""
    return MASK in _secrets(uri)


def scrubber(*uris: str, secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Returns a function that masks the secrets of any URI in a text, and those of `uris` and `secrets` wherever they
    stand."""
    all_secrets = {*secrets, *(value for uri in uris for value in _secrets(uri))}
    longest_first = sorted((value for value in all_secrets if _is_masked_anywhere(value)), key=len, reverse=True)

    def scrub(text: str) -> str:
        masked = _URI.sub(lambda match: redact(match[0]), text)
        for secret in longest_first:
            masked = masked.replace(secret, MASK)
        return masked

    return scrub


def _is_masked_anywhere(secret: str) -> bool:
    return len(secret) >= _SHORTEST_SECRET and secret.lower() not in _WORDS


def secret_values(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the values whose names show that they are secrets."""
    return [value for name, value in pairs if re.fullmatch(_SECRET_NAME, name, re.IGNORECASE)]


def _secrets(uri: str) -> list[str]:
    """Returns the passwords and secret parameters of `uri`, as they are written and decoded, and those of a URI that is
    a value."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return []  # not a URI: what looks like one in it is still masked by its form
    pairs = [(name, value) for name, _, value in (pair.partition("=") for pair in re.split("[&;]", parts.query))]
    secrets = secret_values(pairs)
    if parts.password:
        secrets.append(parts.password)
    within = [unquote(value) for name, value in pairs if name == "uri"]
    inner = [secret for value in within for secret in _secrets(value.removeprefix("jdbc:"))]
    return secrets + [unquote(value) for value in secrets] + inner


# Secrets that are named

_NAMED = re.compile(rf"{'|'.join(SECRETS)}|(?!.*file$){_SECRET_NAME}", re.IGNORECASE)
"""A name that ends with `file` has a file for its value anyway."""
_MOST_BYTES = 64 << 10
_PARAMETER = re.compile(rf"(?<=[?&])([^=&#]+)=({REFERENCES}[^&#]*)")


def resolve_secrets(uri: str, setting: str, env: Mapping[str, str]) -> str:
    """Returns `uri` with the secrets that its secret parameters name. Raises BadConfig, in which `setting` is the URI's
    name."""

    def value(match: re.Match[str]) -> str:
        if not _NAMED.fullmatch(match[1].replace("_", "-")):
            return match[0]
        return f"{match[1]}={quote(read_secret(unquote(match[2]), f'{match[1]} in {setting}', env), safe='')}"

    return _PARAMETER.sub(value, uri)


def resolve_pairs(
    pairs: Iterable[tuple[str, str]], setting: str, env: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Returns `pairs` with the secrets that the values of secret names name. Raises BadConfig."""

    def value(name: str, text: str) -> str:
        named = secret_values(((name, text),)) and re.match(REFERENCES, text)
        return read_secret(text, f"{name} in {setting}", env) if named else text

    return tuple((name, value(name, text)) for name, text in pairs)


def read_secret(reference: str, what: str, env: Mapping[str, str]) -> str:
    """Returns what ``env:NAME`` or ``file:PATH`` names. Raises BadConfig, in which `what` is the setting's name."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        secret = env.get(place, "")
        if not secret:
            raise BadConfig(f"{what} names the environment's variable {place}, which is not set")
        return secret
    try:
        with Path(place).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        secret = content.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadConfig(f"{what} names the file {place}, which cannot be read: {reason}") from None
    if not secret or len(content) > _MOST_BYTES:
        raise BadConfig(f"{what} names the file {place}, which is {'empty' if not secret else 'too long for a secret'}")
    return secret
