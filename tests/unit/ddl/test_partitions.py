"""How a table is partitioned after its statements, and what is not understood."""

from __future__ import annotations

import pytest

from consumer.ddl.definitions import statement_of
from consumer.ddl.expressions import (
    Binary,
    Call,
    ColumnName,
    NotUnderstood,
    Number,
    TextLiteral,
    parse_partition_expression,
)
from consumer.ddl.partitions import (
    PartitionChanges,
    PartitionClause,
    altered_table,
    created_table,
    partition_changes,
    partition_clauses,
)
from consumer.model.table_definition import Partitioning, PartitionKind

COLUMNS = "(`id` INT,`d` DATE,`s` VARCHAR(9),PRIMARY KEY(`id`))"
RANGE = "RANGE (`id`) (PARTITION `p0` VALUES LESS THAN (10),PARTITION `p1` VALUES LESS THAN (20) COMMENT = 'to 20')"
LIST = "LIST (`id`) (PARTITION `a` VALUES IN (1, 2, NULL),PARTITION `b` VALUES IN (3))"


def changes(query: str) -> PartitionChanges:
    return partition_changes(statement_of(query))


def after(partition_by: str, *alters: str) -> Partitioning | None:
    table = created_table(changes(f"CREATE TABLE `t` {COLUMNS} PARTITION BY {partition_by}"), "utf8mb4_bin")
    for alter in alters:
        table = altered_table(table, changes(f"ALTER TABLE `t` {alter}"))
    return table.partitioning


def less(name: str, bound: str) -> str:
    return f"PARTITION `{name}` VALUES LESS THAN ({bound})"


def names(partition_by: str, *alters: str) -> list[str] | None:
    found = after(partition_by, *alters)
    return None if found is None else [partition.name for partition in found.partitions]


@pytest.mark.parametrize(
    ("partition_by", "kind", "by", "partitions"),
    [
        (RANGE, "RANGE", ("`id`",), {"p0": [("10",)], "p1": [("20",)]}),
        (
            "RANGE (TO_DAYS(`d`)) (PARTITION `p` VALUES LESS THAN MAXVALUE ENGINE = InnoDB)",
            *("RANGE", ("TO_DAYS(`d`)",), {"p": [("MAXVALUE",)]}),
        ),
        (
            "RANGE COLUMNS (`id`,`s`) (PARTITION `p` VALUES LESS THAN (1, _UTF8MB4'a,)'), "
            "PARTITION `q` VALUES LESS THAN (2, MAXVALUE))",
            *("RANGE COLUMNS", ("id", "s"), {"p": [("1", "_UTF8MB4'a,)'")], "q": [("2", "MAXVALUE")]}),
        ),
        (LIST, "LIST", ("`id`",), {"a": [("1",), ("2",), ("NULL",)], "b": [("3",)]}),
        (
            "LIST COLUMNS (`id`,`s`) (PARTITION `p` VALUES IN ((1, 'x'), (2, NULL)),PARTITION `r` DEFAULT)",
            *("LIST COLUMNS", ("id", "s"), {"p": [("1", "'x'"), ("2", "NULL")], "r": []}),
        ),
        ("HASH (`id`) PARTITIONS 3", "HASH", ("`id`",), {"p0": [], "p1": [], "p2": []}),
        ("HASH (`id`) PARTITIONS 2 (PARTITION `x`,PARTITION `y`)", "HASH", ("`id`",), {"x": [], "y": []}),
        ("KEY (`id`,`s`) PARTITIONS 2", "KEY", ("id", "s"), {"p0": [], "p1": []}),
    ],
)
def test_a_partitioning(partition_by: str, kind: str, by: tuple[str, ...], partitions: dict[str, list[object]]) -> None:
    found = after(partition_by)
    assert found is not None
    assert (found.kind, found.by) == (PartitionKind(kind), by)
    assert {partition.name: list(partition.values) for partition in found.partitions} == partitions


@pytest.mark.parametrize(
    ("partition_by", "alters", "wanted"),
    [
        (RANGE, [f"ADD PARTITION ({less('p2', '30')}, {less('p3', 'MAXVALUE')})"], "p0 p1 p2 p3"),
        (RANGE, ["DROP PARTITION `P0`"], "p1"),
        (RANGE, ["TRUNCATE PARTITION `p0`, `p1`", "EXCHANGE PARTITION `p0` WITH TABLE `d`.`x`"], "p0 p1"),
        (RANGE, [f"REORGANIZE PARTITION `p0` INTO ({less('a', '5')}, {less('b', '10')})"], "a b p1"),
        (RANGE, [f"REORGANIZE PARTITION `p0`, `p1` INTO ({less('p0', '20')})"], "p0"),
        (LIST, ["ADD PARTITION (PARTITION `c` VALUES IN (7), PARTITION `r` VALUES IN (DEFAULT))"], "a b c r"),
        ("HASH (`id`) PARTITIONS 2", ["ADD PARTITION PARTITIONS 2"], "p0 p1 p2 p3"),
        ("HASH (`id`) PARTITIONS 4", ["COALESCE PARTITION 1"], "p0 p1 p2"),
        ("HASH (`id`) PARTITIONS 4", [f"PARTITION BY {RANGE}"], "p0 p1"),
        (RANGE, ["ADD COLUMN `x` INT, ADD INDEX `partition`(`x`)", "MODIFY COLUMN `id` BIGINT"], "p0 p1"),
    ],
)  # fmt: skip
def test_partitions_come_and_go(partition_by: str, alters: list[str], wanted: str) -> None:
    assert names(partition_by, *alters) == wanted.split()


@pytest.mark.parametrize(
    ("partition_by", "alters"),
    [
        ("LINEAR HASH (`id`) PARTITIONS 3", []),
        ("RANGE (`id`) INTERVAL (10) FIRST PARTITION LESS THAN (0) LAST PARTITION LESS THAN (100)", []),
        ("RANGE (`id`) SUBPARTITION BY HASH (`id`) (PARTITION `p` VALUES LESS THAN (1))", []),
        ("RANGE (`id`) (PARTITION `p` VALUES LESS THAN (1, 2))", []),
        ("RANGE (`id`) (PARTITION `p`)", []),
        ("RANGE (`id`) (PARTITION `p` VALUES LESS THAN (1), PARTITION `P` VALUES LESS THAN (2))", []),
        (RANGE, ["REMOVE PARTITIONING"]),
        (RANGE, ["DROP PARTITION `unknown`"]),
        (RANGE, ["FIRST PARTITION LESS THAN (5)"]),
        (RANGE, ["SPLIT MAXVALUE PARTITION LESS THAN (5)"]),
        (RANGE, ["RENAME COLUMN `ID` TO `x`"]),
        (RANGE, ["CHANGE COLUMN `id` `x` INT"]),
        (RANGE, ["ADD PARTITION /*!50100 (PARTITION p2 VALUES LESS THAN (30)) */"]),
        (RANGE, ["ADD PARTITION PARTITIONS 2"]),
        ("HASH (`id`) PARTITIONS 2", ["COALESCE PARTITION 2"]),
    ],
)
def test_what_is_not_understood_is_not_known(partition_by: str, alters: list[str]) -> None:
    assert after(partition_by, *alters) is None


@pytest.mark.parametrize(
    ("declared", "options", "alter", "wanted"),
    [
        ("VARCHAR(9)", "", "", "utf8mb4_bin"),
        ("VARCHAR(9)", " DEFAULT CHARACTER SET UTF8MB4 DEFAULT COLLATE UTF8MB4_GENERAL_CI", "", "utf8mb4_general_ci"),
        ("VARCHAR(9) CHARACTER SET LATIN1", " COLLATE = utf8mb4_general_ci", "", "latin1_bin"),
        ("VARCHAR(9) COLLATE utf8mb4_unicode_ci", "", "", "utf8mb4_unicode_ci"),
        ("VARCHAR(9) CHARACTER SET big5", "", "", None),
        ("VARCHAR(9)", "", "ADD COLUMN `y` VARCHAR(9) COLLATE utf8mb4_general_ci", "utf8mb4_bin"),
        ("VARCHAR(9)", "", "MODIFY COLUMN `s` VARCHAR(19)", None),
        ("VARCHAR(9)", "", "MODIFY COLUMN `x` INT", "utf8mb4_bin"),
        ("VARCHAR(9)", "", "CONVERT TO CHARACTER SET UTF8MB4 COLLATE UTF8MB4_GENERAL_CI", None),
    ],
)
def test_the_collation_of_a_text_column(declared: str, options: str, alter: str, wanted: str | None) -> None:
    table = created_table(changes(f"CREATE TABLE `t` (`s` {declared},`x` BIGINT){options}"), "utf8mb4_bin")
    table = altered_table(table, changes(f"ALTER TABLE `t` {alter}")) if alter else table
    divide = "ALTER TABLE `t` PARTITION BY RANGE COLUMNS (`s`) (PARTITION `p` VALUES LESS THAN (MAXVALUE))"
    table = altered_table(table, changes(divide))
    assert table.partitioning is not None
    assert dict(table.partitioning.collations).get("s") == wanted


def clauses(text: str) -> list[PartitionClause]:
    return partition_clauses(statement_of(f"ALTER TABLE `d`.`t` {text}"))


def test_clauses_that_take_rows() -> None:
    assert clauses("TRUNCATE PARTITION `p0`, `p1`") == [PartitionClause("TRUNCATE", ("p0", "p1"))]
    assert clauses("TRUNCATE PARTITION ALL") == [PartitionClause("TRUNCATE", all_of_them=True)]
    assert clauses("TRUNCATE PARTITION `ALL`") == [PartitionClause("TRUNCATE", ("ALL",))]
    assert clauses("DROP PARTITION IF EXISTS `p0`") == [PartitionClause("DROP", ("p0",))]
    assert clauses("EXCHANGE PARTITION `p` WITH TABLE `d`.`x`") == [PartitionClause("EXCHANGE", ("p",))]
    assert clauses("EXCHANGE PARTITION `p` WITH TABLE `x` WITHOUT VALIDATION") == [PartitionClause("EXCHANGE", ("p",))]
    assert [clause.verb for clause in clauses("DROP COLUMN `x`, DROP PARTITION `p`, `q`, ADD COLUMN `y` INT")] == [
        "DROP"
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("`a`+2*-3", Binary("+", ColumnName("a"), Binary("*", Number(2), Number(-3)))),
        ("`a`-1-1", Binary("-", Binary("-", ColumnName("a"), Number(1)), Number(1))),
        ("-(`a`)", Binary("-", Number(0), ColumnName("a"))),
        ("`a` DIV 2 % 3", Binary("MOD", Binary("DIV", ColumnName("a"), Number(2)), Number(3))),
        ("EXTRACT(YEAR_MONTH FROM `d`)", Call("EXTRACT YEAR_MONTH", (ColumnName("d"),))),
        ("to_days(_UTF8MB4'2024-01-01')", Call("TO_DAYS", (TextLiteral("2024-01-01"),))),
        (r"'it''s \\ \n'", TextLiteral("it's \\ \n")),
    ],
)
def test_expressions(text: str, wanted: object) -> None:
    assert parse_partition_expression(text) == wanted


@pytest.mark.parametrize(
    "text", ["`a` +", "`a` / 2", "`a` | 1", "_LATIN1'x'", "x'00'", "1.5", "'a' 'b'", "f(", "", "`t`.`a`"]
)
def test_other_expressions_are_not_understood(text: str) -> None:
    with pytest.raises(NotUnderstood):
        parse_partition_expression(text)
