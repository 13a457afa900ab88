"""What `preview_ddls` shows is what `apply_ddls` executes, also where the statements build on one another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from tests.integration.mysql.steps import acquired, ddl
from tests.servers import MariaDb

OLDER = "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT, KEY a (b), KEY (a))"
ADD, DROP = Action.ADD_INDEX, Action.DROP_INDEX
RENAMED = [(Action.RENAME_TABLE, "u", "RENAME TABLE `d`.`t` TO `d`.`u`"), (ADD, "u", "ALTER TABLE `u` ADD INDEX(`a`)")]


def steps(*statements: tuple[Action, str, str]) -> list[ApplyDdl]:
    old = {Action.RENAME_TABLE: TableName("d", "t")}
    return [
        ddl(action, "d", table, version, query, old_name=old.get(action))
        for version, (action, table, query) in enumerate(statements, 10)
    ]


def shape(server: MariaDb, table: str) -> str:
    return str(server.execute(f"SHOW CREATE TABLE d.{table}")[0][1])


@pytest.mark.parametrize(
    ("planned", "table"),
    [
        (steps(*[(ADD, "t", "ALTER TABLE `t` ADD INDEX(`a`)")] * 3), "t"),
        (steps((ADD, "t", "ALTER TABLE `t` ADD UNIQUE(`a`)"), (DROP, "t", "ALTER TABLE `t` DROP INDEX `a_2`")), "t"),
        (
            steps(
                (DROP, "t", "DROP INDEX `a` ON `t`"),
                (Action.DROP_COLUMN, "t", "ALTER TABLE `t` DROP COLUMN `b`"),
                (ADD, "t", "ALTER TABLE `t` ADD INDEX(`a`), ADD INDEX `x`(`id`,`a`)"),
            ),
            "t",
        ),
        (steps((ADD, "t", "ALTER TABLE `t` ADD INDEX(`b`)"), *RENAMED), "u"),
    ],
)
def test_the_plan_is_what_runs(fresh_mariadb: MariaDb, planned: Sequence[ApplyDdl], table: str) -> None:
    """The table is older than the changefeed: names of indexes are told by the target alone."""
    fresh_mariadb.execute("CREATE DATABASE d", OLDER)
    sink = acquired(fresh_mariadb)
    shown = sink.preview_ddls(planned)
    for step in planned:
        (outcome,) = sink.apply_ddls([step], {})
        assert outcome.error is None
    sink.close()
    executed = shape(fresh_mariadb, table)
    fresh_mariadb.execute("DROP DATABASE d", "CREATE DATABASE d", OLDER)
    assert [answer.error for answer in shown] == [""] * len(planned)
    for answer in shown:
        fresh_mariadb.execute("USE d", *answer.statements)
    assert shape(fresh_mariadb, table) == executed


def shown_and_run(server: MariaDb, planned: Sequence[ApplyDdl]) -> tuple[list[str], list[str]]:
    """What is shown of the steps, and what the server gets of them."""
    server.execute("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log")
    sink = acquired(server)
    shown = sink.preview_ddls(planned)
    assert [answer.error for answer in shown] == [""] * len(planned)
    server.execute("SET GLOBAL general_log = 1")
    for step in planned:
        (outcome,) = sink.apply_ddls([step], {})
        assert outcome.error is None
    server.execute("SET GLOBAL general_log = 0")
    sink.close()
    rows = server.execute("SELECT argument FROM mysql.general_log WHERE command_type = 'Query'")
    texts = [text.decode() if isinstance(text, bytes) else str(text) for (text,) in rows]
    changes = [text for text in texts if re.match(r"(CREATE|DROP|ALTER|RENAME|TRUNCATE) ", text)]
    return [text for answer in shown for text in answer.statements], [t for t in changes if "storage_consumer" not in t]


def test_a_database_goes_to_the_trash_as_earlier_steps_leave_it(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute(
        "CREATE DATABASE d",
        "CREATE TABLE d.b (id INT PRIMARY KEY)",
        "CREATE TABLE d.c (id INT PRIMARY KEY)",
        "INSERT INTO d.b VALUES (1)",
        "INSERT INTO d.c VALUES (1)",
        "CREATE VIEW d.v AS SELECT 1",
    )
    dropped = replace(ddl(Action.DROP_TABLE, "d", "b", 10, "DROP TABLE `d`.`b`"), trash=TableName("d", "__trash_10_b"))
    renamed = ddl(Action.RENAME_TABLE, "d", "a", 11, "RENAME TABLE `d`.`c` TO `d`.`a`", old_name=TableName("d", "c"))
    away = replace(ddl(Action.DROP_SCHEMA, "d", "", 20, "DROP DATABASE `d`"), trash=TableName("__trash_20_d", ""))
    again = ddl(Action.CREATE_SCHEMA, "d", "", 21, "CREATE DATABASE `d`")
    shown, ran = shown_and_run(fresh_mariadb, [dropped, renamed, away, again])
    assert shown == ran
    assert shown[-4:-1] == [
        "CREATE DATABASE IF NOT EXISTS `__trash_20_d`",
        "RENAME TABLE `d`.`__trash_10_b` TO `__trash_20_d`.`__trash_10_b`, `d`.`a` TO `__trash_20_d`.`a`",
        "DROP DATABASE `d`",
    ]
    assert shown[-1].startswith("CREATE DATABASE `d`")


def test_a_truncated_table_comes_to_the_trash_and_back_as_shown(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.c (id INT PRIMARY KEY)", "INSERT INTO d.c VALUES (1)")
    trash = TableName("d", "__trash_12_a")
    planned = [
        ddl(Action.RENAME_TABLE, "d", "a", 11, "RENAME TABLE `d`.`c` TO `d`.`a`", old_name=TableName("d", "c")),
        replace(ddl(Action.TRUNCATE_TABLE, "d", "a", 12, "TRUNCATE TABLE `a`"), trash=trash),
        replace(ddl(Action.RECOVER_TABLE, "d", "u", 13, "FLASHBACK TABLE `a` TO `u`"), trash=trash),
        replace(ddl(Action.DROP_SCHEMA, "d", "", 20, "DROP DATABASE `d`"), trash=TableName("__trash_20_d", "")),
    ]
    shown, ran = shown_and_run(fresh_mariadb, planned)
    assert shown == ran
    assert "RENAME TABLE `d`.`a` TO `__trash_20_d`.`a`, `d`.`u` TO `__trash_20_d`.`u`" in shown


@pytest.mark.parametrize("older", [True, False])
def test_a_database_that_is_there_is_altered_as_shown(older: bool, fresh_mariadb: MariaDb) -> None:
    if older:
        fresh_mariadb.execute("CREATE DATABASE r CHARACTER SET latin1")
    made = [ddl(Action.CREATE_SCHEMA, "r", "", version, "CREATE DATABASE `r`") for version in (10, 11)]
    shown, ran = shown_and_run(fresh_mariadb, made)
    assert shown == ran
    altered = "ALTER DATABASE `r` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin"
    assert shown[1] == altered
    assert (shown[0] == altered) is older


def test_a_table_that_is_there_is_shown_as_in_the_way(fresh_mariadb: MariaDb) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    create = ddl(Action.CREATE_TABLE, "d", "t", 10, "CREATE TABLE `t` (`id` INT PRIMARY KEY)")
    drop = ddl(Action.DROP_TABLE, "d", "t", 9, "DROP TABLE `d`.`t`")
    sink = acquired(fresh_mariadb)
    assert [answer.error for answer in sink.preview_ddls([create])] == ["a table of this name exists"]
    assert [answer.error for answer in sink.preview_ddls([drop, create])] == ["", ""]
    sink.close()
