"""A DuckDB with little memory or disk: nothing is lost, the reason is told, and what goes through later is right.

What takes more memory than there is stops its own table; a full disk is waited for.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import duckdb
import pytest

from consumer.errors import TargetUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import RunResult
from consumer.sink.duckdb.connection import Database
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed, Replica, states

S = Column("s", "VARCHAR", length=2000)
ROWS = 8000


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.statement("d.t", 2, Action.CREATE_TABLE, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`s` VARCHAR(2000))", (ID, S))
    feed.create("d.u", 3)
    feed.file("d.t", 2, b"".join(_line(key, 10) for key in range(ROWS)))
    feed.puts("d.u", 3, {10: (1, "1")})
    return Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb")


def _line(key: int, ts: int) -> bytes:
    row = {"id": str(key), "s": f"{key * 7919 + ts:032x}" * 40}
    return row_line("INSERT", row, commit_ts=ts, table="t", database="d") + b"\r\n"


def little(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Database._connect

    def connect(self: Database, read_only: bool) -> duckdb.DuckDBPyConnection:
        connection = real(self, read_only)
        connection.execute("SET memory_limit = '6MB'")
        connection.execute("SET temp_directory = ''")
        return connection

    monkeypatch.setattr(Database, "_connect", connect)


def rows(replica: Replica) -> tuple[int, int]:
    with duckdb.connect(str(replica.feed.folder / "replica.duckdb"), read_only=True) as connection:
        counts = [connection.execute(f"SELECT count(*) FROM d.{name}").fetchall()[0][0] for name in "tu"]
    return counts[0], counts[1]


def error_of(result: RunResult, table: str) -> str:
    return result.tables[TableName("d", table)].error or ""


def test_rows_that_it_cannot_merge(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    replica.once(5)
    little(monkeypatch)
    for _ in range(2):
        result = replica.once(20)
        assert (result.exit_code, states(result)) == (3, {"d.t": "stopped", "d.u": "ok"})
        assert "memory" in error_of(result, "t")
    monkeypatch.undo()
    assert replica.once().exit_code == 0
    assert rows(replica) == (ROWS, 1)


def test_a_statement_that_it_cannot_run(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = replica.feed
    replica.once(20)
    text_id = Column("id", "VARCHAR", length=20, nullable=False, is_pk=True)
    feed.statement("d.t", 30, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `id` VARCHAR(20)", (text_id, S))
    feed.puts("d.u", 3, {40: (2, "2")})
    little(monkeypatch)
    result = replica.once(50)
    assert (result.exit_code, states(result)) == (5, {"d.t": "stopped", "d.u": "ok"})
    assert "memory" in error_of(result, "t")
    monkeypatch.undo()
    assert replica.once().exit_code == 0
    assert rows(replica) == (ROWS, 2)


def test_a_disk_that_takes_no_more(replica: Replica) -> None:
    replica.once(5)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
    try:
        with pytest.raises(TargetUnavailable, match=os.strerror(errno.EFBIG)) as caught:
            replica.once(20, max_wait="500ms")
        assert "make room" in caught.value.hint
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert replica.once().exit_code == 0
    assert rows(replica) == (ROWS, 1)
