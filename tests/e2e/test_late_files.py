"""Files and statements that turn up below what a table is complete to: sent again, or not there when they should."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from consumer import app
from consumer.errors import ConsumerError, StorageUnavailable
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import DataFile
from consumer.model.names import TableName
from consumer.model.times import ms_to_tso
from tests.servers import MariaDb
from tests.support.feed import Feed, MemoryReplica, Replica, states
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

T = TableName("d", "t")


def hide(path: Path) -> bytes:
    """Take a file away, as one that a copy of the storage has not brought yet."""
    content = path.read_bytes()
    path.unlink()
    return content


def resync(replica: MemoryReplica, table: TableName) -> None:
    assert app.resync(replica.settings(), Recorder(), table, InlineLoader()).exit_code == 0


@pytest.mark.parametrize("checkpoint", [50, 60])
def test_the_last_file_of_a_folder_that_comes_late_stops_its_table(
    checkpoint: int, feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    last = feed.puts("d.t", 2, {20: (2, "b"), 55: (3, "c")})
    content = hide(last)
    assert replica.once(50).exit_code == 0
    last.write_bytes(content)
    for _ in range(2):
        result = replica.once(checkpoint)
        assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
        assert last.name in result.tables[T].error
        assert "commit-ts 20" in result.tables[T].error
    resync(replica, T)
    assert replica.once(60).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


def test_rows_of_a_dropped_table_that_are_sent_again_below_its_end_are_nothing(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.drop("d.t", 20)
    assert replica.once(30).exit_code == 0
    feed.puts("d.t", 2, {10: (1, "a")})
    for checkpoint in (15, 30, 40):
        assert replica.once(checkpoint).exit_code == 0
        assert replica.tables == {}
    assert replica.place("d.t") == (20, "dropped")


ENDS = {"drop": 20, "rename": 20, "drop database": 20, "view": 19}
"""What takes the table of a name away, and since when."""


def ended(feed: Feed, how: str) -> None:
    """d.t with one row, which loses its name at 20."""
    feed.database("d", 1)
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.end("d.t", ENDS[how], how)
    if how == "view":
        query = "CREATE VIEW `d`.`t` AS SELECT 1 AS `id`"
        feed.statement("d.t", 20, Action.CREATE_VIEW, query, (Column("id", "UNSPECIFIED"),))


def assert_lost(replica: MemoryReplica, after: int, upto: int, *texts: str) -> None:
    """`status` shows these losses of d.t, and nothing else."""
    rows = app.status(replica.settings(), Recorder()).unwell
    assert [row.table for row in rows] == [T] * bool(texts)
    for row in rows:
        assert row.error == ""
        assert [(loss.after_ts, loss.to_ts) for loss in row.accepted] == [(after, upto)] * len(texts)
        assert all(text in loss.reason for text, loss in zip(texts, row.accepted, strict=True))


@pytest.mark.parametrize("folder", [2, 20])
@pytest.mark.parametrize("how", [how for how in ENDS if how != "rename"])
def test_rows_behind_the_end_of_their_name_are_told(how: str, folder: int, feed: Feed, replica: MemoryReplica) -> None:
    """The changefeed has left out the CREATE TABLE of the next table of the name."""
    ended(feed, how)
    path = feed.puts("d.t", folder, {10: (1, "a"), 31: (2, "b"), 55: (3, "c")})
    said = f"it has rows of commit-ts 31, but no table has had this name since {ENDS[how]}: "
    feed.checkpoint(25)
    assert replica.once(25).exit_code == 0
    feed.checkpoint(60)
    stopped = {status.table: status.error for status in app.plan(replica.settings(), Recorder()).stopped}
    assert said.replace("31", "55") in stopped[T]
    for checkpoint in (60, 70):
        result = replica.once(checkpoint)
        assert (result.exit_code, result.tables[T].state) == (3, "stopped")
        assert (said.replace("31", "55") in result.tables[T].error, path.name in result.tables[T].error) == (True, True)
    assert replica.once(70, accept_gap_in=["d.t"]).exit_code == 0
    assert any("d.t: accepted as lost: " in note for note in replica.seen.notes)
    assert (replica.once(80).exit_code, replica.seen.notes) == (0, [])
    assert_lost(replica, ENDS[how], 70, said.replace("31", "55"))
    if how != "view":
        feed.create("d.t", 85)
        assert replica.once(90).exit_code == 0
        assert_lost(replica, 0, 0)


@pytest.mark.parametrize("how", ENDS)
def test_rows_behind_the_end_of_their_name_are_told_by_the_run_that_ends_it(
    how: str, feed: Feed, replica: MemoryReplica
) -> None:
    ended(feed, how)
    feed.puts("d.t", 2, {15: (4, "d"), 31: (2, "b")})
    assert replica.once(40).exit_code == 3
    assert "d.t" not in replica.tables


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("how", [how for how in ENDS if how != "view"])
def test_a_table_that_no_statement_makes_begins_as_it_is_made_by_hand(
    how: str, rounds: int, feed: Feed, replica: MemoryReplica
) -> None:
    """An event filter has left out CREATE TABLE: the next table of the name has a schema file without a statement."""
    ended(feed, how)
    if rounds == 2:
        assert replica.once(25).exit_code == 0
    feed.describe("d.t", 31)
    feed.puts("d.t", 31, {34: (3, "c")})
    for _ in range(2):
        result = replica.once(40)
        assert (result.exit_code, "d.t" in replica.tables, replica.place("d.t")) == (3, False, (20, "stopped"))
        assert "it has rows of commit-ts 34, but no table has had this name since 20: " in result.tables[T].error
        assert ["34" in stop.error for stop in app.plan(replica.settings(), Recorder()).stopped] == [True]
    replica.holds("d.t")
    assert replica.once(40).exit_code == 0
    assert replica.tables["d.t"] == {3: "c"}
    feed.puts("d.t", 31, {44: (4, "d")})
    assert replica.once(50).exit_code == 0
    assert replica.tables["d.t"] == {3: "c", 4: "d"}


def test_the_rows_of_a_table_that_no_statement_makes_can_be_accepted_as_lost(
    feed: Feed, replica: MemoryReplica
) -> None:
    ended(feed, "drop")
    feed.describe("d.t", 31)
    feed.puts("d.t", 31, {34: (3, "c")})
    feed.puts("d.t", 31, {35: (4, "d")})
    assert [replica.once(40, accept_gap_in=gap).exit_code for gap in ([], ["d.t"], [])] == [3, 0, 0]
    assert_lost(replica, 20, 40, "rows of commit-ts 34, ", "rows of commit-ts 35, ")


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("query", ["", "ALTER TABLE `t` COMMENT = 'x'"])
def test_a_table_that_no_statement_makes_is_not_mixed_with_one_whose_end_is_ignored(
    query: str, rounds: int, feed: Feed, replica: MemoryReplica
) -> None:
    ignored = {"ddl": {"rules": [{"kinds": ["drop-table"], "action": "ignore"}]}}
    ended(feed, "drop")
    if rounds == 2:
        assert replica.once(25, **ignored).exit_code == 0
    feed.statement("d.t", 33, Action.MODIFY_TABLE_COMMENT if query else Action.NONE, query)
    feed.puts("d.t", 33, {34: (3, "c")})
    assert replica.once(40, **ignored).exit_code == (3 if rounds == 1 else 5)
    feed.puts("d.t", 33, {44: (4, "d")})
    result = replica.once(50, **ignored)
    assert (result.exit_code, replica.tables) == (5, {"d.t": {1: "a"}})
    assert "the target's table d.t holds rows of an older table; the table that has the name now was made after" in (
        result.tables[T].error
    )
    replica.holds("d.t")
    assert replica.once(50, **ignored).exit_code == 0
    assert replica.tables == {"d.t": {3: "c", 4: "d"}}


@pytest.mark.parametrize("how", ENDS)
def test_rows_that_are_sent_again_behind_the_end_of_their_name_are_looked_at_once(
    how: str, feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(feed, how)
    assert replica.once(25).exit_code == 0
    of_the_end = {ENDS[how]: (2, "b")} if how != "rename" else {}  # rows that a RENAME took along were read before
    feed.puts("d.t", 20, {10: (1, "a"), **of_the_end})
    feed.puts("d.t", 20, {99: (2, "b")})
    assert replica.once(40).exit_code == 0
    asked: list[DataFile] = []
    monkeypatch.setattr(
        "consumer.storage.reader.ChangefeedReader.bounds", lambda _, files: dict.fromkeys(files, asked.extend(files))
    )
    assert (replica.once(50).exit_code, asked) == (0, [])


@pytest.mark.parametrize("folder", [2, 20])
@pytest.mark.parametrize("how", ENDS)
def test_files_behind_the_end_of_their_name_whose_rows_have_no_time_are_told(
    how: str, folder: int, feed: Feed, replica: MemoryReplica
) -> None:
    ended(feed, how)
    (path,) = feed.folder.glob("d/t/2/CDC*.json")
    path.unlink()
    csv = {"upstream_uri": f"file://{feed.folder}?protocol=csv"}
    feed.file("d.t", 2, b'"I","t","d",1,1\r\n', number=1, extension="csv")
    assert replica.once(25, **csv).exit_code == 0
    feed.file("d.t", folder, b'"I","t","d",2,2\r\n', extension="csv")
    for checkpoint in (40, 50):
        result = replica.once(checkpoint, **csv)
        assert result.exit_code == 3
        assert (
            f"it has rows without a commit-ts, but no table has had this name since {ENDS[how]}"
            in result.tables[T].error
        )
    assert [replica.once(60, **csv, accept_gap_in=gap).exit_code for gap in (["d.t"], [])] == [0, 0]


def test_a_name_that_stopped_for_such_rows_goes_on_with_its_next_table(feed: Feed, replica: MemoryReplica) -> None:
    ended(feed, "drop")
    feed.puts("d.t", 20, {31: (2, "b")})
    assert replica.once(40).exit_code == 3
    feed.create("d.t", 50)
    feed.puts("d.t", 50, {51: (3, "c")})
    assert replica.once(60).exit_code == 0
    assert replica.tables == {"d.t": {3: "c"}}


def test_a_damaged_file_behind_the_end_of_a_name_stops_it(feed: Feed, replica: MemoryReplica) -> None:
    """Nothing tells that its rows were sent again."""
    ended(feed, "drop")
    path = feed.puts("d.t", 20, {31: (2, "b")})
    path.write_bytes(path.read_bytes()[:-40])
    for _ in range(2):
        result = replica.once(40)
        assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
        assert path.name in result.tables[T].error
    assert [replica.once(40, accept_gap_in=gap).exit_code for gap in (["d.t"], [])] == [0, 0]


def test_a_damaged_file_of_an_older_folder_counts_by_its_first_row(feed: Feed, replica: MemoryReplica) -> None:
    """After a RENAME TiCDC writes to no folder of the name; rows of a table with the same columns come to the last
    one."""
    ended(feed, "rename")
    for ts in (12, 31):
        path = feed.puts("d.t", 2, {ts: (2, "b"), ts + 1: (3, "c")})
        path.write_bytes(path.read_bytes()[:-40])
        if ts == 12:
            assert replica.once(40).exit_code == 3, "the table stops at it, and its RENAME with it"
            path.unlink()
            assert replica.once(40, accept_gap_in=["d.t"]).exit_code == 0
    result = replica.once(40)
    assert (result.exit_code, states(result)["d.t"]) == (3, "stopped")
    assert path.name in result.tables[T].error


def test_a_file_behind_the_end_of_a_name_that_cannot_be_read_stops_it(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(feed, "drop")
    assert replica.once(25).exit_code == 0
    path = feed.puts("d.t", 20, {31: (2, "b")})

    def unread(_: object, files: Collection[DataFile]) -> dict[str, ConsumerError]:
        return {file.path: StorageUnavailable("access denied", path=file.path) for file in files}

    with monkeypatch.context() as patched:
        patched.setattr("consumer.storage.reader.ChangefeedReader.bounds", unread)
        result = replica.once(40)
        assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
        assert f"{path.name}: access denied" in result.tables[T].error
        assert replica.once(40, accept_gap_in=["d.t"]).exit_code == 0
    assert_lost(replica, 20, 40, "access denied")


def test_a_damaged_file_of_an_ended_name_that_is_above_the_checkpoint_may_be_in_the_making(
    feed: Feed, replica: MemoryReplica
) -> None:
    ended(feed, "drop")
    path = feed.puts("d.t", 20, {51: (2, "b"), 52: (3, "c")})
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert replica.once(40).exit_code == 0
    path.write_bytes(whole)
    assert replica.once(60).exit_code == 3


def test_a_name_that_the_table_rules_leave_out_is_not_looked_at(feed: Feed, replica: MemoryReplica) -> None:
    ended(feed, "drop")
    feed.create("d.other", 15)
    feed.puts("d.t", 20, {31: (2, "b")})
    assert replica.once(40, tables=("*.*", "!d.t")).exit_code == 0


def test_late_rows_can_be_accepted_as_lost(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    replica.once(50)
    feed.puts("d.t", 2, {20: (2, "b"), 55: (3, "c")})
    assert replica.once(60).exit_code == 3
    assert replica.once(60, accept_gap_in=["*.*", "!d.t"]).exit_code == 3
    assert replica.once(60, accept_gap_in=["*.*"]).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 3: "c"}}
    feed.puts("d.t", 2, {20: (2, "b"), 55: (3, "c")})
    assert replica.once(70).exit_code == 0


def test_rows_sent_again_are_dropped_and_counted(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a"), 20: (2, "b")})
    feed.puts("d.t", 2, {30: (3, "c")})
    replica.once(35)
    for rows in ({20: (2, "b"), 30: (3, "c")}, {30: (3, "c")}, {30: (3, "c"), 40: (4, "d")}):
        feed.puts("d.t", 2, rows)
    result = replica.once(35)
    assert (result.exit_code, result.tables[T].dropped_rows) == (0, 4)
    result = replica.once(45)
    assert (result.exit_code, replica.tables) == (0, {"d.t": {1: "a", 2: "b", 3: "c", 4: "d"}})
    assert app.status(replica.settings(), Recorder()).unread.files == 0  # type: ignore[union-attr]


def test_a_number_that_the_index_file_named_is_used_again_for_rows_sent_again(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a"), 20: (2, "b")})
    feed.index("d.t", 2, 2)
    replica.once(25)
    feed.puts("d.t", 2, {20: (2, "b"), 30: (3, "c")}, number=2)
    assert replica.once(35).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b", 3: "c"}}


def test_the_last_file_of_yesterday_that_comes_late_stops_its_table(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")}, date="2026-11-21")
    last = feed.puts("d.t", 2, {20: (2, "b")}, date="2026-11-21")
    feed.puts("d.t", 2, {30: (3, "c")}, date="2026-11-22")
    content = hide(last)
    assert replica.once(35).exit_code == 0
    last.write_bytes(content)
    result = replica.once(45)
    assert result.exit_code == 3
    assert last.name in result.tables[T].error


def test_a_node_of_another_zone_goes_on_in_yesterdays_folder_while_commit_ts_are_days_ahead(
    feed: Feed, replica: MemoryReplica
) -> None:
    """PD's clock was ahead once: commit-ts never go back, and the clocks of the nodes name the folders."""
    begin, day = (ms_to_tso(int(datetime(2026, 11, 16, tzinfo=UTC).timestamp() * 1000)), ms_to_tso(86_400_000))
    feed.create("d.t", begin)
    for number in range(3):
        feed.puts("d.t", begin, {begin + number * day + 1: (number, "x")}, date=f"2026-11-{6 + number:02}")
        assert replica.once(begin + number * day + 10).exit_code == 0
    feed.puts("d.t", begin, {begin + 2 * day + 20: (9, "y")}, date="2026-11-07")
    assert replica.once(begin + 2 * day + 30).exit_code == 0
    assert replica.tables == {"d.t": {0: "x", 1: "x", 2: "x", 9: "y"}}


def test_rows_from_before_the_rows_began_anew_are_not_missed(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    late = feed.puts("d.t", 2, {10: (1, "a")})
    content = hide(late)
    feed.truncate("d.t", 20)
    feed.puts("d.t", 20, {30: (3, "c")})
    replica.once(35)
    late.write_bytes(content)
    feed.puts("d.t", 20, {15: (2, "b"), 40: (4, "d")})
    assert replica.once(45).exit_code == 0
    assert replica.tables == {"d.t": {3: "c", 4: "d"}}


def test_files_above_a_checkpoint_that_stands_still_are_asked_for_their_rows_once(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consumer.storage.reader import ChangefeedReader

    asked: list[int] = []
    bounds = ChangefeedReader.bounds
    monkeypatch.setattr(ChangefeedReader, "bounds", lambda self, files: asked.append(len(files)) or bounds(self, files))
    feed.create("d.t", 2)
    replica.once(50)
    for number in range(20):
        feed.puts("d.t", 2, {60 + number: (number, "x")})
    for _ in range(3):
        assert replica.once(50).exit_code == 0
    assert sum(asked) == 20
    replica.once(65)
    assert set(replica.tables["d.t"]) == set(range(6))


def test_a_database_that_comes_late_stops_its_tables_until_they_are_loaded(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.database("e", 3)
    feed.create("e.u", 4)
    feed.puts("e.u", 4, {11: (1, "u")})
    shutil.move(feed.folder / "e", feed.folder.parent / "elsewhere")
    assert replica.once(50).exit_code == 0
    shutil.move(feed.folder.parent / "elsewhere", feed.folder / "e")
    for checkpoint in (50, 60):
        result = replica.once(checkpoint)
        assert (result.exit_code, states(result)) == (3, {"d.t": "ok", "e.u": "stopped"})
        assert "CREATE TABLE `u`" in result.tables[TableName("e", "u")].error
    resync(replica, TableName("e", "u"))
    assert replica.once(70).exit_code == 0
    assert replica.tables == {"d.t": {1: "a"}, "e.u": {1: "u"}}


def test_a_statement_that_comes_late_can_be_done_by_hand(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    replica.once(50)
    feed.truncate("d.t", 30)
    result = replica.once(60)
    assert (result.exit_code, states(result)) == (3, {"d.t": "stopped"})
    app.skip_ddl(replica.settings(), Recorder(), T, 30, "it was empty")
    assert replica.once(60).exit_code == 0


def test_a_table_older_than_the_changefeed_that_comes_late_stops(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    replica.once(50)
    feed.describe("d.old", 3)
    replica.holds("d.old")
    feed.puts("d.old", 3, {20: (1, "x")})
    result = replica.once(60)
    assert states(result) == {"d.t": "ok", "d.old": "stopped"}
    assert "commit-ts 20" in result.tables[TableName("d", "old")].error


def test_what_is_older_than_the_snapshot_is_not_late(feed: Feed, replica: MemoryReplica) -> None:
    feed.describe("d.t", 10)
    replica.holds("d.t", (1, "a"))
    feed.puts("d.t", 10, {20: (1, "a"), 40: (2, "b")})
    assert replica.once(35, start_ts="30").exit_code == 0
    feed.puts("d.t", 10, {20: (1, "a"), 45: (2, "c")})
    assert replica.once(50, start_ts="30").exit_code == 0


def test_rows_of_days_that_were_cleaned_up_can_be_sent_again(feed: Feed, replica: MemoryReplica) -> None:
    """The checkpoint of a changefeed can be set back by days."""
    feed.create("d.t", 2)
    for day, ts in ((18, 10), (19, 20), (20, 30)):
        feed.puts("d.t", 2, {ts: (ts, "x")}, date=f"2026-11-{day}")
    replica.once(35)
    for day in (18, 19):
        shutil.rmtree(feed.folder / f"d/t/2/2026-11-{day}")
        assert replica.once().exit_code == 0
    feed.puts("d.t", 2, {10: (10, "x"), 20: (20, "x"), 30: (30, "x"), 40: (40, "y")}, date="2026-11-21")
    for checkpoint in (15, 50):
        assert replica.once(checkpoint).exit_code == 0
    assert replica.tables == {"d.t": {10: "x", 20: "x", 30: "x", 40: "y"}}
    feed.puts("d.t", 2, {45: (45, "z")}, date="2026-11-21")
    assert replica.once(60).exit_code == 3


@pytest.mark.parametrize("end", ["drop", "rename"])
def test_rows_sent_again_of_a_table_whose_name_a_view_has_since(end: str, feed: Feed, fresh_mariadb: MariaDb) -> None:
    """The checkpoint was set back to when the table was there, the target is further."""
    replica = Replica(feed, fresh_mariadb.url())
    feed.database("d", 1)
    feed.create("d.base", 5)
    feed.create("d.t", 10)
    feed.puts("d.t", 10, {11: (1, "1")})
    if end == "drop":
        feed.drop("d.t", 30)
    else:
        feed.rename("d.t", "d.u", 30)
    view = "ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `t`"
    query = f"CREATE {view} AS SELECT `id` FROM `d`.`base`"
    feed.statement("d.t", 40, Action.CREATE_VIEW, query, (Column("id", "UNSPECIFIED"),))
    assert replica.once(50).exit_code == 0
    feed.puts("d.t", 10, {11: (1, "1")})
    for checkpoint in (20, 50, 60):
        assert replica.once(checkpoint).exit_code == 0
    assert fresh_mariadb.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    if end == "rename":
        assert fresh_mariadb.execute("SELECT id, v FROM d.u") == [(1, 1)]


@pytest.mark.parametrize("checkpoint", [30, None])
def test_a_file_of_a_renamed_tables_former_name(checkpoint: int | None, feed: Feed, replica: MemoryReplica) -> None:
    """What was sent again is passed over; a row that was not there when the table was renamed is told, and accepted."""
    flags: dict[str, object] = {} if checkpoint else {"checkpoint_ts": "max"}
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1"), 14: (2, "2")})
    feed.rename("d.t", "d.u", 20)
    feed.puts("d.u", 20, {25: (3, "3")})
    assert replica.once(checkpoint, **flags).exit_code == 0
    feed.puts("d.t", 2, {10: (1, "1"), 14: (2, "2")})
    assert replica.once(**flags).exit_code == 0
    feed.puts("d.t", 2, {16: (4, "4")})
    for _ in range(2):
        left = replica.once(**flags)
        assert (left.exit_code, states(left)["d.t"]) == (3, "stopped")
        assert "it has rows of commit-ts 16 and before, and the table was renamed at 20 without them" in str(left)
    assert replica.once(accept_gap_in=["d.t"], **flags).exit_code == 0
    assert replica.once(**flags).exit_code == 0
    assert replica.tables == {"d.u": {1: "1", 2: "2", 3: "3"}}


@pytest.mark.parametrize("between", ["date", "index"])
def test_rows_that_are_sent_again_in_one_file_are_known_one_by_one(
    between: str, feed: Feed, replica: MemoryReplica
) -> None:
    """They were read from two folders, so no stretch of what was read has both ends of the file."""
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    if between == "index":
        feed.statement("d.t", 12, Action.ADD_INDEX, "ALTER TABLE `t` ADD INDEX `i`(`v`)")
    folder, date = (12, "") if between == "index" else (2, "2026-11-22")
    feed.puts("d.t", folder, {14: (2, "2")}, date=date)
    feed.rename("d.t", "d.u", 20)
    assert replica.once(30).exit_code == 0
    feed.puts("d.t", folder, {10: (1, "1"), 14: (2, "2")}, date=date)
    assert replica.once(40).exit_code == 0
    feed.puts("d.t", folder, {10: (1, "1"), 12: (4, "4"), 14: (2, "2")}, date=date)
    left = replica.once(50)
    assert (left.exit_code, states(left)["d.t"]) == (3, "stopped")
    assert replica.tables == {"d.u": {1: "1", 2: "2"}}


@pytest.mark.parametrize("end", ["drop", "drop database"])
def test_a_file_of_a_table_that_was_renamed_and_dropped(end: str, feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "1")})
    feed.rename("d.t", "d.u", 20)
    feed.end("d.u", 25, end)
    assert replica.once(30).exit_code == 0
    feed.puts("d.t", 2, {16: (4, "4")})
    assert replica.once(30).exit_code == 0
    assert not replica.tables
