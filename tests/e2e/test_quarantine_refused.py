"""Rows that a target refuses are quarantined: each is told once, and the others are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer.errors import RowsCollide, TooManyBadRows
from consumer.model.actions import Action
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import KEYLESS, TABLE, Row, Storage, recorded

LARGE, LONG = "99999999999", "s longer than it may be"


@dataclass
class Target:
    """A target in which d.t has narrower columns than upstream."""

    uri: str
    execute: Callable[..., Any]

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.execute("SELECT id, v, s FROM d.t ORDER BY id"))

    def alter(self, statement: str) -> None:
        self.execute(statement)


@pytest.fixture(params=["mariadb", "mysql", "tidb", "duckdb"])
def target(tmp_path: Path, request: pytest.FixtureRequest) -> Target:
    if request.param == "duckdb":
        path = tmp_path / "replica.duckdb"

        def execute(statement: str) -> Any:
            with duckdb.connect(str(path)) as connection:
                return connection.execute(statement).fetchall()

        return Target(f"duckdb:///{path}", execute)
    server = request.getfixturevalue(f"fresh_{request.param}")
    return Target(server.url(), server.execute)


@pytest.fixture(params=["canal-json", "csv"])
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    return Storage(tmp_path, request.param)


def begin(storage: Storage, target: Target, narrow: str = "ALTER TABLE d.t ALTER COLUMN v TYPE TINYINT") -> None:
    """d.t is there with one row, and its column v made narrow."""
    storage.file(storage.line((10, "1", "1", "a")))
    assert storage.once(target.uri, 15).exit_code == 0
    target.alter(narrow if target.uri.startswith("duckdb") else "ALTER TABLE d.t MODIFY v TINYINT")


def expected(rows: list[Row], bad: set[int]) -> list[tuple[Any, ...]]:
    return sorted((int(key), int(v or 0), s) for n, (_, key, v, s) in enumerate(rows) if n not in bad)


@pytest.mark.parametrize("bad", [{0}, {7}, {19}, {3, 4, 11}, set(range(20))], ids=lambda rows: str(sorted(rows)))
def test_rows_that_do_not_fit(storage: Storage, target: Target, bad: set[int]) -> None:
    begin(storage, target)
    rows: list[Row] = [(20 + n, str(20 + n), "1000" if n in bad else str(n), "é") for n in range(20)]
    paths = [storage.file(*map(storage.line, rows[:8])), storage.file(*map(storage.line, rows[8:]))]
    places = [(paths[n >= 8], n + 1 if n < 8 else n - 7) for n in sorted(bad)]
    result = storage.once(target.uri, 100)
    assert storage.stopped() is None
    assert (result.exit_code, result.tables[TABLE].quarantined) == (3, len(bad))
    assert target.rows() == sorted([(1, 1, "a"), *expected(rows, bad)])
    letters = storage.written()
    assert [(letter["file"], letter["line"]) for letter in letters] == places
    for letter, n in zip(letters, sorted(bad), strict=True):
        content = (storage.feed.folder / letter["file"]).read_bytes()
        assert content[letter["offset"] :].startswith(storage.line(rows[n]) + b"\r\n")
        assert letter["raw"].encode() == storage.line(rows[n]) + b"\r\n"
    assert recorded(target.uri)[TABLE].keys() == {letter["id"] for letter in letters}
    assert storage.once(target.uri, 200).tables[TABLE].quarantined == len(bad)
    assert storage.written() == letters


def test_of_one_of_many_small_tables(target: Target, tmp_path: Path) -> None:
    """Servers get the rows of several in one transaction."""
    storage, others = Storage(tmp_path), range(7)
    for n in others:
        storage.feed.create(f"d.u{n}", 3 + n)
    begin(storage, target)
    rows: list[Row] = [(20 + n, str(20 + n), "1000" if n == 4 else str(n), "é") for n in range(8)]
    storage.file(*map(storage.line, rows))
    for n in others:
        storage.feed.puts(f"d.u{n}", 3 + n, {20 + n: (1, f"{n}"), 30 + n: (2, f"{n}")})
    result = storage.once(target.uri, 100)
    assert (result.exit_code, result.tables[TABLE].quarantined) == (3, 1)
    assert target.rows() == sorted([(1, 1, "a"), *expected(rows, {4})])
    for n in others:
        assert list(map(tuple, target.execute(f"SELECT id, v FROM d.u{n} ORDER BY id"))) == [(1, n), (2, n)]
    (letter,) = storage.written()
    assert letter["raw"].encode() == storage.line(rows[4]) + b"\r\n"


def test_in_buckets_of_a_large_table(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.pipeline.version_consumer.SLICE_BYTES", 900)
    monkeypatch.setattr("consumer.sink.mysql.rows.statements._STATEMENT_ROWS", 5)
    monkeypatch.setattr("consumer.sink.mysql.rows.writer.PUT_ROWS", 16)
    storage = Storage(tmp_path)
    begin(storage, target)
    rows: list[Row] = [(20 + n, str(20 + n), "1000" if n % 9 == 0 else str(n), "b") for n in range(100)]
    storage.file(*map(storage.line, rows))
    assert storage.once(target.uri, 500, InlineLoader(keyed=3)).tables[TABLE].quarantined == 12
    assert target.rows() == sorted([(1, 1, "a"), *expected(rows, set(range(0, 100, 9)))])
    assert [letter["line"] for letter in storage.written()] == [n + 1 for n in range(0, 100, 9)]


def test_a_later_change_lands_and_a_bad_one_leaves_the_older_row(storage: Storage, target: Target) -> None:
    begin(storage, target)
    storage.file(storage.line((20, "1", "1000", "b"), "UPDATE", old=(10, "1", "1", "a")))
    storage.once(target.uri, 25)
    assert target.rows() == [(1, 1, "a")]
    storage.file(storage.line((30, "1", "3", "c"), "UPDATE", old=(20, "1", "1000", "b")))
    storage.once(target.uri, 35)
    assert target.rows() == [(1, 3, "c")]
    assert len(recorded(target.uri)[TABLE]) == 1


def test_too_many_stop_the_table(storage: Storage, target: Target) -> None:
    begin(storage, target)
    storage.file(*(storage.line((20 + n, str(20 + n), "1000", "b")) for n in range(6)))
    storage.once(target.uri, 100, max_bad_rows=5)
    assert isinstance(storage.stopped(), TooManyBadRows)
    assert target.rows() == [(1, 1, "a")]
    assert recorded(target.uri) == {}
    assert storage.once(target.uri, 100, max_bad_rows=6).tables[TABLE].quarantined == 6


@pytest.mark.parametrize("form", ["canal-json", "csv"])
def test_a_table_with_no_key(form: str, target: Target, tmp_path: Path) -> None:
    storage = Storage(tmp_path, form, KEYLESS)
    begin(storage, target)
    bad = (20, "2", "1000", "b")
    storage.file(storage.line(bad), storage.line((21, "3", "3", "c")), storage.line((21, "3", "3", "c")))
    result = storage.once(target.uri, 25)
    assert result.tables[TABLE].quarantined == 1
    assert target.rows() == [(1, 1, "a"), (3, 3, "c"), (3, 3, "c")]
    storage.file(storage.line((30, *bad[1:]), "DELETE"), storage.line((31, "3", "3", "c"), "DELETE"))
    result = storage.once(target.uri, 35)
    assert storage.stopped() is None
    assert result.tables[TABLE].quarantined == 2
    assert target.rows() == [(1, 1, "a"), (3, 3, "c")]
    assert [letter["commit_ts"] for letter in storage.written()] == [None, None]


def test_an_older_row_that_stays_can_hold_a_unique_value(tmp_path: Path, fresh_mariadb: Any) -> None:
    """Where it cannot be told from a row that upstream keeps, the table stops, and goes on once the row is taken."""
    target = Target(fresh_mariadb.url(), fresh_mariadb.execute)
    storage = Storage(tmp_path)
    begin(storage, target)
    storage.feed.statement("d.t", 16, Action.ADD_INDEX, "ALTER TABLE `t` ADD UNIQUE `u` (`s`)", storage.columns)
    storage.once(target.uri, 17)
    target.alter("ALTER TABLE d.t MODIFY s VARCHAR(8) COLLATE utf8mb4_general_ci")
    change = storage.line((20, "1", "1000", "b"), "UPDATE", old=(10, "1", "1", "a"))
    storage.file(change, storage.line((30, "2", "2", "a")))
    storage.once(target.uri, 40)
    error = storage.stopped()
    assert isinstance(error, RowsCollide)
    assert "an older one of those can have the value" in error.hint
    target.alter("ALTER TABLE d.t MODIFY v INT")
    assert storage.once(target.uri, 40).exit_code == 0
    assert target.rows() == [(1, 1000, "b"), (2, 2, "a")]


@pytest.mark.parametrize("own", ["", "ADD COLUMN own INT DEFAULT 7, "])
def test_what_a_check_forbids(own: str, tmp_path: Path, fresh_mariadb: Any) -> None:
    """Rows that lack a column are staged, and the server does not say which of them it refuses."""
    target = Target(fresh_mariadb.url(), fresh_mariadb.execute)
    storage = Storage(tmp_path)
    begin(storage, target)
    target.alter(f"ALTER TABLE d.t {own}ADD CONSTRAINT c CHECK (v < 50)")
    rows: list[Row] = [(20 + n, str(20 + n), str(45 + n), "b") for n in range(10)]
    storage.file(*map(storage.line, rows))
    assert storage.once(target.uri, 100).tables[TABLE].quarantined == 5
    assert target.rows() == sorted([(1, 1, "a"), *expected(rows, set(range(5, 10)))])
    assert all("CONSTRAINT" in letter["reason"] for letter in storage.written())
    assert [letter["line"] for letter in storage.written()] == [6, 7, 8, 9, 10]
