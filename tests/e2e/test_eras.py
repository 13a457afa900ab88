"""What reads a table's history a second way (`verify`, `--repair`, the data source, `changes`, `undo`) reads each row
with the key, the name and the rules that the table had then."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from consumer import app
from consumer.app.verify import verify
from consumer.config.load import load
from consumer.config.settings import Settings
from consumer.errors import CannotBeExact
from consumer.model.actions import Action
from consumer.model.check import Repairing, VerifyResult
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.source.story import ordered_changes
from consumer.source.undo import undo
from tests.support.build import ID
from tests.support.canal_json import typed_line
from tests.support.feed import CREATE, Feed, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder
from tests.support.spark_source import read

A, B = Column("a", "INT", nullable=False), Column("b", "INT", nullable=False)
A_KEY, B_KEY = Column("a", "INT", nullable=False, is_pk=True), Column("b", "INT", nullable=False, is_pk=True)
C = Column("c", "INT")
Row = tuple[int, int]
Statement = tuple[Action, str, tuple[Column, ...]]


@dataclass(frozen=True)
class Moved:
    """A table whose handle key moves from `a` to `b`."""

    create: str
    columns: tuple[Column, ...]
    statements: tuple[Statement, ...]
    key: tuple[str, ...] = ("a",)


_DROPPED = (Action.DROP_PRIMARY_KEY, "ALTER TABLE `t` DROP PRIMARY KEY", (A, B))
_ADDED = (Action.ADD_PRIMARY_KEY, "ALTER TABLE `t` ADD PRIMARY KEY(`b`) NONCLUSTERED", (A, B_KEY))
_PRIMARY = "`a` INT NOT NULL,`b` INT NOT NULL,PRIMARY KEY(`a`) /*T![clustered_index] NONCLUSTERED */"
MOVES = {
    "a primary key": Moved(_PRIMARY, (A_KEY, B), (_DROPPED, _ADDED)),
    "a unique key": Moved(
        "`a` INT NOT NULL,`b` INT NOT NULL,UNIQUE KEY `ua`(`a`)",
        (A, B),
        (
            (Action.ADD_INDEX, "ALTER TABLE `t` ADD UNIQUE INDEX `ub`(`b`)", (A, B)),
            (Action.DROP_INDEX, "ALTER TABLE `t` DROP INDEX `ua`", (A, B)),
        ),
    ),
    "a first key": Moved("`a` INT NOT NULL,`b` INT NOT NULL", (A, B), (_ADDED,), ()),
    "a unique column that becomes NOT NULL": Moved(
        "`a` INT NOT NULL,`b` INT,UNIQUE KEY `ub`(`b`)",
        (A, Column("b", "INT")),
        ((Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY `b` INT NOT NULL", (A, B)),),
        (),
    ),
    "a key whose old column goes": Moved(
        _PRIMARY.replace(",PRIMARY", ",`c` INT,PRIMARY"),
        (A_KEY, B, C),
        (
            (Action.DROP_PRIMARY_KEY, "ALTER TABLE `t` DROP PRIMARY KEY", (A, B, C)),
            (Action.ADD_PRIMARY_KEY, "ALTER TABLE `t` ADD PRIMARY KEY(`b`) NONCLUSTERED", (A, B_KEY, C)),
            (Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `a`", (B_KEY, C)),
            (Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `a` INT", (B_KEY, C, Column("a", "INT"))),
        ),
    ),
}


def stored(folder: Path, moved: Moved) -> Feed:
    """Before the key moves: (1, 5) became (1, 6), and (2, 7) took 5 from it; (4, 9) went. Behind it (3, 8) came."""
    feed = Feed(folder / "storage")
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE `t` ({moved.create})", moved.columns)

    def line(ts: int, kind: str, row: Row, old: Row | None = None, columns: Sequence[Column] = moved.columns) -> bytes:
        values, before = ({"a": str(one[0]), "b": str(one[1])} for one in (row, old or row))
        more = {"c": "0"} if C in columns else {}
        return typed_line(columns, ts, values | more, kind, old=None if old is None else [before | more])

    lines = [
        line(11, "INSERT", (1, 5)), line(11, "INSERT", (2, 7)), line(12, "INSERT", (4, 9)),
        line(13, "UPDATE", (1, 6), (1, 5)), line(14, "UPDATE", (2, 5), (2, 7)), line(15, "DELETE", (4, 9)),
    ]  # fmt: skip
    feed.file("d.t", 10, b"".join(lines))
    for number, (action, query, columns) in enumerate(moved.statements):
        feed.statement("d.t", 20 + number, action, query, columns)
    last = 19 + len(moved.statements)
    feed.file("d.t", last, line(30, "INSERT", (3, 8), columns=moved.statements[-1][2]))
    feed.checkpoint(40)
    return feed


@pytest.fixture(params=MOVES, ids=lambda name: name.replace(" ", "-"))
def moved(request: pytest.FixtureRequest) -> Moved:
    return MOVES[request.param]


def test_the_state_of_a_table_whose_key_has_moved(moved: Moved, tmp_path: Path) -> None:
    uri = f"file://{stored(tmp_path, moved).folder}?protocol=canal-json"
    rows = read(uri, table="d.t", mode="state").to_pylist()
    kept = not any(action is Action.DROP_COLUMN for action, _, _ in moved.statements)
    assert sorted((row["a"] if kept else None, row["b"]) for row in rows) == sorted(
        [(1, 6), (2, 5), (3, 8)] if kept else [(None, 5), (None, 6), (None, 8)], key=str
    )
    assert len(read(uri, table="d.t", mode="state", columns="b", to_ts="12")) == 3


def test_each_change_of_a_table_whose_key_has_moved(moved: Moved, tmp_path: Path) -> None:
    uri = f"file://{stored(tmp_path, moved).folder}?protocol=canal-json"
    rows = read(uri, table="d.t", columns="b", before="true").to_pylist()
    found = [(row["_op"], row["_commit_ts"], row["b"], row["_before"] and row["_before"]["b"]) for row in rows]
    updates = (
        [("U", 13, 6, 5), ("U", 14, 5, 7)]
        if moved.key
        else [("D", 13, 5, 5), ("I", 13, 6, None), ("D", 14, 7, 7), ("I", 14, 5, None)]
    )
    assert sorted(found, key=str) == sorted(
        [("I", 11, 5, None), ("I", 11, 7, None), ("I", 12, 9, None), *updates, ("D", 15, 9, 9), ("I", 30, 8, None)],
        key=str,
    )


def test_rows_from_before_a_key_moved_are_compared_and_made_right(moved: Moved, tmp_path: Path) -> None:
    feed = stored(tmp_path, moved)
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings()
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    assert _table(compared(own)).differences == 0
    right = rows_of(tmp_path)
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as there:
        there.execute("DELETE FROM d.t WHERE b = 6; INSERT INTO d.t (b) VALUES (77)")
    counted = _table(compared(own))
    assert (counted.missing, counted.extra, counted.differing) == (1, 1, 0)
    assert _table(compared(own, Repairing(True))).differences == 0
    assert rows_of(tmp_path) == right


# The rows of TiDB's own conversions that these values are: `fixtures/types/conversions.tsv`.
RETYPED: dict[str, tuple[Column, Column, dict[str, Any]]] = {
    "a text": (Column("v", "VARCHAR", length=20), Column("v", "INT"), {"2.5": 3, "1e3": 1000, " 7 ": 7}),
    "a double": (Column("v", "DOUBLE"), Column("v", "VARCHAR", length=40), {"1e20": "1" + "0" * 20, "0.1": "0.1"}),
    "digits": (
        Column("v", "DECIMAL", length=10, scale=2),
        Column("v", "DECIMAL", length=10, scale=1),
        {"1.25": Decimal("1.3"), "-1.25": Decimal("-1.3")},
    ),
    "labels": (
        Column("v", "ENUM", elements=("a", "b")),
        Column("v", "ENUM", elements=("c", "b", "a")),
        {"1": "a", "2": "b"},
    ),
}


@pytest.mark.parametrize("what", RETYPED, ids=lambda name: name.replace(" ", "-"))
def test_what_upstream_made_of_older_values_is_compared_and_made_right(what: str, tmp_path: Path) -> None:
    old, new, values = RETYPED[what]
    feed = retyped(tmp_path, "id INT PRIMARY KEY", ID, old, new)
    lines = [typed_line((ID, old), 11, {"id": str(n), "v": text}) for n, text in enumerate(values)]
    feed.file("d.t", 10, b"".join(lines))
    feed.checkpoint(40)
    right = [{"id": n, "v": value} for n, value in enumerate(values.values())]
    assert read(f"file://{feed.folder}?protocol=canal-json", table="d.t", mode="state").to_pylist() == right
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings()
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    assert rows_of(tmp_path) == right
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as there:
        there.execute("UPDATE d.t SET v = (SELECT v FROM d.t WHERE id = 1) WHERE id = 0")
    counted = _table(compared(own))
    assert (counted.missing, counted.extra, counted.differing, counted.unknown) == (0, 0, 1, {})
    assert _table(compared(own, Repairing(True))).differences == 0
    assert rows_of(tmp_path) == right


DIGITS = Column("v", "DECIMAL", nullable=False, is_pk=True, length=10, scale=2)
BLANKS = Column("v", "VARCHAR", nullable=False, is_pk=True, length=5)


@pytest.mark.parametrize(
    "case",
    [
        (DIGITS, replace(DIGITS, length=12, scale=4), ("1.10", "1.20"), Decimal("1.1")),
        (BLANKS, replace(BLANKS, type="CHAR"), ("a", "a "), None),
    ],
    ids=["other digits", "two values that become one"],
)
def test_rows_meet_under_a_key_that_got_another_type(
    case: tuple[Column, Column, tuple[str, str], Decimal | None], tmp_path: Path
) -> None:
    """Where two keys can become one, nobody knows whose a delete was."""
    old, new, (first, second), left = case
    now = first if left is None else "1.1000"
    feed = retyped(tmp_path, "n INT", Column("n", "INT"), old, new)
    put, gone = ({"n": "1", "v": first}, {"n": "1", "v": second})
    lines = [typed_line((Column("n", "INT"), old), ts, row, kind) for ts, kind, row in (
        (11, "INSERT", gone), (12, "INSERT", put), (13, "DELETE", gone))]  # fmt: skip
    feed.file("d.t", 10, b"".join(lines))
    feed.file(
        "d.t", 20, typed_line((Column("n", "INT"), new), 31, {"n": "2", "v": now}, "UPDATE", old=[put | {"v": now}])
    )
    feed.checkpoint(40)
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings()
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    uri = f"file://{feed.folder}?protocol=canal-json"
    (found,) = compared(own, Repairing(True)).tables
    if left is None:
        assert isinstance(found.error, CannotBeExact)
        with pytest.raises(CannotBeExact):
            read(uri, table="d.t", mode="state")
    else:
        assert _table(compared(own)).differences == 0
        assert read(uri, table="d.t", mode="state").to_pylist() == [{"n": 2, "v": left}]
    assert [row["n"] for row in rows_of(tmp_path)] == [2]


def test_a_column_that_came_and_got_another_type_behind_a_key_that_moved(tmp_path: Path) -> None:
    moved = MOVES["a unique key"]
    feed = stored(tmp_path, moved)
    text, number = Column("d", "VARCHAR", length=9, default="2"), Column("d", "INT", default="2")
    add = "ALTER TABLE `t` ADD COLUMN `d` VARCHAR(9) DEFAULT '2'"
    feed.statement("d.t", 50, Action.ADD_COLUMN, add, (A, B, text))
    feed.file("d.t", 50, typed_line((A, B, text), 51, {"a": "9", "b": "9", "d": "2.5"}))
    feed.statement("d.t", 60, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY `d` INT DEFAULT '2'", (A, B, number))
    feed.checkpoint(70)
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings()
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    right = [(1, 6, 2), (2, 5, 2), (3, 8, 2), (9, 9, 3)]
    assert sorted((row["a"], row["b"], row["d"]) for row in rows_of(tmp_path)) == right
    assert _table(compared(own)).differences == 0
    state = read(f"file://{feed.folder}?protocol=canal-json", table="d.t", mode="state").to_pylist()
    assert sorted((row["a"], row["b"], row["d"]) for row in state) == right


def retyped(folder: Path, first: str, other: Column, old: Column, new: Column) -> Feed:
    """A table whose column changes its type at 20."""
    feed = Feed(folder / "storage")
    feed.database("d", 1)
    key = ", PRIMARY KEY(v)" if old.is_pk else ""
    feed.statement("d.t", 10, Action.CREATE_TABLE, f"CREATE TABLE t ({first}, v {_declared(old)}{key})", (other, old))
    feed.statement("d.t", 20, Action.MODIFY_COLUMN, f"ALTER TABLE t MODIFY v {_declared(new)}", (other, new))
    return feed


def _declared(column: Column) -> str:
    sizes = column.elements or ([column.length, column.scale] if column.scale else [column.length or ""])
    listed = ",".join(f"'{size}'" if column.elements else str(size) for size in sizes)
    null = "" if column.nullable else " NOT NULL"
    return f"{column.type}({listed}){null}" if listed else f"{column.type}{null}"


def test_undo_leaves_rows_out_whose_key_has_moved_since(tmp_path: Path) -> None:
    feed = stored(tmp_path, MOVES["a unique key"])
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings()
    app.once(own, Recorder(), InlineLoader())
    out = io.BytesIO()
    found = undo(own, Recorder(), TableName("d", "t"), 12, None, "", out)
    reason = "a later statement changed the table's columns, key or rows"
    assert (found.rows, set(found.left_out)) == (1, {reason}), "the row that came after the statement"
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as there:
        there.execute(out.getvalue().decode())
    assert sorted((row["a"], row["b"]) for row in rows_of(tmp_path)) == [(1, 6), (2, 5)]


def test_a_key_that_an_update_changed_in_one_line_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    columns = (ID, Column("v", "INT"))
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, CREATE.format("t"), columns)
    lines = typed_line(columns, 11, {"id": "1", "v": "5"})
    lines += typed_line(columns, 20, {"id": "2", "v": "5"}, "UPDATE", old=[{"id": "1", "v": "5"}])
    feed.file("d.t", 10, lines)
    feed.checkpoint(30)
    rows = read(f"file://{feed.folder}?protocol=canal-json", table="d.t").to_pylist()
    found = sorted((row["_commit_ts"], row["_op"], row["id"]) for row in rows)
    assert found == [(11, "I", 1), (20, "D", 1), (20, "I", 2)]
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings()
    app.once(own, Recorder(), InlineLoader())
    out = io.BytesIO()
    assert undo(own, Recorder(), TableName("d", "t"), 15, None, "", out).left_out == {}
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as there:
        there.execute(out.getvalue().decode())
    assert rows_of(tmp_path) == [{"id": 1, "v": 5}]


def test_a_table_whose_first_file_is_a_rename_is_read_under_both_names(tmp_path: Path) -> None:
    """Both are older than the changefeed, and one statement renames both: ``RENAME TABLE a TO b, c TO a``."""
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as there:
        there.execute("CREATE SCHEMA d; CREATE TABLE d.a(id INTEGER NOT NULL, v INTEGER)")
        there.execute("CREATE TABLE d.c(id INTEGER NOT NULL, v INTEGER)")
        there.execute("INSERT INTO d.a VALUES (1, 11); INSERT INTO d.c VALUES (3, 33)")
    feed = Feed(tmp_path / "storage")
    feed.rename("d.a", "d.b", 20)
    feed.rename("d.c", "d.a", 20)
    feed.puts("d.b", 20, {30: (2, "22")})
    feed.puts("d.a", 20, {31: (4, "44")})
    feed.checkpoint(40)
    own = Replica(feed, f"duckdb:///{tmp_path}/replica.duckdb").settings(start_ts="5")
    assert app.once(own, Recorder(), InlineLoader()).exit_code == 0
    right = [{"id": 1, "v": 11}, {"id": 2, "v": 22}]
    assert rows_of(tmp_path, "b") == right
    assert {str(t.table): t.counted.differences for t in compared(own).tables} == {"d.a": 0, "d.b": 0}
    with duckdb.connect(f"{tmp_path}/replica.duckdb") as there:
        there.execute("UPDATE d.b SET v = 999 WHERE id = 2")
    assert {str(t.table): t.counted.differing for t in compared(own).tables} == {"d.a": 0, "d.b": 1}
    assert _table(compared(own, Repairing(True)), "d.b").differences == 0
    assert rows_of(tmp_path, "b") == right
    assert rows_of(tmp_path, "a") == [{"id": 3, "v": 33}, {"id": 4, "v": 44}]


def test_a_rename_moves_no_key(tmp_path: Path) -> None:
    """Of a table with no key, too."""
    feed = Feed(tmp_path / "storage")
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, "CREATE TABLE `t` (`a` INT NOT NULL,`b` INT NOT NULL)", (A, B))
    feed.file("d.t", 10, typed_line((A, B), 11, {"a": "1", "b": "5"}) * 2)
    feed.statement("d.u", 20, Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `d`.`u`", (A, B))
    feed.checkpoint(30)
    rows = read(f"file://{feed.folder}?protocol=canal-json", table="d.u", mode="state").to_pylist()
    assert rows == [{"a": 1, "b": 5}] * 2


MASK = '[[consumer.masks]]\ntables = ["d.t"]\ncolumns = ["v"]\nmask = "null"\n'
FILTER = '[[consumer.rows]]\ntables = ["d.t"]\nwhere = "v > 1"\n'
PARTED: dict[str, Statement] = {
    "a table": (Action.RENAME_TABLE, "RENAME TABLE `d`.`t` TO `d`.`u`", (ID, Column("v", "INT"))),
    "a column": (Action.MODIFY_COLUMN, "ALTER TABLE `t` RENAME COLUMN `v` TO `w`", (ID, Column("w", "INT"))),
}


@pytest.mark.parametrize("rule", [MASK, FILTER], ids=["mask", "filter"])
@pytest.mark.parametrize("what", PARTED)
def test_who_reads_is_refused_what_the_round_is_refused(what: str, rule: str, tmp_path: Path) -> None:
    """A statement parts the rows from the rule that names the table, or its column."""
    action, query, columns = PARTED[what]
    feed, name = Feed(tmp_path / "storage"), "d.u" if action is Action.RENAME_TABLE else "d.t"
    feed.database("d", 1)
    feed.statement("d.t", 10, Action.CREATE_TABLE, CREATE.format("t"), (ID, Column("v", "INT")))
    feed.file("d.t", 10, typed_line((ID, Column("v", "INT")), 11, {"id": "1", "v": "7"}))
    feed.statement(name, 20, action, query, columns)
    feed.file(name, 20, typed_line(columns, 21, {"id": "2", columns[1].name: "8"}))
    feed.checkpoint(30)
    (tmp_path / "rules.toml").write_text(rule)
    given = {
        "upstream_uri": f"file://{feed.folder}?protocol=canal-json",
        "downstream_uri": f"duckdb:///{tmp_path}/replica.duckdb",
        "tz": "UTC",
    }
    own = load(given, {}, str(tmp_path / "rules.toml")).settings
    result = app.once(own, Recorder(), InlineLoader())
    assert (result.exit_code, set(states(result).values())) == (5, {"stopped"})
    uri, rules = given["upstream_uri"], str(tmp_path / "rules.toml")
    for mode in ("state", "changes"):
        if mode == "changes" and rule == FILTER:
            continue  # changes of a table with a filter are not given at all
        with pytest.raises(CannotBeExact, match=r"the statement of version 20"):
            read(uri, table=name, mode=mode, config=rules)
    if rule == MASK:
        with pytest.raises(CannotBeExact, match=r"the statement of version 20"):
            ordered_changes(own, name, (), "", 0, None)


def compared(own: Settings, repairing: Repairing | None = None) -> VerifyResult:
    more: dict[str, Any] = {} if repairing is None else {"repairing": repairing}
    return verify(own, Recorder(), loader=InlineLoader(2), **more)


def _table(result: VerifyResult, name: str = "d.t") -> Any:
    (found,) = (table for table in result.tables if str(table.table) == name)
    assert found.error is None
    return found.counted


def rows_of(folder: Path, table: str = "t") -> list[dict[str, Any]]:
    with duckdb.connect(f"{folder}/replica.duckdb", read_only=True) as there:
        found = there.execute(f"SELECT * FROM d.{table} ORDER BY ALL")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
