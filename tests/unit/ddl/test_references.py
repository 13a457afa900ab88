"""Every table name, and nothing else."""

from __future__ import annotations

import time

import pytest

from consumer.ddl.changes import compile_statement
from consumer.ddl.definitions import statement_of
from consumer.ddl.references import Role, TableReference, references
from consumer.ddl.tokens import tokenize
from consumer.model.actions import DATABASE_ACTIONS
from tests.unit.ddl.pairs import corpus


def found(query: str) -> list[str]:
    return [f"{r.role} {r.database or ''}.{r.table}" for r in references(tokenize(query))]


def named(query: str, role: Role) -> TableReference | None:
    return compile_statement(statement_of(query)).named(role)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("CREATE TABLE IF NOT EXISTS `a`.`b` (`c` INT,INDEX `d`(`c`))", ["table a.b"]),
        ("CREATE TABLE `b` (LIKE `a`.`c`)", ["table .b", "like a.c"]),
        ("CREATE TABLE `b` LIKE `c`", ["table .b", "like .c"]),
        ("CREATE TABLE `b` (`LIKE` INT)", ["table .b"]),
        (
            "CREATE TABLE `b` (`x` INT,CONSTRAINT `k` FOREIGN KEY (`x`) REFERENCES `a`.`p`(`id`),"
            "CONSTRAINT FOREIGN KEY (`x`) REFERENCES `q`(`id`) ON DELETE CASCADE)",
            ["table .b", "foreign a.p", "foreign .q"],
        ),
        ("ALTER TABLE `b` ADD CONSTRAINT `k` FOREIGN KEY (`x`) REFERENCES `p`(`id`)", ["table .b", "foreign .p"]),
        ("CREATE TABLE `b` (`x` INT REFERENCES `p`(`id`),`y` DECIMAL(5,2) REFERENCES `q`(`id`))", ["table .b"]),
        ("ALTER TABLE `b` ADD COLUMN `x` INT REFERENCES `p`(`id`)", ["table .b"]),
        (
            "CREATE TABLE `b` (`x` INT REFERENCES `p`(`id`),FOREIGN KEY IF NOT EXISTS `k` (`x`) REFERENCES `q`(`id`))",
            ["table .b", "foreign .q"],
        ),
        ("ALTER TABLE `b` COMMENT = 'REFERENCES `x`'", ["table .b"]),
        ("ALTER TABLE `a`.`b` RENAME AS `c`.`d`", ["old a.b", "new c.d"]),
        ("ALTER TABLE `b` RENAME TO `d`", ["old .b", "new .d"]),
        ("ALTER TABLE `b` ADD COLUMN `x` INT, RENAME `d`", ["old .b", "new .d"]),
        ("ALTER TABLE `b` RENAME COLUMN `x` TO `y`", ["table .b"]),
        ("ALTER TABLE `b` RENAME INDEX `x` TO `y`, RENAME KEY `y` TO `z`", ["table .b"]),
        ("RENAME TABLE `a` TO `b`, `x`.`c` TO `d`;", ["old .a", "new .b", "old x.c", "new .d"]),
        (
            "ALTER TABLE `a`.`r` EXCHANGE PARTITION `p` WITH TABLE `a`.`e` WITHOUT VALIDATION",
            ["table a.r", "exchange a.e"],
        ),
        ("CREATE UNIQUE INDEX `i` USING BTREE ON `a`.`t` (`c`)", ["table a.t"]),
        ("CREATE INDEX IF NOT EXISTS `table` ON `t` (`c`)", ["table .t"]),
        ("DROP INDEX IF EXISTS `i` ON `t`", ["table .t"]),
        ("DROP TABLE IF EXISTS `a`.`b`, `c`", ["table a.b", "table .c"]),
        ("DROP VIEW `v`", ["table .v"]),
        ("TRUNCATE TABLE `t`", ["table .t"]),
        ("TRUNCATE `t`", ["table .t"]),
        ("RECOVER TABLE `t`", ["table .t"]),
        ("RECOVER TABLE BY JOB 5", []),
        ("FLASHBACK TABLE `t` TO `u`", ["old .t", "new .u"]),
        ("create table t1 (references1 int)", ["table .t1"]),
        ("alter table a.b rename c", ["old a.b", "new .c"]),
        ("", []),
        ("/* nothing */", []),
        ("CREATE TABLE", []),
        ("RENAME TABLE `a` TO", []),
    ],
)
def test_names_of_tables(query: str, expected: list[str]) -> None:
    assert found(query) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("SELECT `a`,`t`.`b` FROM `t` WHERE `x`>1", [".t"]),
        ("SELECT 1 FROM DUAL", []),
        ("SELECT * FROM `d`.`t` AS `z`, `u` `w`, (`x`, `y`)", ["d.t", ".u", ".x", ".y"]),
        ("SELECT * FROM ((`a`) LEFT JOIN `b` ON `a`.`i`=`b`.`i`) JOIN `c` USING (`i`, `j`)", [".a", ".b", ".c"]),
        ("SELECT * FROM (SELECT `i` FROM `s`) AS `q` JOIN `t`", [".s", ".t"]),
        ("SELECT (SELECT MAX(`i`) FROM `s`),TRIM(BOTH 'x' FROM `c`) FROM `t` GROUP BY `a`, `b`", [".s", ".t"]),
        ("SELECT EXTRACT(DAY FROM (SELECT `d` FROM `s`)) FROM `t` ORDER BY `o`, `p`", [".s", ".t"]),
        ("SELECT `i` FROM `a` UNION ALL (SELECT `i`, `j` FROM `b`)", [".a", ".b"]),
        ("WITH `c` AS (SELECT 1 FROM `a`) SELECT `x` FROM `c`, `d`.`c`", [".a", "d.c"]),
        ("SELECT 1 FROM (WITH `c` AS (SELECT 1 FROM `a`) SELECT 1 FROM `c`) AS `x`, `c`", [".a", ".c"]),
        ("WITH `c`(`n`) AS (SELECT 1 FROM `c`), `e` AS (SELECT 1 FROM `c`) SELECT 1 FROM `e`, `b`", [".c", ".b"]),
        ("WITH RECURSIVE `c`(`n`) AS (SELECT 1 UNION ALL SELECT `n` FROM `c`) SELECT 1 FROM `c`, `b`", [".b"]),
        ("SELECT 1 FROM `a` USE INDEX FOR JOIN (`i`, `j`) JOIN `b` FORCE KEY (`k`)", [".a", ".b"]),
        ("SELECT 1 FROM `a` IGNORE INDEX FOR GROUP BY (`i`) USE INDEX FOR ORDER BY (`j`), `b`", [".a", ".b"]),
        ("SELECT `use`, 1 FROM `a` AS `force`, `b` GROUP BY `use` WITH ROLLUP", [".a", ".b"]),
        ("SELECT IF(EXISTS (SELECT 1 FROM `s`), `a`, `b`) FROM `t`", [".s", ".t"]),
    ],
)
def test_tables_of_a_view(body: str, expected: list[str]) -> None:
    head = "CREATE OR REPLACE ALGORITHM = MERGE DEFINER = `u`@`%` SQL SECURITY INVOKER VIEW `v` (`c1`, `c2`) AS "
    assert found(head + body) == ["table .v", *("from " + name for name in expected)]


def test_a_database_is_no_table() -> None:
    others = (
        "DROP DATABASE IF EXISTS `d`",
        "ALTER SCHEMA `d` COLLATE = utf8mb4_bin",
        "CREATE SCHEMA IF NOT EXISTS `d`",
    )
    assert all(not found(query) for query in ("CREATE DATABASE `d`", *others))


def test_every_real_statement_names_its_own_table() -> None:
    for written in corpus():
        if written.type in DATABASE_ACTIONS:
            continue
        names = {
            ((r.database or written.name.database).lower(), r.table.lower())
            for r in references(tokenize(written.query))
            if r.role in ("table", "new")
        }
        assert names == {(written.name.database.lower(), written.name.table.lower())}, written.query


def test_spans_are_the_names_as_typed() -> None:
    query = "RENAME TABLE `a`.`b``c` TO  `d`"
    assert [query[r.start : r.end] for r in references(tokenize(query))] == ["`a`.`b``c`", "`d`"]


def test_like_source_and_exchange_table() -> None:
    like = named("CREATE TABLE `b` LIKE `a`.`c`", "like")
    exchange = named("ALTER TABLE `p`.`r` EXCHANGE PARTITION `p1` WITH TABLE `p`.`ex`", "exchange")
    assert like is not None
    assert exchange is not None
    assert (like.database, like.table) == ("a", "c")
    assert (exchange.database, exchange.table) == ("p", "ex")
    assert named("CREATE TABLE `b` (`like` INT)", "like") is None
    assert named("TRUNCATE TABLE `t`", "exchange") is None


@pytest.mark.parametrize("deep", [10, 20_000])
def test_the_depth_of_parentheses_does_not_matter(deep: int) -> None:
    before, behind = "(" * deep, ")" * deep
    assert found(f"CREATE VIEW `v` AS SELECT {before}`id`{behind} AS `x` FROM `t`") == ["table .v", "from .t"]
    query = f"CREATE VIEW `v` AS SELECT 1 FROM {before}`t` JOIN (SELECT 1 FROM `s`) AS `x`{behind} JOIN `u`"
    assert found(query) == ["table .v", "from .t", "from .s", "from .u"]


def test_a_list_of_names_may_be_long() -> None:
    names = [f"t{number}" for number in range(5000)]
    assert found("DROP TABLE " + ",".join(f"`{name}`" for name in names)) == [f"table .{name}" for name in names]


@pytest.mark.parametrize(
    ("opening", "end"),
    [
        ("(SELECT ", ")"),
        ("WITH `c` AS (", ") SELECT 1 FROM `t`"),
        ("WITH `c` (`a`) AS (", ") SELECT 1 FROM `t`"),
        ("WITH RECURSIVE `c` AS (", ") SELECT 1 FROM `c`"),
        ("SELECT 1 FROM `t` WHERE 1 IN (", ")"),
        ("SELECT 1 FROM `t` USE INDEX ", ""),
    ],
)
def test_the_cost_of_a_view_is_linear_in_its_text(opening: str, end: str) -> None:
    """It takes less than a second; with a look to the end for each parenthesis, many times the bound."""
    text = "CREATE VIEW `v` AS SELECT " + opening * 6000 + "1" + end * 6000
    began = time.process_time()
    references(tokenize(text))
    assert time.process_time() - began < 5
