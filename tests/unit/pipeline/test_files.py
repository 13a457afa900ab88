"""Looking for files that came late: once for all tables, not once for each."""

from __future__ import annotations

from collections.abc import Set
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer.model.names import TableName
from consumer.pipeline.context import RoundContext
from consumer.pipeline.files import look_at_latecomers


class CountedSet(set[TableName]):
    """Counts the names that set operations go through."""

    went_through = 0

    def __sub__(self, other: Set[Any]) -> CountedSet:
        CountedSet.went_through += len(self)
        return CountedSet(super().__sub__(other))


@pytest.mark.parametrize("count", [10, 1000])
def test_tables_at_rest_cost_what_each_of_them_costs(count: int) -> None:
    names = [TableName("d", f"t{number}") for number in range(count)]
    at_rest = SimpleNamespace(position=5, error=None, unread=[])
    CountedSet.went_through = 0
    look_at_latecomers(
        cast(
            RoundContext,
            SimpleNamespace(
                round=SimpleNamespace(pending=[], live=CountedSet(names), views=set(), learned=lambda _: None),
                assembly=SimpleNamespace(checkpoint=5),
                consumers={name: SimpleNamespace(state=at_rest) for name in names},
                options=SimpleNamespace(files=SimpleNamespace(dialect=SimpleNamespace(timeless=True))),
            ),
        )
    )
    assert CountedSet.went_through <= 2 * count
