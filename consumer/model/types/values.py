"""Defines the error of a value whose new form is not known."""

from __future__ import annotations

_MOST = 60


class NoValue(Exception):
    """What upstream made of a value is not known, or depends on what no file shows: the sql_mode or the time zone of
    the session that ran the statement."""


def shown(text: str | bytes) -> str:
    """Returns a value for a message."""
    written = f"0x{text.hex()}" if isinstance(text, bytes) else repr(text)
    return written if len(written) <= _MOST else f"{written[: _MOST - 2]}.."
