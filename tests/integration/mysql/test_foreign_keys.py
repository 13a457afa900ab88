"""Tables that foreign keys tie together. Servers look at both definitions even where they check no keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import SqlServer
from tests.support.build import VALUE
from tests.support.feed import Feed, Replica, states

CHILD = "CREATE TABLE `c` (`id` INT PRIMARY KEY,`v` INT,CONSTRAINT `f` FOREIGN KEY (`v`) REFERENCES `p`(`id`))"
DROP_KEY = (Action.DROP_FOREIGN_KEY, "ALTER TABLE `c` DROP FOREIGN KEY `f`")
DROP_KEY_AND_MORE = (Action.MULTI_SCHEMA_CHANGE, "ALTER TABLE `c` ADD COLUMN `w` INT, DROP FOREIGN KEY `f`")
WIDER = (Action.MODIFY_COLUMN, "ALTER TABLE `p` MODIFY COLUMN `id` BIGINT NOT NULL")
WIDE_ID = Column("id", "BIGINT", nullable=False, is_pk=True)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.p", 5)
    feed.statement("d.c", 10, Action.CREATE_TABLE, CHILD)
    return feed


@pytest.mark.parametrize("untied", [DROP_KEY, DROP_KEY_AND_MORE])
def test_what_the_server_refuses_beside_a_key_waits_until_the_key_is_gone(
    untied: tuple[Action, str], feed: Feed, fresh_mariadb: SqlServer
) -> None:
    broken = feed.damaged("d.c", 10)
    feed.statement("d.c", 20, *untied)
    feed.statement("d.p", 30, *WIDER, columns=(WIDE_ID, VALUE))
    feed.puts("d.p", 30, {31: (1, "1")})
    replica = Replica(feed, fresh_mariadb.url())
    assert states(replica.once(40)) == {"d.c": "stopped", "d.p": "waits"}
    broken.write_bytes(feed._line("d.c", 11, 1, "1"))
    assert replica.once(50).exit_code == 0
    assert fresh_mariadb.execute("SELECT * FROM d.p") == [(1, 1)]
    (shown,) = fresh_mariadb.execute("SELECT data_type FROM information_schema.columns WHERE table_schema = 'd'"
                                     " AND table_name = 'p' AND column_name = 'id'")  # fmt: skip
    assert shown == ("bigint",)


def test_a_table_of_that_name_comes_when_the_key_is_gone(feed: Feed, fresh_mariadb: SqlServer) -> None:
    broken = feed.damaged("d.c", 10)
    feed.statement("d.c", 20, *DROP_KEY)
    feed.drop("d.p", 25)
    feed.statement("d.z", 26, Action.CREATE_TABLE, "CREATE TABLE `z` (`v` INT PRIMARY KEY)", (VALUE,))
    feed.statement("d.p", 30, Action.RENAME_TABLE, "RENAME TABLE `d`.`z` TO `d`.`p`", (VALUE,))
    replica = Replica(feed, fresh_mariadb.url())
    assert states(replica.once(40))["d.p"] == "waits"
    broken.write_bytes(feed._line("d.c", 11, 1, "1"))
    assert replica.once(50).exit_code == 0
    assert fresh_mariadb.execute("SELECT v FROM d.p") == []


def test_what_has_nothing_to_do_with_the_key_goes_on(feed: Feed, fresh_mariadb: SqlServer) -> None:
    feed.damaged("d.c", 10)
    feed.statement("d.c", 20, *DROP_KEY)
    feed.truncate("d.p", 30)
    feed.statement("d.p", 31, Action.ADD_COLUMN, "ALTER TABLE `p` ADD COLUMN `w` INT")
    replica = Replica(feed, fresh_mariadb.url())
    assert states(replica.once(40)) == {"d.c": "stopped", "d.p": "ok"}
