"""The keys of ``[sink.csv]``: what is taken, and what each means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from consumer.codec.csv.form import KEYS, CsvFormat
from consumer.codec.protocol import Option


def _delimiter(value: object) -> str:
    text = str(value)
    if not 1 <= len(text) <= 3 or "\r" in text or "\n" in text:
        raise ValueError(f"{text!r} is not a delimiter; give 1 to 3 characters, no line break among them")
    return text


def _quote(value: object) -> str:
    """The one character around texts; "" for none, which the environment writes as ``none``."""
    text = "" if value == "none" else str(value)
    if len(text) > 1:
        raise ValueError(f"{text!r} is not a quote; give one character, or none")
    return text


def _encoding(value: object) -> str:
    text = str(value).lower()
    if text not in ("base64", "hex"):
        raise ValueError(f"'{text}' is not allowed; give base64 or hex")
    return text


def _option(
    key: str, description: str, read: Callable[[object], Any] | None = None, *, may_be_open: bool = False
) -> Option:
    return Option(key, getattr(CsvFormat(), KEYS[key]), description, read, may_be_open)


OPTIONS = (
    _option("delimiter", "What separates the cells of a CSV row: 1 to 3 characters.", _delimiter),
    _option("quote", "What encloses texts in CSV: one character, or `none`.", _quote),
    _option("null", "How CSV writes NULL.", may_be_open=True),
    _option("include-commit-ts", "Whether CSV rows contain their commit-ts.", may_be_open=True),
    _option("binary-encoding-method", "How CSV writes binary values: `base64` or `hex`.", _encoding, may_be_open=True),
    _option("output-old-value", "Whether CSV updates contain the old row.", may_be_open=True),
    _option("output-handle-key", "Whether CSV rows have a cell for their key.", may_be_open=True),
    _option("output-field-header", "Whether CSV files have a header line."),
)
