"""Every kind of statement that TiCDC lets through, executed by a MariaDB; docs/ddl.md points here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.sink.mysql.sink import MySqlSink
from tests.integration.mysql.steps import acquired, ddl
from tests.servers import MariaDb

T = (
    "CREATE TABLE {d}.t (id INT PRIMARY KEY, a INT NOT NULL DEFAULT 1, b VARCHAR(20), KEY ka (a))",
    "INSERT INTO {d}.t VALUES (1, 10, 'x'), (2, 20, 'y')",
)
P = (
    "CREATE TABLE {d}.t (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (100), PARTITION p1 VALUES LESS THAN (200))",
    "INSERT INTO {d}.t VALUES (1), (101)",
)
FK = (
    "CREATE TABLE {d}.p (id INT PRIMARY KEY)",
    "CREATE TABLE {d}.t (id INT PRIMARY KEY, p INT)",
)
ROWS = "SELECT * FROM {d}.t ORDER BY 1"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{d}' ORDER BY 1"
DATABASES = "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = '{d}'"
INDEXES = "SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema = '{d}' ORDER BY 1"
PARTITIONS = "SELECT partition_name FROM information_schema.partitions WHERE table_schema = '{d}' ORDER BY 1"
FOREIGN = "SELECT constraint_name FROM information_schema.referential_constraints WHERE constraint_schema = '{d}'"


def of_table(column: str) -> str:
    return f"SELECT {column} FROM information_schema.tables WHERE table_schema = '{{d}}' AND table_name = 't'"


def of_column(what: str, column: str) -> str:
    where = f"table_schema = '{{d}}' AND column_name = '{column}'"
    return f"SELECT {what} FROM information_schema.columns WHERE {where}"


@dataclass(frozen=True)
class Case:
    """`query` brings what `setup` made to where `probe` answers `answer`; {d} is the case's database."""

    query: str
    probe: str
    answer: list[tuple[Any, ...]]
    setup: tuple[str, ...] = T
    table: str = "t"
    old: str = ""
    trash: str = ""


CASES = {
    Action.CREATE_SCHEMA: Case("CREATE DATABASE `{d}`", DATABASES, [("utf8mb4_bin",)], ("DROP DATABASE {d}",), ""),
    Action.DROP_SCHEMA: Case("DROP DATABASE `{d}`", DATABASES, [], T, ""),
    Action.CREATE_TABLE: Case("CREATE TABLE `t` (`id` INT PRIMARY KEY)", TABLES, [("t",)], ()),
    Action.DROP_TABLE: Case("DROP TABLE `{d}`.`t`", TABLES, []),
    Action.ADD_COLUMN: Case(
        "ALTER TABLE `t` ADD COLUMN `c` INT NOT NULL DEFAULT 7 AFTER `id`", ROWS, [(1, 7, 10, "x"), (2, 7, 20, "y")]
    ),
    Action.DROP_COLUMN: Case("ALTER TABLE `t` DROP COLUMN `b`", ROWS, [(1, 10), (2, 20)]),
    Action.ADD_INDEX: Case("ALTER TABLE `t` ADD UNIQUE `ub`(`b`)", INDEXES, [("ka",), ("PRIMARY",), ("ub",)]),
    Action.DROP_INDEX: Case("DROP INDEX `ka` ON `t`", INDEXES, [("PRIMARY",)]),
    Action.ADD_FOREIGN_KEY: Case(
        "ALTER TABLE `t` ADD CONSTRAINT `fk` FOREIGN KEY (`p`) REFERENCES `p`(`id`)", FOREIGN, [("fk",)], FK
    ),
    Action.DROP_FOREIGN_KEY: Case(
        "ALTER TABLE `t` DROP FOREIGN KEY `fk`", FOREIGN, [],
        (*FK, "ALTER TABLE {d}.t ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES {d}.p (id)"),
    ),
    Action.TRUNCATE_TABLE: Case("TRUNCATE TABLE `t`", ROWS, []),
    Action.MODIFY_COLUMN: Case(
        "ALTER TABLE `t` MODIFY COLUMN `a` BIGINT NOT NULL", of_column("data_type", "a"), [("bigint",)]
    ),
    Action.REBASE_AUTO_ID: Case(
        "ALTER TABLE `t` AUTO_INCREMENT = 1000", of_table("auto_increment"), [(1000,)],
        ("CREATE TABLE {d}.t (id INT PRIMARY KEY AUTO_INCREMENT)",),
    ),
    Action.RENAME_TABLE: Case("ALTER TABLE `t` RENAME AS `u`", TABLES, [("u",)], T, "u", "t"),
    Action.SET_DEFAULT_VALUE: Case(
        "ALTER TABLE `t` ALTER COLUMN `a` SET DEFAULT 5", of_column("column_default", "a"), [("5",)]
    ),
    Action.MODIFY_TABLE_COMMENT: Case("ALTER TABLE `t` COMMENT = 'hi'", of_table("table_comment"), [("hi",)]),
    Action.RENAME_INDEX: Case("ALTER TABLE `t` RENAME INDEX `ka` TO `kb`", INDEXES, [("kb",), ("PRIMARY",)]),
    Action.ADD_PARTITION: Case(
        "ALTER TABLE `t` ADD PARTITION (PARTITION `p2` VALUES LESS THAN (300))", PARTITIONS,
        [("p0",), ("p1",), ("p2",)], P,
    ),
    Action.DROP_PARTITION: Case("ALTER TABLE `t` DROP PARTITION `p0`", ROWS, [(101,)], P),
    Action.CREATE_VIEW: Case(
        "CREATE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `v` AS SELECT `id` FROM `t`",
        "SELECT * FROM {d}.v ORDER BY 1", [(1,), (2,)], T, "v",
    ),
    Action.MODIFY_TABLE_CHARSET: Case(
        "ALTER TABLE `t` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_general_ci", of_table("table_collation"),
        [("utf8mb4_general_ci",)],
    ),
    Action.TRUNCATE_PARTITION: Case("ALTER TABLE `t` TRUNCATE PARTITION `p1`", ROWS, [(1,)], P),
    Action.DROP_VIEW: Case("DROP VIEW `{d}`.`v`", TABLES, [("t",)], (*T, "CREATE VIEW {d}.v AS SELECT 1"), "v"),
    Action.RECOVER_TABLE: Case(
        "RECOVER TABLE `t`", ROWS, [(1, 10, "x"), (2, 20, "y")], (*T, "RENAME TABLE {d}.t TO {d}.__trash_5_t"),
        trash="__trash_5_t",
    ),
    Action.MODIFY_SCHEMA_CHARSET: Case(
        "ALTER DATABASE `{d}` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_general_ci", DATABASES,
        [("utf8mb4_general_ci",)], (), "",
    ),
    Action.ADD_PRIMARY_KEY: Case(
        "ALTER TABLE `t` ADD PRIMARY KEY(`id`) /*T![clustered_index] NONCLUSTERED */", INDEXES, [("PRIMARY",)],
        ("CREATE TABLE {d}.t (id INT NOT NULL)",),
    ),
    Action.DROP_PRIMARY_KEY: Case("ALTER TABLE `t` DROP PRIMARY KEY", INDEXES, [("ka",)]),
    Action.ADD_COLUMNS: Case(
        "ALTER TABLE `t` ADD COLUMN `c` INT, ADD COLUMN `e` INT DEFAULT 2", ROWS,
        [(1, 10, "x", None, 2), (2, 20, "y", None, 2)],
    ),
    Action.DROP_COLUMNS: Case("ALTER TABLE `t` DROP COLUMN `a`, DROP COLUMN `b`", ROWS, [(1,), (2,)]),
    Action.ALTER_INDEX_VISIBILITY: Case(
        "ALTER TABLE `t` ALTER INDEX `ka` INVISIBLE",
        "SELECT ignored FROM information_schema.statistics WHERE table_schema = '{d}' AND index_name = 'ka'",
        [("YES",)],
    ),
    Action.EXCHANGE_PARTITION: Case(
        "ALTER TABLE `{d}`.`t` EXCHANGE PARTITION `p0` WITH TABLE `{d}`.`n` WITHOUT VALIDATION", ROWS, [(3,), (101,)],
        (*P, "CREATE TABLE {d}.n (id INT PRIMARY KEY)", "INSERT INTO {d}.n VALUES (3)"),
    ),
    Action.RENAME_TABLES: Case("RENAME TABLE `{d}`.`t` TO `{d}`.`u`;", TABLES, [("u",)], T, "u", "t"),
    Action.CREATE_TABLES: Case("CREATE TABLE `t` (`id` INT PRIMARY KEY);", TABLES, [("t",)], ()),
    Action.MULTI_SCHEMA_CHANGE: Case(
        "ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 3, DROP COLUMN `b`, ADD INDEX `kc`(`c`)", ROWS,
        [(1, 10, 3), (2, 20, 3)],
    ),
    Action.REORGANIZE_PARTITION: Case(
        "ALTER TABLE `t` REORGANIZE PARTITION `p0`,`p1` INTO (PARTITION `q` VALUES LESS THAN (200))", PARTITIONS,
        [("q",)], P,
    ),
    Action.ALTER_TTL: Case(
        "ALTER TABLE `t` /*T![ttl] TTL = `b` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */", ROWS,
        [(1, 10, "x"), (2, 20, "y")],
    ),
    Action.REMOVE_TTL: Case("ALTER TABLE `t` /*T![ttl] REMOVE TTL */", ROWS, [(1, 10, "x"), (2, 20, "y")]),
    Action.ALTER_TABLE_PARTITIONING: Case(
        "ALTER TABLE `t` PARTITION BY HASH (`id`) PARTITIONS 2", PARTITIONS, [("p0",), ("p1",)]
    ),
    Action.REMOVE_PARTITIONING: Case("ALTER TABLE `t` REMOVE PARTITIONING", PARTITIONS, [(None,)], P),
    Action.FULLTEXT_INDEX: Case(
        "ALTER TABLE `t` ADD FULLTEXT INDEX `f`(`b`) WITH PARSER STANDARD", INDEXES, [("f",), ("ka",), ("PRIMARY",)]
    ),
    Action.HYBRID_INDEX: Case("CREATE HYBRID INDEX `h` ON `t`(`a`, `b`)", INDEXES, [("ka",), ("PRIMARY",)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def sink(mariadb: MariaDb) -> Iterator[MySqlSink]:
    mariadb.drop_all()
    sink = acquired(mariadb)
    yield sink
    sink.close()


@pytest.mark.parametrize("action", CASES, ids=lambda action: action.name)
def test_mariadb_executes(action: Action, sink: MySqlSink, mariadb: MariaDb) -> None:
    case, database = CASES[action], f"d{action}"
    mariadb.execute(
        f"CREATE DATABASE {database} COLLATE utf8mb4_bin", *(line.format(d=database) for line in case.setup)
    )
    own = (TableName(database, case.table),)
    old = TableName(database, case.old) if case.old else None
    others = (TableName(database, name) for name in ("p", "n") if case.query.count(f"`{name}`"))
    step = ddl(
        action, database, case.table, 10, case.query.format(d=database), old_name=old,
        touches=(*own, *others, *([old] if old else [])),
    )  # fmt: skip
    step = replace(step, trash=TableName(database, case.trash) if case.trash else None)
    (shown,) = sink.preview_ddls([step])
    assert not shown.error
    (outcome,) = sink.apply_ddls([step], {})
    assert outcome.error is None, outcome.error
    assert mariadb.execute(case.probe.format(d=database)) == case.answer


def test_every_action_has_a_case() -> None:
    assert set(CASES) == set(Action) - {Action.NONE}
