"""IF [NOT] EXISTS in an ALTER TABLE: MySQL does not know it, so what did nothing upstream must not run there."""

from __future__ import annotations

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, Replica

W = Column("w", "INT", default="4")


def shape(server: SqlServer) -> tuple[list[str], set[str]]:
    """The columns and indexes of d.t."""
    columns = server.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'd' ORDER BY ordinal_position"
    )
    indexes = server.execute("SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = 'd'")
    return [str(name) for (name,) in columns], {str(name) for (name,) in indexes} - {"PRIMARY"}


@pytest.mark.parametrize(
    ("clauses", "after", "columns", "indexes"),
    [
        (
            "ADD COLUMN IF NOT EXISTS `V` INT DEFAULT 9, ADD COLUMN IF NOT EXISTS `w` INT DEFAULT 4",
            (ID, VALUE, W),
            ["id", "v", "w"],
            {"i"},
        ),
        ("ADD IF NOT EXISTS `w` INT DEFAULT 4, ADD IF NOT EXISTS `v` INT", (ID, VALUE, W), ["id", "v", "w"], {"i"}),
        ("DROP COLUMN IF EXISTS `x`, DROP IF EXISTS `v`", (ID,), ["id"], set()),
        (
            "ADD INDEX IF NOT EXISTS `i` (`v`), ADD UNIQUE KEY IF NOT EXISTS `u` (`v`), ADD COLUMN `w` INT DEFAULT 4",
            (ID, VALUE, W),
            ["id", "v", "w"],
            {"i", "u"},
        ),
        ("DROP INDEX IF EXISTS `none`, DROP KEY IF EXISTS `i`", (ID, VALUE), ["id", "v"], set()),
        ("ADD COLUMN IF NOT EXISTS `v` INT, DROP COLUMN IF EXISTS `x`", (ID, VALUE), ["id", "v"], {"i"}),
    ],
)
def test_only_what_did_something_runs(
    feed: Feed, server: SqlServer, clauses: str, after: tuple[Column, ...], columns: list[str], indexes: set[str]
) -> None:
    replica = Replica(feed, server.url())
    made = "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT, KEY `i` (`v`))"
    feed.statement("d.t", 2, Action.CREATE_TABLE, made)
    feed.puts("d.t", 2, {3: (1, "5")})
    feed.statement("d.t", 10, Action.MULTI_SCHEMA_CHANGE, f"ALTER TABLE `t` {clauses}", after)
    assert replica.once(20, tz="UTC").exit_code == 0, replica.seen.stopped
    assert shape(server) == (columns, indexes)


def test_a_table_that_the_storage_does_not_tell_of(feed: Feed, server: SqlServer) -> None:
    replica = Replica(feed, server.url())
    server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    text = "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `v` INT, ADD COLUMN IF NOT EXISTS `w` INT DEFAULT 4"
    feed.statement("d.t", 10, Action.MULTI_SCHEMA_CHANGE, text, (ID, VALUE, W))
    assert replica.once(20, tz="UTC").exit_code == 0, replica.seen.stopped
    assert shape(server)[0] == ["id", "v", "w"]
