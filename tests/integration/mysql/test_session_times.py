"""Generated columns that read TIMESTAMPs hold what upstream's sessions computed, whatever the zone of ours."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pytest

from consumer.model.actions import Action
from consumer.model.columns import Column
from tests.servers import MariaDb
from tests.support.build import ID
from tests.support.feed import Feed, Replica

AT, DAY = Column("at", "TIMESTAMP"), Column("day", "DATE")
BODY = "`id` INT PRIMARY KEY, `at` TIMESTAMP NULL, `day` DATE GENERATED ALWAYS AS (DATE(`at`)) STORED"
ROW = {"id": "1", "at": "2024-01-02 03:00:00", "day": "2024-01-02"}
HELD = [(1, datetime(2024, 1, 1, 19), date(2024, 1, 2))]
ZONE = "+08:00"


def feed_of(folder: Path, *rows: dict[str, str]) -> Feed:
    feed = Feed(folder)
    feed.database("d", 1)
    lines = []
    for ts, row in enumerate(rows, 10):
        line = json.loads(feed._line("d.t", ts, 0, ""))
        lines.append(line | {"data": [row], "mysqlType": {"id": "int", "at": "timestamp", "day": "date"}})
    feed.file("d.t", 5, b"".join(json.dumps(line).encode() + b"\r\n" for line in lines))
    return feed


def held(server: MariaDb) -> list[tuple[object, ...]]:
    return server.execute("SET time_zone = '+00:00'", "SELECT * FROM d.t")


def test_a_table_of_the_storage_takes_the_rows_values(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    feed = feed_of(tmp_path, ROW)
    feed.statement("d.t", 5, Action.CREATE_TABLE, f"CREATE TABLE `t` ({BODY} NOT NULL)", (ID, AT, DAY))
    result = Replica(feed, fresh_mariadb.url()).once(20, tz=ZONE)
    assert (result.exit_code, held(fresh_mariadb)) == (0, HELD)


def test_a_restored_table_stops_until_the_column_is_a_plain_one(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({BODY})")
    feed = feed_of(tmp_path, ROW)
    feed.describe("d.t", 5, (ID, AT, DAY))
    replica = Replica(feed, fresh_mariadb.url())
    [stopped] = replica.once(20, tz=ZONE).tables.values()
    assert stopped.state == "stopped"
    assert "generated from a TIMESTAMP" in str(stopped.error)
    fresh_mariadb.execute(str(stopped.hint).partition(" makes it")[0])
    assert replica.once(20, tz=ZONE).exit_code == 0
    assert held(fresh_mariadb) == HELD


def test_an_hour_that_all_zones_share_needs_no_stop(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({BODY})")
    feed = feed_of(tmp_path, ROW)
    feed.describe("d.t", 5, (ID, AT, DAY))
    assert Replica(feed, fresh_mariadb.url()).once(20, tz="UTC").exit_code == 0


@pytest.mark.parametrize("expression", ["DATE(`at`)", "DATE(`between`)"])
def test_a_unique_key_that_the_writers_zone_decides(expression: str, fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    """Two days upstream, one day in UTC."""
    columns = f"`id` INT PRIMARY KEY, `at` TIMESTAMP NULL, `between` DATETIME AS (`at`), `day` DATE AS ({expression})"
    made = f"CREATE TABLE `t` ({columns}, UNIQUE KEY `u` (`day`))"
    feed = feed_of(tmp_path, {"id": "1", "at": "2024-01-02 03:00:00"}, {"id": "2", "at": "2024-01-01 09:00:00"})
    feed.statement("d.t", 5, Action.CREATE_TABLE, made, (ID, AT))
    replica = Replica(feed, fresh_mariadb.url())
    [stopped] = replica.once(20, tz=ZONE).tables.values()
    assert stopped.state == "stopped"
    fresh_mariadb.execute(str(stopped.hint).partition(";")[0])
    assert replica.once(20, tz=ZONE).exit_code == 0
    assert [row[0] for row in held(fresh_mariadb)] == [1, 2]
