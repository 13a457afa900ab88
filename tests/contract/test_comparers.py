"""What a target's ComparePort promises, asked of every implementation."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from consumer.errors import LeaseHeld
from consumer.model.load import LoadTarget
from consumer.target import Comparer, Sink
from tests.contract.acts import UPSTREAM, changes, create_item, load, prepared
from tests.contract.targets import Target

LARGE = pa.schema([("c0", pa.large_string()), ("c1", pa.large_string())])
"""As decoders make them."""
PUTS = ((True, ("1", "a")), (True, ("2", None)), (True, ("3", "it's \\ 'so'")))


def rows_of(tables: Sequence[pa.Table], target: LoadTarget) -> set[tuple[str | None, ...]]:
    names = [f"c{position}" for position in range(len(target.columns))]
    return {tuple(row[name] for name in names) for table in tables for row in table.to_pylist()}


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


def test_a_consumer_at_work_is_not_looked_at(target: Target, sink: Sink) -> None:
    create_item(sink)
    other = target.sink()
    with pytest.raises(LeaseHeld), other.still():
        pass
    other.close()


def test_no_consumer_begins_meanwhile_and_nothing_is_changed(target: Target, sink: Sink) -> None:
    create_item(sink)
    before = sink.progress()
    sink.close()
    looking, late = target.sink(), target.sink()
    if not hasattr(looking, "_store"):  # a target in memory has no lock that another one sees
        with looking.still(), pytest.raises(LeaseHeld):
            late.acquire(UPSTREAM)
    looking.close()
    late.close()
    again = target.sink()
    assert again.acquire(UPSTREAM) == before
    again.close()
