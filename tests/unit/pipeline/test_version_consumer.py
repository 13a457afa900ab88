"""A planned load -> what executors read."""

from __future__ import annotations

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import DataFile, Folder, SchemaFile
from consumer.model.load import Dialect, LoadTarget, TableLoad
from consumer.model.names import TableName
from consumer.model.steps import LoadRows, PlannedFile, Window
from consumer.model.table_rules import TableRules
from consumer.pipeline.version_consumer import SLICE_BYTES, TableVersionConsumer
from tests.support.catalogs import catalog_of

TABLE = TableName("d", "t")
COLUMNS = (Column("id", "INT", nullable=False, is_pk=True), Column("a", "INT"), Column("b", "INT"))
REORDERED = (COLUMNS[0], COLUMNS[2], COLUMNS[1])
CSV = CsvFormat(include_commit_ts=True)
HEADED = CsvFormat(include_commit_ts=True, output_field_header=True)
WINDOW = Window(10, 90)
RULES = TableRules(lambda name: True)


def schema(version: int, columns: tuple[Column, ...], query: str, action: Action) -> SchemaFile:
    path = f"d/t/meta/schema_{version}_0000000001.json"
    return SchemaFile(path, "d/t", "d", "t", version, 1, query, int(action), columns)


def windows(dialect: Dialect, query: str = "ALTER TABLE t MODIFY b INT AFTER id") -> list[Window]:
    """Of the files in the folders of a CREATE at 5 and of a later statement at 50."""
    catalog = catalog_of(
        [
            schema(5, COLUMNS, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", Action.CREATE_TABLE),
            schema(
                50, COLUMNS if "TRUNCATE" in query else REORDERED, query, Action.MODIFY_COLUMN if query else Action.NONE
            ),
        ]
    )
    files = [DataFile(Folder("d/t", version), 1, f"d/t/{version}/CDC1.csv", 9, "") for version in (5, 50)]
    load = LoadRows(TABLE, WINDOW, tuple(PlannedFile(file, 0, n, WINDOW, WINDOW) for n, file in enumerate(files)))
    target = LoadTarget(TableLoad(TABLE), REORDERED, tuple(column.name for column in REORDERED), (0,))
    return [piece.exact for piece in TableVersionConsumer(load, catalog, dialect, RULES).task(0, target, None).slices]


def test_rows_older_than_their_folders_statement_are_not_read_by_position() -> None:
    assert windows(Dialect("csv", options=CSV)) == [WINDOW, Window(50, 90)]


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        (Dialect(), "ALTER TABLE t MODIFY b INT AFTER id"),
        (Dialect("csv", options=HEADED), "ALTER TABLE t MODIFY b INT AFTER id"),
        (Dialect("csv", options=CSV), ""),
        (Dialect("csv", options=CSV), "TRUNCATE TABLE t"),
    ],
)
def test_all_other_rows_are_read_wherever_they_lie(dialect: Dialect, query: str) -> None:
    assert windows(dialect, query) == [WINDOW, WINDOW]


@pytest.mark.parametrize(
    ("size", "count"),
    [
        pytest.param(0, 1, id="empty"),
        pytest.param(SLICE_BYTES + SLICE_BYTES // 4, 1, id="not much larger than a slice"),
        pytest.param((64 << 20) + 700, 2, id="a full file of TiCDC's"),
        pytest.param(10 * SLICE_BYTES, 8, id="larger"),
    ],
)
def test_a_file_is_cut_into_equal_slices(size: int, count: int) -> None:
    created = schema(5, COLUMNS, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", Action.CREATE_TABLE)
    file = DataFile(Folder("d/t", 5), 1, "d/t/5/CDC1.json", size, "")
    load = LoadRows(TABLE, WINDOW, (PlannedFile(file, 0, 1, WINDOW, WINDOW),))
    target = LoadTarget(TableLoad(TABLE), COLUMNS, tuple(column.name for column in COLUMNS), (0,))
    slices = TableVersionConsumer(load, catalog_of([created]), Dialect(), RULES).task(0, target, None).slices
    lengths = [piece.length for piece in slices]
    assert [piece.offset for piece in slices] == [sum(lengths[:number]) for number in range(len(slices))]
    assert sum(lengths) == size
    assert len(slices) == count
    assert max(lengths) - min(lengths) < count
