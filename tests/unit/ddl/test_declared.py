"""What statements declare of columns, over a table's whole history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC

import pytest

from consumer.ddl.changes import statement_changes
from consumer.ddl.declared import Definition, NoExactValue, backfill_text
from consumer.ddl.declared import declared_definitions as declared_by
from consumer.ddl.definitions import statement_of
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.verify.known import ColumnOrigins, upstream_value_rules
from tests.support.build import schema_file
from tests.support.catalogs import catalog_of

CREATE = (
    "CREATE TABLE `t` (`id` INT PRIMARY KEY,`e` ENUM('a','it''s','c ') NOT NULL,`v` INT GENERATED ALWAYS AS (`id`+1) "
    "VIRTUAL,`s` INT GENERATED ALWAYS AS (`id`+2) STORED,`k` INT AS (`id`) COMMENT 'STORED')"
)


def declared(*files: SchemaFile, table: str = "d.t") -> Mapping[str, Definition]:
    own = [file for file in files if str(file.name) == table]
    return catalog_of(files).declared(own[-1])


def virtual(*files: SchemaFile, table: str = "d.t") -> set[str]:
    return {name for name, column in declared(*files, table=table).items() if column.virtual}


def test_a_create_tells_virtual_columns_and_labels() -> None:
    found = declared(schema_file("d.t", 1, query=CREATE))
    assert {name for name, column in found.items() if column.virtual} == {"v", "k"}
    assert found["e"].elements == ("a", "it's", "c")


def test_names_of_columns_are_the_same_without_case() -> None:
    files = [
        schema_file("d.t", 1, query="CREATE TABLE `t` (`id` INT PRIMARY KEY, `ΑΣ` ENUM('a'), `N` INT)"),
        schema_file("d.t", 2, Action.MULTI_SCHEMA_CHANGE, "ALTER TABLE `t` RENAME COLUMN `ασ` TO `x`, DROP COLUMN `n`"),
    ]
    assert set(declared(files[0])) == {"id", "ασ", "n"}, "each character is lowered by itself, as TiDB does"
    assert declared(*files)["x"].elements == ("a",)
    assert set(declared(*files)) == {"id", "x"}


def test_what_no_statement_declared_is_not_known() -> None:
    added = schema_file("d.t", 5, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `n` INT")
    assert set(declared(schema_file("d.t", 1, query=""), added)) == {"n"}


def test_alters_move_drop_and_replace_what_was_declared() -> None:
    files = [
        schema_file("d.t", 1, query=CREATE),
        schema_file("d.t", 2, Action.MULTI_SCHEMA_CHANGE, "ALTER TABLE `t` RENAME COLUMN `v` TO `w`, DROP COLUMN `k`"),
        schema_file("d.t", 3, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `e` ENUM('a','b')"),
        schema_file("d.t", 4, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN (`v` INT, `x` INT AS (`id`))"),
    ]
    assert virtual(*files) == {"w", "x"}
    assert declared(*files)["e"].elements == ("a", "b")
    assert not declared(*files)["v"].virtual


def test_copies_and_new_names_keep_what_their_source_had_then() -> None:
    files = [
        schema_file("d.t", 1, query=CREATE),
        schema_file("d.copy", 2, query="CREATE TABLE `copy` LIKE `t`"),
        schema_file("d.t", 3, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `k`"),
        schema_file("o.new", 4, Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `o`.`new`"),
    ]
    assert virtual(*files, table="d.copy") == {"v", "k"}
    assert virtual(*files, table="o.new") == {"v"}


def test_a_table_created_anew_knows_nothing_of_the_dropped_one() -> None:
    files = [
        schema_file("d.t", 1, query=CREATE),
        schema_file("d.t", 2, Action.DROP_TABLE, "DROP TABLE `d`.`t`"),
        schema_file("d.t", 3, query="CREATE TABLE `t` (`id` INT,`v` INT)"),
    ]
    assert virtual(*files) == set()


def test_a_column_that_is_dropped_and_added_has_no_old_name() -> None:
    query = "ALTER TABLE `t` DROP COLUMN `A`, ADD COLUMN `a` INT, RENAME COLUMN `b` TO `C`"
    said = statement_changes(schema_file("d.t", 1, Action.MULTI_SCHEMA_CHANGE, query)).columns
    assert [said.old_name(name) for name in ("A", "c", "D")] == [None, "b", "d"]


def test_a_column_that_gets_the_name_of_one_to_be_added_where_there_is_none_is_that_one() -> None:
    said = statement_changes(
        schema_file("d.t", 5, query="ALTER TABLE `t` CHANGE COLUMN `w` `k` INT, ADD COLUMN IF NOT EXISTS `K` INT")
    ).columns
    assert (said.old_name("k"), said.added) == ("w", frozenset())


def test_a_column_that_was_there_is_not_added() -> None:
    query = (
        "ALTER TABLE `t` ADD COLUMN IF NOT EXISTS `A` ENUM('x'), ADD COLUMN IF NOT EXISTS `n` INT, DROP COLUMN `b`,"
        " ADD COLUMN `b` INT, RENAME COLUMN `c` TO `d`, ADD COLUMN `c` INT"
    )
    said = statement_changes(schema_file("d.t", 1, Action.MULTI_SCHEMA_CHANGE, query)).columns
    found = said.beside(["a", "B", "C"])
    assert [found.old_name(name) for name in ("A", "n", "b", "c", "d")] == ["a", None, None, None, "c"]
    assert set(found.columns) == {"n", "b", "c"}
    known = Definition(elements=("y",))
    assert said.after({"a": known})["a"] == known


def test_a_column_that_is_added_without_a_condition_was_not_there() -> None:
    """Where one of its name is known, a statement that dropped it was filtered out: its values are gone upstream."""
    said = statement_changes(schema_file("d.t", 1, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `a` INT")).columns
    assert said.beside(["id", "a"]).old_name("a") is None


@pytest.mark.parametrize(
    ("query", "before", "after", "unnamed"),
    [
        ("CREATE TABLE `t` (`A` INT)", None, "a _tidb_h", "_tidb_h"),
        ("CREATE TABLE `t` (`a` INT,KEY((`a`+1)))", None, "a _V$_i_0", ""),
        ("CREATE TABLE `t` (`a` INT)", None, "a _tidb_h _tidb_d!", "_tidb_h"),
        ("CREATE TABLE `t` (`a` INT,`_tidb_h` INT)", None, "a _tidb_h", ""),
        ("ALTER TABLE `t` ADD COLUMN `b` INT", "a", "a b _TIDB_h", "_TIDB_h"),
        ("ALTER TABLE `t` ADD COLUMN `_tidb_h` INT", "a", "a _tidb_h", ""),
        ("ALTER TABLE `t` RENAME COLUMN `a` TO `b`, DROP COLUMN `c`", "a c _tidb_h", "b _tidb_h", ""),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`)", "a", "a _tidb_h", "_tidb_h"),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`)", "a", "a z", ""),
        ("ALTER TABLE `t` ADD INDEX `i`(`a`)", "a", "a z _tidb_h", "_tidb_h"),
    ],
)
def test_hidden_columns_that_tidb_makes_beside_those_that_the_statement_names(
    query: str, before: str | None, after: str, unnamed: str
) -> None:
    """Any other, and one with a ! (it has a default), is of a statement that is not in the storage."""

    def columns(names: str) -> list[Column]:
        return [Column(name.rstrip("!"), "INT", default="1" if name.endswith("!") else None) for name in names.split()]

    found = declared_by(statement_of(query)).unnamed(None if before is None else columns(before), columns(after))
    assert [column.name for column in found] == unnamed.split()


WITHOUT_DEFAULTS = {
    "an integer": ("INT", "-5", "-5"),
    "a number in quotes": ("INT", "'5'", "5"),
    "a text": ("VARCHAR", "'it''s'", "it's"),
    "an empty text": ("VARCHAR", "''", ""),
    "a label": ("ENUM", "'b'", "b"),
    "nothing": ("INT", "NULL", None),
    "a number with a fraction": ("DECIMAL", "1.50", NoExactValue),
    "bits": ("BIT", "b'101'", NoExactValue),
    "a moment in some zone": ("TIMESTAMP", "'2024-01-01 00:00:00'", NoExactValue),
    "an expression": ("VARCHAR", "(UUID())", NoExactValue),
}
"""A column's type, its default in the statement, and the value that upstream's older rows have."""


@pytest.mark.parametrize(
    ("default", "value"), [("1.5", "1.500"), ("-2", "-2.000"), ("0.125", "0.125"), (None, "0.000")]
)
def test_older_rows_have_all_digits_of_a_decimal(default: str | None, value: str) -> None:
    """Where the target has a text for it, how it is written counts."""
    column = Column("n", "DECIMAL", length=65, scale=3, default=default, nullable=default is not None)
    assert backfill_text(column, Definition(), 2, UTC) == value


@pytest.mark.parametrize(("type_", "written", "value"), WITHOUT_DEFAULTS.values(), ids=list(WITHOUT_DEFAULTS))
def test_a_default_that_the_schema_file_of_an_old_release_does_not_have(
    type_: str, written: str, value: str | type[NoExactValue] | None
) -> None:
    """TiCDC writes ColumnDefault since v6.5.3 and v7.1.1."""
    columns = (
        Column("id", "INT", nullable=False, is_pk=True),
        Column("n", type_, elements=("a", "b") * (type_ == "ENUM")),
    )
    labels = "ENUM('a','b')" if type_ == "ENUM" else type_
    file = schema_file("d.t", 2, query=f"ALTER TABLE `t` ADD COLUMN `n` {labels} DEFAULT {written}", columns=columns)
    definition = statement_changes(file).columns.columns["n"]
    known = ColumnOrigins(("id", "n"), ((), ())).before(file, columns[:1], upstream_value_rules(UTC))
    read = {1: "2" if type_ == "ENUM" else value}
    assert known.added == ({} if value is NoExactValue else read), "who reads the history knows the same"
    if value is NoExactValue:
        with pytest.raises(NoExactValue, match=r"do not have|upstream computed"):
            backfill_text(columns[1], definition, 2, UTC)
    else:
        assert backfill_text(columns[1], definition, 2, UTC) == value
