"""Which columns CSV rows have, by what statements, schema files and the target know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.codec.csv.protocol import csv_layouts
from consumer.errors import CannotBeExact
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect, LoadTarget, TableLoad
from consumer.model.names import TableName
from tests.support.build import ID, schema_file
from tests.support.catalogs import catalog_of

G, S, E = Column("g", "INT"), Column("s", "INT"), Column("e", "ENUM")
HIDDEN = Column("_V$_expression_index_0", "VAR_STRING")
TARGET = LoadTarget(TableLoad(TableName("d", "t")), (ID,), ("id",), (0,))
CREATE = (
    "CREATE TABLE `t` (`id` INT PRIMARY KEY,`g` INT GENERATED ALWAYS AS (1) VIRTUAL,"
    "`s` INT GENERATED ALWAYS AS (1) STORED,`e` ENUM('x','y'),INDEX ((`id`+1)))"
)
CREATED = schema_file("d.t", 10, query=CREATE, columns=(ID, G, S, E, HIDDEN))


def layout(schema: SchemaFile, target: LoadTarget = TARGET) -> list[str]:
    (found,) = csv_layouts([schema], catalog_of([schema]).declared, target, Dialect("csv"))
    return [column.name for column in found]


def test_statements_tell_virtual_columns_and_labels() -> None:
    (found,) = csv_layouts([CREATED], catalog_of([CREATED]).declared, TARGET, Dialect("csv"))
    assert found == (ID, S, replace(E, elements=("x", "y")))


def test_a_folder_has_the_columns_of_its_own_version() -> None:
    altered = schema_file(
        "d.t", 20, Action.MULTI_SCHEMA_CHANGE, "ALTER TABLE `t` DROP COLUMN `g`, ADD COLUMN `g` INT", (ID, S, E, G)
    )
    found = csv_layouts([altered, CREATED], catalog_of([CREATED, altered]).declared, TARGET, Dialect("csv"))
    assert [[column.name for column in columns] for columns in found] == [["id", "s", "e", "g"], ["id", "s", "e"]]


def test_a_renamed_table_keeps_what_its_statements_told_under_the_old_name() -> None:
    renamed = schema_file("d.u", 20, Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `d`.`u`", CREATED.columns)
    catalog = catalog_of([CREATED, renamed])
    (found,) = csv_layouts([renamed], catalog.declared, TARGET, Dialect("csv"))
    assert [column.name for column in found] == ["id", "s", "e"]


def test_the_target_is_asked_only_where_no_statement_told() -> None:
    older = schema_file("d.t", 10, query="", columns=(ID, G, S))
    assert layout(older) == ["id", "g", "s"]
    assert layout(older, target=replace(TARGET, virtual=("G",))) == ["id", "s"]
    assert layout(CREATED, target=replace(TARGET, virtual=("s",))) == ["id", "s", "e"]


def test_labels_come_from_the_target_the_schema_file_or_a_statement_or_the_table_stops() -> None:
    target = replace(TARGET, columns=(ID, E), names=("id", "e"))
    older = schema_file("d.t", 10, query="", columns=(ID, E))
    with pytest.raises(CannotBeExact, match="labels of column e, of type ENUM"):
        layout(older, target=target)
    assert layout(replace(older, columns=(ID, replace(E, elements=("x",)))), target=target) == ["id", "e"]
    assert layout(older, target=replace(target, columns=(ID, replace(E, elements=("x",))))) == ["id", "e"]
    assert layout(CREATED, target=target) == ["id", "s", "e"]


def test_a_table_with_no_key_needs_old_values() -> None:
    target = replace(TARGET, key=())
    with pytest.raises(CannotBeExact, match="what an updated row was"):
        layout(CREATED, target=target)
    assert csv_layouts(
        [CREATED], catalog_of([CREATED]).declared, target, Dialect("csv", options=CsvFormat(output_old_value=True))
    )
