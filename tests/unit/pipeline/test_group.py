"""Consumers that wait for one another: which part each runs next, and what is committed with what."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import pytest

from consumer.errors import BadConfig, ConsumerError, Held, StorageUnavailable, TableError, TargetBusy
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.pipeline.group import Group, Part, parts_of
from consumer.pipeline.together import Prospect
from consumer.plan.moments import Stretch
from consumer.target import NotOne, Share

T = TableName("d", "t")


class Fake(Prospect):
    """Rows at `rows`, a byte each, and statements at `seen`."""

    def __init__(self, after: int, end: int, rows: Sequence[int] = (), seen: Sequence[int] = (), most: int = 100):
        for name, value in {
            "after": after,
            "end": end,
            "most": most,
            "rows": rows,
            "seen": seen,
            "waits": (),
        }.items():
            object.__setattr__(self, name, value)

    rows: Sequence[int]
    seen: Sequence[int]

    @property
    def size(self) -> int:
        return len(self.rows)

    def versions(self, after: int) -> list[int]:
        return [version for version in self.seen if version > after]

    def stretches(self, after: int, end: int) -> list[Stretch]:
        return [Stretch(T, 1, row, row) for row in self.rows]


def share(number: int) -> Share:
    return cast("Share", (None, (), ProgressChange(applied_ts=number)))


def test_all_go_to_the_lowest_checkpoint() -> None:
    assert parts_of({"a": Fake(5, 30), "b": Fake(5, 20)}) == dict.fromkeys("ab", Part(5, 20, last=True))


def test_a_statement_of_one_ends_the_part_of_all_where_another_has_rows_before_it() -> None:
    found = parts_of({"a": Fake(5, 30, rows=[9]), "b": Fake(5, 30, seen=[15])})
    assert found == dict.fromkeys("ab", Part(5, 14))
    assert parts_of({"a": Fake(5, 30, rows=[20]), "b": Fake(5, 30, seen=[15])})["a"] == Part(5, 30, last=True)


def test_the_bytes_of_all_of_them_fill_a_transaction() -> None:
    found = parts_of({"a": Fake(5, 30, rows=[6, 8, 10], most=4), "b": Fake(5, 30, rows=[7, 9, 11], most=4)})
    assert found == dict.fromkeys("ab", Part(5, 9))
    with pytest.raises(BadConfig, match="more than publish-bytes"):
        parts_of({"a": Fake(5, 30, rows=[6], most=1), "b": Fake(5, 30, rows=[6], most=1)})


def test_who_is_behind_comes_to_the_others_first() -> None:
    found = parts_of({"a": Fake(9, 30), "b": Fake(5, 30), "c": Fake(0, 30, seen=[3], rows=[2])})
    assert found == {"a": Part(9, 9), "b": Part(5, 9), "c": Part(0, 2)}


def test_nobody_goes_back_where_checkpoints_did() -> None:
    assert parts_of({"a": Fake(9, 7), "b": Fake(9, 30)}) == dict.fromkeys("ab", Part(9, 9, last=True))
    assert parts_of({"a": Fake(9, 7), "b": Fake(5, 30)}) == {"a": Part(9, 9), "b": Part(5, 7)}


class Threads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(8)

    def start(self, call: Callable[..., Any], *given: object) -> Future[Any]:
        return self._pool.submit(call, *given)


@pytest.fixture
def threads() -> Threads:
    return Threads()


def recorded(shares: Sequence[Share]) -> list[ProgressChange]:
    return [change for _, _, change in shares]


def begun(group: Group, threads: Threads) -> None:
    """All are in the same part."""
    asked = [threads.start(group.agree, name, Fake(5, 30)) for name in group.names]
    assert {one.result(5) for one in asked} == {Part(5, 30, last=True)}


def test_rows_of_all_are_committed_at_once_when_nobody_runs(threads: Threads) -> None:
    done: list[int] = []

    def commit(shares: Sequence[Share]) -> list[ProgressChange]:
        done.append(len(shares))
        return recorded(shares)

    group = Group("abc", commit)
    begun(group, threads)
    a = threads.start(group.commit, "a", 30, share(1))
    b = threads.start(group.commit, "b", 30, share(2))
    with pytest.raises(TimeoutError):
        a.result(0.3)
    assert not done
    group.over("c")
    assert (a.result(5).applied_ts, b.result(5).applied_ts, done) == (1, 2, [2])


def test_the_lowest_moment_is_committed_first(threads: Threads) -> None:
    done: list[list[int]] = []

    def commit(shares: Sequence[Share]) -> list[ProgressChange]:
        done.append([change.applied_ts or 0 for _, _, change in shares])
        return recorded(shares)

    group = Group("ab", commit)
    begun(group, threads)
    a = threads.start(group.commit, "a", 30, share(1))
    threads.start(group.commit, "b", 5, share(2)).result(5)
    assert done == [[2]]
    threads.start(group.commit, "b", 30, share(3)).result(5)
    assert a.result(5).applied_ts == 1
    assert sorted(done[1]) == [1, 3]


def test_nothing_is_committed_once_one_of_them_has_failed(threads: Threads) -> None:
    group = Group("ab", recorded)
    begun(group, threads)
    a = threads.start(group.commit, "a", 30, share(1))
    group.left("b", StorageUnavailable("it is gone"))
    with pytest.raises(Held, match=r"b holds up the others \(together\): it is gone"):
        a.result(5)
    begun(group, threads)
    group.left("b", StorageUnavailable("it is gone"))
    with pytest.raises(Held):
        group.commit("a", 30, share(1))


def test_an_error_of_a_table_goes_to_its_own_consumer_who_comes_again(threads: Threads) -> None:
    error = TableError("no", table="d.t")

    def commit(shares: Sequence[Share]) -> list[ProgressChange]:
        for number, (_, _, change) in enumerate(shares):
            if change.applied_ts == 2:
                raise NotOne(number, error)
        return recorded(shares)

    group = Group("ab", commit)
    begun(group, threads)
    a, b = (threads.start(group.commit, name, 30, share(n)) for n, name in enumerate("ab", 1))
    with pytest.raises(TableError):
        b.result(5)
    with pytest.raises(TimeoutError):
        a.result(0.3)
    assert threads.start(group.commit, "b", 30, share(3)).result(5).applied_ts == 3
    assert a.result(5).applied_ts == 1


def test_an_error_of_the_server_goes_to_all(threads: Threads) -> None:
    def commit(shares: Sequence[Share]) -> list[ProgressChange]:
        raise TargetBusy("locked")

    group = Group("ab", commit)
    begun(group, threads)
    found = [threads.start(group.commit, name, 30, share(1)) for name in "ab"]
    for one in found:
        with pytest.raises(TargetBusy):
            one.result(5)


def test_who_waits_for_one_that_has_ended_is_told(threads: Threads) -> None:
    group = Group("ab", recorded)
    a = threads.start(group.agree, "a", Fake(5, 30))
    group.ended("b", BadConfig("no login"))
    with pytest.raises(Held, match=r"b holds up the others .*no login"):
        a.result(5)
    group.left("b")
    begun(group, threads)


def test_a_stop_ends_the_waiting(threads: Threads) -> None:
    group = Group("ab", recorded)
    a = threads.start(group.agree, "a", Fake(5, 30))
    group.stop.set()
    with pytest.raises(Held, match="told to end"):
        a.result(5)


@pytest.mark.parametrize("seed", range(20))
def test_random_rounds_come_to_an_end_and_are_whole(seed: int, threads: Threads) -> None:
    """What a batch commits is of one moment; of those that have rows at it, none is missing unless a round broke."""
    chance, batches = random.Random(seed), list[set[tuple[str, int]]]()
    lock = threading.Lock()
    places = dict.fromkeys("abc", 0)

    def commit(shares: Sequence[Any]) -> list[ProgressChange]:
        if chance.random() < 0.1:
            raise TargetBusy("locked")
        with lock:
            batches.append({(name, moment) for name, moment in shares})
        return [ProgressChange() for _ in shares]

    group = Group("abc", commit)

    def round_of(name: str, own: random.Random, end: int) -> None:
        try:
            while True:
                part = group.agree(name, Fake(places[name], end, rows=range(1, 60, 3), most=7))
                if part.end > part.after:
                    if own.random() < 0.05:
                        raise StorageUnavailable("gone")
                    group.commit(name, part.end, cast("Share", (name, part.end)))
                    places[name] = part.end
                group.over(name)
                if part.last:
                    return
        except ConsumerError as error:
            group.left(name, error)
            raise

    def consumer(name: str) -> None:
        own = random.Random(f"{seed}{name}")
        for end in (20, 40, 60):
            while places[name] < end:
                try:
                    round_of(name, own, end)
                except ConsumerError:
                    continue
                group.left(name)

    for one in [threads.start(consumer, name) for name in "abc"]:
        one.result(60)
    assert places == dict.fromkeys("abc", 60)
    for batch in batches:
        assert len({moment for _, moment in batch}) == 1
