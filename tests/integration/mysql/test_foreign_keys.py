"""Tables that foreign keys tie together. Servers look at both definitions even where they check no keys."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from consumer import app
from consumer.errors import CannotBeExact
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import SqlServer
from tests.support.build import VALUE
from tests.support.feed import Feed, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

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


def test_a_key_may_refer_to_an_index_that_is_not_unique(tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.statement("d.p", 5, Action.CREATE_TABLE, "CREATE TABLE `p` (`id` INT PRIMARY KEY,`v` INT,INDEX `k`(`v`))")
    feed.statement("d.c", 10, Action.CREATE_TABLE, CHILD.replace("`p`(`id`)", "`p`(`v`)"))
    result = Replica(feed, fresh_mariadb.url()).once(20)
    assert states(result) == {"d.c": "ok", "d.p": "ok"}


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


# A table that other tables' keys refer to is made again


def resync(replica: Replica, table: str) -> int:
    name = TableName("d", table)
    return app.resync(replica.settings(), Recorder(), name, InlineLoader()).exit_code


LATER = {
    "wider": WIDER,
    "key made later": (Action.ADD_INDEX, "ALTER TABLE `p` ADD UNIQUE INDEX `u` (`id`)"),
    "in several changes": (Action.MULTI_SCHEMA_CHANGE, "ALTER TABLE `p` ADD COLUMN `w` INT, ADD UNIQUE `u` (`id`)"),
    "comment": (Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `p` COMMENT = 'id'"),
    "beside it": (Action.ADD_COLUMN, "ALTER TABLE `p` ADD COLUMN `w` INT AFTER `id`"),
    "other column": (Action.MODIFY_COLUMN, "ALTER TABLE `p` MODIFY COLUMN `v` BIGINT"),
}


@pytest.mark.parametrize("later", LATER)
def test_it_is_made_anew_beside_them_or_stays(later: str, tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.p", 5)
    feed.puts("d.p", 5, {6: (1, "1"), 7: (2, "2")})
    feed.statement("d.p", 8, *LATER[later])
    kind = "BIGINT" if later == "wider" else "INT"
    feed.statement("d.c", 10, Action.CREATE_TABLE, CHILD.replace("`v` INT", f"`v` {kind}"))
    feed.puts("d.c", 10, {11: (1, "1")})
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(20).exit_code == 0
    shown = fresh_mariadb.execute("SHOW CREATE TABLE d.c")
    if later in ("comment", "beside it", "other column"):
        assert resync(replica, "p") == 0
    else:
        with pytest.raises(CannotBeExact, match=r"foreign keys of other tables refer to it.*version 8"):
            resync(replica, "p")
    assert replica.once(30).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.p ORDER BY id") == [(1, 1), (2, 2)]
    assert fresh_mariadb.execute("SELECT id, v FROM d.c") == [(1, 1)]
    assert fresh_mariadb.execute("SHOW CREATE TABLE d.c") == shown


def test_a_key_that_is_gone_does_not_count(tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.p", 5)
    feed.statement("d.c", 10, Action.CREATE_TABLE, CHILD)
    feed.statement("d.c", 20, *DROP_KEY)
    feed.statement("d.p", 30, *WIDER, columns=(WIDE_ID, VALUE))
    feed.puts("d.p", 30, {31: (1, "1")})
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(40).exit_code == 0
    assert resync(replica, "p") == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.p") == [(1, 1)]


FAMILY = (
    "CREATE TABLE `t` (`id` INT PRIMARY KEY, `v` INT, CONSTRAINT `up` FOREIGN KEY (`v`) REFERENCES `p` (`id`),"
    " CONSTRAINT `own` FOREIGN KEY (`v`) REFERENCES `t` (`id`), KEY `k` (`v`))"
)


@pytest.mark.parametrize("table", ["p", "t", "c"])
def test_keys_are_as_before_once_a_table_is_made_anew(table: str, tmp_path: Path, fresh_mariadb: SqlServer) -> None:
    """Its own, with their names, those of others to it, and those to itself."""
    feed = Feed(tmp_path / "cdc")
    feed.database("d", 1)
    feed.create("d.p", 5)
    feed.puts("d.p", 5, {6: (1, "1"), 7: (2, "2")})
    feed.statement("d.t", 10, Action.CREATE_TABLE, FAMILY)
    feed.puts("d.t", 10, {11: (1, "1"), 12: (2, "1")})
    feed.statement("d.c", 15, Action.CREATE_TABLE, CHILD.replace("`p`", "`t`"))
    feed.puts("d.c", 15, {16: (5, "2")})
    feed.statement("d.c", 17, Action.ADD_INDEX, "CREATE INDEX `i` ON `c` (`v`, `id`)")
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(20).exit_code == 0
    names = ("p", "t", "c")
    shown = [fresh_mariadb.execute(f"SHOW CREATE TABLE d.{name}") for name in names]
    rows = [fresh_mariadb.execute(f"SELECT id, v FROM d.{name} ORDER BY id") for name in names]
    assert resync(replica, table) == 0
    assert [fresh_mariadb.execute(f"SHOW CREATE TABLE d.{name}") for name in names] == shown
    assert [fresh_mariadb.execute(f"SELECT id, v FROM d.{name} ORDER BY id") for name in names] == rows
    for orphan in ("t VALUES (9, 7)", "c VALUES (9, 7)"):
        with pytest.raises(pymysql.err.IntegrityError, match="foreign key"):
            fresh_mariadb.execute(f"INSERT INTO d.{orphan}")
    with pytest.raises(pymysql.err.IntegrityError, match="foreign key"):
        fresh_mariadb.execute("DELETE FROM d.p WHERE id = 1")
    feed.puts("d.t", 10, {21: (3, "2")})
    assert replica.once(30).exit_code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 1), (2, 1), (3, 2)]
