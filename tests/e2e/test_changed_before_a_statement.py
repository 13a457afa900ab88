"""CSV without commit-ts: a file that is another one than was read, and lies in front of a statement that has run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.errors import CannotBeExact
from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.support import csv_rows
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import COLUMNS, FORMS, TABLE, Storage
from tests.support.observers import Recorder

PARTITIONED = (
    "CREATE TABLE `t` (`id` INT PRIMARY KEY NOT NULL, `v` INT, `s` VARCHAR(8)) PARTITION BY RANGE (`id`)"
    " (PARTITION `p0` VALUES LESS THAN (3), PARTITION `p1` VALUES LESS THAN (MAXVALUE))"
)
WITH_ONE_MORE = (*COLUMNS, Column("n", "INT"))
TAKES = (Action.DROP_PARTITION, "ALTER TABLE `t` DROP PARTITION `p0`", COLUMNS)
ADDS = (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `n` INT", WITH_ONE_MORE)
INDEX = (Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i`(`v`)", COLUMNS)


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setitem(FORMS, "csv", CsvFormat(include_commit_ts=False))
    storage = Storage(tmp_path, "csv")
    storage.feed.statement("d.t", 2, Action.CREATE_TABLE, PARTITIONED, COLUMNS)
    return storage


def ids(target: str) -> list[int]:
    with duckdb.connect(target.removeprefix("duckdb:///"), read_only=True) as connection:
        return [key for (key,) in connection.execute("SELECT id FROM d.t ORDER BY id").fetchall()]


@pytest.mark.parametrize(
    ("statement", "left"),
    [(TAKES, [3, 5]), (ADDS, [1, 3, 5]), (INDEX, [1, 3, 5])],
    ids=["takes rows", "column", "index"],
)
def test_its_rows_do_not_come_behind_the_statement(
    storage: Storage, tmp_path: Path, statement: tuple[Action, str, Sequence[Column]], left: list[int]
) -> None:
    target = f"duckdb:///{tmp_path}/replica.duckdb"
    action, query, columns = statement
    file = storage.file(storage.line((10, "1", "1", "a")), storage.line((10, "3", "1", "a")))
    assert storage.once(target, 15, on_bad_row="stop").exit_code == 0
    storage.feed.statement("d.t", 20, action, query, tuple(columns))
    assert storage.csv is not None
    storage.file(csv_rows.record("I", ["5", "1", "a", "4"][: len(columns)], columns, storage.csv), version=20)
    assert storage.once(target, 30, on_bad_row="stop").exit_code == 0
    path = storage.feed.folder / file
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"b"'))
    for checkpoint in (40, 50):
        storage.once(target, checkpoint, on_bad_row="stop")
        assert ids(target) == left
        error = storage.stopped()
        assert isinstance(error, CannotBeExact) == (action is not Action.ADD_INDEX)
        assert error is None or "version 20" in error.message
    if error is not None:
        app.resync(storage.settings(target, on_bad_row="stop"), Recorder(), TABLE, InlineLoader())
    assert storage.once(target, 60, on_bad_row="stop").exit_code == 0
    assert ids(target) == left
