"""Files that TiCDC writes again after a restart: the last one of a folder, and those behind a stale index file."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import consumer.pipeline.manager
from consumer import app
from consumer.app.parts import sink_of
from consumer.codec.csv.options import CsvFormat
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Listing
from consumer.model.names import TableName
from consumer.results import RunResult
from tests.e2e.test_rounds import File, Server, Target
from tests.support import csv_rows
from tests.support.build import ID, VALUE
from tests.support.feed import Feed, MemoryReplica, Replica, Rows
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder


@pytest.fixture(params=["MariaDB", "DuckDB"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    found = Server(request.getfixturevalue("mariadb")) if request.param == "MariaDB" else File(tmp_path)
    found.reset()
    return found


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    found = Feed(tmp_path / "storage")
    found.database("d", 1)
    found.create("d.t", 2)
    return found


def rows(target: Target) -> Rows:
    return {key: row["v"] for key, row in target.state()["t"].items()}


def test_rows_above_the_checkpoint_of_a_rewritten_last_file_come_later(feed: Feed, target: Target) -> None:
    replica = Replica(feed, target.url)
    feed.puts("d.t", 2, {10: (1, "10")}, number=1)
    assert replica.once(15).exit_code == 0
    feed.puts("d.t", 2, {20: (2, "20"), 30: (3, "30"), 40: (4, "40")}, number=1)
    for checkpoint, wanted in ((25, {1, 2}), (35, {1, 2, 3}), (38, {1, 2, 3}), (45, {1, 2, 3, 4})):
        assert replica.once(checkpoint).exit_code == 0
        assert set(rows(target)) == wanted


def test_files_behind_a_stale_index_file_are_written_anew_one_after_the_other(feed: Feed, target: Target) -> None:
    replica = Replica(feed, target.url)
    for number in (1, 2, 3, 4):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
    feed.index("d.t", 2, 1)
    assert replica.once(15).exit_code == 0
    feed.index("d.t", 2, 2)
    feed.puts("d.t", 2, {20: (5, "2"), 26: (6, "2")}, number=2)
    assert replica.once(25).exit_code == 0
    assert set(rows(target)) == {1, 2, 3, 4, 5}
    feed.index("d.t", 2, 3)
    feed.puts("d.t", 2, {30: (7, "2")}, number=3)
    assert replica.once(35).exit_code == 0
    assert set(rows(target)) == {1, 2, 3, 4, 5, 6, 7}
    feed.index("d.t", 2, 4)
    feed.puts("d.t", 2, {40: (8, "2")}, number=4)
    feed.index("d.t", 2, 5)
    feed.puts("d.t", 2, {41: (9, "2")}, number=5)
    assert replica.once(45).exit_code == 0
    assert set(rows(target)) == {1, 2, 3, 4, 5, 6, 7, 8, 9}


def test_several_files_written_anew_between_two_rounds(feed: Feed, target: Target) -> None:
    replica = Replica(feed, target.url)
    for number in (1, 2, 3):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
    assert replica.once(15).exit_code == 0
    for number in (2, 3, 4):
        feed.puts("d.t", 2, {18 + number: (number, "2")}, number=number)
    assert replica.once(25).exit_code == 0
    assert rows(target) == {1: "1", 2: "2", 3: "2", 4: "2"}
    assert replica.once(26).rounds == 1
    assert not replica.seen.notes


def test_an_index_file_that_goes_on_is_asked_for_its_number_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consumer.storage.reader import ChangefeedReader

    asked: list[int] = []
    named = ChangefeedReader.named
    monkeypatch.setattr(ChangefeedReader, "named", lambda self, files: asked.append(len(files)) or named(self, files))
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    for number in (1, 2, 3):
        index = feed.index("d.t", 2, number)
        new = feed.puts("d.t", 2, {10 * number: (number, "1")}, number=number)
        os.utime(index, ns=(0, new.stat().st_mtime_ns - 1))
        replica.once(10 * number + 5)
        replica.once(10 * number + 6)
    assert asked == []
    feed.index("d.t", 2, 4)
    replica.once(50)
    assert asked == [1]
    assert replica.seen.notes == []


@pytest.mark.parametrize("anew", [(1, 2), (2,), (1,)])
@pytest.mark.parametrize("behind", [(), (3,)])
@pytest.mark.parametrize("round_bytes", [1, 1 << 30])
def test_files_written_anew_above_the_checkpoint_wait_for_it_below_what_is_read(
    tmp_path: Path, anew: tuple[int, ...], behind: tuple[int, ...], round_bytes: int
) -> None:
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    for number in (1, 2):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
    assert replica.once(15).exit_code == 0
    for number in behind:
        feed.puts("d.t", 2, {17 + number: (number, "1")}, number=number)
    for number in anew:
        feed.puts("d.t", 2, {30 + number: (number, "22")}, number=number)
    feed.index("d.t", 2, anew[-1])
    assert replica.once(25, round_bytes=round_bytes).exit_code == 0
    assert replica.tables == {"d.t": dict.fromkeys((1, 2, *behind), "1")}
    assert replica.once(35).exit_code == 0
    assert replica.tables == {"d.t": {number: "22" if number in anew else "1" for number in (1, 2, *behind)}}


def test_a_file_done_out_of_order_and_written_anew_above_the_checkpoint_is_not_passed_over(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    feed.puts("d.t", 2, {10: (1, "1"), 20: (2, "1")}, number=1)
    feed.puts("d.t", 2, {12: (3, "1")}, number=2)
    feed.puts("d.t", 2, {40: (4, "1")}, number=3)
    assert replica.once(15).exit_code == 0
    feed.puts("d.t", 2, {30: (3, "22")}, number=2)
    assert replica.once(25, round_bytes=1).exit_code == 0
    assert replica.tables == {"d.t": {1: "1", 2: "1", 3: "1"}}
    assert replica.once(45).exit_code == 0
    assert replica.tables == {"d.t": {1: "1", 2: "1", 3: "22", 4: "1"}}


def test_files_written_anew_between_two_listings_of_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from consumer.storage.reader import ChangefeedReader

    feed = Feed(tmp_path / "storage")
    replica = MemoryReplica(feed)
    for table in ("d.t", "d.u"):
        feed.create(table, 2)
        for number in (1, 2):
            feed.puts(table, 2, {9 + number: (number, "1")}, number=number)
        feed.index(table, 2, 2)
    assert replica.once(15).exit_code == 0

    def rewritten(table: str) -> None:
        for number in (1, 2):
            feed.puts(table, 2, {30 + number: (number, "22")}, number=number)

    def listing(self: ChangefeedReader, *given: Any) -> Listing:
        if len(given) > 2 and given[2]:
            rewritten("d.u")
        return listed(self, *given)

    listed = ChangefeedReader.listing
    monkeypatch.setattr(ChangefeedReader, "listing", listing)
    rewritten("d.t")
    for checkpoint, value in ((25, "1"), (35, "22")):
        assert replica.once(checkpoint).exit_code == 0
        assert replica.tables == {name: {1: value, 2: value} for name in ("d.t", "d.u")}


@pytest.mark.parametrize("when", ["before the listing", "behind the listing"])
def test_files_written_anew_where_the_index_file_is_gone(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody, or a rule of the bucket, deletes it; TiCDC begins with the first file, and cannot write it."""
    from consumer.storage.reader import ChangefeedReader

    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    for number in (1, 2, 3):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
        index = feed.index("d.t", 2, number)
    assert replica.once(15).exit_code == 0
    listed = ChangefeedReader.listing

    def listing(self: ChangefeedReader, *given: Any) -> Listing:
        found = listed(self, *given)
        index.unlink(missing_ok=True)
        return found

    if when == "before the listing":
        index.unlink()
    else:
        feed.index("d.t", 2, 1)
        monkeypatch.setattr(ChangefeedReader, "listing", listing)
    for number in (1, 2):
        feed.puts("d.t", 2, {19 + number: (number, "22")}, number=number)
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": {1: "22", 2: "22", 3: "1"}}
    feed.puts("d.t", 2, {30: (3, "333")}, number=3)
    feed.puts("d.t", 2, {31: (2, "333")}, number=2)
    assert replica.once(35).exit_code == 0
    assert replica.tables == {"d.t": {1: "22", 2: "333", 3: "333"}}


def test_a_file_written_anew_is_seen_though_there_is_a_new_one_older_than_the_index_file(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    feed.index("d.t", 2, 1)
    for number in (1, 2, 3):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
    assert replica.once(15).exit_code == 0
    new = feed.puts("d.t", 2, {20: (4, "1")}, number=4)
    index = feed.index("d.t", 2, 2)
    os.utime(index, ns=(0, new.stat().st_mtime_ns + 1))
    feed.puts("d.t", 2, {21: (2, "22")}, number=2)
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": {1: "1", 2: "22", 3: "1", 4: "1"}}


def test_a_stale_index_file_is_asked_again_until_the_file_that_it_names_is_written(tmp_path: Path) -> None:
    """The old architecture writes the index file first: a listing can fall between the two."""
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    feed.index("d.t", 2, 1)
    for number in (1, 2, 3):
        feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number)
    assert replica.once(15).exit_code == 0
    feed.index("d.t", 2, 2)
    assert replica.once(20).exit_code == 0
    feed.puts("d.t", 2, {21: (2, "22")}, number=2)
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": {1: "1", 2: "22", 3: "1"}}


@pytest.mark.parametrize("named", [0, 1, 2])
@pytest.mark.parametrize("anew", [1, 2, 3])
def test_a_file_is_written_anew_below_the_last_and_the_index_file_stays_as_it_is(
    tmp_path: Path, named: int, anew: int
) -> None:
    """TiCDC goes on behind the number that the index file names, and ignores that it could not write it."""
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    feed.index("d.t", 2, 1, "2026-03-01")
    feed.puts("d.t", 2, {3: (0, "1")}, number=1, date="2026-03-01")
    first = {number: feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number) for number in (1, 2, 3, 4)}
    if named:
        index = feed.index("d.t", 2, named)
        os.utime(index, ns=(0, first[named].stat().st_mtime_ns - 1))
    assert replica.once(15).exit_code == 0
    written = range(named + 1, named + 1 + anew)
    for number in written:
        feed.puts("d.t", 2, {20 + number: (number, "22")}, number=number)
    for _ in range(2):
        assert replica.once(30).exit_code == 0
        assert replica.tables == {"d.t": {0: "1", **dict.fromkeys((1, 2, 3, 4), "1"), **dict.fromkeys(written, "22")}}
    feed.index("d.t", 2, 5)
    feed.puts("d.t", 2, {31: (5, "1")}, number=5)
    assert replica.once(35).exit_code == 0
    (place,) = (place for folder, place in replica.sink.progress().folders.items() if not folder.date)
    assert (place.done, place.open) == (5, ())


def test_files_that_may_be_written_anew_may_also_be_deleted(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    feed.index("d.t", 2, 1)
    first = {number: feed.puts("d.t", 2, {9 + number: (number, "1")}, number=number) for number in (1, 2, 3, 4)}
    assert replica.once(15).exit_code == 0
    for number in (1, 2, 3):
        first[number].unlink()
    assert replica.once(16).exit_code == 0
    feed.puts("d.t", 2, {20: (5, "1")}, number=5)
    assert replica.once(25).exit_code == 0
    assert replica.tables == {"d.t": dict.fromkeys((1, 2, 3, 4, 5), "1")}


@dataclass
class Copied:
    """A replica of CSV without commit-ts, with a file in front of a statement and one behind it."""

    replica: Replica
    files: list[Path]
    flags: dict[str, object]

    @classmethod
    def of(cls, feed: Feed, url: str, form: CsvFormat = CsvFormat()) -> Copied:  # noqa: B008 - frozen
        more = (ID, VALUE, Column("w", "INT"))
        feed.statement("d.t", 50, Action.ADD_COLUMN, "ALTER TABLE `t` ADD COLUMN `w` INT", more)
        files = []
        for version, columns, lines in [(2, (ID, VALUE), ["1 10", "2 20"]), (50, more, ["1 11 5", "3 30 6"])]:
            records = [csv_rows.record("I", line.split(), columns, form) + b"\r\n" for line in lines]
            head = [csv_rows.header([column.name for column in columns], form) + b"\r\n"]
            content = b"".join([*(head if form.output_field_header else []), *records])
            files.append(feed.file("d.t", version, content, extension="csv"))
        flags: dict[str, object] = {"upstream_uri": f"file://{feed.folder}?protocol=csv"}
        return cls(Replica(feed, url), files, flags | {"csv_output_field_header": form.output_field_header})

    def once(self, checkpoint: int) -> RunResult:
        return self.replica.once(checkpoint, **self.flags)

    def copy(self) -> None:
        """The same bytes, as a copy of the storage has them."""
        for file in self.files:
            moment = file.stat().st_mtime_ns + 1_000_000_000
            os.utime(file, ns=(moment, moment))

    @property
    def stamps(self) -> list[str]:
        with closing(sink_of(self.replica.settings(**self.flags))) as sink:
            return sorted(place.stamp for place in sink.progress().folders.values())

    def notes(self, word: str) -> list[str]:
        """Those of the last run that have the word."""
        return [text for text in self.replica.seen.notes if word in text]

    def nothing_to_do(self) -> bool:
        """As the commands see it that change nothing."""
        settings, observer = self.replica.settings(**self.flags), Recorder()
        unread = app.status(settings, observer).unread
        (check,) = app.verify(settings, observer, loader=InlineLoader()).tables
        equal = check.error is None and check.counted.found == 3 and not check.counted.differences
        return equal and unread is not None and not unread.files and not app.plan(settings, observer).steps


@pytest.mark.parametrize("header", [False, True])
def test_without_commit_ts_a_file_that_was_only_copied_is_what_was_read(
    header: bool, feed: Feed, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = Copied.of(feed, target.url, CsvFormat(output_field_header=header))
    assert copied.once(100).exit_code == 0
    expected = {1: ("11", "5"), 2: ("20", None), 3: ("30", "6")}
    read = copied.stamps
    copied.copy()
    assert copied.nothing_to_do()
    assert copied.stamps == read

    def killed(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as between:
        between.setattr(consumer.pipeline.manager, "table_starts_change", killed)
        with pytest.raises(RuntimeError, match="killed"):
            copied.once(200)
    assert copied.stamps == sorted(str(file.stat().st_mtime_ns) for file in copied.files) != read
    for checkpoint in (200, 300):
        assert (left := copied.once(checkpoint)).exit_code == 0
        assert (left.tables[TableName("d", "t")].changes, copied.notes("rewritten")) == (0, [])
        copied.copy()
    assert {key: (row["v"], row["w"]) for key, row in target.state()["t"].items()} == expected

    first = copied.files[0]
    content = first.read_bytes()
    first.write_bytes(content.replace(b"20", b"21"))
    assert not copied.nothing_to_do()
    stopped = copied.once(400).tables[TableName("d", "t")]
    assert (stopped.state, "is another file than was read" in stopped.error) == ("stopped", True)
    first.write_bytes(content)
    assert copied.once(500).exit_code == 0
    assert copied.nothing_to_do()


def test_without_commit_ts_a_file_of_the_same_size_is_read_again_with_what_is_behind_it(tmp_path: Path) -> None:
    def cells(key: int, value: int) -> bytes:
        return f'"I","t","d",{key},{value}\r\n'.encode()

    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    flags = {"upstream_uri": f"file://{feed.folder}?protocol=csv"}
    feed.file("d.t", 2, cells(1, 10) + cells(2, 20), 1, "2026-03-01", "csv")
    feed.file("d.t", 2, cells(1, 11), 1, "2026-03-02", "csv")
    assert replica.once(100, **flags).exit_code == 0
    assert replica.tables == {"d.t": {1: "11", 2: "20"}}
    feed.file("d.t", 2, cells(1, 10) + cells(3, 30), 1, "2026-03-01", "csv")
    assert replica.once(200, **flags).exit_code == 0
    assert replica.tables == {"d.t": {1: "11", 2: "20", 3: "30"}}
