"""What a hand can do to a target that `verify` must not take for the storage's rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import TableCheck
from consumer.model.columns import Column
from consumer.sink.mysql.rows import compare
from tests.servers import SqlServer
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

KEY = Column("k", "VARCHAR", length=9, nullable=False, is_pk=True)
JSON = Column("j", "JSON")


def fed(folder: Path, body: str, columns: tuple[Column, ...], *rows: Mapping[str, str]) -> Feed:
    feed = Feed(folder / "storage")
    feed.database("d", 5)
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` ({body})", columns)
    for row in rows:
        feed.file("d.t", 10, typed_line(columns, 20, row))
    feed.checkpoint(30)
    return feed


def verified(feed: Feed, target: str, buckets: int = 1) -> TableCheck:
    settings = Replica(feed, target).settings()
    (check,) = app.verify(settings, Recorder(), loader=InlineLoader(buckets)).tables
    return check


def applied(feed: Feed, target: str) -> None:
    assert Replica(feed, target).once().exit_code == 0
    assert verified(feed, target).state == "equal"


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_key_that_is_null_is_no_empty_text(tmp_path: Path, buckets: int) -> None:
    feed = fed(tmp_path, "`k` VARCHAR(9) PRIMARY KEY", (KEY,), {"k": ""}, {"k": "a"})
    file = tmp_path / "replica.duckdb"
    applied(feed, f"duckdb:///{file}")
    with duckdb.connect(str(file)) as connection:
        connection.execute("UPDATE d.t SET k = NULL WHERE k = ''")
    check = verified(feed, f"duckdb:///{file}", buckets)
    shown = sorted((row.kind, row.key) for row in check.counted.shown)
    assert shown == [("extra", (("k", None),)), ("missing", (("k", ""),))]


def test_a_key_that_is_null_is_in_the_first_range(
    fresh_mariadb: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = fed(tmp_path, "`k` VARCHAR(9) NOT NULL, UNIQUE KEY `k` (`k`)", (KEY,), *({"k": str(n)} for n in range(9)))
    monkeypatch.setattr(compare, "RANGE_ROWS", 3)
    applied(feed, fresh_mariadb.url())
    fresh_mariadb.execute("ALTER TABLE d.t MODIFY k VARCHAR(9) NULL", "INSERT INTO d.t VALUES (NULL)")
    check = verified(feed, fresh_mariadb.url())
    assert check.state == "differs" or check.error is not None


@pytest.mark.parametrize("held", ['{"a": 1, "a": 2}', '{"a": 2.00000000000000000001}', '{"a": 1e400}'])
def test_json_that_says_more_than_its_last_members(fresh_mariadb: SqlServer, tmp_path: Path, held: str) -> None:
    told = '{"a": 2e400}' if "e" in held else '{"a": 2.0}' if "." in held else '{"a": 2}'
    feed = fed(tmp_path, "`id` INT PRIMARY KEY, `j` JSON", (ID, JSON), {"id": "1", "j": told})
    applied(feed, fresh_mariadb.url())
    fresh_mariadb.execute(f"UPDATE d.t SET j = '{held}'")
    assert verified(feed, fresh_mariadb.url()).state == "differs"
