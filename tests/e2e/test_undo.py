"""`undo`: the statements are run as a person runs them, and the rows are those that the target had before."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.config.load import load
from consumer.errors import BadConfig, CannotBeExact, CheckpointBehind, ConsumerError, GapFound
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.results import UndoResult
from consumer.source.undo import undo
from tests.support import csv_rows
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.command_line import CommandLine, command_line, duckdb_tables
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.lettered import COLUMNS as PLAIN
from tests.support.lettered import TIMED
from tests.support.observers import Recorder
from tests.support.places import File, Place, Server

T = TableName("d", "t")
Row = dict[str, str | None]
PAIR = (ID, Column("v", "VARCHAR", length=8))
CREATE = (
    "`id` INT PRIMARY KEY, `u` INT UNIQUE, `s` VARCHAR(40), `b` VARBINARY(20), `j` JSON, `d` DECIMAL(30,10),"
    " `at` TIMESTAMP(6) NULL, `day` DATETIME"
)
COLUMNS = (
    ID,
    Column("u", "INT", length=11),
    Column("s", "VARCHAR", length=40),
    Column("b", "VARBINARY", length=20),
    Column("j", "JSON"),
    Column("d", "DECIMAL", length=30, scale=10),
    Column("at", "TIMESTAMP", scale=6),
    Column("day", "DATETIME"),
)
ODD = "it's \\ 'so'\n\0\r\x1a;\n-- \u00e9\U0001f600 %s"
BYTES = bytes([0, 0x27, 0x5C, 0x0A, 0xFF, 0x80, 0x1A]).decode("latin-1")


def row(number: int, **other: str | None) -> Row:
    found: Row = {"id": str(number), "u": str(number), "s": f"row {number}", "b": BYTES, "j": '{"a": [1, "\\\\ \'"]}'}
    found |= {"d": "-12345678901234567890.0123456789", "at": "2024-03-10 12:00:00.000001", "day": "2024-02-29 23:59:59"}
    return found | other


@pytest.fixture(params=["mariadb", "mysql", "tidb", "duckdb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "duckdb":
        return File(tmp_path / "replica.duckdb")
    return Server(request.getfixturevalue(f"fresh_{request.param}"))


class Upstream:
    """A table d.t, whose rows change one after the other from commit-ts 21 on."""

    def __init__(
        self, folder: Path, place: Place, create: str = CREATE, columns: Sequence[Column] = COLUMNS, **flags: object
    ) -> None:
        self.feed, self.place, self.columns = Feed(folder / "storage"), place, tuple(columns)
        self.ts, self.version, self.folder = 20, 10, folder
        self.feed.database("d", 5)
        self.feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` ({create})", self.columns)
        given = {"upstream_uri": f"file://{self.feed.folder}?protocol=canal-json", "downstream_uri": place.uri}
        self.settings = load({**given, "tz": "America/New_York", **flags}, {}).settings

    def commit(self, *changes: tuple[str, Row] | tuple[str, Row, Row]) -> None:
        """A transaction: kind, what the row is (or was), and of an UPDATE the old values of what has changed."""
        self.ts += 1
        found = ((*change, None)[:3] for change in changes)
        lines = (
            typed_line(self.columns, self.ts, data, kind, old=None if old is None else [old])
            for kind, data, old in found
        )
        self.feed.file("d.t", self.version, b"".join(lines))

    def insert(self, *rows: Row) -> None:
        self.commit(*(("INSERT", one) for one in rows))

    def update(self, old: Row, **new: str | None) -> Row:
        self.commit(("UPDATE", old | new, {name: old[name] for name in new}))
        return old | new

    def apply(self) -> list[tuple[Any, ...]]:
        """The target's rows then."""
        self.ts += 1
        self.feed.checkpoint(self.ts)
        seen = Recorder()
        app.once(self.settings, seen, InlineLoader())
        assert {str(table): str(error) for table, error in seen.stopped.items()} == {}
        return self.place.rows()

    def undo(self, first: int, last: int | None = None, where: str = "") -> UndoResult:
        """Runs the statements."""
        script = self.folder / "undo.sql"
        with script.open("wb") as file:
            found = undo(self.settings, Recorder(), T, first, last, where, file)
        self.place.run(script)
        return found


def test_a_bad_batch_is_taken_back(place: Place, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, place)
    empty: Row = dict.fromkeys([column.name for column in COLUMNS]) | {"id": "7"}
    kept, a, b, c, d = row(1), row(2), row(3, s=ODD), row(4, at="2024-11-03 01:30:00.5", d="0.1"), row(5, s="")
    upstream.insert(kept, a, b, c, d, empty)
    right = upstream.apply()
    assert len(right) == 6
    good = upstream.ts
    upstream.commit(
        ("UPDATE", a | {"s": None, "j": "[]"}, {"s": a["s"], "j": a["j"]}), ("DELETE", b), ("DELETE", empty)
    )
    upstream.insert(row(8), b | {"id": "9"})  # what was unique of a row that is gone goes to another one
    a = upstream.update(a | {"s": None, "j": "[]"}, u=None, b="", d="7.0000000000", at=None)
    upstream.commit(("DELETE", c), ("INSERT", c | {"u": "5000"}))  # an UPDATE of a unique key, as TiCDC splits it
    upstream.commit(("DELETE", d), ("INSERT", d | {"id": "50"}))
    upstream.insert(row(60))
    upstream.commit(("DELETE", row(60)))
    upstream.commit(("UPDATE", a | {"u": "8888"}, {"u": None}))
    wrong = upstream.apply()
    assert len(wrong) == 6
    assert wrong != right
    found = upstream.undo(good)
    assert place.rows() == right
    assert (found.rows, dict(found.left_out)) == (8, {})  # 60 came and went


def test_a_file_that_runs_twice_gives_no_key_a_second_row(place: Place, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, place)
    upstream.insert(row(1), row(2), row(3))
    right, good = upstream.apply(), upstream.ts
    upstream.update(row(1), s="x")
    upstream.commit(("DELETE", row(2)), ("INSERT", row(4)))
    upstream.apply()
    upstream.undo(good)
    with suppress(subprocess.CalledProcessError):  # a server's unique key may end it with an error
        place.run(tmp_path / "undo.sql")
    assert place.rows() == right


def test_unique_values_that_went_round(place: Place, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, place)
    rows = [row(number) for number in range(1, 4)]
    upstream.insert(*rows)
    right, good = upstream.apply(), upstream.ts
    around = [one | {"u": other["u"]} for one, other in zip(rows, [*rows[1:], rows[0]], strict=True)]
    upstream.commit(*(("DELETE", one) for one in rows), *(("INSERT", one) for one in around))
    assert upstream.apply() != right
    upstream.undo(good)
    assert place.rows() == right


HELD = "another row, which stays or comes back, has a unique value that it had"


def test_a_unique_value_that_another_row_has_now(place: Place, tmp_path: Path) -> None:
    """A row whose value went to one that is not taken back is left out; so is the row whose value that one keeps."""
    upstream = Upstream(tmp_path, place)
    rows = [row(number) for number in range(1, 6)]
    upstream.insert(*rows)
    right, good = upstream.apply(), upstream.ts
    moved = [rows[0] | {"u": "10"}, rows[1] | {"u": "1"}, rows[2] | {"u": "2"}]
    upstream.commit(*(("DELETE", one) for one in rows[:3]), *(("INSERT", one) for one in moved), ("DELETE", rows[3]))
    upstream.update(rows[4], u=None)
    end = upstream.ts
    upstream.insert(row(6, u="4"))
    later = upstream.apply()
    # 2 has the value of 1, and 3 that of 2: neither 1 nor 2 comes back while 3 stays. 6 has the value of 4.
    found = upstream.undo(good, end, "id <> 3")
    assert (found.rows, dict(found.left_out)) == (1, {HELD: 3})
    assert place.rows() == sorted([*(one for one in later if one[0] != 5), right[4]], key=repr)


def test_nothing_is_taken_back_while_the_checkpoint_is_below_what_was_applied(tmp_path: Path) -> None:
    """Later changes of the rows are not read then."""
    place = File(tmp_path / "replica.duckdb")
    upstream = Upstream(tmp_path, place, "`id` INT PRIMARY KEY, `v` INT, `s` VARCHAR(8)", PLAIN)
    upstream.insert(first := {"id": "1", "v": "1", "s": "a"})
    upstream.apply()
    good = upstream.ts
    changed = upstream.update(first, v="2")
    between = upstream.ts
    upstream.update(changed, v="3")
    right = upstream.apply()
    upstream.feed.checkpoint(between)
    for last in (None, between):
        with pytest.raises(CheckpointBehind):
            upstream.undo(good, last)
    assert place.rows() == right


YOUNGER = (
    "it had another value of a unique key that is younger, and a row that was not changed since may have that value"
)


def test_a_unique_key_that_is_younger_than_the_rows(tmp_path: Path) -> None:
    """Row 2, which no change of the range shows, has the value that row 1 had. Row 3 has its value still."""
    place = File(tmp_path / "replica.duckdb")
    upstream = Upstream(tmp_path, place, "`id` INT PRIMARY KEY, `v` INT, `s` VARCHAR(8)", PLAIN)
    small = [{"id": str(number), "v": v, "s": "a"} for number, v in enumerate("5577", 1)]
    upstream.insert(*small)
    upstream.apply()
    good = upstream.ts
    upstream.update(small[0], v="6")
    upstream.update(small[2], s="b")
    upstream.commit(("DELETE", small[3]))
    upstream.ts += 1
    upstream.version = upstream.ts
    upstream.feed.statement("d.t", upstream.ts, Action.ADD_INDEX, "ALTER TABLE `t` ADD UNIQUE `u` (`v`)", PLAIN)
    upstream.apply()
    found = upstream.undo(good)
    assert (found.rows, dict(found.left_out)) == (1, {YOUNGER: 2})
    assert [values[:3] for values in place.rows()] == [(1, 6, "a"), (2, 5, "a"), (3, 7, "a")]


def test_what_cannot_be_taken_back_is_left_out_by_name(tmp_path: Path) -> None:
    """A row that changed again behind the range, one that changed before a statement; all others are right."""
    place = File(tmp_path / "replica.duckdb")
    upstream = Upstream(tmp_path, place, "`id` INT PRIMARY KEY, `v` INT, `s` VARCHAR(8)", PLAIN)
    small = [{"id": str(number), "v": "0", "s": "a"} for number in range(1, 6)]
    upstream.insert(*small)
    upstream.apply()
    good = upstream.ts
    upstream.update(small[0], v="1")
    upstream.ts += 1
    upstream.version, upstream.columns = upstream.ts, (*PLAIN, Column("more", "INT", length=11))
    upstream.feed.statement("d.t", upstream.ts, Action.ADD_COLUMN, "ALTER TABLE `t` ADD `more` INT", upstream.columns)
    changed = [upstream.update(one | {"more": None}, v="1") for one in small[1:4]]
    end = upstream.ts
    upstream.update(changed[0], s="b")
    upstream.apply()
    found = upstream.undo(good, end, "id <> 4")
    assert (found.rows, found.left_out) == (
        1,
        {"it was changed again after the range": 1, "a later statement changed the table's columns, key or rows": 1},
    )
    assert [values[:2] for values in place.rows()] == [(1, 1), (2, 1), (3, 0), (4, 1), (5, 0)]
    script = (tmp_path / "undo.sql").read_text()
    assert '-- left out, as it was changed again after the range: {"id": "2"}' in script
    assert '-- left out, as a later statement changed the table\'s columns, key or rows: {"id": "1"}' in script


def test_statements_that_leave_columns_and_rows_are_passed_over(tmp_path: Path) -> None:
    """A name that went and came back hides no older row. A column that did has lost what they held."""
    place = File(tmp_path / "replica.duckdb")
    upstream = Upstream(tmp_path, place, "`id` INT PRIMARY KEY, `v` INT, `s` VARCHAR(8)", PLAIN)
    small = [{"id": str(number), "v": "0", "s": "a"} for number in range(1, 4)]
    upstream.insert(*small)
    right = upstream.apply()
    good = upstream.ts
    changed = upstream.update(small[0], v="1")
    upstream.commit(("DELETE", small[1]))
    away, back = upstream.ts + 1, upstream.ts + 2
    upstream.feed.statement("d.u", away, Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `d`.`u`", PLAIN)
    upstream.feed.statement("d.t", back, Action.RENAME_TABLE, "RENAME TABLE `d`.`u` TO `d`.`t`", PLAIN)
    upstream.ts = upstream.version = back
    upstream.update(changed, v="2")
    upstream.update(small[2], s="b")
    upstream.apply()
    with (tmp_path / "none.sql").open("wb") as file, pytest.raises(BadConfig) as told:
        undo(upstream.settings, Recorder(), TableName("d", "u"), good, None, "", file)
    assert told.value.hint == "its table is called d.t now"
    found = upstream.undo(good)
    assert (found.rows, dict(found.left_out), place.rows()) == (3, {}, right)
    end = upstream.ts
    dropped, added = upstream.ts + 1, upstream.ts + 2
    less = (PLAIN[0], PLAIN[2])
    upstream.feed.statement("d.t", dropped, Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `v`", less)
    upstream.columns = (*less, PLAIN[1])
    upstream.feed.statement("d.t", added, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `v` INT", upstream.columns)
    upstream.ts = added
    upstream.apply()
    left_out = {"a later statement changed the table's columns, key or rows": 3}
    assert upstream.undo(good, end).left_out == left_out


@pytest.mark.parametrize(
    ("action", "query"),
    [
        (Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`"),
        (Action.TRUNCATE_PARTITION, "ALTER TABLE `t` TRUNCATE PARTITION `p0`"),
        (Action.DROP_PARTITION, "ALTER TABLE `t` DROP PARTITION `p0`"),
    ],
)
def test_rows_that_a_statement_took_are_no_changes(action: Action, query: str, tmp_path: Path) -> None:
    """A range with the statement is refused; a change before it is left out; what came after it is taken back."""
    parts = "(PARTITION `p0` VALUES LESS THAN (10), PARTITION `p1` VALUES LESS THAN MAXVALUE)"
    create = f"`id` INT PRIMARY KEY, `v` INT, `s` VARCHAR(8)) PARTITION BY RANGE (`id`) {parts[:-1]}"
    place = File(tmp_path / "replica.duckdb")
    upstream = Upstream(tmp_path, place, create, PLAIN)
    small = [{"id": str(number), "v": "0", "s": "a"} for number in (1, 2)]
    upstream.insert(*small)
    upstream.apply()
    good = upstream.ts
    upstream.update(small[0], v="1")
    before = upstream.ts
    upstream.version = upstream.ts = upstream.ts + 1
    upstream.feed.statement("d.t", upstream.ts, action, query, upstream.columns)
    upstream.insert({"id": "60", "v": "0", "s": "b"})
    assert upstream.apply() == [(60, 0, "b")]
    with pytest.raises(CannotBeExact, match=f"the statement of version {before + 1} took rows away"):
        upstream.undo(good)
    assert upstream.undo(good, before).left_out == {"a later statement changed the table's columns, key or rows": 1}
    assert place.rows() == [(60, 0, "b")]
    assert upstream.undo(before + 1).rows == 1
    assert place.rows() == []


def test_csv_without_old_values(tmp_path: Path) -> None:
    place = File(tmp_path / "replica.duckdb")
    csv = replace(TIMED, output_old_value=False)
    feed = Feed(tmp_path / "storage")
    feed.database("d", 5)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY NOT NULL, `v` INT, `s` VARCHAR(8))"
    feed.statement("d.t", 10, Action.CREATE_TABLE, create, PLAIN)
    lines = [("I", 11, "1", "1"), ("I", 11, "2", "1"), ("U", 12, "1", "2"), ("D", 13, "2", "1"), ("I", 14, "3", "3")]
    records = (csv_rows.record(kind, [key, v, "a"], PLAIN, csv, ts) + b"\r\n" for kind, ts, key, v in lines)
    feed.file("d.t", 10, b"".join(records), extension="csv")
    feed.checkpoint(20)
    given = {"upstream_uri": f"file://{feed.folder}?protocol=csv", "downstream_uri": place.uri, "tz": "UTC"}
    settings = load({**given, "csv_include_commit_ts": True}, {}).settings
    assert app.once(settings, Recorder(), InlineLoader()).exit_code == 0
    with (tmp_path / "undo.sql").open("wb") as file:
        found = undo(settings, Recorder(), T, 11, None, "", file)
    place.run(tmp_path / "undo.sql")
    assert (found.rows, found.left_out) == (2, {"the files do not have its old values": 1})
    assert place.rows() == [(1, 2, "a"), (2, 1, "a")]


def test_columns_of_the_targets_own_stay(fresh_mariadb: Any, tmp_path: Path) -> None:
    place = Server(fresh_mariadb)
    upstream = Upstream(tmp_path, place)
    upstream.insert(row(1), row(2), row(3))
    upstream.apply()
    place.by_hand("ALTER TABLE d.t ADD own INT DEFAULT 5", "UPDATE d.t SET own = id")
    right, good = place.rows(), upstream.ts
    upstream.update(row(1), s="x")
    upstream.commit(("DELETE", row(2)))
    upstream.insert(row(4))
    upstream.apply()
    upstream.undo(good)
    # The row that was deleted comes back with the default.
    assert [values for values in place.rows() if values[0] != 2] == [values for values in right if values[0] != 2]
    assert [values[-1] for values in place.rows()] == [1, 5, 3]


WAITS = "a row that is taken back too has a unique value that it had, and the target has columns of its own"


def test_unique_values_that_went_round_beside_columns_of_the_targets_own(place: Place, tmp_path: Path) -> None:
    """A server takes them from one row after the other. Who waits for a row that waits is left out as well."""
    upstream = Upstream(tmp_path, place)
    rows = [row(number) for number in range(1, 7)]
    upstream.insert(*rows)
    upstream.apply()
    place.by_hand("ALTER TABLE d.t ADD own INT DEFAULT 5", "UPDATE d.t SET own = id")
    right, good = place.rows(), upstream.ts
    moved = [rows[0] | {"u": "2"}, rows[1] | {"u": "1"}, rows[2] | {"u": "30"}, rows[3] | {"u": "3"}]
    upstream.commit(*(("DELETE", one) for one in rows[:4]), *(("INSERT", one) for one in moved))
    upstream.update(rows[4], s="x")
    upstream.commit(("DELETE", rows[5]), ("INSERT", rows[5] | {"u": "60"}))
    place_has = upstream.apply()
    found = upstream.undo(good)
    if isinstance(place, File):
        assert (found.rows, dict(found.left_out)) == (6, {})
        assert place.rows() == right
        return
    # 1 and 2 wait for one another, and 3 for 4, which gets its own value back.
    assert (found.rows, dict(found.left_out)) == (3, {WAITS: 3})
    assert place.rows() == [*place_has[:3], *right[3:]]


def test_the_statements_run_only_while_no_consumer_has_gone_on(place: Place, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, place)
    upstream.insert(row(1))
    upstream.apply()
    good = upstream.ts
    upstream.update(row(1), s="x")
    upstream.apply()
    with (tmp_path / "undo.sql").open("wb") as file:
        undo(upstream.settings, Recorder(), T, good, None, "", file)
    now = upstream.apply()
    with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
        place.run(tmp_path / "undo.sql")
    assert place.rows() == now


FILTERS: dict[str, dict[str, object]] = {
    "its columns s are masked": {"masks": [{"tables": ["d.*"], "columns": ["s"], "mask": "null"}]},
    "its changes can only be read unfiltered": {"rows": [{"tables": ["d.*"], "where": "id > 0"}]},
    "as upstream has them: append": {"table_modes": ["*.* = append"]},
}


@pytest.mark.parametrize("says", FILTERS)
def test_rows_that_the_target_has_otherwise_are_refused(says: str, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, File(tmp_path / "replica.duckdb"), **FILTERS[says])
    upstream.insert(row(1))
    upstream.apply()
    with pytest.raises(CannotBeExact, match=says):
        upstream.undo(20)


@pytest.mark.parametrize("flags", [{}, {"accept_gap_in": ("d.t",)}])
def test_nothing_is_taken_back_where_a_file_is_missing(flags: dict[str, Any], tmp_path: Path) -> None:
    """It had a later change."""
    place = File(tmp_path / "replica.duckdb")
    upstream = Upstream(tmp_path, place, **flags)
    upstream.insert(row(1))
    upstream.apply()
    good = upstream.ts
    changed = upstream.update(row(1), s="wrong")
    last = upstream.ts
    upstream.update(changed, s="right")
    upstream.insert(row(2))
    now = upstream.apply()
    (upstream.feed.folder / "d" / "t" / "10" / "CDC00000000000000000003.json").unlink()
    with pytest.raises(GapFound, match="number 3 is missing") as found:
        upstream.undo(good, last)
    assert "restore the missing file" in found.value.hint
    assert "accept" not in found.value.hint
    assert place.rows() == now


def test_a_table_with_no_key_is_refused(tmp_path: Path) -> None:
    columns = (replace(ID, is_pk=False), *PLAIN[1:])
    upstream = Upstream(tmp_path, File(tmp_path / "replica.duckdb"), "`id` INT, `v` INT, `s` VARCHAR(8)", columns)
    upstream.insert({"id": "1", "v": "1", "s": "a"})
    upstream.apply()
    with pytest.raises(CannotBeExact, match="it has no key"):
        upstream.undo(20)


@pytest.mark.parametrize(
    ("first", "last", "kind", "says"),
    [(30, 29, BadConfig, "is not after"), (20, 1 << 50, CheckpointBehind, "only"), (22, 23, CheckpointBehind, "only")],
)
def test_a_range_that_is_not_there_is_refused(
    first: int, last: int, kind: type[ConsumerError], says: str, tmp_path: Path
) -> None:
    upstream = Upstream(tmp_path, File(tmp_path / "replica.duckdb"))
    upstream.insert(row(1))
    upstream.apply()
    upstream.ts = 40
    upstream.feed.checkpoint(40)
    with pytest.raises(kind, match=says):
        upstream.undo(first, last)


@pytest.mark.parametrize(
    ("old", "new", "kind", "before", "behind"),
    [
        (
            Column("k", "DECIMAL", length=5, scale=1),
            Column("k", "DECIMAL", length=9, scale=3),
            "DECIMAL(9,3)",
            "1.5",
            "1.500",
        ),
        (Column("k", "TIME"), Column("k", "TIME", scale=3), "TIME(3)", "01:00:00", "01:00:00.000"),
    ],
)
def test_rows_whose_key_is_written_otherwise_since_a_statement_are_not_told_apart(
    old: Column, new: Column, kind: str, before: str, behind: str, tmp_path: Path
) -> None:
    keyed = [(replace(one, nullable=False, is_pk=True), Column("v", "INT")) for one in (old, new)]
    create = "`k` DECIMAL(5,1) PRIMARY KEY, `v` INT" if old.type == "DECIMAL" else "`k` TIME PRIMARY KEY, `v` INT"
    upstream = Upstream(tmp_path, File(tmp_path / "replica.duckdb"), create, keyed[0])
    upstream.insert({"k": before, "v": "0"})
    first = upstream.ts
    changed = upstream.update({"k": before, "v": "0"}, v="1")
    version = upstream.ts = upstream.version = upstream.ts + 1
    upstream.columns = keyed[1]
    query = f"ALTER TABLE `t` MODIFY COLUMN `k` {kind} NOT NULL"
    upstream.feed.statement("d.t", version, Action.MODIFY_COLUMN, query, keyed[1])
    upstream.update(changed | {"k": behind}, v="2")
    upstream.apply()
    with pytest.raises(CannotBeExact, match="changed the type of k") as refused:
        upstream.undo(first)
    assert f"--from-ts {version} " in refused.value.hint
    assert upstream.undo(version).rows == 1
    assert [left[-1] for left in upstream.place.rows()] == [1]


def test_a_moment_before_the_storage_has_every_change_is_refused(tmp_path: Path) -> None:
    """The table is older than the changefeed, and the target was given it as it was at 30."""
    place = File(tmp_path / "replica.duckdb")
    place.by_hand(
        "CREATE SCHEMA d", "CREATE TABLE d.t (id INTEGER PRIMARY KEY, v VARCHAR)", "INSERT INTO d.t VALUES (1, 'b')"
    )
    upstream = Upstream(tmp_path, place, columns=PAIR, start_ts="30")
    (upstream.feed.folder / "d" / "t" / "meta").rename(tmp_path / "gone")
    upstream.feed.describe("d.t", 10, PAIR)
    upstream.ts = 24
    old: Row = {"id": "1", "v": "a"}
    upstream.update(old, v="b")
    upstream.ts = 30
    upstream.update(old | {"v": "b"}, v="c")
    upstream.apply()
    with pytest.raises(CannotBeExact, match="older than the storage's changes") as refused:
        upstream.undo(22)
    assert "--from-ts 30;" in refused.value.hint
    assert upstream.undo(30).rows == 1
    assert place.rows() == [(1, "b")]


def test_a_value_that_was_none_of_its_type_does_not_come_back(tmp_path: Path) -> None:
    place = File(tmp_path / "replica.duckdb")
    letters = f"file://{tmp_path}/letters"
    upstream = Upstream(tmp_path, place, "`id` INT PRIMARY KEY, `v` INT", (ID, Column("v", "INT")))
    upstream.settings = load(
        {
            "upstream_uri": f"file://{upstream.feed.folder}?protocol=canal-json",
            "downstream_uri": place.uri,
            "tz": "UTC",
            "on_bad_row": "quarantine",
            "dead_letters": letters,
        },
        {},
    ).settings
    upstream.insert({"id": "1", "v": "1"}, {"id": "2", "v": "bad"})
    first = upstream.ts
    upstream.update({"id": "1", "v": "1"}, v="5")
    upstream.update({"id": "2", "v": "bad"}, v="8")
    now = upstream.apply()
    with pytest.raises(CannotBeExact, match="had what is no value"):
        upstream.undo(first)
    assert place.rows() == now == [(1, 5), (2, 8)]
    assert upstream.undo(first, where="id = 1").rows == 1
    assert place.rows() == [(1, 1), (2, 8)]


def test_a_target_that_has_nothing_is_refused(tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, File(tmp_path / "replica.duckdb"))
    with pytest.raises(BadConfig, match="nothing was applied"):
        upstream.undo(20)


@pytest.fixture
def consumer(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    return command_line(tmp_path, capsys, monkeypatch)


def test_the_command_prints_or_writes_them(consumer: CommandLine, tmp_path: Path) -> None:
    consumer.run("once")
    words = ("undo", "--table", "du.t", "--from-ts", "2026-11-21T06:01:00Z")
    printed = consumer.run(*words)
    written = consumer.run(*words, "--output", "undo.sql", "--json")
    assert (printed.code, written.code) == (0, 0)
    assert (tmp_path / "undo.sql").read_text() == printed.out
    assert "BEGIN TRANSACTION" in printed.out
    assert written.json["rows"] > 0
    before = duckdb_tables(consumer.target)["t"]
    File(tmp_path / "replica.duckdb").run(tmp_path / "undo.sql")
    assert duckdb_tables(consumer.target)["t"] != before


def test_rows_left_out_are_an_exit_code(consumer: CommandLine) -> None:
    consumer.run("once")
    found = consumer.run("undo", "--table", "du.t", "--from-ts", "2026-11-21T06:00:57Z", "--json")
    assert found.code == found.json["exit_code"] == (3 if found.json["left_out"] else 0)


def test_the_example_of_the_page(consumer: CommandLine, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "changes.md").read_text(encoding="utf-8")
    _, shell, _, sql, *_ = page.partition("## Take a bad batch back")[2].split("```")
    (storage, *commands) = shell.removeprefix("bash\n").splitlines()
    flags = shlex.split(storage.partition("=")[2].replace("$PWD", str(root)))[0].split()
    for line in commands:
        words = shlex.split(line.replace("$STORAGE", ""))
        assert consumer.raw(*words[1:], *flags, "--log-level", "error").code == 0
    before, after = sql.removeprefix("sql\n").split("..\n", 1)[0], sql.splitlines()[-1]
    script = (tmp_path / "undo.sql").read_text()
    assert script.startswith(before)
    assert script.endswith(f"{after}\n")
    rows = duckdb_tables(consumer.target)["t"]
    File(tmp_path / "replica.duckdb").run(tmp_path / "undo.sql")
    # By hand, from what `changes` prints of the rows 1, 7 and 8, of which 7 and 8 came in the range.
    wanted = [(1, 10, 1, 1), *(row for row in rows if row[0] not in (1, 7, 8))]
    assert duckdb_tables(consumer.target)["t"] == wanted
