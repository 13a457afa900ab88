"""A feed of one's own, and a replica of it in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.feed import Feed, MemoryReplica


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    return feed


@pytest.fixture
def replica(feed: Feed) -> MemoryReplica:
    return MemoryReplica(feed)
