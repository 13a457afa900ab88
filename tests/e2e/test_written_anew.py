"""Files that TiCDC writes anew after a restart: the last one of a folder, and those behind a stale index file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.test_rounds import File, Server, Target
from tests.support.feed import Feed, MemoryReplica, Replica, Rows


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
    from consumer.storage.reader import FsspecReader

    asked: list[int] = []
    named = FsspecReader.named
    monkeypatch.setattr(FsspecReader, "named", lambda self, files: asked.append(len(files)) or named(self, files))
    feed = Feed(tmp_path / "storage")
    feed.create("d.t", 2)
    replica = MemoryReplica(feed)
    for number in (1, 2, 3):
        feed.index("d.t", 2, number)
        feed.puts("d.t", 2, {10 * number: (number, "1")}, number=number)
        replica.once(10 * number + 5)
        replica.once(10 * number + 6)
    assert asked == []
    feed.index("d.t", 2, 4)
    replica.once(50)
    assert asked == [1]
    assert replica.seen.notes == []


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
