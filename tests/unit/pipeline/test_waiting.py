"""Calls beside one another: how many at a time, and who begins those that wait."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from consumer.pipeline.waiting import BackgroundCalls

PATIENCE = 10.0


@pytest.fixture
def side() -> BackgroundCalls:
    return BackgroundCalls()


def test_those_in_line_are_made_while_nobody_follows(side: BackgroundCalls) -> None:
    last, told = threading.Event(), []
    for number in range(5):
        side.start("statement", last.set if number == 4 else (lambda: None), told.append, at_most=1)
    assert last.wait(PATIENCE)
    while side.running:
        side.handle_results(PATIENCE, 0.0)
    assert len(told) == 5


def test_so_many_of_a_name_at_a_time(side: BackgroundCalls) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def call() -> None:
        begun.release()
        go_on.wait(PATIENCE)

    for _ in range(3):
        side.start("statement", call, lambda _: None, at_most=2)
    side.start("load", call, lambda _: None)
    assert all(begun.acquire(timeout=PATIENCE) for _ in range(3))
    assert not begun.acquire(timeout=0.2)
    go_on.set()
    assert begun.acquire(timeout=PATIENCE)


def test_what_is_withdrawn_is_neither_made_nor_waited_for(side: BackgroundCalls) -> None:
    made: list[int] = []
    go_on = threading.Event()
    side.start("statement", partial(go_on.wait, PATIENCE), lambda _: None, at_most=1)
    for number in range(3):
        side.start("statement", partial(made.append, number), lambda _: None, at_most=1)
    assert side.withdraw()
    assert side.running == 1
    go_on.set()
    side.handle_results(PATIENCE, 0.0)
    assert (side.running, made) == (0, [])
    assert not side.withdraw()


def test_a_place_that_was_free_is_taken_again(side: BackgroundCalls) -> None:
    told: list[int] = []
    for number in range(3):
        side.start("statement", partial(int, number), told.append, at_most=1)
        side.handle_results(PATIENCE, 0.0)
    assert told == [0, 1, 2]


def test_an_error_is_a_result_and_the_next_goes_on(side: BackgroundCalls) -> None:
    told: list[object] = []

    def fails() -> None:
        raise KeyError("x")

    side.start("statement", fails, told.append, at_most=1)
    side.start("statement", lambda: "made", told.append, at_most=1)
    while side.running:
        side.handle_results(PATIENCE, 0.0)
    assert isinstance(told[0], KeyError)
    assert told[1] == "made"
