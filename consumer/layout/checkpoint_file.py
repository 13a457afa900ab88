"""The file ``metadata``: how far the changefeed is complete."""

from __future__ import annotations

import orjson

from consumer.errors import StorageUnavailable
from consumer.model.times import MAX_TSO


def parse_checkpoint(content: bytes) -> int:
    """``checkpoint-ts`` of ``{"checkpoint-ts":N}``. Raises StorageUnavailable: TiCDC will soon write it again."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise _corrupt(f"it is not JSON ({error})") from error
    checkpoint = document.get("checkpoint-ts") if isinstance(document, dict) else None
    if not isinstance(checkpoint, int) or isinstance(checkpoint, bool) or not 0 <= checkpoint <= MAX_TSO:
        raise _corrupt("it has no member checkpoint-ts that is a TSO")
    return checkpoint


def _corrupt(reason: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"this is not the checkpoint file of a changefeed: {reason}",
        path="metadata",
        hint="check that the upstream URI is the changefeed's sink URI; TiCDC rewrites this file every few seconds",
    )
