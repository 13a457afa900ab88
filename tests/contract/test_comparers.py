"""What a target's ComparePort promises, asked of every implementation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pytest

from consumer.errors import LeaseHeld, RowsCollide
from consumer.model.load import LoadTarget, Purpose, TableLoad
from consumer.model.progress import ProgressChange
from consumer.model.steps import Window
from consumer.model.times import MAX_TSO
from consumer.target import Comparer, LoadRequest, Only, Sink
from tests.contract.acts import (
    ID,
    LOG,
    LOG_COLUMNS,
    NAME,
    SHOP,
    UPSTREAM,
    WINDOW,
    changes,
    create_item,
    create_log,
    load,
    load_net,
    net,
    outcome,
    prepared,
)
from tests.contract.targets import Target

LARGE = pa.schema([("c0", pa.large_string()), ("c1", pa.large_string())])
"""As decoders make them."""
PUTS = ((True, ("1", "a")), (True, ("2", None)), (True, ("3", "it's \\ 'so'")))


def rows_of(tables: Sequence[pa.Table], target: LoadTarget) -> set[tuple[str | None, ...]]:
    names = [f"c{position}" for position in range(len(target.columns))]
    return {tuple(row[name] for name in names) for table in tables for row in table.to_pylist()}


def copies(comparer: Comparer) -> Counter[tuple[str | None, ...]]:
    return Counter(tuple(row.values()) for table in held(comparer) for row in table.to_pylist())


def held(comparer: Comparer) -> list[pa.Table]:
    return [table for number in range(comparer.ranges) for table in comparer.held(number)]


def test_what_was_written_is_held_as_it_is_expected(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes(*PUTS))
    sink.close()
    looking = target.sink()
    with looking.still() as progress:
        assert progress == looking.progress()
        answer = prepared(looking)
        comparer = looking.comparer(answer)
        told = comparer.expected(changes(*PUTS).select(["c0", "c1"]).cast(LARGE))
        assert rows_of([told], answer) == rows_of(held(comparer), answer)
        assert len(rows_of([told], answer)) == len(PUTS)
        assert all(told.schema.field(name).type == table.schema.field(name).type for table in held(comparer)
                   for name in ("c0", "c1"))  # fmt: skip
    looking.close()


def test_some_of_the_rows_are_read_alone(target: Target, sink: Sink) -> None:
    create_item(sink)
    answer = prepared(sink)
    load(sink, answer, changes(*((True, (str(key), name)) for key, name in enumerate("abc'"))))
    sink.rest()
    position = answer.names.index("name")
    assert sorted(sink.values(answer, position)) == ["'", "a", "b", "c"]
    for values in (("b",), ("a", "'"), ("none",)):
        assert {row[1] for row in copies(sink.comparer(answer, Only(position, values)))} == set(values) - {"none"}


def test_what_is_held_can_be_written_again(target: Target, sink: Sink) -> None:
    create_item(sink)
    answer = prepared(sink)
    load(sink, answer, changes(*PUTS))
    sink.rest()
    comparer = sink.comparer(answer)
    (rows,) = held(comparer)
    assert rows_of([comparer.expected(comparer.changes(rows))], answer) == rows_of([rows], answer)


def test_of_each_row_there_are_as_many_copies_as_asked_for(target: Target, sink: Sink) -> None:
    create_log(sink)
    answer = prepared(sink, LOG, LOG_COLUMNS)
    load_net(sink, answer, net((2, ("1", "x")), (1, ("2", "y")), (3, (None, None))), WINDOW)
    after = sink.progress()
    asked = net((1, ("1", "x")), (4, ("2", "y")), (0, (None, None)), (2, ("3", "z")))
    for _ in range(2):
        writer = sink.writer()
        with writer.session() as session:
            receipt = session.write_copies(answer, asked)
        sink.end(writer)
        sink.commit([outcome(answer, [receipt], Window(WINDOW.end, MAX_TSO))], ProgressChange())
    sink.rest()
    assert copies(sink.comparer(answer)) == {("1", "x"): 1, ("2", "y"): 4, ("3", "z"): 2}
    assert sink.progress() == after


def test_a_put_that_is_alone_touches_no_other_row(target: Target, sink: Sink) -> None:
    create_item(sink)
    load(sink, prepared(sink), changes((True, ("1", "a")), (True, ("2", "b"))))
    told = frozenset([frozenset(["name"])])
    (answer,) = sink.prepare([LoadRequest(TableLoad(SHOP, purpose=Purpose.MEND), (ID, NAME), known_unique=told)])
    assert isinstance(answer, LoadTarget)
    with suppress(RowsCollide):  # of a target that has the unique key
        load(sink, answer, changes((True, ("3", "b"))))
    sink.rest()
    assert {("1", "a"), ("2", "b")} <= copies(sink.comparer(answer)).keys()


def test_a_consumer_at_work_is_not_looked_at(target: Target, sink: Sink) -> None:
    create_item(sink)
    other = target.sink()
    with pytest.raises(LeaseHeld), other.still():
        pass
    other.close()


def test_no_consumer_begins_meanwhile_and_nothing_is_changed(target: Target, sink: Sink) -> None:
    create_item(sink)
    before, generation = sink.progress(), sink.lease_generation()
    sink.close()
    looking, late = target.sink(), target.sink()
    if not hasattr(looking, "_store"):  # a target in memory has no lock that another one sees
        with looking.still(), pytest.raises(LeaseHeld):
            late.acquire(UPSTREAM)
    looking.close()
    late.close()
    again = target.sink()
    assert again.lease_generation() == generation
    assert again.acquire(UPSTREAM) == before
    assert again.lease_generation() != generation
    again.close()
