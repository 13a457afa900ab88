"""Files that are not whole yet, or have another name than TiCDC gave them: nothing of them is lost, and no loss is
offered to be accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import Feed, MemoryReplica, states

TEXT = Column("v", "VARCHAR", length=20)
MS = 1 << 18


def line(milliseconds: int, **row: str | None) -> bytes:
    """As TiCDC writes it: its `es` are the milliseconds of its commit-ts."""
    return typed_line((ID, TEXT), milliseconds * MS, row, es=milliseconds)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.statement(
        "d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` VARCHAR(20))", (ID, TEXT)
    )
    return feed


LINES = (line(11, id="1", v="x"), line(12, id="2", v="y"), line(15, id="3", v='"es":12,\u00fc\u00fc'))


@pytest.mark.parametrize("cut", [3, 10, 30, 60])
def test_a_row_above_the_checkpoint_that_is_cut_off(feed: Feed, cut: int) -> None:
    """In the middle of a letter, too. The whole file goes on."""
    replica, whole = MemoryReplica(feed), b"".join(LINES)
    file = feed.file("d.t", 2, whole[:-cut])
    result = replica.once(13 * MS)
    assert states(result) == {"d.t": "stopped"}
    (table,) = result.tables.values()
    assert "newer than those to be applied, so nothing is lost" in table.hint
    assert "accept-gap-in" not in table.hint
    assert not table.hint.allows_reload
    file.write_bytes(whole)
    assert states(replica.once(13 * MS)) == {"d.t": "ok"}
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}


def test_a_row_that_is_due_and_cut_off(feed: Feed) -> None:
    """It can be lost for good."""
    feed.file("d.t", 2, b"".join(LINES)[:-10])
    (table,) = MemoryReplica(feed).once(15 * MS).tables.values()
    assert "accept-gap-in" in table.hint


@pytest.mark.parametrize("name", ["CDC00000000000000000002.json.partial", "CDC00000000000000000002.json.gz"])
def test_a_file_that_is_there_under_a_longer_name(feed: Feed, name: str) -> None:
    replica = MemoryReplica(feed)
    first = feed.file("d.t", 2, LINES[0])
    longer = first.with_name(name)
    longer.write_bytes(b"junk")
    (table,) = replica.once(13 * MS).tables.values()
    assert (table.state, table.code) == ("stopped", "files-missing")
    assert f"file number 2 is not there, and d/t/2/{name} has its number" in table.error
    assert "wait until the tool" in table.hint
    assert "accept-gap-in" not in table.hint
    assert not table.hint.allows_reload
    longer.unlink()
    feed.file("d.t", 2, LINES[1])
    assert states(replica.once(13 * MS)) == {"d.t": "ok"}
    assert replica.tables == {"d.t": {1: "x", 2: "y"}}
