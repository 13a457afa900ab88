"""The rights that docs/servers.md says a user of the target needs: they are enough."""

from __future__ import annotations

import re
from pathlib import Path

from consumer.layout.schema_file import VIEW_COLUMN_TYPE
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import MariaDb
from tests.support.feed import ID, VALUE
from tests.support.shop import Shop

SERVERS = Path(__file__).parents[2] / "docs" / "servers.md"


def test_the_grants_in_the_docs_are_enough(shop: Shop, fresh_mariadb: MariaDb) -> None:
    grants = re.findall(r"^GRANT .*;$", SERVERS.read_text(), re.MULTILINE)
    fresh_mariadb.execute("CREATE USER replica IDENTIFIED BY 'password'")
    fresh_mariadb.execute(*(grant.replace("ON shop.*", "ON d.*") for grant in grants))
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.old (id INT PRIMARY KEY, v INT UNIQUE)")
    shop.feed.describe("d.old", 3)
    shop.feed.puts("d.old", 3, {16: (1, "1"), 17: (2, "2")})
    shop.feed.statement("d.it's", 18, Action.ADD_COLUMN, "ALTER TABLE `it's` ADD COLUMN w INT", (ID, VALUE))
    shop.feed.statement("d.it's", 19, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `it's`", (ID, VALUE))
    definer = "CREATE ALGORITHM = UNDEFINED DEFINER = `app`@`%` SQL SECURITY DEFINER VIEW"
    view = (Column("id", VIEW_COLUMN_TYPE),)
    shop.feed.statement("d.v", 19, Action.CREATE_VIEW, f"{definer} `v` AS SELECT `id` FROM `old`", view)
    shop.feed.statement("d.lost", 19, Action.CREATE_VIEW, f"{definer} `lost` AS SELECT NOWHERE(`id`) FROM `old`", view)
    shop.feed.statement("d.lost2", 20, Action.RENAME_TABLE, "RENAME TABLE `d`.`lost` TO `d`.`lost2`", view)
    shop.feed.create("d.lost", 21)
    shop.feed.puts("d.lost", 21, {22: (4, "4")})
    shop.feed.statement("d.old", 20, Action.MODIFY_TABLE_COMMENT, "ALTER TABLE `old` COMMENT 'x'", (ID, VALUE))
    shop.feed.puts("d.old", 3, {21: (3, "3")})
    target = ("--downstream-uri", fresh_mariadb.url("replica", "password"))
    done = shop.once(30, *target, "--log-level", "warning")
    assert done.code == 0, done.err
    assert re.search(r"d\.lost: not executed, as .*NOWHERE", done.err), "a view that cannot be made stops nothing"
    assert fresh_mariadb.execute("SELECT id FROM d.v ORDER BY id") == [(1,), (2,), (3,)]
    assert fresh_mariadb.execute("SELECT id, v FROM d.lost") == [(4, 4)], "nor does the RENAME of one"
    assert fresh_mariadb.execute("SELECT definer FROM information_schema.views WHERE table_schema = 'd'") == [
        ("replica@%",)
    ]
    assert shop.run("resync", "--table", "d.it's", *target).code == 0
    assert fresh_mariadb.execute("SELECT id, v FROM d.old ORDER BY id") == [(1, 1), (2, 2), (3, 3)]
    assert fresh_mariadb.execute("SELECT * FROM d.`it's`") == []
    assert shop.run("forget", *target, "--name", "default", "--yes").code == 0


def test_tables_that_the_user_may_not_see_are_not_taken_for_dropped_ones(shop: Shop, fresh_mariadb: MariaDb) -> None:
    assert shop.once(20, "--downstream-uri", fresh_mariadb.url()).code == 0
    fresh_mariadb.execute("CREATE USER blind IDENTIFIED BY 'password'", "GRANT ALL ON storage_consumer.* TO blind")
    target = ("--downstream-uri", fresh_mariadb.url("blind", "password"))
    seen = shop.run("status", *target)
    assert "dropped" not in seen.out + seen.err
    assert shop.once(20, *target).code == 0
    shop.feed.puts("d.it's", 2, {21: (7, "7")})
    left = shop.once(30, *target)
    assert left.code == 2
    assert "dropped" not in left.err
    assert "grant the target's user" in left.err
    fresh_mariadb.execute("GRANT ALL ON d.* TO blind")
    assert shop.once(30, *target).code == 0
    assert (7, 7) in fresh_mariadb.execute("SELECT * FROM d.`it's`")
