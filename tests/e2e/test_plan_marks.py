"""`plan` marks the statements that take rows or values away."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica
from tests.support.observers import Recorder

ADDED = Column("w", "INT")


@pytest.mark.parametrize(
    ("changes", "columns", "marked"),
    [
        ("DROP COLUMN `v`, ADD COLUMN `w` INT", (ID, ADDED), True),
        ("ADD COLUMN `w` INT COMMENT 'DROP COLUMN', ADD INDEX `i` (`v`)", (ID, VALUE, ADDED), False),
    ],
)
def test_several_changes_are_marked_if_one_drops_a_column(
    changes: str, columns: tuple[Column, ...], marked: bool, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.create("d.t", 10)
    feed.statement("d.t", 20, Action.MULTI_SCHEMA_CHANGE, f"ALTER TABLE `t` {changes}", columns)
    feed.checkpoint(30)
    steps = app.plan(MemoryReplica(feed).settings(), Recorder()).steps
    assert [step.destructive for step in steps if step.statement.startswith("ALTER")] == [marked]
