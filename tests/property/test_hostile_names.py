"""Names and values that mean something to SQL, to formats of texts, to file systems and to terminals go through every
way into each target as what they are: statements, loads of each shape, the trash, `verify` and `resync`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from consumer import app
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.model.names import TableName
from tests.servers import SqlServer
from tests.support.hostile import Hostile, Names, names, texts
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

Query = Callable[[str], list[tuple[Any, ...]]]
PROFILE = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LONG = "長" * 63
SQL = Names("a'b", 'c"d', "e`f", "g\\h", "i;--", "j*/k", "/*!40000 l */", "%s%(m)s{0}", "n\no\r\tx", "$p?:q")
ODD = Names("a/b", "1", "meta", "2026-01-02", "CDC000001.json", "..x", "\x1b[31m\u202e", "#", "@@p", LONG)
VALUES = ["a'b\"c`", "\\", "\\N", "\x00\x1a\x08", "%s", "\r\n", "\u2028\U0001f600", "';DROP TABLE t;--", "", " "]


@PROFILE
@given(named=names(), values=st.lists(texts(), min_size=10, max_size=10))
@example(named=SQL, values=VALUES)
@example(named=ODD, values=VALUES)
def test_a_file(named: Names, values: list[str]) -> None:
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "replica.duckdb"

        def query(statement: str) -> list[tuple[Any, ...]]:
            with duckdb.connect(str(file)) as connection:
                return connection.execute(statement).fetchall()

        follow(Hostile(Path(work) / "cdc", named, values), f"duckdb:///{file}", query, '"')


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
@PROFILE
@given(named=names(), values=st.lists(texts(), min_size=10, max_size=10))
@example(named=SQL, values=VALUES)
@example(named=ODD, values=VALUES)
def test_a_server(server: str, named: Names, values: list[str], request: pytest.FixtureRequest) -> None:
    found: SqlServer = request.getfixturevalue(server)
    found.drop_all()
    with tempfile.TemporaryDirectory() as work:
        follow(Hostile(Path(work) / "cdc", named, values), found.url(), found.execute, "`")


def follow(upstream: Hostile, target: str, query: Query, mark: str) -> None:
    """Apply each part of the history, and compare what upstream has then."""
    flags = {"upstream_uri": upstream.uri, "downstream_uri": target, "ddl": upstream.to_the_trash}
    given = load(flags, {}).settings
    for part in upstream.parts:
        part()
        result = app.once(given, Recorder(), InlineLoader(keyed=2))
        assert {str(name): table.error for name, table in result.tables.items() if table.error} == {}
        assert_equal(upstream, query, mark)
        verified(given)
        if part == upstream.parts[1]:
            app.resync(given, Recorder(), TableName(*upstream.table), InlineLoader())
            assert_equal(upstream, query, mark)
    found = query("SELECT table_name FROM information_schema.tables WHERE table_name LIKE '$_$_trash$_%' ESCAPE '$'")
    assert len(found) == upstream.kept


def assert_equal(upstream: Hostile, query: Query, mark: str) -> None:
    for (database, table), (columns, rows) in upstream.state.items():
        named = ", ".join(quoted(column, mark) for column in columns)
        got = query(f"SELECT {named} FROM {quoted(database, mark)}.{quoted(table, mark)}")
        assert sorted(map(repr, got)) == sorted(map(repr, rows))


def verified(given: Settings) -> None:
    result = app.verify(given, Recorder(), loader=InlineLoader(2))
    assert result.tables
    wrong = [check for check in result.tables if check.counted.differences or check.error]
    assert [(check.table, check.counted.shown, check.error) for check in wrong] == []


def quoted(name: str, mark: str) -> str:
    return mark + name.replace(mark, mark * 2) + mark
