"""Whose partitioning is known when the schema files are walked: over renames, LIKE and names used again."""

from __future__ import annotations

import pytest

from consumer.model.actions import Action
from consumer.model.files import SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.plan.catalog import Catalog
from consumer.plan.ddl_step import ddl_step
from consumer.plan.timeline import build_timeline
from tests.support.build import schema_file

HASH = "CREATE TABLE `t` (`id` INT) PARTITION BY HASH (`id`) PARTITIONS"
BY_TEXT = "CREATE TABLE `t` (`s` VARCHAR(9)) PARTITION BY LIST COLUMNS (`s`) (PARTITION `p` VALUES IN ('a'))"
RENAME = "RENAME TABLE `d`.`{}` TO `d`.`{}`"


def table(name: str, version: int, query: str, action: int = Action.CREATE_TABLE) -> SchemaFile:
    return schema_file(name, version, action, query)


def rename(old: str, new: str, version: int) -> SchemaFile:
    return table(f"d.{new}", version, RENAME.format(old, new), Action.RENAME_TABLE)


def known(name: str, *files: SchemaFile) -> int | None:
    """How many partitions a TRUNCATE PARTITION behind `files` finds, None where that is not known."""
    text = f"ALTER TABLE `{name.partition('.')[2]}` TRUNCATE PARTITION `p0`"
    truncate = table(name, 90, text, Action.TRUNCATE_PARTITION)
    timeline = build_timeline(Catalog.of([*files, truncate]), Progress(), 100, lambda name: True)
    (statement,) = (statement for statement in timeline.pending if statement.version == 90)
    assert ddl_step(statement).table_before == statement.table_before
    partitioning = statement.table_before.partitioning
    return None if partitioning is None else len(partitioning.partitions)


CREATED = [table("d.a", 10, f"{HASH} 2"), table("d.b", 11, f"{HASH} 3")]
ADDED = table("d.a", 20, "ALTER TABLE `a` ADD PARTITION PARTITIONS 5", Action.REORGANIZE_PARTITION)
DROPPED = table("d.a", 20, "DROP TABLE `d`.`a`", Action.DROP_TABLE)
LIKE = "CREATE TABLE {} LIKE {}"


@pytest.mark.parametrize(
    ("name", "files", "wanted"),
    [
        ("d.a", CREATED, 2),
        ("d.c", CREATED, None),
        ("d.a", [*CREATED, ADDED], 7),
        ("d.c", [*CREATED, rename("a", "c", 20)], 2),
        ("d.a", [*CREATED, rename("a", "x", 20), rename("b", "a", 21), rename("x", "b", 22)], 3),
        ("d.b", [*CREATED, rename("a", "b", 20), rename("b", "c", 20)], 2),
        ("d.a", [*CREATED, rename("a", "b", 20), rename("b", "a", 20)], 3),
        ("d.a", [*CREATED, DROPPED, table("d.a", 21, f"{HASH} 4")], 4),
        ("d.a", [*CREATED, DROPPED], None),
        ("d.a", [*CREATED, schema_file("d", 20, Action.DROP_SCHEMA, "DROP DATABASE `d`")], None),
        ("d.c", [*CREATED, table("d.c", 20, LIKE.format("`c`", "`B`"))], 3),
        ("e.c", [*CREATED, table("e.c", 20, LIKE.format("`e`.`c`", "`d`.`b`"))], 3),
        ("d.c", [*CREATED, table("d.c", 20, LIKE.format("`d`.`c`", "`b`"))], 3),
        ("d.c", [*CREATED, table("e.b", 12, f"{HASH} 3"), table("d.c", 20, LIKE.format("`d`.`c`", "`b`"))], 3),
        ("d.c", [*CREATED, table("e.b", 12, f"{HASH} 4"), table("d.c", 20, LIKE.format("`d`.`c`", "`b`"))], None),
        ("d.c", [*CREATED, table("d.c", 20, LIKE.format("`c`", "`older`"))], None),
    ],
)  # fmt: skip
def test_the_partitioning_follows_the_table(name: str, files: list[SchemaFile], wanted: int | None) -> None:
    assert known(name, *files) == wanted


@pytest.mark.parametrize(
    ("database", "wanted"),
    [
        ([], None),
        (["CREATE DATABASE `d`"], "utf8mb4_bin"),
        (["CREATE DATABASE `d` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_general_ci"], "utf8mb4_general_ci"),
        (["CREATE DATABASE `d`", "ALTER DATABASE `d` COLLATE = utf8mb4_unicode_ci"], "utf8mb4_unicode_ci"),
    ],
)
def test_text_is_compared_as_its_database_says(database: list[str], wanted: str | None) -> None:
    actions = (Action.CREATE_SCHEMA, Action.MODIFY_SCHEMA_CHARSET)
    files = [
        schema_file("d", at, action, query)
        for at, (query, action) in enumerate(zip(database, actions, strict=False), start=1)
    ]
    truncate = table("d.t", 90, "ALTER TABLE `t` TRUNCATE PARTITION `p`", Action.TRUNCATE_PARTITION)
    timeline = build_timeline(
        Catalog.of([*files, table("d.t", 10, BY_TEXT), truncate]), Progress(), 100, lambda name: True
    )
    partitioning = timeline.pending[-1].table_before.partitioning
    assert timeline.pending[-1].file.name == TableName("d", "t")
    assert partitioning is not None
    assert dict(partitioning.collations).get("s") == wanted
