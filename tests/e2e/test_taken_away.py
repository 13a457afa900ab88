"""Files that are there when the storage is listed, and gone when they are to be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from shutil import move, rmtree
from typing import Any

import pytest

from consumer.model.files import Listing
from consumer.model.names import TableName
from consumer.model.times import ms_to_tso
from consumer.storage.reader import ChangefeedReader
from tests.support.feed import ENDS, Feed, MemoryReplica, states

T = TableName("d", "t")


def take_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the listing, before anybody reads it."""
    real: Callable[..., Listing] = ChangefeedReader.listing

    def listing(self: ChangefeedReader, *arguments: Any) -> Listing:
        found = real(self, *arguments)
        file.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(ChangefeedReader, "listing", listing)


def line_of(protocol: str, ts: int, key: int, value: int) -> bytes:
    if protocol == "canal-json":
        return Feed(Path())._line("d.t", ts, key, str(value))
    return f'"I","t","d",{"" if protocol == "timeless" else f"{ts},"}{key},{value}\r\n'.encode()


@pytest.mark.parametrize("told", [{}, {"file_expiration_days": 100}], ids=["days not told", "days told"])
@pytest.mark.parametrize("dates", [("", ""), ("2026-03-01", "2026-03-01"), ("2026-03-01", "2026-03-02")])
@pytest.mark.parametrize("checkpoint", [15, 25], ids=["above", "below"])
@pytest.mark.parametrize("protocol", ["canal-json", "csv", "timeless"])
def test_a_file_that_is_taken_away_before_it_is_read_is_a_gap_until_it_is_back_or_accepted(
    protocol: str,
    checkpoint: int,
    dates: tuple[str, str],
    told: dict[str, object],
    feed: Feed,
    replica: MemoryReplica,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = datetime(2026, 3, 1, tzinfo=UTC)
    begin = ms_to_tso(int(first.timestamp()) * 1000)
    extension = "json" if protocol == "canal-json" else "csv"
    family = "canal-json" if protocol == "canal-json" else "csv"
    flags: dict[str, object] = {"upstream_uri": f"file://{feed.folder}?protocol={family}", **told}
    flags |= {"csv_include_commit_ts": True} if protocol == "csv" else {}
    feed.create("d.t", begin)
    feed.file("d.t", begin, line_of(protocol, begin + 10, 1, 1), 1, dates[0], extension)
    assert replica.once(begin + 12, **flags).exit_code == 0
    number = 2 if dates[0] == dates[1] else 1
    taken = feed.file("d.t", begin, line_of(protocol, begin + 20, 2, 2), number, dates[1], extension)
    content = taken.read_bytes()
    with monkeypatch.context() as patch:
        take_away(taken, patch)
        assert replica.once(begin + checkpoint, **flags, max_wait=0).exit_code == 3
    for later in (checkpoint, 30):
        left = replica.once(begin + later, **flags)
        assert (left.exit_code, states(left)) == (5, {"d.t": "stopped"})
        assert "restore the missing file, or continue without its rows" in left.tables[T].hint
        assert replica.tables == {"d.t": {1: "1"}}
    taken.parent.mkdir(parents=True, exist_ok=True)
    taken.write_bytes(content)
    assert replica.once(**flags).exit_code == 0
    assert replica.tables == {"d.t": {1: "1", 2: "2"}}


def test_a_gap_that_was_accepted_where_there_is_no_index_file_is_not_told_again(
    feed: Feed, replica: MemoryReplica
) -> None:
    feed.create("d.t", 2)
    for number in (1, 3, 4, 7, 8):
        feed.puts("d.t", 2, {10 + number: (number, "1")}, number=number)
    assert replica.once(20).exit_code == 5
    assert replica.once(20, accept_gap_in=["*.*"]).exit_code == 0
    assert not next(iter(replica.sink.progress().folders.values())).waits
    feed.puts("d.t", 2, {30: (9, "1")}, number=9)
    assert replica.once(35).exit_code == 0
    assert replica.tables == {"d.t": dict.fromkeys((1, 3, 4, 7, 8, 9), "1")}


def test_a_table_whose_folder_is_gone_stops_and_goes_on_when_it_is_back(feed: Feed, replica: MemoryReplica) -> None:
    """With rows in it that nobody has read: a share that is not mounted, a folder that somebody has moved."""
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.create("d.u", 3)
    feed.puts("d.u", 3, {11: (1, "a")})
    assert replica.once(15).exit_code == 0
    feed.puts("d.t", 2, {20: (2, "b")})
    feed.puts("d.u", 3, {21: (2, "b")})
    elsewhere = feed.folder.parent / f"{feed.folder.name}-elsewhere"
    move(feed.folder / "d/t", elsewhere)
    for checkpoint in (25, 30):
        left = replica.once(checkpoint)
        assert (left.exit_code, states(left)) == (3, {"d.t": "stopped", "d.u": "ok"})
        assert "d/t/ has no schema file any more" in left.tables[T].error
    assert replica.once(30, tables=["*.*", "!d.t"]).exit_code == 0
    move(elsewhere, feed.folder / "d/t")
    assert replica.once(35).exit_code == 0
    assert replica.tables == {"d.t": {1: "a", 2: "b"}, "d.u": {1: "a", 2: "b"}}


@pytest.mark.parametrize("end", ENDS)
def test_the_folder_of_a_table_that_is_no_more_can_be_deleted(end: str, feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.t", 2)
    feed.puts("d.t", 2, {10: (1, "a")})
    feed.end("d.t", 20, end)
    assert replica.once(25).exit_code == 0
    rmtree(feed.folder / "d/t")
    for checkpoint in (30, 35, 40):
        assert replica.once(checkpoint).exit_code == 0
    assert replica.tables == ({"d.u": {1: "a"}} if end == "rename" else {})
