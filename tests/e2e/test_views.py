"""Views on targets that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.layout.schema_file import VIEW_COLUMN_TYPE
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support.feed import Feed, MemoryReplica, Replica

COLUMNS = (Column("id", VIEW_COLUMN_TYPE),)


@pytest.mark.parametrize("new", ["d.w", "e.w"])
@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("checkpoints", [(12, 25, 35), (35,)])
def test_a_view_is_made_renamed_and_dropped(
    new: str, in_memory: bool, checkpoints: tuple[int, ...], tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "storage")
    for database in "de":
        feed.database(database, 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {3: (1, "1"), 33: (2, "2")})
    feed.statement("d.v", 10, Action.CREATE_VIEW, "CREATE VIEW `d`.`v` AS SELECT `id` FROM `d`.`t`", COLUMNS)
    to = ".".join(f"`{part}`" for part in new.split("."))
    feed.statement(new, 20, Action.RENAME_TABLE, f"RENAME TABLE `d`.`v` TO {to}", COLUMNS)
    feed.statement(new, 30, Action.DROP_VIEW, f"DROP VIEW {to}", ())
    replica = MemoryReplica(feed) if in_memory else Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb")
    for checkpoint in checkpoints:
        assert replica.once(checkpoint).exit_code == 0
    assert replica.once(40).exit_code == 0
