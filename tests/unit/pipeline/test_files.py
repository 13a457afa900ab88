"""Which files are left to a later round; and that looking for latecomers costs each table once."""

from __future__ import annotations

from collections.abc import Set
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer.errors import ConsumerError, CorruptFile, StorageChanged, StorageUnavailable
from consumer.model.files import DataFile
from consumer.model.names import TableName
from consumer.pipeline.context import RoundContext
from consumer.pipeline.files import check_late_files, leave_to_later_round
from consumer.plan.unread import TableInRound, UnreadFile
from tests.support.build import data_file


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
    check_late_files(
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


@pytest.mark.parametrize(
    ("error", "first", "next_ts", "left"),
    [
        (CorruptFile, {3: 101}, 0, True),
        (StorageChanged, {3: 101}, 0, True),
        (CorruptFile, {3: 100}, 0, False),
        (CorruptFile, {2: 101}, 0, True),  # what follows was sent again
        (CorruptFile, {2: 100}, 0, False),
        (CorruptFile, {1: 101}, 0, False),
        (CorruptFile, {3: 101}, 60, False),
        (StorageUnavailable, {3: 101}, 0, False),
    ],
)
def test_a_file_is_left_to_a_later_round_only_where_no_row_of_it_is_due(
    error: type[ConsumerError], first: dict[int, int], next_ts: int, left: bool
) -> None:
    """The checkpoint is 100. `first` are commit-ts of the files' first rows, where these are not 50."""
    table, files = TableName("d", "t"), [data_file(index) for index in (1, 2, 3)]
    state = TableInRound(
        table, 40, [*(UnreadFile(file, 0) for file in files[:2]), UnreadFile(files[2], next_ts)], 1 << 30
    )

    def first_ts(file: DataFile) -> int:
        return first.get(file.index, 50)

    context = SimpleNamespace(
        consumers={table: SimpleNamespace(state=state)},
        options=SimpleNamespace(files=SimpleNamespace(dialect=SimpleNamespace(timeless=False))),
        ports=SimpleNamespace(reader=SimpleNamespace(first_ts=first_ts)),
        assembly=SimpleNamespace(checkpoint=100),
        tell=lambda note: None,
    )
    assert leave_to_later_round(cast(RoundContext, context), table, error("bad", path=files[2].path)) is left
    assert [entry.file.index for entry in state.unread] == ([1, 2] if left else [1, 2, 3])
    assert state.put_off == ({files[2].path} if left else set())
