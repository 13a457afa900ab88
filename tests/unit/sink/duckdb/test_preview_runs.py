"""What a preview shows is what is executed then, statement for statement."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.sink.columnar.statements import TableOperations
from consumer.sink.duckdb.statements import execute
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica
from tests.unit.sink.duckdb.test_every_action import CASES, OLD

A, B = Column("a", "INT"), Column("b", "VARCHAR", length=20)
CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a` INT,`b` VARCHAR(20))"


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Without the name of the file, which stands in front of every schema."""
    found: list[str] = []

    def noting(connection: duckdb.DuckDBPyConnection, done: TableOperations) -> str:
        file = str(connection.execute("SELECT current_database()").fetchall()[0][0])
        found.extend(statement.replace(f'"{file}".', "") for statement in done.sql)
        return run(connection, done)

    run = execute.run_operations
    monkeypatch.setattr(execute, "run_operations", noting)
    return found


@pytest.mark.parametrize("action", [action for action in CASES if action is not Action.DROP_SCHEMA], ids=str)
def test_of_every_action(action: Action, replica: Replica, executed: list[str]) -> None:
    case = CASES[action]
    replica.apply(Action.CREATE_TABLE, CREATE, OLD)
    replica.put(OLD, [("1", "10", "x"), ("2", "20", "y")])
    trash = TableName("db", "__trash_5_t")
    if action is Action.RECOVER_TABLE:
        replica.query(f'ALTER TABLE db.t RENAME TO "{trash.table}"')
    step = replace(
        replica.step(action, case.query, case.columns, case.table, case.old, (case.old,) if case.old else ()),
        trash=trash if action is Action.RECOVER_TABLE else None,
    )
    executed.clear()
    (shown,) = replica.sink.preview_ddls([step])
    replica.sink.apply_ddls([step], {})
    assert list(shown.statements) == executed


def test_of_statements_that_build_on_one_another(replica: Replica, executed: list[str]) -> None:
    new, far = TableName("db", "T"), TableName("other", "T")
    replica.query("CREATE SCHEMA db")
    steps = [
        replica.step(Action.CREATE_TABLE, CREATE, (ID, A, B)),
        replica.step(Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `b` VARCHAR(20) FIRST", (B, ID, A)),
        replica.step(Action.RENAME_TABLE, "RENAME TABLE `db`.`t` TO `db`.`T`", (B, ID, A), new, TABLE),
        replica.step(Action.DROP_COLUMN, "ALTER TABLE `T` DROP COLUMN `a`", (B, ID), new),
        replica.step(Action.RENAME_TABLE, "RENAME TABLE `db`.`T` TO `other`.`T`", (B, ID), far, new),
        replace(replica.step(Action.DROP_TABLE, "DROP TABLE `other`.`T`", (B, ID), far), trash=TableName("other", "k")),
        replica.step(Action.ADD_COLUMN, "ALTER TABLE `T` ADD COLUMN `a` INT", (B, ID, A), far),
    ]
    shown = replica.sink.preview_ddls(steps)
    for step in steps:
        replica.sink.apply_ddls([step], {})
    assert [statement for one in shown for statement in one.statements] == executed
    assert [bool(one.error) for one in shown] == [False] * 6 + [True]
    assert len(executed) > len(steps)


def test_a_column_that_only_the_replica_has_is_moved_with_the_others(replica: Replica, executed: list[str]) -> None:
    replica.apply(Action.CREATE_TABLE, CREATE, OLD)
    replica.query("ALTER TABLE db.t ADD COLUMN own INT")
    step = replica.step(Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `b` VARCHAR(20) FIRST", (B, ID, A))
    executed.clear()
    (shown,) = replica.sink.preview_ddls([step])
    replica.sink.apply_ddls([step], {})
    assert list(shown.statements) == executed
    assert '"own"' in shown.statements[0]
