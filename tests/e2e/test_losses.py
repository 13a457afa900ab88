"""Losses that were accepted stay visible: recorded, in `status`, --json and events, until a resync ends them."""

from __future__ import annotations

import pytest

from consumer.model.events import NoteKind
from consumer.model.names import TableName
from tests.support.feed import Feed, MemoryReplica
from tests.support.shop import Shop

A, C = TableName("d", "a"), TableName("d", "c")
NO_FILE_2 = "file number 2 is missing before number 3"


def with_gaps(feed: Feed, *tables: str) -> None:
    """Of each table the second of three files is gone, which had row 2."""
    for table in tables:
        feed.create(table, 16)
        for number in (1, 3):
            feed.puts(table, 16, {16 + number: (number, "1")}, number)


def accepted(replica: MemoryReplica) -> dict[str, list[tuple[str, int, int]]]:
    """What is recorded, by table."""
    found = replica.sink.progress().losses
    return {str(name): [(x.reason, x.after, x.upto) for x in own.values()] for name, own in found.items()}


@pytest.fixture
def gaps(shop: Shop) -> Shop:
    """A replica whose tables d.a and d.c lack a file each; that of d.a was accepted."""
    with_gaps(shop.feed, "d.a", "d.c")
    assert shop.once(20).code == 5
    assert shop.run("once", "--accept-gap-in", "d.a").code == 5, "d.c is still stopped"
    return shop


def test_status_shows_an_accepted_loss_until_a_resync(gaps: Shop) -> None:
    left = gaps.run("status", "--check", "--tables", "d.a")
    assert left.code == 3
    assert f"d.a: accepted as lost: d/a/16/CDC00000000000000000003.json: {NO_FILE_2}" in left.out
    (loss,) = gaps.run("status", "--json").json["tables"]["d.a"]["accepted"]
    assert (loss["reason"], loss["after_ts"], loss["to_ts"]) == (NO_FILE_2, 16, 20)
    assert gaps.run("once", "--accept-gap-in", "d.c").code == 0
    left = gaps.run("status", "--check")
    assert (left.code, "2 with accepted losses" in left.out) == (3, True)
    assert gaps.run("status", "--check", "--allow-accepted").code == 0
    assert gaps.run("status", "--allow-accepted").code == 2
    for table in ("d.a", "d.c"):
        gaps.feed.puts(table, 16, {18: (2, "1")}, 2)
    assert {done.code for done in gaps.paste(left.out)} == {0}
    assert gaps.run("status", "--check").code == 0


def test_verify_names_a_table_with_an_accepted_loss(gaps: Shop) -> None:
    left = gaps.run("verify", "--table", "d.a", "--json")
    found = left.json["tables"]["d.a"]
    assert found["state"] == "equal in part"
    assert any("accepted as lost" in note and NO_FILE_2 in note for note in found["notes"])


def test_a_resync_accepts_no_gap_of_another_table(shop: Shop) -> None:
    with_gaps(shop.feed, "d.a", "d.c")
    assert shop.once(20).code == 5
    left = shop.run("resync", "--table", "d.a", "--accept-gap-in", "*.*", "--json")
    assert (left.code, left.states["d.a"], left.states["d.c"]) == (5, "ok", "stopped")
    assert [row["reason"] for row in left.json["tables"]["d.a"]["accepted"]] == [NO_FILE_2]


@pytest.mark.parametrize("table", ["d.t", "d.it's", "d.a b", "d.a*"])
def test_the_command_that_accepts_a_loss_names_the_table(table: str, shop: Shop) -> None:
    with_gaps(shop.feed, table) if table != "d.it's" else shop.feed.puts(table, 2, {20: (4, "4")}, 9)
    left = shop.once(25)
    assert left.code == 5
    assert [done.code for done in shop.paste(left.err)] == [0]
    assert shop.run("status", "--json").json["tables"][table]["accepted"]


def test_an_accepted_loss_is_recorded_and_told_once(feed: Feed, replica: MemoryReplica) -> None:
    with_gaps(feed, "d.a")
    feed.puts("d.a", 16, {20: (7, "1")}, 7)
    replica.once(20)
    result = replica.once(20, accept_gap_in=["d.a"])
    assert (result.exit_code, len(result.tables[A].accepted)) == (0, 2)
    wanted = [(NO_FILE_2, 16, 20), ("file numbers 4 to 6 are missing before number 7", 16, 20)]
    assert sorted(accepted(replica)["d.a"]) == sorted(wanted)
    assert [note.kind for note in replica.seen.noted] == [NoteKind.ACCEPTED_LOSS] * 2
    result = replica.once(30, accept_gap_in=["d.a"])
    assert replica.seen.noted == []
    assert len(result.tables[A].accepted) == 2, "each run says it"


@pytest.mark.parametrize(("end", "left"), [("rename", ["d.u"]), ("drop", []), ("drop database", []), ("truncate", [])])
def test_an_accepted_loss_goes_with_its_table(end: str, left: list[str], feed: Feed, replica: MemoryReplica) -> None:
    with_gaps(feed, "d.a")
    assert replica.once(20, accept_gap_in=["d.a"]).exit_code == 0
    feed.truncate("d.a", 30) if end == "truncate" else feed.end("d.a", 30, end)
    assert replica.once(35).exit_code == 0
    assert [str(name) for name in replica.sink.progress().accepted_losses] == left


def test_rows_that_came_late_are_recorded_as_lost(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 2)
    feed.puts("d.a", 2, {10: (1, "a")})
    replica.once(50)
    feed.puts("d.a", 2, {20: (2, "b"), 55: (3, "c")})
    assert replica.once(60, accept_gap_in=["d.a"]).exit_code == 0
    ((reason, after, upto),) = accepted(replica)["d.a"]
    assert ("it has a row of commit-ts 20" in reason, after, upto) == (True, 0, 50)


def test_a_table_whose_newest_file_is_not_there_is_not_equal(shop: Shop) -> None:
    """TiCDC writes the index file first: it may also be that the file is still to be written, so no table stops."""
    shop.feed.puts("d.it's", 2, {20: (4, "4")})
    shop.feed.index("d.it's", 2, 2)
    assert shop.once(25).code == 0
    assert shop.run("verify", "--json").json["tables"]["d.it's"]["state"] == "equal"
    shop.feed.index("d.it's", 2, 3)
    assert shop.once(25).code == 0
    left = shop.run("verify")
    assert "file number 3 of d/it's/2" in left.out
    assert "equal in part" in left.out
    assert shop.run("verify", "--strict").code == 3


@pytest.mark.parametrize("timing", ["before the next file", "with the next file"])
def test_an_accepted_file_is_not_missed_again_behind_the_next_one(timing: str, shop: Shop) -> None:
    damaged = shop.feed.puts("d.it's", 2, {16: (3, "3")})
    damaged.write_bytes(b"{")
    left = shop.once(20)
    assert left.code == 3
    damaged.unlink()
    if timing == "with the next file":
        shop.feed.puts("d.it's", 2, {21: (4, "4")}, 3)
        left = shop.once(25)
    assert [done.code for done in shop.paste(left.err)] == [0]
    shop.feed.puts("d.it's", 2, {21: (4, "4")}, 3)
    for number, checkpoint in ((4, 30), (5, 40)):
        assert shop.once(checkpoint).code == 0
        shop.feed.puts("d.it's", 2, {checkpoint + 1: (number, "4")}, number)
    assert shop.once(50).code == 0
    assert shop.rows == [(1, 1), (2, 2), (4, 4), (5, 4)]
    losses = shop.run("status", "--json").json["tables"]["d.it's"]["accepted"]
    assert {loss["reason"][:13] for loss in losses} == {"file number 2"}


def test_a_missing_file_is_accepted_once_while_the_next_one_has_later_rows(feed: Feed, replica: MemoryReplica) -> None:
    feed.create("d.a", 16)
    feed.puts("d.a", 16, {17: (1, "1")}, 1)
    feed.puts("d.a", 16, {18: (2, "2"), 30: (3, "3")}, 3)
    assert replica.once(20, accept_gap_in=["d.a"]).exit_code == 0
    for checkpoint in (25, 40):
        assert replica.once(checkpoint).exit_code == 0
    assert len(accepted(replica)["d.a"]) == 1
