"""A schema file whose text is no statement of its kind, or about another table, runs nothing: whoever can write to the
storage commands neither the server nor tables that are not the changefeed's."""

from __future__ import annotations

import pytest

from consumer.ddl.text_check import check_text
from consumer.model.actions import Action
from tests.servers import MariaDb
from tests.support.build import schema_file
from tests.support.feed import ID, VALUE, Feed, Replica, states

CREATE = "CREATE TABLE `t2` (`id` INT PRIMARY KEY,`v` INT)"
FOREIGN = [
    (Action.ADD_COLUMN, "GRANT ALL ON *.* TO evil IDENTIFIED BY 'x'"),
    (Action.CREATE_TABLE, "CREATE USER evil"),
    (Action.CREATE_VIEW, "CREATE USER evil"),
    (Action.CREATE_VIEW, "CREATE VIEW victim.w AS SELECT * FROM victim.v"),
    (Action.ADD_COLUMN, "SET GLOBAL max_connections = 77"),
    (Action.DROP_TABLE, "DROP DATABASE victim"),
    (Action.ADD_COLUMN, "DROP TABLE victim.v"),
    (Action.DROP_TABLE, "DROP TABLE `d`.`t`, victim.v"),
    (Action.DROP_TABLE, "DROP TABLE storage_consumer.lease"),
    (Action.TRUNCATE_TABLE, "TRUNCATE TABLE victim.v"),
    (Action.ADD_COLUMN, "ALTER TABLE victim.v ADD COLUMN x INT"),
    (Action.ADD_INDEX, "CREATE INDEX i ON victim.v (v)"),
    (Action.MODIFY_COLUMN, "DELETE FROM victim.v"),
    (Action.ADD_COLUMN, "UPDATE victim.v SET v = 9"),
    (Action.ADD_COLUMN, "SELECT 1 INTO OUTFILE '/tmp/out'"),
    (Action.ADD_COLUMN, "/*!50000 DROP TABLE victim.v */"),
    (Action.ADD_COLUMN, "/*M!100000 DROP TABLE victim.v */"),
    (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN w INT /*! , RENAME TO victim.x */"),
    (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN w INT; DROP TABLE victim.v"),
    (Action.CREATE_TABLE, f"{CREATE} SELECT * FROM victim.v"),
    (Action.CREATE_TABLE, f"{CREATE}; DROP DATABASE victim"),
    (Action.NONE, "DROP DATABASE victim"),
    (Action.EXCHANGE_PARTITION, "ALTER TABLE victim.v ADD COLUMN x INT"),
    (Action.EXCHANGE_PARTITION, "ALTER TABLE victim.v ADD FOREIGN KEY (v) REFERENCES `d`.`t` (id)"),
    (Action.ADD_COLUMN, "ALTER TABLE `t` EXCHANGE PARTITION p0 WITH TABLE victim.v"),
    (Action.RENAME_TABLE, "ALTER TABLE victim.v DROP COLUMN v"),
    (Action.RENAME_TABLE, "RENAME TABLE victim.v TO victim.w, `d`.`t` TO `d`.`t2`"),
    (Action.CREATE_TABLES, "CREATE TABLE victim.t2 (id INT)"),
    (Action.RECOVER_TABLE, "RECOVER TABLE victim.v"),
    # What is a comment for one reader is a part of the statement for another.
    (Action.CREATE_TABLE, f"{CREATE} /*! COMMENT 'a' /* b */ AS SELECT * FROM victim.v"),
    (Action.CREATE_TABLE, f"{CREATE} /*!99999 ' */ AS SELECT * FROM victim.v"),
    (Action.CREATE_TABLE, f"{CREATE} /*!99999 ` */ AS SELECT * FROM victim.v"),
    (Action.CREATE_TABLE, f"{CREATE} /*T! COMMENT '\\' */ COMMENT ' AS SELECT * FROM victim.v '"),
    (Action.ADD_COLUMN, "ALTER TABLE /*!99999 `t` ADD COLUMN w INT COMMENT */ victim.v DROP COLUMN v"),
    (Action.ADD_COLUMN, "ALTER TABLE /*T! `t` ADD COLUMN w INT COMMENT */ victim.v DROP COLUMN v"),
    (Action.ADD_COLUMN, "ALTER TABLE --\x01\nvictim.v DROP COLUMN v"),
    (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN w INT CHECK (v --\xa0v), RENAME TO victim.x"),
]


@pytest.mark.parametrize(("action", "query"), FOREIGN)
def test_it_stops_its_table_and_nothing_runs(action: Action, query: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    server = fresh_mariadb
    server.execute("CREATE DATABASE victim", "CREATE TABLE victim.v (id INT PRIMARY KEY, v INT)")
    server.execute("INSERT INTO victim.v VALUES (1, 1)")
    before = server.execute("SELECT @@global.max_connections, COUNT(*) FROM mysql.user")
    own = "d.t2" if "t2" in query else "d.t"
    feed.create("d.t", 2)
    feed.create("d.other", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.statement(own, 20, action, query, (ID, VALUE))
    feed.puts("d.other", 2, {25: (1, "1")})
    result = Replica(feed, server.url()).once(30)
    assert (states(result)[own], states(result)["d.other"], result.exit_code) == ("stopped", "ok", 5)
    assert server.execute("SELECT * FROM victim.v") == [(1, 1)]
    assert server.execute("SELECT @@global.max_connections, COUNT(*) FROM mysql.user") == before
    assert server.execute("SELECT * FROM d.t") == [(1, 1)]
    assert server.execute("SELECT COUNT(*) FROM storage_consumer.lease") != [(0,)]
    assert server.execute("SHOW INDEX FROM victim.v WHERE Key_name <> 'PRIMARY'") == []


@pytest.mark.parametrize(
    ("action", "query"),
    [
        (Action.DROP_SCHEMA, "DROP DATABASE victim"),
        (Action.DROP_SCHEMA, "DROP SCHEMA IF EXISTS /*! victim */"),
        (Action.DROP_SCHEMA, "DROP DATABASE /*!99999 `d` */ victim"),
        (Action.MODIFY_SCHEMA_CHARSET, "ALTER DATABASE victim COLLATE = latin1_bin"),
    ],
)
def test_a_database_that_is_not_its_own(action: Action, query: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    server = fresh_mariadb
    server.execute("CREATE DATABASE victim COLLATE utf8mb4_bin", "CREATE TABLE victim.v (id INT PRIMARY KEY, v INT)")
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.database("d", 20, query, action)
    assert Replica(feed, server.url()).once(30).exit_code == 5
    assert server.execute("SELECT COUNT(*) FROM victim.v") == [(0,)]
    assert server.execute("SHOW CREATE DATABASE victim")[0][1].endswith("COLLATE utf8mb4_bin */")
    assert server.execute("SELECT * FROM d.t") == [(1, 1)]


@pytest.mark.parametrize(
    ("action", "query"),
    [
        (Action.ADD_COLUMN, "/* GRANT */ alter table `D`.`T` /*!40000 ADD COLUMN w INT */ comment 'a; DROP'"),
        (
            Action.CREATE_TABLE,
            "CREATE TABLE IF NOT EXISTS t (`select` INT /* SELECT */, CHECK (`v` > 1)) /*!50100 x */",
        ),
        (Action.CREATE_TABLE, "CREATE TABLE t LIKE other.x"),
        (Action.CREATE_TABLE, "CREATE GLOBAL TEMPORARY TABLE t (id INT) ON COMMIT DELETE ROWS"),
        (
            Action.CREATE_VIEW,
            "CREATE OR REPLACE ALGORITHM = MERGE DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW t AS TABLE x",
        ),
        (Action.ADD_INDEX, "CREATE UNIQUE INDEX i ON t (v)"),
        (Action.DROP_INDEX, "DROP INDEX i ON d.t"),
        (Action.RENAME_TABLE, "ALTER TABLE old.t RENAME TO d.t"),
        (Action.EXCHANGE_PARTITION, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t"),
        (Action.NONE, "ALTER TABLE t CACHE"),
        (Action.DROP_SCHEMA, "DROP DATABASE IF EXISTS D"),
        (Action.MODIFY_SCHEMA_CHARSET, "ALTER DATABASE CHARACTER SET = utf8mb4"),
        (Action.RECOVER_TABLE, "RECOVER TABLE BY JOB 77;"),
        (Action.RECOVER_TABLE, "FLASHBACK TABLE `x` TO `t`"),
        (Action.RENAME_TABLES, "RENAME TABLE `e`.`x` TO `d`.`t`;"),
        (
            Action.CREATE_TABLE,
            "CREATE TABLE `t` (`id` BIGINT /*T![auto_rand] AUTO_RANDOM(5, 64) */, `c` DATETIME DEFAULT _UTF8MB4'a--b',"
            " PRIMARY KEY(`id`) /*T![clustered_index] CLUSTERED */) /*T![placement] PLACEMENT POLICY=`a*/b` */"
            " /*T![ttl] TTL=`c` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE='OFF' */",
        ),
    ],
)
def test_what_tidb_can_say_is_taken(action: Action, query: str) -> None:
    check_text(schema_file("d.t", 5, int(action), query), action)
