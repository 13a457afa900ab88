"""Where an export of Dumpling is, and with which options it was made: a URI, whose parameters are those of a storage
and Dumpling's own flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from consumer.config import values
from consumer.errors import BadConfig
from consumer.model.export import DumplingFormat
from consumer.storage.settings import StorageSettings

_BINARY = {"": "", "bigquery": "base64", "snowflake": "hex", "redshift": "hex"}
"""The encoding of bytes in CSV, by --csv-output-dialect."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """An export's settings. `zone` is that of its TIMESTAMPs, None for the changefeed's."""

    storage: StorageSettings
    form: DumplingFormat
    zone: str | None = None


def export_settings(text: str) -> ExportSettings:
    """Reads a URI, or a folder of this machine. Raises BadConfig."""
    uri, _, query = text.partition("?")
    parameters = [pair.partition("=") for pair in query.split("&") if pair]
    own_parameters = {name: unquote(value) for name, _, value in parameters if name in _OWN}
    rest = "&".join("".join(pair) for pair in parameters if pair[0] not in _OWN)
    if "://" not in uri:
        uri = Path(uri).absolute().as_uri()
    try:
        storage = StorageSettings.from_uri(f"{uri}?{rest}" if rest else uri, "the export's URI")
    except BadConfig as refused:
        own_names = f"an export's own parameters are {', '.join(_OWN)}"
        raise BadConfig(refused.message, hint=refused.hint or own_names) from None
    try:
        options = {key: read(own_parameters[name]) for name, (key, read) in _OWN.items() if name in own_parameters}
    except ValueError as problem:
        raise BadConfig(f"a parameter of the export's URI is refused: {problem}") from None
    zone = options.pop("zone", None)
    return ExportSettings(storage, DumplingFormat(**options), zone)


def _character(text: str) -> bytes:
    if len(text) != 1 or not text.isascii() or text in "\r\n\0\\":
        raise ValueError(f"{text!r} is not one character of ASCII; others cannot be read")
    return text.encode()


def _terminator(text: str) -> bytes:
    written = text.replace("\\r", "\r").replace("\\n", "\n")
    if written not in ("\r\n", "\n"):
        raise ValueError(f"{text!r} is no end of a line: give \\r\\n or \\n")
    return written.encode()


def _null(text: str) -> bytes:
    if "\\\\" in text or '"' in text:
        raise ValueError(
            f"{text!r} stands for NULL: with a quote or two backslashes it cannot be distinguished from texts"
        )
    return text.encode()


def _is_set(text: str) -> bool:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no number of rows")
    return int(text) > 0


def _dialect(text: str) -> str:
    if text.lower() not in _BINARY:
        raise ValueError(f"{text!r} is no output dialect; known are {', '.join(filter(None, _BINARY))}")
    return _BINARY[text.lower()]


_OWN: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "csv-separator": ("separator", _character),
    "csv-delimiter": ("quote", _character),
    "csv-line-terminator": ("terminator", _terminator),
    "csv-null-value": ("null", _null),
    "csv-output-dialect": ("binary", _dialect),
    "no-header": ("header", lambda text: not values.boolean(text)),
    "escape-backslash": ("escapes", values.boolean),
    "rows": ("chunks", _is_set),
    "time-zone": ("zone", values.zone_name),
}
"""By Dumpling's flag: the field, and the function that reads it."""
