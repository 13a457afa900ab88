"""Signs that a storage does not hold what one changefeed should have written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import DataFile, SchemaFile
from consumer.model.names import TableName
from consumer.plan.catalog import Catalog
from consumer.plan.notes import storage_notes
from tests.support.build import data_file, schema_file

PARTS = schema_file("d.t", 10, query="CREATE TABLE `t` (`id` INT PRIMARY KEY) PARTITION BY HASH (`id`) PARTITIONS 2")


def signs(schemas: list[SchemaFile], files: list[DataFile]) -> list[str]:
    return [note.text for note in storage_notes(Catalog.of(schemas), {TableName("d", "t"): files})]


def test_an_ordinary_storage_has_none() -> None:
    plain = schema_file("d.t", 10, query="CREATE TABLE `t` (`id` INT COMMENT 'PARTITION BY')")
    assert signs([plain, replace(plain, root="d/u", table="u")], [data_file(1), data_file(2)]) == []


def test_files_of_two_protocols() -> None:
    (sign,) = signs([], [data_file(1), replace(data_file(2), path="d/t/10/CDC000002.csv")])
    assert "d/t/10/CDC000002.csv, d/t/10/CDC000001.json" in sign
    assert "two changefeeds" in sign


def test_two_schema_files_of_one_version() -> None:
    other = replace(
        schema_file("d.t", 10, query="DROP TABLE `t`"), checksum=2, path="d/t/meta/schema_10_0000000002.json"
    )
    (sign,) = signs([schema_file("d.t", 10), other], [])
    assert "d/t/meta/schema_10_0000000001.json" in sign
    assert "d/t/meta/schema_10_0000000002.json" in sign


def test_partitions_that_share_a_counter() -> None:
    (sign,) = signs([PARTS], [data_file(1)])
    assert "d.t is partitioned" in sign
    assert "enable-partition-separator" in sign


@pytest.mark.parametrize(
    ("schemas", "file"),
    [
        ([PARTS], data_file(1, partition="104")),
        ([PARTS], data_file(1, dispatcher="123")),
        (
            [PARTS, schema_file("d.t", 20, Action.REMOVE_PARTITIONING, "ALTER TABLE `t` REMOVE PARTITIONING")],
            data_file(1),
        ),
        ([PARTS, schema_file("d.e", 11, columns=(Column("e", "ENUM", elements=("a",)),))], data_file(1)),
    ],
    ids=["a partition level", "dispatcher ids", "partitions no more", "the new architecture"],
)
def test_what_keeps_partitions_apart(schemas: list[SchemaFile], file: DataFile) -> None:
    assert signs(schemas, [file]) == []
