"""A server that goes away when a statement has run, before that is recorded, and is back while the run still tries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consumer.errors import Retryable, TargetBusy, TargetUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.progress import DdlState, ProgressChange
from consumer.sink.mysql.sink import MySqlSink
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.crashes import Crash, Fuse
from tests.support.feed import Feed, Replica

STATEMENTS = {
    Action.CREATE_TABLE: "CREATE TABLE `u` (`id` INT PRIMARY KEY,`v` INT)",
    Action.ADD_COLUMN: "ALTER TABLE `t` ADD COLUMN `w` INT",
    Action.RENAME_TABLE: "RENAME TABLE `d`.`t` TO `d`.`u`",
    Action.DROP_TABLE: "DROP TABLE `d`.`t`",
}


@pytest.fixture
def replica(fresh_mariadb: MariaDb, tmp_path: Path) -> Replica:
    """It has `d.t`."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.create("d.t", 2)
    replica = Replica(feed, fresh_mariadb.url())
    assert replica.once(15).exit_code == 0
    return replica


@pytest.mark.parametrize("action", STATEMENTS)
@pytest.mark.parametrize(
    ("error", "heard"), [(TargetUnavailable, True), (TargetUnavailable, False), (TargetBusy, True)]
)
def test_a_statement_whose_end_could_not_be_recorded_is_not_run_again(
    action: Action,
    error: type[Retryable],
    heard: bool,
    fresh_mariadb: MariaDb,
    replica: Replica,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = (ID, VALUE, Column("w", "INT")) if action is Action.ADD_COLUMN else (ID, VALUE)
    name = "d.u" if action in (Action.CREATE_TABLE, Action.RENAME_TABLE) else "d.t"
    replica.feed.statement(name, 20, action, STATEMENTS[action], columns)
    real, failed = MySqlSink._store, list[int]()

    def store(self: MySqlSink, change: ProgressChange, *given: Any, **named: Any) -> ProgressChange:
        first = any(record.state is DdlState.DONE for record in change.ddls) and not failed
        if first:
            failed.append(1)
        if heard or not first:
            real(self, change, *given, **named)
        if first:
            raise error("the connection was lost")
        return change

    monkeypatch.setattr(MySqlSink, "_store", store)
    assert replica.once(25).exit_code == 0
    assert failed
    found = fresh_mariadb.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema='d'"
    )
    wanted = {
        Action.CREATE_TABLE: {("t", "id"), ("t", "v"), ("u", "id"), ("u", "v")},
        Action.ADD_COLUMN: {("t", "id"), ("t", "v"), ("t", "w")},
        Action.RENAME_TABLE: {("u", "id"), ("u", "v")},
        Action.DROP_TABLE: set(),
    }
    assert set(found) == wanted[action]
    assert replica.once(26).exit_code == 0


def test_a_statement_that_cannot_be_proven_is_not_refused(fresh_mariadb: MariaDb, replica: Replica) -> None:
    """It has run, and what follows it in the session has an error of its own."""
    columns = (ID, VALUE, Column("w", "INT"))
    replica.feed.statement("d.t", 20, Action.ADD_COLUMN, STATEMENTS[Action.ADD_COLUMN], columns)
    fresh_mariadb.execute(
        "CREATE TRIGGER storage_consumer.keeps BEFORE INSERT ON storage_consumer.proof FOR EACH ROW"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'"
    )
    result = replica.once(25)
    assert result.exit_code == 3
    assert "not now" in result.tables[TableName("d", "t")].error
    fresh_mariadb.execute("DROP TRIGGER storage_consumer.keeps")
    assert replica.once(25).exit_code == 0
    assert [row[0] for row in fresh_mariadb.execute("SHOW COLUMNS FROM d.t")] == ["id", "v", "w"]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("ALTER TABLE `t` ADD COLUMN `w` INT DEFAULT 5", (ID, VALUE, Column("w", "INT", default="5"))),
        ("ALTER TABLE `t` DROP COLUMN `v`", (ID,)),
        ("ALTER TABLE `t` RENAME COLUMN `v` TO `w`", (ID, Column("w", "INT"))),
    ],
)
@pytest.mark.parametrize("ran", [False, True], ids=["not run", "run"])
def test_a_change_by_hand_is_not_taken_for_the_statement(
    query: str,
    columns: tuple[Column, ...],
    ran: bool,
    fresh_mariadb: MariaDb,
    replica: Replica,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process dies in front of the statement, or behind it, and somebody alters the table before the next run."""
    action = {1: Action.DROP_COLUMN, 2: Action.MODIFY_COLUMN}.get(len(columns), Action.ADD_COLUMN)
    replica.feed.statement("d.t", 20, action, query, columns)
    with monkeypatch.context() as patch:
        patch.setattr("consumer.sink.mysql.sink.execute_ddls", Fuse(0).around(lambda: None))
        with pytest.raises(Crash):
            replica.once(25)
    if ran:
        fresh_mariadb.execute(f"ALTER TABLE d.t {query.partition('`t` ')[2]}")
    fresh_mariadb.execute("ALTER TABLE d.t ADD COLUMN own INT")
    assert replica.once(25).exit_code == 0
    found = fresh_mariadb.execute("SHOW COLUMNS FROM d.t")
    assert {row[0] for row in found} == {*(column.name for column in columns), "own"}
