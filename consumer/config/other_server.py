"""`--against`: the address of a server that a target is compared with."""

from __future__ import annotations

from collections.abc import Mapping

from consumer.config.secrets import resolved
from consumer.config.uri import MASK, Uri, is_masked
from consumer.errors import BadConfig

AGAINST = "--against"


def other_server(text: str, env: Mapping[str, str]) -> Uri:
    """The URI with the secrets that it names. Raises BadConfig."""
    if is_masked(text):
        raise BadConfig(
            f"{AGAINST} has {MASK} instead of a secret, which is never printed",
            hint="put the secret there, or name it: `env:NAME` or `file:PATH`",
        )
    return Uri(resolved(text, AGAINST, env))
