"""Keys that statements declare; what is not beyond doubt is no key."""

from __future__ import annotations

import time

import pytest

from consumer.ddl.changes import Shape
from consumer.ddl.definitions import statement_of
from consumer.ddl.indexes import index_changes, made_indexes
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.table_definition import UNTOLD
from tests.support.catalogs import catalog_of

TYPES = {"CREATE TABLE": 3, "DROP TABLE": 4, "RENAME TABLE": 14, "TRUNCATE TABLE": 11, "CREATE VIEW": 21}


def required(names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "INT", nullable=name.endswith("?")) for name in names.split())


def history(*queries: str, columns: str, table: str = "t", first: int = 1) -> list[SchemaFile]:
    """Schema files of d.`table`; a column named with a ? at its end is nullable."""
    described = tuple(Column(c.name.rstrip("?"), c.type, nullable=c.nullable) for c in required(columns))
    return [
        SchemaFile(
            f"d/{table}/meta/schema_{first + at}_1.json",
            f"d/{table}",
            "d",
            table,
            first + at,
            1,
            query,
            TYPES.get(" ".join(query.split()[:2]), 61 if query else 0),
            described,
        )
        for at, query in enumerate(queries)
    ]


def unique_keys(statements: list[SchemaFile], *others: SchemaFile) -> tuple[tuple[str, ...], ...]:
    shape = catalog_of([*statements, *others]).shape(statements[-1])
    return shape.unique_keys(statements[-1].columns)


def keys(*queries: str, columns: str) -> tuple[tuple[str, ...], ...]:
    return unique_keys(history(*queries, columns=columns))


@pytest.mark.parametrize(
    ("definition", "columns", "expected"),
    [
        ("`a` INT NOT NULL,`b` INT,UNIQUE(`a`)", "a b?", (("a",),)),
        ("`a` INT NOT NULL UNIQUE KEY,`b` INT UNIQUE", "a b?", (("a",),)),
        ("`A` INT NOT NULL,UNIQUE KEY `k`(`a`)", "A", (("A",),)),
        ("`a` INT,`b` INT,`c` INT,UNIQUE `ab`(`a`, `b`),UNIQUE INDEX `c`(`c` DESC)", "a b c", (("c",), ("a", "b"))),
        ("`a` INT,`b` INT,CONSTRAINT `x` UNIQUE(`b`),UNIQUE(`a`)", "a b", (("b",), ("a",))),
        ("`a` INT,`b` INT,UNIQUE `ab`(`a`, `b`)", "a b?", ()),
        ("`a` VARCHAR(9),UNIQUE(`a`(3))", "a", ()),
        ("`a` INT,`b` INT,UNIQUE((`a`+1)),UNIQUE `x`(`b`, (LOWER(`a`)))", "a b", ()),
        ("`a` INT,PRIMARY KEY(`a`),INDEX(`a`),KEY `k`(`a`),FULLTEXT INDEX `f`(`a`)", "a", ()),
        ("`a` INT PRIMARY KEY", "a", ()),
        ("`a` INT COMMENT 'UNIQUE',`b` ENUM('UNIQUE KEY')", "a b", ()),
        ("`a` INT,`unique` INT CHECK(`a`>0)", "a unique", ()),
        ("`a` INT,`v` INT GENERATED ALWAYS AS(`a`+1) VIRTUAL NOT NULL,UNIQUE(`v`)", "a v", ()),
        ("`a` INT,`v` INT GENERATED ALWAYS AS(`a`+1) STORED NOT NULL,UNIQUE(`v`)", "a v", (("v",),)),
        ("`a` INT,UNIQUE(`a`),CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `o`(`b`)", "a b", (("a",),)),
        ("`a` INT,`b` INT,UNIQUE `k`(`a`) USING BTREE WHERE `b`=0", "a b", ()),
        ("`a` INT,`b` INT,UNIQUE `k`(`a`) WHERE `b`=0,UNIQUE `l`(`b`) COMMENT 'WHERE'", "a b", (("b",),)),
    ],
)
def test_create_table(definition: str, columns: str, expected: tuple[tuple[str, ...], ...]) -> None:
    assert keys(f"CREATE TABLE `t` ({definition})", columns=columns) == expected


CREATE = "CREATE TABLE `t` (`a` INT NOT NULL,`b` INT NOT NULL,`c` INT NOT NULL,UNIQUE(`a`),UNIQUE `bc`(`b`, `c`))"
A, BC = ("a",), ("b", "c")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("ALTER TABLE `t` ADD UNIQUE `UK`(`a`) WHERE `b`=0", {"uk"}),
        ("ALTER TABLE `t` ADD INDEX `uk`(`a`)", {"uk"}),
        ("CREATE INDEX `uk` ON `t` (`a`)", {"uk"}),
        ("ALTER TABLE `t` ADD UNIQUE (`a`)", set()),
        ("ALTER TABLE `t` DROP INDEX `uk`", {"uk"}),
        ("DROP INDEX `uk` ON `t`", {"uk"}),
        ("ALTER TABLE `t` RENAME INDEX `uk` TO `k`", {"uk"}),
        ("ALTER TABLE `t` DROP PRIMARY KEY", {"primary"}),
        ("ALTER TABLE `t` ADD COLUMN `d` INT", set()),
    ],
)
def test_what_statements_tell_of_an_older_tables_index_names(change: str, names: set[str]) -> None:
    """A name that upstream chose may be another one: the table's older indexes are not known."""
    statements = history(change, columns="a b c")
    assert catalog_of(statements).shape(statements[-1]).known_index_names == names


def test_an_index_that_gets_a_name_of_a_gone_one() -> None:
    statements = history("DROP INDEX `uk` ON `t`", "ALTER TABLE `t` RENAME INDEX `k` TO `uk`", columns="a b")
    assert catalog_of(statements).shape(statements[-1]).known_index_names == {"k"}


@pytest.mark.parametrize(
    ("change", "columns", "expected"),
    [
        ("ALTER TABLE `t` ADD UNIQUE `k`(`b`)", "a b c", (A, ("b",), BC)),
        ("CREATE UNIQUE INDEX `k` ON `t` (`b`)", "a b c", (A, ("b",), BC)),
        ("CREATE INDEX `k` ON `t` (`b`)", "a b c", (A, BC)),
        ("CREATE UNIQUE INDEX `k` ON `t` (`b`) COMMENT 'c' WHERE `b` IS NOT NULL", "a b c", (A, BC)),
        ("ALTER TABLE `t` ADD UNIQUE `k`(`b`) WHERE `c`>10, ADD COLUMN `d` INT", "a b c d?", (A, BC)),
        (
            "ALTER TABLE `t` ADD CONSTRAINT `k` UNIQUE KEY (`c`), ADD COLUMN `d` INT NOT NULL UNIQUE",
            "a b c d",
            (A, ("c",), ("d",), BC),
        ),
        ("DROP INDEX `A` ON `t`", "a b c", (BC,)),
        ("ALTER TABLE `t` DROP INDEX `bc`, DROP KEY IF EXISTS `a`", "a b c", ()),
        ("ALTER TABLE `t` RENAME INDEX `a` TO `z`", "a b c", (A, BC)),
        ("ALTER TABLE `t` RENAME COLUMN `b` TO `x`", "a x c", (A, ("x", "c"))),
        ("ALTER TABLE `t` RENAME COLUMN `b` TO `c`, RENAME COLUMN `c` TO `b`", "a b c", (A, ("c", "b"))),
        ("ALTER TABLE `t` CHANGE COLUMN `a` `x` BIGINT NOT NULL", "x b c", (("x",), BC)),
        ("ALTER TABLE `t` MODIFY COLUMN `a` INT NULL", "a? b c", (BC,)),
        ("ALTER TABLE `t` DROP COLUMN `a`", "b c", (BC,)),
        ("ALTER TABLE `t` DROP COLUMN `b`", "a c", (A,)),
        ("ALTER TABLE `t` DROP PRIMARY KEY", "a b c", (A, BC)),
        ("ALTER TABLE `t` COMMENT = 'ADD UNIQUE `k`(`b`)'", "a b c", (A, BC)),
        ("TRUNCATE TABLE `t`", "a b c", (A, BC)),
        ("DROP TABLE `t`", "a b c", ()),
        ("CREATE TABLE `t` (`a` INT,`b` INT,UNIQUE(`b`))", "a b", (("b",),)),
        ("", "a b c", (A, BC)),
    ],
)
def test_later_statements(change: str, columns: str, expected: tuple[tuple[str, ...], ...]) -> None:
    assert keys(CREATE, change, columns=columns) == expected


def test_a_renamed_index_is_dropped_by_its_new_name() -> None:
    rename = "ALTER TABLE `t` RENAME INDEX `a` TO `z`"
    assert keys(CREATE, rename, "ALTER TABLE `t` DROP INDEX `z`", columns="a b c") == (BC,)


def test_unnamed_indexes_have_tidbs_names() -> None:
    create = "CREATE TABLE `t` (`a` INT,`b` INT,UNIQUE(`a`, `b`),UNIQUE(`a`),UNIQUE `a_2`(`b`))"
    assert keys(create, "ALTER TABLE `t` DROP INDEX `a_2`", columns="a b") == (("a",), ("a", "b"))
    assert keys(create, "ALTER TABLE `t` DROP INDEX `a_3`", columns="a b") == (("b",), ("a", "b"))


def test_dropping_an_unknown_index_casts_doubt_on_guessed_names_only() -> None:
    assert keys(CREATE, "ALTER TABLE `t` DROP INDEX `strange`", columns="a b c") == (BC,)


def test_a_table_older_than_the_changefeed_has_no_known_key() -> None:
    assert keys("", "ALTER TABLE `t` ADD COLUMN `b` INT", columns="a b") == ()
    assert keys("", "ALTER TABLE `t` ADD UNIQUE `u`(`b`)", columns="a b") == (("b",),)
    assert Shape().unique_keys(()) == ()


def test_like_takes_the_keys_that_the_source_had_then() -> None:
    later = history("ALTER TABLE `s` ADD UNIQUE `k`(`c`)", columns="a b c", table="s", first=4)
    source = history(CREATE.replace("`t`", "`s`"), columns="a b c", table="s") + later
    copy = history("CREATE TABLE `t` LIKE `s`", "ALTER TABLE `t` DROP INDEX `a`", columns="a b c", first=2)
    assert unique_keys(copy[:1], *source) == (A, BC)
    assert unique_keys(copy, *source) == (BC,)
    assert unique_keys(source, *copy) == (A, ("c",), BC)


def test_a_rename_takes_the_keys_along() -> None:
    dropped = history("DROP TABLE `o`", columns="a b c", table="o", first=3)
    old = history(CREATE.replace("`t`", "`o`"), columns="a b c", table="o") + dropped
    new = history("RENAME TABLE `d`.`o` TO `d`.`t`", columns="a b c", first=2)
    assert unique_keys(new, *old) == (A, BC)


def test_an_old_name_that_is_not_known_gives_no_key() -> None:
    assert keys("RENAME TABLE `o` TO `d`.`t`", columns="a b c") == ()


def test_the_cost_of_names_is_linear_in_the_keys_without_one() -> None:
    """It takes less than a second; with a look at all names before for each of them, many times the bound."""
    statement = statement_of(f"CREATE TABLE `t` (`id` INT{', KEY (`id`), KEY (`ID`)' * 6000})")
    changes = index_changes(statement)
    began = time.process_time()
    made = made_indexes(changes, UNTOLD)
    assert time.process_time() - began < 5
    assert [index.known.name for index in (made[0], made[1], made[-1])] == ["id", "ID_2", "ID_12000"]
