"""Long histories through the whole of a run, on the in-memory target."""

from __future__ import annotations

from collections import Counter

import pytest

from consumer.plan.statement import Statement
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


def test_a_name_that_is_made_and_dropped_again_and_again_costs_what_its_statements_cost(
    feed: Feed, replica: MemoryReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A DROP looks at the nearest statement in front of it, and not at all of them whenever one has run."""
    asked, overtakes = Counter[str](), Statement.overtakes

    def counted(self: Statement, other: Statement) -> bool:
        asked["overtakes"] += 1
        return overtakes(self, other)

    monkeypatch.setattr(Statement, "overtakes", counted)
    for number in range(100):
        feed.create("d.t", 10 + 2 * number)
        feed.drop("d.t", 11 + 2 * number)
    assert replica.once(300).exit_code == 0
    assert asked["overtakes"] < 4 * 200
