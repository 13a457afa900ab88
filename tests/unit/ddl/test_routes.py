"""Statements in the target's names: each table and database that their texts name."""

from __future__ import annotations

import pytest

from consumer.ddl.definitions import statement_of
from consumer.ddl.resolve import routed_file, with_session
from consumer.errors import DdlRefused
from consumer.model.actions import DATABASE_ACTIONS, Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from tests.support.renamed import NAMING, PREFIX, other_name
from tests.unit.ddl.pairs import corpus

T, U, OTHER = TableName("a", "t"), TableName("a", "U"), TableName("b", "t")
ONE = Naming(lambda name: TableName("b", "u") if name == T else name)
VIEW = "CREATE VIEW `v` AS SELECT "


def file(action: Action, query: str, name: TableName = T) -> SchemaFile:
    return SchemaFile("", "", name.database, name.table, 7, 0, query, int(action), ())


def told(action: Action, query: str, name: TableName = T, old: TableName | None = None, naming: Naming = NAMING) -> str:
    found = routed_file(file(action, query, name), naming, [T, U, OTHER], old)
    assert found is not None
    assert found.name == naming.target(name)
    return found.query


@pytest.mark.parametrize(
    ("action", "query", "expected"),
    [
        (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `t` INT", "ALTER TABLE `to_a`.`to_t` ADD COLUMN `t` INT"),
        (Action.ADD_INDEX, "CREATE INDEX `t` ON `t` (`t`)", "CREATE INDEX `t` ON `to_a`.`to_t` (`t`)"),
        (Action.DROP_TABLE, "DROP TABLE `a`.`t`", "DROP TABLE `to_a`.`to_t`"),
        (Action.CREATE_TABLE, "CREATE TABLE `t` LIKE `u`", "CREATE TABLE `to_a`.`to_t` LIKE `to_a`.`to_U`"),
        (
            Action.ADD_FOREIGN_KEY,
            "ALTER TABLE `t` ADD CONSTRAINT `t` FOREIGN KEY (`t`) REFERENCES `B`.`t`(`t`)",
            "ALTER TABLE `to_a`.`to_t` ADD CONSTRAINT `t` FOREIGN KEY (`t`) REFERENCES `to_b`.`to_t`(`t`)",
        ),
        (
            Action.EXCHANGE_PARTITION,
            "ALTER TABLE `a`.`t` EXCHANGE PARTITION `t` WITH TABLE `b`.`t`",
            "ALTER TABLE `to_a`.`to_t` EXCHANGE PARTITION `t` WITH TABLE `to_b`.`to_t`",
        ),
        (
            Action.RECOVER_TABLE,
            "FLASHBACK TABLE `a`.`U` TO `t`",
            "FLASHBACK TABLE `to_a`.`to_U` TO `to_t`",
        ),
    ],
)  # fmt: skip
def test_the_tables_of_a_text(action: Action, query: str, expected: str) -> None:
    assert told(action, query) == expected


def test_a_rename_to_another_database_where_the_old_name_stands_alone() -> None:
    query = "RENAME TABLE `t` TO `a`.`t`"
    assert told(Action.RENAME_TABLE, query, old=OTHER) == "RENAME TABLE `to_b`.`to_t` TO `to_a`.`to_t`"


@pytest.mark.parametrize(
    ("action", "query", "expected"),
    [
        (Action.CREATE_TABLE, "CREATE TABLE `a`.`t` LIKE `u`", "CREATE TABLE `a`.`t` LIKE `s`.`u`"),
        (Action.CREATE_TABLE, "CREATE TABLE `t` LIKE `u`", "CREATE TABLE `t` LIKE `u`"),
        (Action.RENAME_TABLE, "RENAME TABLE `u` TO `a`.`t`", "RENAME TABLE `s`.`u` TO `a`.`t`"),
        (Action.RENAME_TABLE, "ALTER TABLE `b`.`u` RENAME TO `t`", "ALTER TABLE `b`.`u` RENAME TO `t`"),
        (Action.CREATE_VIEW, "CREATE VIEW `a`.`t` AS SELECT `x`.`i` FROM `x`,`b`.`y`",
         "CREATE VIEW `a`.`t` AS SELECT `x`.`i` FROM `s`.`x`,`b`.`y`"),
        (Action.EXCHANGE_PARTITION, "ALTER TABLE `a`.`t` EXCHANGE PARTITION `p` WITH TABLE `u`",
         "ALTER TABLE `a`.`t` EXCHANGE PARTITION `p` WITH TABLE `s`.`u`"),
        (Action.ADD_FOREIGN_KEY, "ALTER TABLE `a`.`t` ADD FOREIGN KEY (`i`) REFERENCES `u`(`i`)",
         "ALTER TABLE `a`.`t` ADD FOREIGN KEY (`i`) REFERENCES `s`.`u`(`i`)"),
        (Action.ADD_FOREIGN_KEY, "ALTER TABLE `t` ADD FOREIGN KEY (`i`) REFERENCES `u`(`i`)",
         "ALTER TABLE `t` ADD FOREIGN KEY (`i`) REFERENCES `u`(`i`)"),
    ],
)  # fmt: skip
def test_the_sessions_database_is_written_where_the_text_does_not_tell_it(
    action: Action, query: str, expected: str
) -> None:
    assert with_session(file(action, query), "s").query == expected


@pytest.mark.parametrize("query", ["CREATE DATABASE `a`", "ALTER DATABASE `a` CHARACTER SET utf8", "DROP DATABASE `a`"])
def test_a_database(query: str) -> None:
    found = routed_file(file(Action.DROP_SCHEMA, query, TableName("a", "")), NAMING, [T, U], None)
    assert found is not None
    assert (found.name, found.query) == (TableName("to_a", ""), query.replace("`a`", "`to_a`"))


def test_a_database_that_is_meant_without_its_name() -> None:
    query = "ALTER DATABASE COLLATE = utf8_bin"
    found = routed_file(file(Action.MODIFY_SCHEMA_CHARSET, query, TableName("a", "")), NAMING, [T, U], None)
    assert found is not None
    assert (found.name, found.query) == (TableName("to_a", ""), "ALTER DATABASE `to_a` COLLATE = utf8_bin")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("`t`.`id` FROM `t`", "`t`.`id` FROM `to_a`.`to_t` AS `t`"),
        ("`a`.`t`.`id` FROM `a`.`t` WHERE 1", "`to_a`.`t`.`id` FROM `to_a`.`to_t` AS `t` WHERE 1"),
        ("`t`.* FROM `b`.`t` AS `t`", "`t`.* FROM `to_b`.`to_t` AS `t`"),
        (
            "1 FROM `t` JOIN `b`.`t` ON `a`.`t`.`id`=`b`.`t`.`id`",
            "1 FROM `to_a`.`to_t` AS `t` JOIN `to_b`.`to_t` AS `t` ON `to_a`.`t`.`id`=`to_b`.`t`.`id`",
        ),
    ],
)  # fmt: skip
def test_a_views_columns_keep_their_tables_names(body: str, expected: str) -> None:
    own = TableName("a", "v")
    assert told(Action.CREATE_VIEW, VIEW + body, own) == f"CREATE VIEW `to_a`.`to_v` AS SELECT {expected}"


def test_a_statement_in_which_nothing_has_another_name_stays_as_it_is() -> None:
    query = "ALTER TABLE `U` ADD COLUMN `c` INT"
    assert routed_file(file(Action.ADD_COLUMN, query, U), SAME, [U], None) is None
    assert routed_file(file(Action.ADD_COLUMN, query, U), ONE, [T, U], None) is None


def test_another_table_alone_has_another_name() -> None:
    found = told(Action.CREATE_TABLE, "CREATE TABLE `n` LIKE `t`", TableName("a", "n"), naming=ONE)
    assert found == "CREATE TABLE `a`.`n` LIKE `b`.`u`"


@pytest.mark.parametrize(
    ("action", "query", "name"),
    [
        (Action.DROP_SCHEMA, "DROP DATABASE `a`", TableName("a", "")),
        (Action.CREATE_VIEW, VIEW + "1 FROM `t` PARTITION (`p`) AS `x`", TableName("a", "v")),
        (Action.CREATE_TABLE, "CREATE TABLE `a`.`t` LIKE `nowhere`", T),
        (Action.RECOVER_TABLE, "FLASHBACK TABLE `a`.`U` TO `t`", T),
        (Action.RECOVER_TABLE, "RECOVER TABLE BY JOB 53", T),
    ],
)
def test_what_cannot_be_said_in_the_targets_names_is_refused(action: Action, query: str, name: TableName) -> None:
    with pytest.raises(DdlRefused):
        routed_file(file(action, query, name), ONE, [T, U], None)


def test_every_table_of_a_real_changefeeds_statements_is_the_targets() -> None:
    written = corpus()
    tables = {one.name for one in written if one.name.table}
    for one in written:
        here = [name for name in tables if one.type not in DATABASE_ACTIONS or name.database == one.name.database]
        typed = with_session(file(Action(one.type), one.query, one.name), "x2")
        found = routed_file(typed, NAMING, here, None)
        assert found is not None
        assert found.name == other_name(one.name)
        names = statement_of(found.query).references
        assert all(name.table.startswith(PREFIX) for name in names), found.query
        assert all((name.database or PREFIX).startswith(PREFIX) for name in names), found.query
        assert len(names) == len(statement_of(one.query).references)
