"""What a table is made of, over any number of renames and copies."""

from __future__ import annotations

import time

import pytest

from consumer.ddl.changes import Fate, TableState
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Listing, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from tests.support.build import schema_file

COLUMNS = (Column("id", "INT", nullable=False), Column("v", "INT", nullable=False))
CREATE = "CREATE TABLE `{}` (`id` INT NOT NULL,`v` INT NOT NULL,UNIQUE KEY `u`(`v`))"
RENAMES = 5000


def created(table: str, version: int) -> SchemaFile:
    return schema_file(f"d.{table}", version, Action.CREATE_TABLE, CREATE.format(table), COLUMNS)


def renamed(old: str, new: str, version: int) -> SchemaFile:
    query = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    return schema_file(f"d.{new}", version, Action.RENAME_TABLE, query, COLUMNS)


def there_and_back(count: int) -> list[SchemaFile]:
    names = ("a", "b")
    moves = [renamed(names[at % 2], names[1 - at % 2], 11 + at) for at in range(count)]
    return [created("a", 10), *moves]


def catalog(schemas: list[SchemaFile]) -> Catalog:
    return Assembly.of(Listing(10**6, schemas, {}), Progress(), lambda name: True).catalog


def keys(found: Catalog, table: str, until: int = 10**6) -> tuple[tuple[str, ...], ...]:
    history = [file for file in found.by_table[TableName("d", table)] if file.version <= until]
    return found.shape(history[-1]).unique_keys(history[-1].columns)


def test_a_table_renamed_thousands_of_times_is_still_what_its_create_made_it() -> None:
    began = time.process_time()
    found = catalog(there_and_back(RENAMES))
    assert keys(found, "a") == keys(found, "b") == (("v",),)
    assert time.process_time() - began < 20


def test_what_each_rename_moved_is_told_whatever_was_asked_before() -> None:
    dropped = schema_file("d.a", 13, Action.DROP_INDEX, "ALTER TABLE `a` DROP INDEX `u`", COLUMNS)
    copied = schema_file("d.c", 12, Action.CREATE_TABLE, "CREATE TABLE `c` LIKE `b`", COLUMNS)
    schemas = [created("a", 10), renamed("a", "b", 11), copied, renamed("b", "a", 12), dropped, renamed("a", "b", 14)]
    for order in (("a", "b", "c"), ("b", "c", "a"), ("c", "b", "a")):
        found = catalog(schemas)
        answers = {table: keys(found, table) for table in order}
        assert answers == {"a": (), "b": (), "c": (("v",),)}
        assert (keys(found, "b", until=13), keys(found, "a", until=12)) == ((("v",),), (("v",),))


def test_a_table_that_changes_names_with_one_that_no_statement_made_takes_its_keys_along() -> None:
    older = schema_file("d.b", 11, Action.NONE, "", COLUMNS)
    found = catalog([created("a", 10), older, renamed("a", "b", 12), renamed("b", "a", 12)])
    assert (keys(found, "a"), keys(found, "b")) == ((), (("v",),))


def test_the_keys_of_a_table_are_found_without_going_through_its_partitions() -> None:
    def alter(number: int) -> SchemaFile:
        query = f"ALTER TABLE `a` ADD PARTITION (PARTITION `p{number}` VALUES LESS THAN ({number}))"
        return schema_file("d.a", 10 + number, Action.ADD_PARTITION, query, COLUMNS)

    partitions = " PARTITION BY RANGE (`v`) (PARTITION `p0` VALUES LESS THAN (0))"
    first = schema_file("d.a", 10, Action.CREATE_TABLE, CREATE.format("a") + partitions, COLUMNS)
    found = catalog([first, *map(alter, range(1, 3000))])
    began = time.process_time()
    assert keys(found, "a") == (("v",),)
    assert time.process_time() - began < 4


@pytest.mark.parametrize(("text", "known"), [("`d`.`c` LIKE `b`", False), ("`c` LIKE `b`", True)])
def test_the_unique_keys_of_a_copy_whose_source_is_not_told_in_full_are_not_known(text: str, known: bool) -> None:
    made = TableState(
        schema_file("d.b", 1, Action.CREATE_TABLE, "CREATE TABLE `b` (`id` INT, UNIQUE `u`(`id`))"), Fate()
    )
    shape = TableState(
        schema_file("d.c", 2, Action.CREATE_TABLE, f"CREATE TABLE {text}"), Fate(), made, copy=True
    ).shape()
    assert shape.known_unique_columns == ({frozenset({"id"})} if known else set())
