"""Some histories, the same in every run, and those that once failed. `make proof GROUP=simulate` plays others."""

from __future__ import annotations

from collections import Counter

import pytest

from consumer.pipeline.load_results import LoadResults
from tests.simulate.cases import from_json, kept, to_json
from tests.simulate.events import CHANGEFEED, DURING, OF_THEMES, TARGET, UPSTREAM, history, in_a_lake, published
from tests.simulate.machine import BEHIND
from tests.simulate.mutants import MUTANTS
from tests.simulate.play import play
from tests.simulate.readers.asking import READ, REFUSED
from tests.simulate.seeds import batches
from tests.simulate.themes import THEMES

CHUNK = 40


def test_histories_end_in_the_state_of_upstream() -> None:
    _play_from(0)


@pytest.mark.parametrize("first", [CHUNK, 2 * CHUNK, 3 * CHUNK])
def test_more_histories_end_in_the_state_of_upstream(first: int) -> None:
    _play_from(first)


def _play_from(first: int) -> None:
    happened = Counter[str]()
    for seed in range(first, first + CHUNK):
        found = play(history(seed))
        assert not found.problem, "\n".join([f"seed {seed}: {found.problem}", *found.story])
        happened += found.happened
    # Otherwise this would say less than it seems to.
    assert min(happened[kind] for kind in ("commit", "flush", "execute", "publish", "catch up")) > 0


def test_histories_of_a_target_that_commits_table_by_table() -> None:
    happened = Counter[str]()
    for seed in range(CHUNK):
        found = play(in_a_lake(history(seed)))
        assert not found.problem, "\n".join([f"seed {seed}: {found.problem}", *found.story])
        happened += found.happened
    assert all(happened[f"{kind} {moment}"] > 1 for moment in BEHIND for kind in ("crash", "take over")), happened


@pytest.mark.parametrize("level", ["table", "snapshot"])
def test_histories_of_rows_that_are_seen_together(level: str) -> None:
    drawn = [found for seed in range(40) if (found := published(history(seed), level)) is not None]
    for one in drawn:
        found = play(one)
        assert not found.problem, "\n".join([f"seed {one.seed}: {found.problem}", *found.story])
    assert len(drawn) > 20


def test_readers_give_what_upstream_had_and_mostly_do_not_refuse() -> None:
    happened = Counter[str]()
    for number, theme in enumerate(THEMES):
        for seed in (2 * number, 2 * number + 1):  # equal ones would draw equal questions
            found = play(history(seed, theme), readers=True)
            assert not found.problem, "\n".join([f"seed {seed} of {theme}: {found.problem}", *found.story])
            happened += found.happened
    for reader in ("the state", "changes", "verify", "repair", "undo"):
        asked, refused = happened[f"{reader} {READ}"], happened[f"{reader} {REFUSED}"]
        assert refused * 3 <= asked > 5, (reader, asked, refused)
    assert min(happened["rows that are taken back"], happened["rows that are not taken back"]) > 10


def test_a_table_that_stays_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where each table was committed by itself."""
    commit = LoadResults._commit
    monkeypatch.setattr(LoadResults, "_commit", lambda self, done: [one for d in done for one in commit(self, [d])])
    drawn = (published(history(seed), "snapshot") for seed in range(40))
    assert any("stay behind the moment" in play(one).problem for one in drawn if one is not None)


def test_what_once_failed() -> None:
    failed = {name: found for name, one in kept().items() if (found := play(one)).problem}
    assert not failed, "\n".join(
        [line for name, found in failed.items() for line in (name, found.problem, *found.story)]
    )


def test_what_undoes_a_mend_is_in_the_program() -> None:
    patches = [(name, owner, what) for name, mutant in MUTANTS.items() for owner, what, _ in mutant.patches]
    assert [(name, what) for name, owner, what in patches if not hasattr(owner, what)] == []


def test_every_kind_of_event_happens() -> None:
    drawn = [event for seed in range(300) for event in history(seed).events]
    kinds = {event.kind for event in drawn} | {other.kind for event in drawn for _, other in event.during}
    assert kinds == {*UPSTREAM, *CHANGEFEED, *TARGET, *DURING, *OF_THEMES, "once", "run"}


def test_a_history_is_the_same_each_time() -> None:
    for seed in range(8):
        assert play(history(seed)) == play(history(seed))


def test_it_is_the_same_in_processes_side_by_side() -> None:
    found = list(batches(7, 25, 0, "row", 2))
    assert sum(batch.played for batch in found) == 25
    stories = {seed: story for batch in found for seed, story in batch.stories.items()}
    assert list(stories) == list(range(7, 32))
    assert all(stories[seed] == play(history(seed)).story for seed in (7, 31))


def test_a_history_can_be_kept() -> None:
    for seed in range(200):
        assert from_json(to_json(history(seed))) == history(seed)
