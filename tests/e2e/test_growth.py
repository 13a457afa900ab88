"""Long histories through the whole of a run, on the in-memory target."""

from __future__ import annotations

from tests.support.feed import Feed, MemoryReplica

RENAMES = 5000


def test_thousands_of_renames_of_one_table(feed: Feed, replica: MemoryReplica) -> None:
    names = ("d.a", "d.b")
    feed.create("d.a", 10)
    feed.puts("d.a", 10, {11: (1, "1")})
    for at in range(RENAMES):
        feed.rename(names[at % 2], names[1 - at % 2], 20 + at)
    last = names[RENAMES % 2]
    feed.puts(last, 19 + RENAMES, {20 + RENAMES: (2, "2")})
    assert replica.once(30 + RENAMES).exit_code == 0
    assert replica.tables == {last: {1: "1", 2: "2"}}
