"""Forms of recorded changefeeds: what they keep is what the lines say, and rows that have not ended are a mirror's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.model.times import tso_to_time
from consumer.results import RunResult
from tests.e2e.corpus import Case, read_cases
from tests.servers import MariaDb
from tests.support.changes import Keys, keys_of, truncated, written
from tests.support.every_target import Duck
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

CASES = {case.name: case for case in read_cases(Path(__file__).parents[2] / "fixtures" / "cdc", Path("/nowhere"))}
NAMES = (
    "tiflow/d_keys/cj_ext", "tiflow/d_keys/csv_old", "tiflow/c_ddl/cj_ext", "tiflow/b4_gen/cj_ext",
    "ticdc/i_fk/cj_ext", "ticdc/h_dup/cj_across",
)  # fmt: skip
KEYS = {"k.nu": ("a",), "k.nu2": ("a", "b"), "d1.pkx": ("a",), "d1.nokey": ()}
"""Keys that are no primary ones."""
DELETED = (
    "k.p",
    "k.nc",
    "k.u",
    "k.cp",
    "k.cpo",
    "k.nu",
    "k.nu2",
    "k.ci",
    "k.cb",
    "k.bk",
    "du.t",
    "fk.child",
    "fk.parent",
)
"""Tables with one name, without a TRUNCATE, and with keys of one form as text."""
NO_VIEWS = {"rules": [{"kinds": ["view"], "action": "ignore"}]}
"""A view would show other rows than upstream's."""

Query = Callable[[str], list[tuple[Any, ...]]]
Rows = list[tuple[Any, ...]]


class Place:
    """A target with room for a mirror beside the form."""

    def __init__(self, url: str, query: Query, quote: str) -> None:
        self.url, self._query, self._quote = url, query, quote

    def both(self, case: Case, form: str, keyed: int) -> RunResult:
        """A mirror under other names, and the form."""
        return self.each(
            case, keyed, {"routes": ["*.* -> m_*.*"], "name": "mirror"}, {"table_modes": [f"*.* = {form}"]}
        )

    def each(self, case: Case, keyed: int, *ways: dict[str, Any]) -> RunResult:
        for given in ways:
            settings = case.settings(case.folder / "storage", self.url, ddl=NO_VIEWS, **given)
            result = app.once(settings, Recorder(), InlineLoader(keyed))
            assert result.exit_code == 0, [table.error for table in result.tables.values()]
            compared = app.verify(settings, Recorder(), loader=InlineLoader(keyed)).tables
            assert not [check for check in compared if check.error or check.counted.differences]
        assert all("a statement set its values" in note for check in compared for note in check.notes)
        return result

    def tables(self, mirror: bool) -> set[tuple[str, str]]:
        listed = self._query(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE LOWER(table_schema) NOT IN"
            " ('storage_consumer', 'mysql', 'sys', 'information_schema', 'performance_schema', 'metrics_schema')"
        )
        return {(str(d).removeprefix("m_"), str(t)) for d, t in listed if d.startswith("m_") == mirror}

    def columns(self, database: str, table: str) -> list[str]:
        where = f"table_schema = '{database}' AND table_name = '{table}'"
        names = f"SELECT column_name FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"
        return [str(name) for (name,) in self._query(names)]

    def rows(self, database: str, table: str, columns: Sequence[str]) -> Rows:
        names = ", ".join(f"{self._quote}{name}{self._quote}" for name in columns)
        return self._query(
            f"SELECT {names} FROM {self._quote}{database}{self._quote}.{self._quote}{table}{self._quote}"
        )


@pytest.fixture(params=["duckdb", "mariadb", "mysql", "tidb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "duckdb":
        return Place(f"duckdb:///{tmp_path}/r.duckdb", Duck(tmp_path / "r.duckdb"), '"')
    server: MariaDb = request.getfixturevalue(f"fresh_{request.param}")
    return Place(server.url(), server.execute, "`")


def last_rows(rows: Rows, key: int) -> Rows:
    """Of each key, which is so many columns, the row of its last change, where that is no DELETE."""
    found: dict[tuple[Any, ...], tuple[tuple[int, bool], tuple[Any, ...]]] = {}
    for row in rows:
        own, (ts, op), values = row[:key], row[key : key + 2], row[key + 2 :]
        if own not in found or (ts, op != "D") > found[own][0]:
            found[own] = (ts, op != "D"), values
    return [values for (_, there), values in found.values() if there]


def in_order(rows: Rows) -> list[str]:
    return sorted(map(repr, rows))


def in_trash(table: tuple[str, str]) -> bool:
    return "__trash_" in table[0] + table[1]


@pytest.mark.parametrize("name", NAMES)
def test_every_change_is_a_row_and_the_last_ones_are_the_mirrors(name: str, place: Place) -> None:
    case = CASES[name]
    storage = case.folder / "storage"
    place.both(case, "append", keyed=3)
    tables = place.tables(mirror=False)
    there = {table for table in tables if not in_trash(table)}
    assert there == place.tables(mirror=True)
    keys: Keys = keys_of(storage, KEYS)
    ended = truncated(storage)
    found = Counter(
        row for t in tables for row in place.rows(*t, ["_table", "_commit_ts", "_op"]) if row[1] not in ended
    )
    assert found == Counter((change.table, change.commit_ts, change.op) for change in written(storage, keys))
    for database, table in there:
        key, columns = keys[f"{database}.{table}"], place.columns(database, table)[:-4]
        mirror = place.rows(f"m_{database}", table, columns)
        rows = place.rows(database, table, [*key, "_commit_ts", "_op", *columns])
        assert in_order(last_rows(rows, len(key))) == in_order(mirror), (database, table)


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_deleted_stay_with_their_time(name: str, place: Place) -> None:
    case = CASES[name]
    storage = case.folder / "storage"
    checked = set()
    place.both(case, "soft-delete", keyed=0)
    keys: Keys = keys_of(storage, KEYS)
    last: dict[tuple[str, tuple[str, ...]], tuple[int, bool]] = {}
    for change in written(storage, keys):
        own = change.table, change.key
        last[own] = max(last.get(own, (0, False)), (change.commit_ts, change.op != "D"))
    for database, table in place.tables(mirror=True):
        key, columns = keys[f"{database}.{table}"], place.columns(database, table)[:-1]
        rows = place.rows(database, table, ["_deleted_at", *columns])
        alive = [row[1:] for row in rows if row[0] is None]
        assert in_order(alive) == in_order(place.rows(f"m_{database}", table, columns)), (database, table)
        if f"{database}.{table}" in DELETED:
            gone = {row[1:]: row[0] for row in place.rows(database, table, ["_deleted_at", *key]) if row[0] is not None}
            told = {k: ts for (name, k), (ts, there) in last.items() if name == f"{database}.{table}" and not there}
            assert {tuple(map(str, k)): time for k, time in gone.items()} == {
                k: tso_to_time(ts).replace(tzinfo=None) for k, ts in told.items()
            }
            checked.add(f"{database}.{table}")
    assert checked == {name for name in DELETED if name in keys}


@pytest.mark.parametrize("name", NAMES)
def test_each_version_is_what_sql_makes_of_the_changes(name: str, place: Place) -> None:
    case = CASES[name]
    keys: Keys = keys_of(case.folder / "storage", KEYS)
    changes = {"routes": ["*.* -> m_*.*"], "table_modes": ["*.* = append"], "name": "changes"}
    place.each(case, 2, changes, {"table_modes": ["*.* = history"]})
    compared = 0
    for database, table in place.tables(mirror=False) & place.tables(mirror=True):
        columns = place.columns(database, table)[:-4]
        if in_trash((database, table)):
            continue
        key = keys[f"{database}.{table}"]
        found = place.rows(database, table, [*columns, "_commit_ts", "_valid_from", "_valid_to", "_is_current"])
        rows = place.rows(f"m_{database}", table, [*key, "_commit_ts", "_op", *columns])
        assert in_order(found) == in_order(followed(rows, len(key))), (database, table)
        compared += len(found)
    assert compared


def followed(rows: Rows, key: int) -> Rows:
    """Each row that came, with its commit-ts, when it came and when the next change of its key was, and whether none
    was; as LEAD has it."""
    found = []
    ordered = sorted(rows, key=lambda row: (repr(row[:key]), row[key], row[key + 1] != "D"))
    for row, after in zip(ordered, [*ordered[1:], None], strict=True):
        until = after[key] if after is not None and repr(after[:key]) == repr(row[:key]) else None
        if row[key + 1] != "D":
            times = (None if ts is None else tso_to_time(ts).replace(tzinfo=None) for ts in (row[key], until))
            found.append((*row[key + 2 :], row[key], *times, int(until is None)))
    return found
