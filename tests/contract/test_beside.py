"""A table that one consumer name has loaded beside another's takes its place, once, whoever asks again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.ddl.resolve import routed_file
from consumer.errors import BadConfig, TableMissing
from consumer.model.actions import Action
from consumer.model.load import LoadTarget, TableLoad
from consumer.model.naming import SAME, naming_with_places
from consumer.model.progress import ProgressChange, State, TableProgress
from consumer.model.steps import ApplyDdl
from consumer.target import LoadRequest, Sink
from tests.contract.acts import (
    ID,
    LOG,
    NAME,
    SHOP,
    UPSTREAM,
    apply,
    changes,
    create_item,
    create_log,
    ddl,
    load,
    prepared,
)
from tests.contract.targets import Target

CREATE = "CREATE TABLE `item` (`id` INT PRIMARY KEY,`name` VARCHAR(50),UNIQUE KEY `u`(`name`))"
OTHER = "c.other"
TAKEN = ProgressChange(tables={SHOP: TableProgress(20)})
MARKED = ProgressChange(tables={SHOP: TableProgress(20, State.EXCHANGING, "why")})


def elsewhere(step: ApplyDdl, sink: Sink) -> ApplyDdl:
    """`step` as the plan makes it for a table that is beside its name."""
    naming = naming_with_places(SAME, {SHOP: sink.parallel_name(SHOP)})
    return replace(
        step, routed=routed_file(step.file, naming, step.touches, None), touches=naming.targets(step.touches)
    )


def load_beside(target: Target, *rows: tuple[str, str]) -> None:
    """Another name makes the table beside the one that is there, with these rows."""
    other = target.sink(OTHER)
    other.acquire(UPSTREAM)
    there = other.parallel_name(SHOP)
    other.take({there: None})
    apply(other, elsewhere(ddl(Action.CREATE_TABLE, SHOP, 2, CREATE, (ID, NAME)), other))
    request = LoadRequest(TableLoad(SHOP, there), (ID, NAME), known_unique=frozenset([frozenset(["name"])]))
    (answer,) = other.prepare([request])
    assert isinstance(answer, LoadTarget), answer
    load(other, answer, *(changes((True, row)) for row in rows))
    other.close()


def with_both(target: Target) -> Sink:
    """A sink whose table has a row, and beside which there is one with another."""
    sink = target.sink()
    sink.acquire(UPSTREAM)
    create_item(sink)
    sink.take({SHOP: None})
    load(sink, prepared(sink), changes((True, ("1", "old"))))
    sink.close()
    load_beside(target, ("2", "new"))
    sink.acquire(UPSTREAM)
    return sink


def test_it_has_the_name_the_rows_and_the_progress(target: Target) -> None:
    sink = with_both(target)
    assert target.rows(SHOP) == [("1", "old")]
    sink.record(MARKED)
    assert sink.replace_table(SHOP, TAKEN) == TAKEN
    assert target.rows(SHOP) == [("2", "new")]
    assert sink.progress().table(SHOP) == TableProgress(20)
    assert list(sink.missing([SHOP, sink.parallel_name(SHOP)])) == [sink.parallel_name(SHOP)]
    assert list(sink.consumers()) == ["c"]
    assert not sink.of_others()
    # It is a table as any other.
    load(sink, prepared(sink), changes((True, ("3", "later"))))
    assert target.rows(SHOP) == [("2", "new"), ("3", "later")]
    sink.close()


def test_it_takes_the_place_of_one_that_is_gone(target: Target) -> None:
    sink = with_both(target)
    sink.empty_table(SHOP, ProgressChange())
    sink.replace_table(SHOP, TAKEN)
    assert target.rows(SHOP) == [("2", "new")]
    sink.close()


def test_nothing_changes_where_there_is_none(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "old"))))
    before = sink.progress()
    with pytest.raises(TableMissing, match="is gone from the target"):
        sink.replace_table(LOG, TAKEN)
    assert sink.progress() == before
    sink.rest()
    assert target.rows(SHOP) == [("1", "old")]


def test_who_has_loaded_several_is_forgotten_with_the_last(target: Target) -> None:
    sink = with_both(target)
    create_log(sink)
    sink.close()
    other = target.sink(OTHER)
    other.acquire(UPSTREAM)
    other.take({other.parallel_name(LOG): None})
    other.close()
    sink.acquire(UPSTREAM)
    sink.replace_table(SHOP, TAKEN)
    assert sorted(sink.consumers()) == ["c", OTHER]
    sink.close()


def test_what_is_forgotten_leaves_nothing_beside(target: Target) -> None:
    with_both(target).close()
    other = target.sink(OTHER)
    other.forget()
    other.close()
    sink = target.sink()
    sink.acquire(UPSTREAM)
    assert list(sink.missing([sink.parallel_name(SHOP)])) == [sink.parallel_name(SHOP)]
    assert target.rows(SHOP) == [("1", "old")]
    assert list(sink.consumers()) == ["c"]
    sink.close()


def test_the_writer_forgets_what_another_name_was_loading_and_goes_on(target: Target) -> None:
    sink = with_both(target)
    sink.forget(OTHER)
    assert list(sink.missing([sink.parallel_name(SHOP)])) == [sink.parallel_name(SHOP)]
    assert list(sink.consumers()) == ["c"]
    change = ProgressChange(tables={SHOP: TableProgress(99)})
    sink.record(change)
    assert (sink.progress().table(SHOP).applied_ts, target.rows(SHOP)) == (99, [("1", "old")])
    sink.close()


def test_what_is_about_to_take_its_place_is_not_forgotten(target: Target) -> None:
    """Nobody could tell then whether it has."""
    sink = with_both(target)
    sink.record(MARKED)
    sink.close()
    other = target.sink(OTHER)
    with pytest.raises(BadConfig, match="is taking the place of another one"):
        other.forget()
    other.close()
    sink = target.sink()
    with pytest.raises(BadConfig, match="is to be replaced by what was loaded beside it"):
        sink.forget()
    sink.acquire(UPSTREAM)
    sink.replace_table(SHOP, TAKEN)
    assert target.rows(SHOP) == [("2", "new")]
    sink.close()
