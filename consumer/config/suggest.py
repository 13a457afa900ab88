"""A changefeed's TOML from what a storage shows: only what a consumer needs. What is not proven is a comment."""

from __future__ import annotations

import json
from collections.abc import Iterator

from consumer.codec import PROTOCOLS, protocol_of
from consumer.results import Detected

_NO_SETTING = ("date-separator", "enable-partition-separator")
"""Keys without which a consumer goes by the paths."""


def changefeed_toml(detected: Detected) -> str:
    """``[sink]``, and ``[sink.csv]`` for CSV, to be kept as a file and given with --config. What the files do not prove
    is a comment, and is named in [consumer]: it has no default until it is set."""
    open_keys = [key for key in detected.unproven if key not in _NO_SETTING]
    lines = list(_lines(detected))
    if open_keys:
        lines += ["", "[consumer]", "# What is a comment above is not proven: set it as in the changefeed."]
        lines.append(f"unproven = {json.dumps(open_keys)}")
    return "\n".join(lines)


def _lines(detected: Detected) -> Iterator[str]:
    dialect = detected.dialect
    yield "[sink]"
    found: dict[str, str | int | bool | None] = {}
    if dialect is None:
        yield f"# protocol = {' or '.join(map(json.dumps, PROTOCOLS))}: there are no rows that show it"
    else:
        found = {"protocol": dialect.protocol, "terminator": dialect.terminator.decode(errors="replace")}
    found["date-separator"] = detected.date_separator
    found["file-index-digit"] = detected.file_index_digit
    found["enable-partition-separator"] = detected.partition_separator
    yield from (_line(detected, key, value) for key, value in found.items() if value is not None)
    if dialect is not None and (table := protocol_of(dialect).table(dialect)):
        yield from ("", f"[sink.{dialect.protocol}]")
        yield from (_line(detected, key, value) for key, value in table.items())


def _line(detected: Detected, key: str, value: str | int | bool) -> str:
    """JSON's strings, numbers and switches are TOML's too."""
    return f"{'# ' if key in detected.unproven else ''}{key} = {json.dumps(value)}"
