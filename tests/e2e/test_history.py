"""The form `history` where a target tells keys apart in its own way, has columns of its own, or is written in another
manner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import MariaDb
from tests.support.canal_json import row_line
from tests.support.every_target import Duck
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

MS = 1 << 18
V = Column("v", "INT")
FORM: dict[str, Any] = {"table_modes": ["*.* = history"], "tz": "UTC"}
LABELS = ("x", "y", "z")
KEYS: dict[str, tuple[tuple[Column, ...], str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "BIT(9)": ((Column("k", "BIT", length=9),), "k", (("5",), ("300",))),
    "ENUM('x','y','z')": ((Column("k", "ENUM", elements=LABELS),), "k", (("1",), ("3",))),
    "SET('x','y','z')": ((Column("k", "SET", elements=LABELS),), "k", (("0",), ("5",))),
    "FLOAT": ((Column("k", "FLOAT"),), "k", (("0.1",), ("16777216",))),
    "DOUBLE": ((Column("k", "DOUBLE"),), "k", (("0.1",), ("-1e300",))),
    "VARBINARY(9)": ((Column("k", "VARBINARY", length=9),), "k", (("\x00\xff",), ("",))),
    "VARCHAR(9)": ((Column("k", "VARCHAR", length=9),), "k", (("a",), ("A",))),
    "TIMESTAMP": ((Column("k", "TIMESTAMP"),), "k", (("2024-01-02 03:04:05",), ("1970-01-01 00:00:01",))),
    "two": ((Column("a", "INT"), Column("b", "VARCHAR", length=9)), "b,a", (("1", "x"), ("2", "x"))),
}


@pytest.fixture(params=["duckdb", "mariadb", "mysql", "tidb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Replica, Callable[[str], list[tuple[Any, ...]]]]:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", MS)
    if request.param == "duckdb":
        return Replica(feed, f"duckdb:///{tmp_path}/r.duckdb"), Duck(tmp_path / "r.duckdb")
    server: MariaDb = request.getfixturevalue(f"fresh_{request.param}")
    return Replica(feed, server.url()), server.execute


def own(column: Column) -> Column:
    return Column(column.name, column.type, length=column.length, elements=column.elements, nullable=False, is_pk=True)


def created(feed: Feed, table: str, columns: tuple[Column, ...], key: str, text: str = "") -> None:
    kinds = ",".join(f"`{c.name}` {text or (c.type + (f'({c.length})' if c.length else ''))} NOT NULL" for c in columns)
    query = f"CREATE TABLE `{table}` ({kinds},`v` INT,PRIMARY KEY ({key}))"
    feed.statement(f"d.{table}", 2 * MS, Action.CREATE_TABLE, query, (*map(own, columns), V))


def write(feed: Feed, table: str, ts: int, kind: str, key: dict[str, str], v: str) -> None:
    old = [{**key, "v": "0"}] if kind == "UPDATE" else None
    line = row_line(kind, {**key, "v": v}, commit_ts=ts * MS, old=old, table=table, pkNames=list(key))
    feed.file(f"d.{table}", 2 * MS, line + b"\r\n")


TOLD = "v, _is_current, _commit_ts"


def told(*rows: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    return sorted((v, current, ts * MS) for v, current, ts in rows)


@pytest.mark.parametrize("flags", [{}, {"consistency": "snapshot"}])
def test_keys_of_all_types(place: tuple[Replica, Callable[..., Any]], flags: dict[str, Any]) -> None:
    replica, query = place
    for number, (text, (columns, key, values)) in enumerate(KEYS.items()):
        created(replica.feed, f"t{number}", columns, key, "" if text == "two" else text)
        for at, value in enumerate(values):
            named = dict(zip((column.name for column in columns), value, strict=True))
            write(replica.feed, f"t{number}", 3, "INSERT", named, str(at))
            write(replica.feed, f"t{number}", 11, "UPDATE", named, str(10 + at))
        write(replica.feed, f"t{number}", 12, "DELETE", named, "11")
    for checkpoint in (5, 11, 12):
        result = replica.once(checkpoint * MS, **FORM, **flags)
        assert result.exit_code == 0, [table.error for table in result.tables.values() if table.error]
    for number in range(len(KEYS)):
        rows = query(f"SELECT {TOLD} FROM d.t{number}")
        assert sorted(rows) == told((0, 0, 3), (1, 0, 3), (10, 1, 11), (11, 0, 11)), list(KEYS)[number]
    compared = app.verify(replica.settings(**FORM), Recorder(), loader=InlineLoader(2)).tables
    assert {check.state for check in compared} == {"equal"}, compared


def test_columns_of_the_targets_own_stay(place: tuple[Replica, Callable[..., Any]]) -> None:
    replica, query = place
    created(replica.feed, "t", (Column("k", "INT"),), "k")
    write(replica.feed, "t", 3, "INSERT", {"k": "1"}, "1")
    assert replica.once(5 * MS, **FORM).exit_code == 0
    query("ALTER TABLE d.t ADD COLUMN mine INT DEFAULT 5")
    query("UPDATE d.t SET mine = 7")
    write(replica.feed, "t", 11, "UPDATE", {"k": "1"}, "2")
    write(replica.feed, "t", 12, "UPDATE", {"k": "1"}, "3")
    assert replica.once(20 * MS, **FORM).exit_code == 0
    rows = query(f"SELECT {TOLD}, mine FROM d.t ORDER BY _commit_ts")
    assert rows == [(1, 0, 3 * MS, 7), (2, 0, 11 * MS, 5), (3, 1, 12 * MS, 5)]


def test_keys_that_differ_in_blanks_are_told_apart_or_stop_their_table(
    place: tuple[Replica, Callable[..., Any]],
) -> None:
    replica, query = place
    created(replica.feed, "t", (Column("k", "VARCHAR", length=9),), "k", "VARCHAR(9)")
    write(replica.feed, "t", 3, "INSERT", {"k": "a"}, "1")
    assert replica.once(5 * MS, **FORM).exit_code == 0
    write(replica.feed, "t", 11, "INSERT", {"k": "a "}, "2")
    result = replica.once(20 * MS, **FORM)
    if result.exit_code == 0:
        assert sorted(query(f"SELECT {TOLD} FROM d.t")) == told((1, 1, 3), (2, 1, 11))
        write(replica.feed, "t", 21, "UPDATE", {"k": "a"}, "3")
        assert replica.once(30 * MS, **FORM).exit_code == 0
        assert sorted(query(f"SELECT {TOLD} FROM d.t")) == told((1, 0, 3), (2, 1, 11), (3, 1, 21))
    else:
        assert result.tables[TableName("d", "t")].state == "stopped"
        assert query(f"SELECT {TOLD} FROM d.t") == told((1, 1, 3))


def test_a_server_without_load_data(fresh_mariadb: MariaDb, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "cdc")
    feed.database("d", MS)
    created(feed, "t", (Column("k", "INT"),), "k")
    replica = Replica(feed, fresh_mariadb.url())
    fresh_mariadb.execute("SET GLOBAL local_infile = 0")
    try:
        for ts in (3, 11, 14):
            write(feed, "t", ts, "UPDATE", {"k": "1"}, str(ts))
            assert replica.once((ts + 1) * MS, **FORM).exit_code == 0
    finally:
        fresh_mariadb.execute("SET GLOBAL local_infile = 1")
    assert sorted(fresh_mariadb.execute(f"SELECT {TOLD} FROM d.t")) == told((3, 0, 3), (11, 0, 11), (14, 1, 14))


@pytest.mark.parametrize("form", ["history", "soft-delete"])
def test_columns_of_a_table_that_somebody_made_take_no_other_time(
    fresh_mariadb: MariaDb, tmp_path: Path, form: str
) -> None:
    """With ON UPDATE CURRENT_TIMESTAMP, as upstream has it and as a column of the target's own does."""
    feed, query = Feed(tmp_path / "cdc"), fresh_mariadb.execute
    told_by = {"history": "_commit_ts BIGINT UNSIGNED NOT NULL, _valid_from DATETIME(6), _valid_to DATETIME(6)"}
    added = {**told_by, "soft-delete": "_deleted_at DATETIME(6)"}[form]
    key = {"history": "id, _commit_ts", "soft-delete": "id"}[form]
    stamped = "DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
    query("CREATE DATABASE d")
    query(
        f"CREATE TABLE d.t (id INT NOT NULL, at TIMESTAMP NULL {stamped}, day DATETIME NULL {stamped},"
        f" {added}{', _is_current TINYINT(1)' if form == 'history' else ''}, mine DATETIME {stamped},"
        f" PRIMARY KEY ({key})) COLLATE utf8mb4_bin"
    )
    long_ago = "2001-02-03 04:05:06"
    now = {"history": f", _commit_ts = {5 * MS}, _valid_from = '1970-01-01 00:00:00.005', _is_current = 1"}.get(
        form, ""
    )
    query(f"INSERT INTO d.t SET id = 1, at = '{long_ago}', day = '{long_ago}', mine = '{long_ago}'{now}")
    columns = (own(Column("id", "INT")), Column("at", "TIMESTAMP"), Column("day", "DATETIME"))
    feed.describe("d.t", 2 * MS, columns)
    row: dict[str, str | None] = {"at": long_ago, "day": long_ago}
    for ts, key_of_row, kind in ((11, "1", "UPDATE"), (12, "2", "INSERT"), (13, "2", "DELETE")):
        data = {"id": key_of_row, **row}
        text = row_line(kind, data, commit_ts=ts * MS, old=[data] if kind == "UPDATE" else None)
        feed.file("d.t", 2 * MS, text + b"\r\n")
    replica, flags = (
        Replica(feed, fresh_mariadb.url()),
        {"table_modes": [f"*.* = {form}"], "tz": "UTC", "start_ts": 5 * MS},
    )
    assert replica.once(12 * MS, **flags).exit_code == 0
    assert replica.once(14 * MS, **flags).exit_code == 0
    if form == "history":
        assert query(f"SELECT CAST(mine AS CHAR) FROM d.t WHERE _commit_ts = {5 * MS}") == [(long_ago,)]
    with_more = (*columns, Column("more", "TIMESTAMP", default=long_ago))
    text = f"ALTER TABLE `t` ADD COLUMN `more` TIMESTAMP DEFAULT '{long_ago}'"
    feed.statement("d.t", 20 * MS, Action.ADD_COLUMN, text, with_more)
    feed.statement("d.t", 30 * MS, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", with_more)
    assert replica.once(40 * MS, **flags).exit_code == 0
    rows = query("SELECT CAST(at AS CHAR), CAST(day AS CHAR) FROM d.t")
    assert rows == [(long_ago, long_ago)] * {"history": 3, "soft-delete": 2}[form]


def test_a_column_of_the_form_that_the_target_computes_stops_its_table_by_name(
    place: tuple[Replica, Callable[..., Any]],
) -> None:
    replica, query = place
    query("CREATE SCHEMA d")
    query(
        "CREATE TABLE d.t (k INT NOT NULL, v INT, _valid_from TIMESTAMP, _valid_to TIMESTAMP,"
        " _is_current INT GENERATED ALWAYS AS (CASE WHEN _valid_to IS NULL THEN 1 ELSE 0 END) VIRTUAL,"
        " _commit_ts BIGINT NOT NULL, PRIMARY KEY (k, _commit_ts))".replace(
            "TIMESTAMP", "TIMESTAMP" if isinstance(query, Duck) else "DATETIME(6)"
        )
    )
    replica.feed.describe("d.t", 2 * MS, (own(Column("k", "INT")), V))
    write(replica.feed, "t", 11, "INSERT", {"k": "1"}, "1")
    result = replica.once(20 * MS, **FORM, start_ts=5 * MS)
    assert result.tables[TableName("d", "t")].state == "stopped"
    why = str(result.tables[TableName("d", "t")].error)
    assert ("generated column" if isinstance(query, Duck) else "computes `_is_current` when it is read") in why
    assert query("SELECT * FROM d.t") == []
    if isinstance(query, Duck):
        return
    for change in ("DROP COLUMN _is_current", "ADD COLUMN _is_current INT"):
        query(f"ALTER TABLE d.t {change}")
    assert replica.once(20 * MS, **FORM, start_ts=5 * MS).exit_code == 0
    assert sorted(query(f"SELECT {TOLD} FROM d.t")) == told((1, 1, 11))
