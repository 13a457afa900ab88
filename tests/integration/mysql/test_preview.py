"""What `preview_ddls` shows is what `apply_ddls` executes, also where the statements build on one another."""

from __future__ import annotations

from collections.abc import Sequence

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
