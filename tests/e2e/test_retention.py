"""TiCDC's clean-up and a consumer that was away: what was deleted unread is named, what was read may go."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from consumer import app
from consumer.config.load import load
from consumer.config.settings import InspectSettings
from consumer.errors import GapFound
from consumer.model.names import TableName
from consumer.model.times import ms_to_tso
from consumer.results import RunResult
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica
from tests.support.inline_loader import InlineLoader
from tests.support.memory.sink import MemorySink
from tests.support.memory.store import MemoryTable
from tests.support.observers import Recorder

T = TableName("d", "t")


def at(day: int, hour: int = 12) -> int:
    return ms_to_tso(round(datetime(2026, 11, day, hour, tzinfo=UTC).timestamp() * 1000))


def inspect_settings(feed: Feed) -> InspectSettings:
    return load({"upstream_uri": f"file://{feed.folder}"}, {}, kind=InspectSettings).settings


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """d.t has rows on the 1st, the 5th and the 6th of November, each in the folder of its day."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.create("d.t", at(1, 1))
    for day in (1, 5, 6):
        write(feed, day)
    return feed


def write(feed: Feed, day: int) -> None:
    feed.puts("d.t", at(1, 1), {at(day): (day, "x")}, date=f"2026-11-{day:02}")


def clean_up(feed: Feed, before: int) -> None:
    """As TiCDC does: every folder of a day before `before`, schema files stay."""
    for folder in feed.folder.glob("d/*/*/2026-11-*"):
        if folder.name < f"2026-11-{before:02}":
            shutil.rmtree(folder)


@pytest.fixture
def replica(feed: Feed) -> MemoryReplica:
    replica = MemoryReplica(feed)
    assert replica.once(at(6, 18), tz="UTC").exit_code == 0
    return replica


def test_folders_that_were_read_may_go(feed: Feed, replica: MemoryReplica) -> None:
    write(feed, 12)
    clean_up(feed, before=6)
    assert replica.once(at(12, 18), tz="UTC").exit_code == 0
    assert set(replica.tables["d.t"]) == {1, 5, 6, 12}


def test_folders_that_are_gone_are_forgotten_day_by_day(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.u", at(7, 1))
    for day in range(7, 20):
        for table, version in (("d.t", at(1, 1)), ("d.u", at(7, 1))):
            feed.puts(table, version, {at(day): (day, "x")}, date=f"2026-11-{day:02}")
        clean_up(feed, before=day - 3)
        assert replica.once(at(day, 18), tz="UTC").exit_code == 0
        kept = {folder.date for folder in replica.sink.progress().folders}
        assert kept <= {f"2026-11-{kept_day:02}" for kept_day in range(min(day - 4, 7), day + 1)}
    assert len(replica.sink.progress().folders) <= 10
    assert set(replica.tables["d.u"]) == set(range(7, 20))


def test_a_folder_that_is_deleted_file_by_file_is_known_until_the_last_one_is_gone(
    feed: Feed, replica: MemoryReplica
) -> None:
    """The clean-up of another's making takes the last file first, and then the first one."""
    files = [feed.puts("d.t", at(1, 1), {at(7, n): (70 + n, "x")}, date="2026-11-07") for n in (1, 2, 3)]
    feed.index("d.t", at(1, 1), 3, date="2026-11-07")
    clean_up(feed, before=7)
    assert replica.once(at(7, 18), tz="UTC").exit_code == 0
    for day, file in zip((12, 13, 14), (files[2], files[0], files[1]), strict=True):
        write(feed, day)
        assert {folder.date for folder in replica.sink.progress().folders} >= {"2026-11-07"}
        file.unlink()
        assert replica.once(at(day, 18), tz="UTC").exit_code == 0
    assert "2026-11-07" not in {folder.date for folder in replica.sink.progress().folders}
    assert set(replica.tables["d.t"]) == {1, 5, 6, 71, 72, 73, 12, 13, 14}


@pytest.mark.parametrize("looked_at_empty", [True, False])
def test_a_folder_that_was_emptied_is_begun_anew(looked_at_empty: bool, tmp_path: Path) -> None:
    """Without date folders: a rule of the bucket deletes the files of an idle table, and TiCDC begins again after a
    restart with number 1."""
    feed = Feed(tmp_path)
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)

    def write(number: int, ts: int) -> None:
        feed.puts("d.t", 2, {ts: (ts, "x")}, number)
        feed.index("d.t", 2, number)

    for number in (1, 2, 3):
        write(number, 10 + number)
    assert replica.once(20).exit_code == 0
    shutil.rmtree(feed.folder / "d" / "t" / "2")
    if looked_at_empty:
        assert replica.once(30).exit_code == 0
    for number in (1, 2, 3, 4):
        write(number, 40 + number)
        assert replica.once(40 + number).exit_code == 0
        assert max(replica.tables["d.t"]) == 40 + number
    assert set(replica.tables["d.t"]) == {11, 12, 13, 41, 42, 43, 44}


def test_an_idle_storage_whose_folders_are_all_gone_is_no_gap(feed: Feed, replica: MemoryReplica) -> None:
    """The consumer looked every day: what came later than its last look cannot be deleted yet."""
    for day in range(7, 20):
        assert replica.once(at(day, 18), tz="UTC").exit_code == 0
    clean_up(feed, before=19)
    write(feed, 20)
    assert replica.once(at(20, 18), tz="UTC").exit_code == 0
    assert set(replica.tables["d.t"]) == {1, 5, 6, 20}


def test_folders_deleted_since_the_last_run_are_a_gap_with_its_dates(feed: Feed, replica: MemoryReplica) -> None:
    for day in (8, 9, 14):
        write(feed, day)
    clean_up(feed, before=10)
    result = replica.once(at(14, 18), tz="UTC")
    assert result.exit_code == 5
    assert "may have deleted its date folders of 2026-11-06 to 2026-11-12" in result.tables[T].error
    assert "--start-ts" in result.tables[T].hint
    assert "--accept-gap" in result.tables[T].hint
    assert set(replica.tables["d.t"]) == {1, 5, 6}
    assert replica.once(tz="UTC", accept_gap_in=["d.u"]).exit_code == 5
    assert replica.once(tz="UTC", accept_gap_in=["d.t"]).exit_code == 0
    assert set(replica.tables["d.t"]) == {1, 5, 6, 14}
    assert replica.once(at(14, 20), tz="UTC").exit_code == 0


def test_the_changefeeds_own_setting_decides(feed: Feed, replica: MemoryReplica) -> None:
    """Ten days: on the 14th nothing after the 6th can be gone, on the 28th what came from the 14th to the 17th is."""
    write(feed, 14)
    clean_up(feed, before=7)  # by hand: its rows were read
    assert replica.once(at(14, 18), tz="UTC", file_expiration_days=10).exit_code == 0
    late = MemoryReplica(feed)
    result = late.once(at(28, 18), tz="UTC", file_expiration_days=10)
    assert result.exit_code == 5
    assert "2026-11-14 to 2026-11-17" in result.tables[T].error


def test_a_first_run_after_the_clean_up_is_refused(feed: Feed) -> None:
    clean_up(feed, before=6)
    late = MemoryReplica(feed)
    result = late.once(at(7), tz="UTC", file_expiration_days=1)
    assert result.exit_code == 5
    assert "2026-11-01 to 2026-11-05" in result.tables[T].error


def test_rows_that_a_schema_file_announces_and_nobody_has_were_deleted(tmp_path: Path) -> None:
    """Nobody speaks of a clean-up; but TiCDC writes a schema file without a statement only in front of rows."""
    feed = Feed(tmp_path)
    feed.database("d", 1)
    feed.describe("d.t", at(1, 1))
    feed.describe("d.t", at(5, 1))
    feed.puts("d.t", at(5, 1), {at(5): (5, "x")}, date="2026-11-05")
    replica = MemoryReplica(feed)
    result = replica.once(at(6), tz="UTC")
    assert result.exit_code == 5
    assert "2026-11-01 to 2026-11-04" in result.tables[T].error


def test_a_file_that_was_read_in_part_must_stay(feed: Feed, replica: MemoryReplica) -> None:
    feed.puts("d.t", at(1, 1), {at(7): (7, "x"), at(8): (8, "x")}, date="2026-11-07")
    assert replica.once(at(7, 18), tz="UTC").exit_code == 0
    clean_up(feed, before=8)
    result = replica.once(at(8, 18), tz="UTC")
    assert result.exit_code == 5
    assert f"file number 1 is gone before its rows from commit-ts {at(8)} on" in result.tables[T].error
    assert "continue without its rows: storage-consumer once --accept-gap-in" in result.tables[T].hint
    assert replica.once(tz="UTC", accept_gap_in=["*.*"]).exit_code == 0
    assert replica.once(at(8, 20), tz="UTC").exit_code == 0


def test_a_resync_needs_the_folders_of_the_whole_table(feed: Feed, replica: MemoryReplica) -> None:
    clean_up(feed, before=6)
    with pytest.raises(GapFound, match="gone from the storage"):
        app.resync(replica.settings(tz="UTC"), Recorder(), T)
    assert set(replica.tables["d.t"]) == {1, 5, 6}


def test_a_file_that_changed_after_it_was_read_is_read_again_and_named(feed: Feed, replica: MemoryReplica) -> None:
    """The last file of a folder can be written again after a crash; its old rows are dropped as done."""
    folder = feed.folder / f"d/t/{at(1, 1)}/2026-11-06"
    (file,) = folder.glob("CDC*.json")
    before = file.stat().st_size
    file.write_bytes(feed._line("d.t", at(6), 99, "never seen") + feed._line("d.t", at(7), 7, "new"))
    result = replica.once(at(7, 18), tz="UTC")
    assert result.exit_code == 0
    assert result.tables[T].dropped_rows == 1
    assert set(replica.tables["d.t"]) == {1, 5, 6, 7}
    assert any(
        f"{file.name} was rewritten after it was read (had {before} bytes and has " in note
        for note in replica.seen.notes
    )


# status


def test_status_tells_how_long_unread_files_will_be_there(feed: Feed, replica: MemoryReplica) -> None:
    found = app.status(replica.settings(tz="UTC", file_expiration_days=10), Recorder()).unread
    assert found is not None
    assert (found.files, found.oldest_date, found.days_left) == (0, "", None)
    write(feed, 7)
    write(feed, 8)
    feed.checkpoint(at(9))
    found = app.status(replica.settings(tz="UTC"), Recorder()).unread
    assert found is not None
    assert (found.files, found.oldest_date, found.days_left) == (2, "2026-11-07", None)
    # TiCDC deletes what is older than the checkpoint's date less ten days: the 7th goes on the 18th.
    for day, left in ((9, 9), (17, 1), (18, 0)):
        feed.checkpoint(at(day))
        found = app.status(replica.settings(tz="UTC", file_expiration_days=10), Recorder()).unread
        assert found is not None
        assert found.days_left == left
    # By hand: on no calendar.
    feed.puts("d.t", at(1, 1), {at(8): (8, "x")}, date="2026-02-30")
    found = app.status(replica.settings(tz="UTC", file_expiration_days=10), Recorder()).unread
    assert found is not None
    assert (found.files, found.oldest_date, found.days_left) == (3, "2026-11-07", 0)


# First contact: nothing was read before, so nothing shows how far the clean-up went


def replay(replica: MemoryReplica, after: int, end: int, **flags: object) -> RunResult:
    return app.replay(replica.settings(tz="UTC", **flags), Recorder(), str(after), str(end), InlineLoader())


def test_a_first_run_finds_the_storage_without_its_oldest_days(feed: Feed) -> None:
    write(feed, 14)
    clean_up(feed, before=5)
    feed.checkpoint(at(15))
    findings = app.inspect(inspect_settings(feed), Recorder()).findings
    assert any("may have deleted its date folders of 2026-11-01 to 2026-11-04" in text for text in findings)
    first = MemoryReplica(feed)
    result = first.once(tz="UTC")
    assert result.exit_code == 5
    assert "2026-11-01 to 2026-11-04" in result.tables[T].error
    assert "(0: nothing)" in result.tables[T].hint
    assert first.tables == {"d.t": {}}
    assert first.once(tz="UTC", file_expiration_days=0).exit_code == 0
    assert set(first.tables["d.t"]) == {5, 6, 14}


@pytest.mark.parametrize(
    "told", [{"file_expiration_days": 0}, {"file_expiration_days": 30}, {"accept_gap_in": ["*.*"]}]
)
def test_a_first_run_that_is_told_how_long_files_stay_goes_on(told: dict[str, object], feed: Feed) -> None:
    write(feed, 14)
    clean_up(feed, before=5)
    first = MemoryReplica(feed)
    hint = first.once(at(15), tz="UTC").tables[T].hint
    assert "continue without their rows: storage-consumer once --accept-gap-in" in hint
    assert "file-expiration-days in the changefeed's TOML (--config) says what can be deleted (0: nothing)" in hint
    assert first.once(at(15), tz="UTC", **told).exit_code == 0
    assert set(first.tables["d.t"]) == {5, 6, 14}


def test_a_start_from_a_snapshot_needs_the_days_since_then(feed: Feed) -> None:
    write(feed, 14)
    clean_up(feed, before=6)
    for start, code in ((at(4), 5), (at(6, 1), 0)):
        first = MemoryReplica(feed)
        first._downstream += f"-{code}"
        MemorySink(first._downstream.removeprefix("memory://"), "default")._store.tables[T] = MemoryTable((ID, VALUE))
        assert first.once(at(15), tz="UTC", start_ts=str(start)).exit_code == code


def test_a_table_that_was_made_while_the_consumer_was_away_may_lack_its_head(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.n", at(7))
    feed.puts("d.n", at(7), {at(7, 13): (1, "x")}, date="2026-11-07")
    feed.puts("d.n", at(7), {at(13): (2, "x")}, date="2026-11-13")
    clean_up(feed, before=8)
    result = replica.once(at(14), tz="UTC")
    assert result.exit_code == 5
    assert "2026-11-07 to 2026-11-12" in result.tables[TableName("d", "n")].error


@pytest.mark.parametrize("days", [None, 7])
def test_a_replay_over_days_that_were_deleted_is_refused(days: int | None, feed: Feed) -> None:
    """TiCDC deletes by its own checkpoint, not by the end of the range."""
    write(feed, 14)
    clean_up(feed, before=6)
    feed.checkpoint(at(14))
    told = {} if days is None else {"file_expiration_days": days}
    for after, end, code in ((at(2), at(4), 5), (at(2), at(6, 18), 5), (at(7), at(13), 0)):
        target = MemoryReplica(feed)
        target._downstream += f"-{after}-{end}"
        label = target._downstream.removeprefix("memory://")
        MemorySink(label, "default")._store.tables[T] = MemoryTable((ID, VALUE))
        assert replay(target, after, end, **told).exit_code == code


@pytest.mark.parametrize("days", [None, 3])
def test_a_storage_of_which_every_folder_is_gone_before_the_first_run(days: int | None, feed: Feed) -> None:
    """No folder is left to show that there were any, and a table that is empty upstream looks the same."""
    shutil.rmtree(feed.folder / f"d/t/{at(1, 1)}")
    late = MemoryReplica(feed)
    told = {} if days is None else {"file_expiration_days": days}
    result = late.once(at(20), tz="UTC", **told)
    assert result.exit_code == 5
    assert "may have deleted its date folders of 2026-11-01 to" in result.tables[T].error
    assert late.once(at(20, 18), tz="UTC", file_expiration_days=0).exit_code == 0


def test_what_was_deleted_stays_a_gap_where_the_changefeed_begins_again_earlier(feed: Feed) -> None:
    clean_up(feed, before=9)
    late = MemoryReplica(feed)
    assert late.once(at(12), tz="UTC", file_expiration_days=3).exit_code == 5
    assert late.once(at(2), tz="UTC", file_expiration_days=3).exit_code == 5
