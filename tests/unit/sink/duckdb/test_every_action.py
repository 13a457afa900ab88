"""Every kind of statement that TiCDC lets through, followed by a DuckDB replica; docs/ddl.md points here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.model.steps import TableBefore
from tests.unit.sink.duckdb.replica import ID, TABLE, Replica

A = Column("a", "INT")
B = Column("b", "VARCHAR", length=20)
OLD = (ID, A, B)
ROWS = [(1, 10, "x"), (2, 20, "y")]
SAME = "db.t"
IN_PARTITIONS = (Action.DROP_PARTITION, Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION)
"""These are about rows: test_partitions.py."""


@dataclass(frozen=True)
class Case:
    """`query` leaves `tables`: what each holds."""

    query: str
    tables: dict[str, list[tuple[Any, ...]]]
    columns: Sequence[Column] = OLD
    table: TableName = TABLE
    old: TableName | None = None
    noted: str = ""


def same(query: str, **more: Any) -> Case:
    return Case(query, {SAME: ROWS}, **more)


C = Column("c", "INT", nullable=False, default="7")
U, V, OTHER = TableName("db", "u"), TableName("db", "v"), TableName("other", "")
CASES = {
    Action.CREATE_SCHEMA: same("CREATE DATABASE `other`", table=OTHER),
    Action.DROP_SCHEMA: Case("DROP DATABASE `db`", {}, table=TableName("db", "")),
    Action.CREATE_TABLE: Case("CREATE TABLE `u` (`id` INT PRIMARY KEY)", {SAME: ROWS, "db.u": []}, (ID,), U),
    Action.DROP_TABLE: Case("DROP TABLE `db`.`t`", {}),
    Action.ADD_COLUMN: Case(
        "ALTER TABLE `t` ADD COLUMN `c` INT NOT NULL DEFAULT 7 AFTER `id`", {SAME: [(1, 7, 10, "x"), (2, 7, 20, "y")]},
        (ID, C, A, B),
    ),
    Action.DROP_COLUMN: Case("ALTER TABLE `t` DROP COLUMN `b`", {SAME: [(1, 10), (2, 20)]}, (ID, A)),
    Action.ADD_INDEX: same("ALTER TABLE `t` ADD UNIQUE `ub`(`b`)"),
    Action.DROP_INDEX: same("ALTER TABLE `t` DROP INDEX `ub`"),
    Action.ADD_FOREIGN_KEY: same("ALTER TABLE `t` ADD CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `p`(`id`)"),
    Action.DROP_FOREIGN_KEY: same("ALTER TABLE `t` DROP FOREIGN KEY `f`"),
    Action.TRUNCATE_TABLE: Case("TRUNCATE TABLE `t`", {SAME: []}),
    Action.MODIFY_COLUMN: Case(
        "ALTER TABLE `t` MODIFY COLUMN `a` VARCHAR(9)", {SAME: [(1, "10", "x"), (2, "20", "y")]},
        (ID, Column("a", "VARCHAR", length=9), B),
    ),
    Action.REBASE_AUTO_ID: same("ALTER TABLE `t` AUTO_INCREMENT = 9"),
    Action.RENAME_TABLE: Case("ALTER TABLE `t` RENAME AS `u`", {"db.u": ROWS}, table=U, old=TABLE),
    Action.SET_DEFAULT_VALUE: same("ALTER TABLE `t` ALTER COLUMN `a` SET DEFAULT 5"),
    Action.MODIFY_TABLE_COMMENT: same("ALTER TABLE `t` COMMENT = 'hi'"),
    Action.RENAME_INDEX: same("ALTER TABLE `t` RENAME INDEX `i` TO `j`"),
    Action.ADD_PARTITION: same("ALTER TABLE `t` ADD PARTITION (PARTITION `p2` VALUES LESS THAN (300))"),
    Action.CREATE_VIEW: same("CREATE VIEW `v` AS SELECT `id` FROM `t`", table=V, columns=(ID,), noted="views"),
    Action.MODIFY_TABLE_CHARSET: same("ALTER TABLE `t` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_general_ci"),
    Action.DROP_VIEW: same("DROP VIEW `db`.`v`", table=V, noted="views"),
    Action.RECOVER_TABLE: Case("RECOVER TABLE `t`", {SAME: ROWS}),
    Action.MODIFY_SCHEMA_CHARSET: same("ALTER DATABASE `db` COLLATE = utf8mb4_bin", table=TableName("db", "")),
    Action.ADD_PRIMARY_KEY: same("ALTER TABLE `t` ADD PRIMARY KEY(`a`)"),
    Action.DROP_PRIMARY_KEY: same("ALTER TABLE `t` DROP PRIMARY KEY"),
    Action.ADD_COLUMNS: Case(
        "ALTER TABLE `t` ADD COLUMN `c` INT NOT NULL DEFAULT 7, ADD COLUMN `e` INT",
        {SAME: [(1, 10, "x", 7, None), (2, 20, "y", 7, None)]}, (*OLD, C, Column("e", "INT")),
    ),
    Action.DROP_COLUMNS: Case("ALTER TABLE `t` DROP COLUMN `a`, DROP COLUMN `b`", {SAME: [(1,), (2,)]}, (ID,)),
    Action.ALTER_INDEX_VISIBILITY: same("ALTER TABLE `t` ALTER INDEX `i` INVISIBLE"),
    Action.RENAME_TABLES: Case("RENAME TABLE `db`.`t` TO `db`.`u`;", {"db.u": ROWS}, table=U, old=TABLE),
    Action.CREATE_TABLES: Case("CREATE TABLE `u` (`id` INT PRIMARY KEY);", {SAME: ROWS, "db.u": []}, (ID,), U),
    Action.MULTI_SCHEMA_CHANGE: Case(
        "ALTER TABLE `t` ADD COLUMN `c` INT NOT NULL DEFAULT 7, DROP COLUMN `b`, ADD INDEX `i`(`c`)",
        {SAME: [(1, 10, 7), (2, 20, 7)]}, (ID, A, C),
    ),
    Action.REORGANIZE_PARTITION: same("ALTER TABLE `t` REORGANIZE PARTITION `p` INTO (PARTITION `q` VALUES IN (1))"),
    Action.ALTER_TTL: same("ALTER TABLE `t` /*T![ttl] TTL = `d` + INTERVAL 1 DAY */"),
    Action.REMOVE_TTL: same("ALTER TABLE `t` /*T![ttl] REMOVE TTL */"),
    Action.ALTER_TABLE_PARTITIONING: same("ALTER TABLE `t` PARTITION BY HASH (`id`) PARTITIONS 2"),
    Action.REMOVE_PARTITIONING: same("ALTER TABLE `t` REMOVE PARTITIONING"),
    Action.FULLTEXT_INDEX: same("ALTER TABLE `t` ADD FULLTEXT INDEX `f`(`b`)"),
    Action.HYBRID_INDEX: same("CREATE HYBRID INDEX `h` ON `t`(`a`, `b`)"),
}  # fmt: skip


def tables(replica: Replica) -> dict[str, list[tuple[Any, ...]]]:
    listed = replica.query(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE schema_name <> 'storage_consumer' ORDER BY ALL"
    )
    return {f"{database}.{table}": replica.rows(TableName(database, table)) for database, table in listed}


@pytest.mark.parametrize("action", CASES, ids=lambda action: action.name)
def test_a_replica_follows(action: Action, replica: Replica) -> None:
    case = CASES[action]
    replica.apply(Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`a` INT,`b` VARCHAR(20))", OLD)
    replica.put(OLD, [("1", "10", "x"), ("2", "20", "y")])
    trash = TableName("db", "__trash_5_t")
    if action is Action.RECOVER_TABLE:
        replica.query(f'ALTER TABLE db.t RENAME TO "{trash.table}"')
    step = replace(
        replica.step(action, case.query, case.columns, case.table, case.old, (case.old,) if case.old else ()),
        trash=trash if action is Action.RECOVER_TABLE else None,
        table_before=TableBefore(OLD),
    )
    (shown,) = replica.sink.preview_ddls([step])
    assert not shown.error
    (outcome,) = replica.sink.apply_ddls([step], {})
    assert outcome.error is None, outcome.error
    assert case.noted in outcome.note
    assert tables(replica) == case.tables


def test_every_action_has_a_case() -> None:
    assert set(CASES) | set(IN_PARTITIONS) == set(Action) - {Action.NONE}
