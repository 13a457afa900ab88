"""DOUBLE(M,D): the server rounds by its own arithmetic, and rows are found again all the same."""

from __future__ import annotations

import random

import pytest

from consumer.errors import CannotBeExact
from consumer.model.columns import Column
from consumer.model.load import TableLoad
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.sink.mysql.rows.writer import MySqlWriter
from consumer.sink.mysql.sink import MySqlSink
from consumer.target import LoadRequest
from tests.integration.mysql.steps import settings
from tests.integration.mysql.writing import EPOCH, changes, counted, make_target, settings_of, write
from tests.servers import MariaDb

_TYPES = {"DOUBLE(15,5)": (15, 5), "DOUBLE(10,3)": (10, 3), "DOUBLE(15,15)": (15, 15), "DOUBLE(9,0)": (9, 0)}


def double(kind: str, key: bool = False) -> Column:
    """The column as its schema file has it: ColumnScale is left out where it is 0."""
    digits, scale = _TYPES[kind]
    return Column("d", "DOUBLE", False, digits, scale or None, not key, key)


def numbers(digits: int, scale: int) -> list[str]:
    """Numbers of the type, of every size, as files have them; some of them neighbours."""
    source = random.Random(5)
    found = {round(source.uniform(-1, 1) * 10 ** source.uniform(-scale, digits - scale), scale) for _ in range(1500)}
    found |= {round(number + 10**-scale, scale) for number in list(found)[:100]}
    return [f"{number:.17g}" for number in sorted(found) if abs(number) < 10 ** (digits - scale) - 10**-scale]


@pytest.mark.parametrize("kind", _TYPES)
def test_a_delete_finds_its_key_and_no_other(fresh_mariadb: MariaDb, kind: str) -> None:
    keys = numbers(*_TYPES[kind])
    target = make_target(fresh_mariadb, [double(kind, key=True), Column("v", "INT")], f"d {kind} PRIMARY KEY, v INT")
    rows = [(key, str(number)) for number, key in enumerate(keys)]
    write(fresh_mariadb, target, changes(target, puts=rows))
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM db.t") == [(len(keys),)]
    write(fresh_mariadb, target, changes(target, deletes=rows[::2]))
    assert [v for (v,) in fresh_mariadb.execute("SELECT v FROM db.t ORDER BY v")] == list(range(1, len(keys), 2))


@pytest.mark.parametrize("kind", _TYPES)
def test_a_row_with_no_key_is_found_and_no_other(fresh_mariadb: MariaDb, kind: str) -> None:
    values = [*numbers(*_TYPES[kind])[::5], None]
    columns = [double(kind), Column("v", "INT")]
    target = make_target(fresh_mariadb, columns, f"d {kind}, v INT")
    rows = [(value, str(number)) for number, value in enumerate(values)]
    with MySqlWriter(settings_of(fresh_mariadb), EPOCH).session() as session:
        session.write_multiset(target, counted(target, [(2, row) for row in rows]), Window(0, 10))
        session.write_multiset(target, counted(target, [(-2, row) for row in rows[::2]]), Window(10, 20))
    left = fresh_mariadb.execute("SELECT v, COUNT(*) FROM db.t GROUP BY v ORDER BY v")
    assert left == [(number, 2) for number in range(1, len(rows), 2)]


@pytest.mark.parametrize("keys", ["d DOUBLE(20,5) PRIMARY KEY", "d INT PRIMARY KEY, u DOUBLE(16,2) UNIQUE"])
def test_more_digits_in_a_unique_key_than_a_double_has_are_refused(fresh_mariadb: MariaDb, keys: str) -> None:
    fresh_mariadb.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({keys})")
    sink = MySqlSink(settings(fresh_mariadb))
    (answer,) = sink.prepare(
        [LoadRequest(TableLoad(TableName("d", "t")), (Column("d", "DOUBLE", length=22, nullable=False, is_pk=True),))]
    )
    assert isinstance(answer, CannotBeExact)
    assert "two keys can become one" in answer.message
    sink.close()
