"""What the schema files of a listing tell together."""

from __future__ import annotations

import time

from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.plan.catalog import Catalog
from tests.support.build import ID, VALUE


def schema(version: int, *columns: Column, checksum: int = 1, root: str = "d/t") -> SchemaFile:
    path = f"{root}/meta/schema_{version}_{checksum:010}.json"
    return SchemaFile(path, root, "d", "t", version, checksum, "ALTER TABLE t", 12, columns)


def test_columns_in_another_order_than_in_an_earlier_file_of_the_table_are_told() -> None:
    files = [
        schema(1, ID, VALUE),
        schema(2, ID, VALUE),
        schema(3, VALUE, ID),
        schema(4, ID, VALUE),
        schema(5, ID, checksum=2),
        schema(6, VALUE, ID, root="d/u"),
    ]
    catalog = Catalog.of(files)
    assert [file.version for file in files if catalog.reordered(file)] == [3, 4]


def test_a_history_of_many_statements_is_gone_through_once() -> None:
    columns = tuple(Column(f"c{n}", "INT") for n in range(40))
    files = [schema(n, *(Column(column.name, "INT") for column in columns)) for n in range(2000)]
    catalog = Catalog.of(files)
    started = time.process_time()
    for _ in range(5):
        assert not any(catalog.reordered(file) for file in files)
    assert time.process_time() - started < 10
