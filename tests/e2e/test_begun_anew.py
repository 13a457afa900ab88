"""A round that is begun again, as the target lost what it had: for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer.app import parts
from consumer.errors import ProgressMoved
from consumer.model.files import Listing
from consumer.pipeline.manager import ConsumerManager
from tests.support.feed import Feed, Replica

_WAIT = 20.0


@pytest.mark.parametrize(("lasts", "reached"), [(3 * _WAIT, True), (0.4 * _WAIT, False)])
def test_the_wait_begins_anew_with_a_round_that_went_on_for_longer(
    lasts: float, reached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers in turn lose what they had, hours apart; or one that never holds anything is asked in vain."""
    feed = Feed(tmp_path / "storage")
    feed.folder.mkdir()
    feed.database("d", 1)
    feed.create("d.t", 5)
    feed.puts("d.t", 5, {8: (1, "10")})
    clock, failures = [0.0], [5]
    real = ConsumerManager.run_round

    def run_round(self: ConsumerManager, listing: Listing, seconds: float) -> None:
        if failures[0]:
            failures[0] -= 1
            clock[0] += lasts
            raise ProgressMoved("the target lacks what it had recorded")
        real(self, listing, seconds)

    monkeypatch.setattr(ConsumerManager, "run_round", run_round)
    monkeypatch.setattr(parts, "now", lambda: clock[0])
    replica = Replica(feed, f"duckdb:///{tmp_path}/r.duckdb")
    if reached:
        assert replica.once(10, tz="UTC", max_wait=f"{_WAIT:.0f}s").exit_code == 0
    else:
        with pytest.raises(ProgressMoved):
            replica.once(10, tz="UTC", max_wait=f"{_WAIT:.0f}s")
