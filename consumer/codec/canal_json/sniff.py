"""Finds the dialect of canal-JSON from the bytes of a file."""

from __future__ import annotations

import json

from consumer.codec.protocol import Sniffed
from consumer.model.load import Dialect


def sniff_json(content: bytes, whole: bool) -> Sniffed | None:
    """The dialect of canal-JSON rows; None where `content`, the head of a file or all of it, does not show two ends."""
    text = content.decode(errors="surrogateescape")
    try:
        row, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return None
    rest = text[end:]
    following = rest.find('{"')
    if not isinstance(row, dict) or (following < 0 and not whole):
        return None
    terminator = (rest if following < 0 else rest[:following]).encode(errors="surrogateescape")
    extension = row.get("_tidb")
    has_commit_ts = isinstance(extension, dict) and "commitTs" in extension
    return Sniffed(Dialect("canal-json", terminator), has_commit_ts) if terminator else None
