"""What `verify` says of tables that statements changed along the way, and of those whose beginning the storage lacks:
what the storage does not tell is counted by name, never taken for equal."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.model.actions import Action
from consumer.model.check import Repairing, TableCheck
from consumer.model.columns import Column
from consumer.model.times import time_text
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica, Replica
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

WORD = Column("w", "VARCHAR", length=9)


def checked(replica: MemoryReplica) -> TableCheck:
    (check,) = app.verify(replica.settings(), Recorder(), loader=InlineLoader(2)).tables
    return check


def feed(tmp_path: Path) -> Feed:
    folder = tmp_path / "storage"
    folder.mkdir()
    made = Feed(folder)
    made.database("d", 1)
    return made


def test_a_default_that_a_statement_gave_is_counted_and_not_compared(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.create("d.t", 10)
    made.puts("d.t", 10, {11: (1, "1"), 12: (2, "2")})
    query = "ALTER TABLE `t` ADD COLUMN `w` VARCHAR(9) DEFAULT (SUBSTR('newer', 1, 3))"
    made.statement("d.t", 20, Action.ADD_COLUMN, query, (ID, VALUE, WORD))
    line = made._line("d.t", 21, 2, "3").replace(b'"v": "3"', b'"v": "3", "w": "x"')
    made.file("d.t", 20, line.replace(b'"v": "int"', b'"v": "int", "w": "varchar"'))
    replica = MemoryReplica(made)
    assert replica.once(30).exit_code == 0
    check = checked(replica)
    assert (check.state, dict(check.counted.unknown)) == ("equal in part", {"w": 1})
    (table,) = replica.sink._store.tables.values()
    for row in table.rows:
        row["w"] = "by hand"
    check = checked(replica)
    assert [(row.key, row.values) for row in check.counted.shown] == [((("id", "2"),), (("w", "x", "by hand"),))]
    assert dict(check.counted.unknown) == {"w": 1}


def test_a_table_is_compared_from_where_it_was_emptied(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.create("d.t", 10)
    made.puts("d.t", 10, {11: (1, "1")})
    made.truncate("d.t", 20)
    made.puts("d.t", 20, {21: (2, "2")})
    replica = MemoryReplica(made)
    assert replica.once(30).exit_code == 0
    assert checked(replica).state == "equal"
    (table,) = replica.sink._store.tables.values()
    table.rows.append({"id": "1", "v": "1"})
    assert [(row.kind, row.key) for row in checked(replica).counted.shown] == [("extra", (("id", "1"),))]


def test_rows_above_the_watermark_are_not_counted(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.create("d.t", 10)
    made.puts("d.t", 10, {11: (1, "1"), 31: (1, "2"), 32: (2, "2")})
    replica = MemoryReplica(made)
    assert replica.once(30).exit_code == 0
    made.checkpoint(40)
    check = checked(replica)
    assert (check.state, check.watermark, check.counted.expected) == ("equal", 30, 1)


START = 15 << 32


def begun_at_the_start(tmp_path: Path, *held: tuple[int, str], **flags: object) -> MemoryReplica:
    """Below START upstream wrote rows 1 and 2, changed 2, and deleted 5; behind it it wrote 4. The target
    holds `held`."""
    made = feed(tmp_path)
    made.describe("d.t", 10)
    made.puts("d.t", 10, {START - 5: (1, "1"), START - 4: (2, "1")})
    made.puts("d.t", 10, {START - 3: (2, "2"), START - 2: (5, "5")})
    made.file("d.t", 10, made._line("d.t", START - 1, 5, "5", "DELETE"))
    made.puts("d.t", 10, {START + 1: (4, "4")})
    replica = MemoryReplica(made)
    replica.holds("d.t", *held)
    assert replica.once(START + 9, start_ts=START, **flags).exit_code == 0
    return replica


def test_rows_of_a_right_start_are_equal_with_their_last_changes_below_it(tmp_path: Path) -> None:
    check = checked(begun_at_the_start(tmp_path, (1, "1"), (2, "2"), (3, "3")))
    assert (check.state, check.counted.unknown_rows, check.counted.differences) == ("equal in part", 1, 0)
    (note,) = check.notes
    assert note.startswith("rows without a change in the storage were not compared (1 row): ")


def test_rows_that_a_start_too_late_has_lost_are_found_and_left_by_a_repair(tmp_path: Path) -> None:
    """Nothing proves that the storage has each change before the start: a changefeed may have been made again."""
    replica = begun_at_the_start(tmp_path, (2, "1"), (3, "3"), (5, "5"))
    (table,) = replica.sink._store.tables.values()
    next(row for row in table.rows if row["id"] == "4")["v"] = "7"
    check = checked(replica)
    assert (check.state, check.counted.given) == ("differs", 3)
    assert [(row.kind, row.key, row.values) for row in check.counted.shown] == [
        ("differs", (("id", "2"),), (("v", "2", "1"),)),
        ("differs", (("id", "4"),), (("v", "4", "7"),)),
        ("extra", (("id", "5"),), ()),
        ("missing", (("id", "1"),), ()),
    ]
    (mended,) = app.verify(
        replica.settings(), Recorder(), loader=InlineLoader(2), repairing=Repairing(write=True)
    ).tables
    assert (mended.state, mended.counted.differences, mended.counted.given) == ("differs", 3, 3)
    assert set(replica.tables["d.t"].items()) == {(2, "1"), (3, "3"), (4, "4"), (5, "5")}
    (left,) = app.verify(replica.settings(), Recorder(), loader=InlineLoader(2), repairing=Repairing(write=True)).tables
    assert left.unmended.startswith("not made right: nothing proves that the storage has every change up to")


def test_changes_below_the_start_that_prove_nothing_are_not_compared_and_are_named(tmp_path: Path) -> None:
    """Upstream has deleted row 5, whatever the filter of this replica says of the changes behind the start."""
    rules = [{"matcher": ["d.*"], "ignore-event": ["delete"]}]
    replica = begun_at_the_start(tmp_path, (1, "7"), event_filters=rules)
    (check,) = app.verify(replica.settings(event_filters=rules), Recorder(), loader=InlineLoader(2)).tables
    assert (check.state, check.counted.differences) == ("equal in part", 0)
    (note,) = check.notes
    said = f"changes up to {time_text(START)} were not compared (1 row): whether the filters and masks"
    assert note.startswith(said)


def test_a_key_that_cannot_be_followed_below_the_start_leaves_what_is_behind_it_compared(tmp_path: Path) -> None:
    made = feed(tmp_path)
    other = (Column("id", "VARCHAR", length=9, nullable=False, is_pk=True), VALUE)
    made.describe("d.t", 10, other)
    made.file("d.t", 10, made._line("d.t", START - 9, 1, "1").replace(b'"id": "int"', b'"id": "varchar"'))
    made.statement("d.t", START - 5, Action.MODIFY_COLUMN, "ALTER TABLE `t` MODIFY COLUMN `id` INT NOT NULL")
    made.puts("d.t", START - 5, {START + 1: (4, "4")})
    replica = MemoryReplica(made)
    replica.holds("d.t", (1, "7"))
    assert replica.once(START + 9, start_ts=START).exit_code == 0
    check = checked(replica)
    assert (check.state, check.counted.expected, check.counted.unknown_rows) == ("equal in part", 1, 1)
    assert check.notes[0].startswith(f"changes up to {time_text(START)} were not compared (1 row): its key")


def test_of_an_older_table_the_keys_that_occur_are_compared(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.describe("d.t", 10)
    made.puts("d.t", 10, {11: (1, "1")})
    replica = MemoryReplica(made)
    replica.holds("d.t", (1, "0"), (7, "7"))
    assert replica.once(30).exit_code == 0
    check = checked(replica)
    assert (check.state, check.counted.unknown_rows, check.counted.differences) == ("equal in part", 1, 0)
    said = "rows without a change in the storage were not compared (1 row): the table is older than the changefeed"
    assert check.notes == (said,)
    (table,) = replica.sink._store.tables.values()
    table.rows = [row for row in table.rows if row["id"] == "7"]
    assert [(row.kind, row.key) for row in checked(replica).counted.shown] == [("missing", (("id", "1"),))]


def test_a_table_that_is_gone_from_the_target_is_an_error(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.create("d.t", 10)
    replica = MemoryReplica(made)
    assert replica.once(30).exit_code == 0
    replica.sink._store.tables.clear()
    result = app.verify(replica.settings(), Recorder(), loader=InlineLoader())
    assert [check.state for check in result.tables] == ["not compared"]
    error = result.verdict(strict=False)
    assert error is not None
    assert error.exit_code == 3


def test_a_row_that_was_deleted_before_a_partition_was_dropped_must_not_be_there(tmp_path: Path) -> None:
    made = feed(tmp_path)
    ranges = "(PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))"
    query = f"CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT) PARTITION BY RANGE (`id`) {ranges}"
    made.statement("d.t", 10, Action.CREATE_TABLE, query)
    made.puts("d.t", 10, {11: (1, "1"), 12: (11, "1"), 13: (12, "1")})
    made.file("d.t", 10, made._line("d.t", 14, 12, "1").replace(b'"INSERT"', b'"DELETE"'))
    made.statement("d.t", 20, Action.DROP_PARTITION, "ALTER TABLE `t` DROP PARTITION `a`")
    file = tmp_path / "replica.duckdb"
    replica = Replica(made, f"duckdb:///{file}")
    assert replica.once(30).exit_code == 0
    (check,) = app.verify(replica.settings(), Recorder(), loader=InlineLoader()).tables
    assert (check.state, check.counted.unsure) == ("equal in part", 2)
    with duckdb.connect(str(file)) as connection:
        connection.execute("INSERT INTO d.t VALUES (12, 1)")
    (check,) = app.verify(replica.settings(), Recorder(), loader=InlineLoader()).tables
    assert [(row.kind, row.key) for row in check.counted.shown] == [("extra", (("id", "12"),))]
    assert check.counted.unsure == 2


def test_an_older_table_of_which_nothing_was_applied_stops_no_other(tmp_path: Path) -> None:
    made = feed(tmp_path)
    made.create("d.t", 10)
    made.puts("d.t", 10, {11: (1, "1")})
    replica = MemoryReplica(made)
    assert replica.once(30).exit_code == 0
    made.describe("d.old", 40)
    made.puts("d.old", 40, {41: (1, "1")})
    assert replica.once(50).exit_code == 3
    result = app.verify(replica.settings(), Recorder(), loader=InlineLoader())
    assert {str(check.table): check.state for check in result.tables} == {"d.t": "equal", "d.old": "not compared"}


FEWER, MORE = (ID, VALUE), (ID, VALUE, WORD, Column("x", "INT"))
WAITING: dict[str, list[tuple[str, Action, str, tuple[Column, ...]]]] = {
    "another table gets its name": [
        ("d.c", Action.RENAME_TABLES, "RENAME TABLE `d`.`t` TO `d`.`c`", (ID, VALUE, WORD)),
        ("d.t", Action.RENAME_TABLES, "RENAME TABLE `d`.`b` TO `d`.`t`", FEWER),
    ],
    "a column is dropped": [("d.t", Action.DROP_COLUMN, "ALTER TABLE `t` DROP COLUMN `w`", FEWER)],
    "a column is added": [("d.t", Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `x` INT", MORE)],
}


@pytest.mark.parametrize("waiting", WAITING)
def test_a_statement_at_the_watermark_that_has_not_run_changes_nothing(waiting: str, tmp_path: Path) -> None:
    """It waits for others of its moment, or it is refused."""
    made = feed(tmp_path)
    create = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` INT,`w` VARCHAR(9))"
    made.statement("d.t", 10, Action.CREATE_TABLE, create, (ID, VALUE, WORD))
    line = made._line("d.t", 12, 1, "3").replace(b'"v": "3"', b'"v": "3", "w": "x"')
    made.file("d.t", 10, line.replace(b'"v": "int"', b'"v": "int", "w": "varchar"'))
    made.create("d.b", 11)
    made.puts("d.b", 11, {13: (2, "2")})
    for table, action, query, columns in WAITING[waiting]:
        made.statement(table, 20, action, query, columns)
    file = tmp_path / "replica.duckdb"
    replica, refusing = Replica(made, f"duckdb:///{file}"), {"rules": [{"action": "fail", "kinds": ["column"]}]}
    replica.once(20, ddl=refusing)

    def states() -> dict[str, str]:
        given = replica.settings(ddl=refusing)
        return {str(check.table): check.state for check in app.verify(given, Recorder(), loader=InlineLoader()).tables}

    assert states() == {"d.t": "equal", "d.b": "equal"}
    with duckdb.connect(str(file)) as connection:
        connection.execute("UPDATE d.t SET w = 'by hand'")
    assert states() == {"d.t": "differs", "d.b": "equal"}
