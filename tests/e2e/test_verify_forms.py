"""`verify` of tables that are no mirrors: each difference is found, wherever it is, and made right."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import Repairing, TableCheck
from consumer.model.columns import Column
from consumer.model.names import TableName
from tests.servers import MariaDb
from tests.support.build import ID, VALUE
from tests.support.canal_json import row_line
from tests.support.every_target import Duck
from tests.support.feed import Feed, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.scripts import run_on_file, run_on_server

MS = 1 << 18
NAME = Column("name", "VARCHAR", length=20)
COUNT = Column("n", "INT", default="7")
ROUTE = "s*.t -> shop.t merge _source"
SHAPES: dict[str, dict[str, Any]] = {
    "append": {"table_modes": ["*.* = append"]},
    "soft-delete": {"table_modes": ["*.* = soft-delete"]},
    "history": {"table_modes": ["*.* = history"]},
    "columns": {"columns": [{"tables": ["*.*"], "exclude": ["v"], "rename": {"name": "called"}}]},
    "append with columns": {
        "table_modes": ["*.* = append"],
        "columns": [{"tables": ["*.*"], "exclude": ["v"], "rename": {"name": "called"}}],
    },
    "columns and filters": {
        "columns": [{"tables": ["*.*"], "exclude": ["v"], "rename": {"name": "id_of", "n": "name"}}],
        "rows": [{"tables": ["*.*"], "where": "v = 1"}],
        "masks": [{"tables": ["*.*"], "columns": ["n*"], "mask": "fixed", "value": "3"}],
    },
    "merge": {"routes": [ROUTE]},
}
OWN = {
    "append": ("_op", "_commit_ts", "_table", "_version"),
    "soft-delete": ("_deleted_at",),
    "history": ("_valid_from", "_valid_to", "_is_current", "_commit_ts"),
    "merge": ("_source",),
}
"""The columns that a mode adds."""


def line(table: str, ts: int, kind: str, key: int, **values: str | None) -> bytes:
    """A change at `ts` milliseconds; the old row of an UPDATE has the key `was`."""
    database, _, name = table.partition(".")
    was = values.pop("was", str(key))
    data = {"id": str(key), **values}
    old = [{**data, "id": was, "v": "0"}] if kind == "UPDATE" else None
    text = row_line(kind, data, commit_ts=ts * MS, old=old)
    return text.replace(b'"database":"d","table":"t"', f'"database":"{database}","table":"{name}"'.encode()) + b"\r\n"


def history(feed: Feed, table: str, at: int) -> None:
    """Rows come, change and go, change their keys and come back; the table is emptied, and gets a column."""
    feed.database(table.partition(".")[0], at * MS)
    columns = (ID, VALUE, NAME)
    feed.statement(
        table,
        (at + 1) * MS,
        Action.CREATE_TABLE,
        "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,`name` VARCHAR(20))",
        columns,
    )
    row = {"v": "1", "name": "ä%s'\\"}
    feed.file(table, (at + 1) * MS, b"".join(line(table, at + 10, "INSERT", key, **row) for key in range(1, 7)))
    feed.file(
        table,
        (at + 1) * MS,
        line(table, at + 11, "UPDATE", 1, v="2", name=None)
        + line(table, at + 12, "DELETE", 2, **row)
        + line(table, at + 13, "UPDATE", 8, was="3", **row)
        + line(table, at + 14, "INSERT", 2, v=None, name="back"),
    )
    feed.statement(table, (at + 20) * MS, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`", columns)
    feed.file(
        table,
        (at + 20) * MS,
        line(table, at + 21, "INSERT", 1, **row)
        + line(table, at + 21, "INSERT", 30, **row)
        + line(table, at + 22, "UPDATE", 1, **row)
        + line(table, at + 22, "DELETE", 30, **row),
    )
    text = "ALTER TABLE `t` ADD COLUMN `n` INT DEFAULT 7"
    feed.statement(table, (at + 30) * MS, Action.ADD_COLUMN, text, (*columns, COUNT))
    feed.file(table, (at + 30) * MS, line(table, at + 31, "INSERT", 40, n=None, **row))


Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass
class Place:
    """A target with tables of one shape, and what somebody does to them by hand."""

    replica: Replica
    query: Query
    shape: str
    table: str
    run_script: Callable[[Path], None]

    def verified(self, buckets: int = 3, repairing: Repairing = Repairing()) -> list[TableCheck]:  # noqa: B008
        given = self.replica.settings(**SHAPES[self.shape])
        loader = InlineLoader(buckets)
        return list(app.verify(given, Recorder(), show=100, loader=loader, repairing=repairing).tables)

    def found(self) -> list[tuple[str, str]]:
        return sorted(
            {(row.kind, str(dict(row.key)["id"])) for check in self.verified() for row in check.counted.shown}
        )

    @property
    def states(self) -> set[str]:
        return {check.state for check in self.verified()}

    @property
    def columns(self) -> list[str]:
        where = f"table_schema = '{self.table.partition('.')[0]}' AND table_name = 't'"
        return [str(n) for (n,) in self.query(f"SELECT column_name FROM information_schema.columns WHERE {where}")]

    @property
    def sources(self) -> list[str]:
        return ["s1.t", "s2.t"]

    def rows(self) -> list[str]:
        return sorted(map(repr, self.query(f"SELECT * FROM {self.table}")))


Make = Callable[[str], Place]


@pytest.fixture(params=["duckdb", "mariadb", "mysql", "tidb"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    numbers = itertools.count()

    def made(shape: str) -> Place:
        folder = tmp_path / str(next(numbers))
        feed = Feed(folder / "cdc")
        merges = shape == "merge"
        for at, table in enumerate(("s1.t", "s2.t") if merges else ("d.t",)):
            history(feed, table, 1 + 3 * at)
        if request.param == "duckdb":
            replica, query = Replica(feed, f"duckdb:///{folder}/r.duckdb"), Duck(folder / "r.duckdb")
            run_script = partial(run_on_file, file=folder / "r.duckdb")
        else:
            server: MariaDb = request.getfixturevalue(f"fresh_{request.param}")
            server.drop_all()
            replica, query = Replica(feed, server.url()), server.execute
            run_script = partial(run_on_server, server=server)
        for checkpoint in (12, 15, 28, 60):
            assert replica.once(checkpoint * MS, **SHAPES[shape]).exit_code == 0
        return Place(replica, query, shape, "shop.t" if merges else "d.t", run_script)

    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_run_has_made_is_equal(shape: str, make: Make) -> None:
    place = make(shape)
    assert {(check.state, check.counted.expected > 0, check.notes) for check in place.verified()} == {
        ("equal", True, ())
    }
    assert {check.state for check in place.verified(1)} == {"equal"}


def literal(value: Any) -> str:
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


@pytest.mark.parametrize("shape", SHAPES)
def test_each_change_of_one_value_is_found_and_made_right(shape: str, make: Make) -> None:
    """Whichever column it is in, in each row."""
    place = make(shape)
    where = f"table_schema = '{place.table.partition('.')[0]}' AND table_name = 't'"
    columns = place.query(f"SELECT column_name, data_type FROM information_schema.columns WHERE {where}")
    kinds = {str(name): str(kind).upper() for name, kind in columns}
    added = [name for usual, names in OWN.items() if shape.startswith(usual) for name in names]
    assert set(added) <= kinds.keys()
    key = [name for name in ("_source", "id", "_commit_ts", "_op") if name in kinds]
    before, changed = place.rows(), 0
    rows = place.query(f"SELECT {', '.join(key)} FROM {place.table} ORDER BY {', '.join(key)}")
    for number, (name, kind) in enumerate(kinds.items()):
        row = rows[number % len(rows)]
        one = " AND ".join(f"{n} = {literal(v)}" for n, v in zip(key, row, strict=True))
        new = "1999-01-01 00:00:00.000001" if kind.startswith(("DATETIME", "TIMESTAMP")) else "99"
        new = new if "INT" in kind or "TIME" in kind else "x"
        place.query(f"UPDATE {place.table} SET {name} = '{new}' WHERE {one}")
        found = place.verified()
        assert "differs" in {check.state for check in found}, (name, row)
        assert all(check.counted.differences in (0, 1, 2) for check in found)
        repaired = place.verified(repairing=Repairing(write=True))
        assert {check.state for check in repaired} == {"equal"}, (name, row, repaired)
        assert place.rows() == before
        changed += 1
    assert changed == len(kinds) > 2
    assert place.states == {"equal"}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_that_is_missing_or_added_is_found_and_made_right(shape: str, make: Make, tmp_path: Path) -> None:
    place = make(shape)
    before = place.rows()
    for number in range(0, len(before), 3):
        key = [name for name in ("_source", "id", "_commit_ts", "_op") if name in place.columns]
        row = place.query(f"SELECT {', '.join(key)} FROM {place.table} ORDER BY {', '.join(key)}")[number]
        place.query(
            f"DELETE FROM {place.table} WHERE "
            + " AND ".join(f"{n} = {literal(v)}" for n, v in zip(key, row, strict=True))
        )
        (missing,) = {kind for kind, _ in place.found()}
        assert missing == "missing"
        script = tmp_path / "right.sql"
        place.verified(repairing=Repairing(sql=str(script)))
        place.run_script(script)
        assert place.rows() == before
    values = {"id": 77, "_op": "I", "_commit_ts": 5, "_source": place.sources[-1]}
    own = {name: value for name, value in values.items() if name in place.columns}
    place.query(
        f"INSERT INTO {place.table} ({', '.join(own)}) VALUES ({', '.join(literal(value) for value in own.values())})"
    )
    assert place.found() == [("extra", "77")]
    assert {check.state for check in place.verified(repairing=Repairing(write=True))} == {"equal"}
    assert place.rows() == before


def test_a_row_of_no_table_that_is_merged_is_found(make: Make) -> None:
    place = make("merge")
    before = place.rows()
    for source in ("s9.t", "s1.t ", "S2.t", "", *([None] if isinstance(place.query, Duck) else [])):
        place.query(f"INSERT INTO shop.t (_source, id) VALUES ({literal(source)}, 900)")
        assert place.found() == [("extra", "900")], source
        if source is None:  # no writer finds it
            assert "differs" in {check.state for check in place.verified(repairing=Repairing(write=True))}
            place.query("DELETE FROM shop.t WHERE _source IS NULL")
        assert {check.state for check in place.verified(repairing=Repairing(write=True))} <= {"equal"}
        assert place.rows() == before


def test_a_row_whose_source_ends_in_a_blank_is_not_the_rows_of_the_other_table(make: Make) -> None:
    """Servers take the two names for one, and give the first: with it a repair took the other table's rows away."""
    place = make("merge")
    before = place.rows()
    place.query("INSERT INTO shop.t (_source, id) VALUES ('s2.t ', -900)")
    assert place.found() == [("extra", "-900")]
    given, one = place.replica.settings(**SHAPES["merge"]), [TableName("s1", "t")]
    repaired = app.verify(given, Recorder(), one, loader=InlineLoader(3), repairing=Repairing(write=True)).tables
    assert [check.state for check in repaired] == ["equal"]
    assert place.rows() == before


def test_a_column_that_only_others_have_is_null_in_the_rows_of_a_merged_table(make: Make) -> None:
    place = make("merge")
    feed = place.replica.feed
    more = (ID, VALUE, NAME, COUNT, Column("more", "VARCHAR", length=9))
    feed.statement("s2.t", 70 * MS, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `more` VARCHAR(9)", more)
    feed.file("s2.t", 70 * MS, line("s2.t", 71, "INSERT", 50, v="1", name=None, n=None, more="m"))
    assert place.replica.once(80 * MS, **SHAPES["merge"]).exit_code == 0
    assert place.states == {"equal"}
    before = place.rows()
    place.query("UPDATE shop.t SET more = 'x' WHERE _source = 's1.t' AND id = 40")
    assert place.found() == [("differs", "40")]
    assert {check.state for check in place.verified(repairing=Repairing(write=True))} == {"equal"}
    assert place.rows() == before
