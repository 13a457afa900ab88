"""How many tasks a large table's load has, and what they get."""

from __future__ import annotations

import pytest

from consumer.model.load import FileSlice
from consumer.model.steps import Window
from consumer.spark.sizes import BATCH_BYTES, BUCKET_BYTES, batches_of, buckets_of, shared_out


def piece(number: int) -> FileSlice:
    return FileSlice(f"CDC{number}.json", 0, 1, 1, 0, number, Window(0, 9), Window(0, 9))


@pytest.mark.parametrize(
    ("groups", "cores", "tasks"),
    [
        pytest.param(1, 2, [1], id="one group"),
        pytest.param(4, 2, [1, 1, 1, 1], id="two for each core"),
        pytest.param(18, 2, [4, 4, 3, 2, 2, 1, 1, 1], id="fewer and fewer"),
        pytest.param(5, 64, [1, 1, 1, 1, 1], id="more cores than groups"),
    ],
)
def test_the_last_tasks_decode_least(groups: int, cores: int, tasks: list[int]) -> None:
    pieces = [[piece(number)] for number in range(groups)]
    shares = shared_out(pieces, cores)
    assert [len(share) for share in shares] == tasks
    assert [group for share in shares for group in share] == pieces


@pytest.mark.parametrize(
    ("sizes", "at_a_time", "batches"),
    [
        pytest.param([9, 11, 10, 10, 9, 11], 2, [[0, 1, 2], [3, 4, 5]], id="little is left: a batch for each"),
        pytest.param([10] * 6, 1, [[0, 1, 2, 3, 4, 5]], id="one at a time"),
        pytest.param([BATCH_BYTES] * 4, 2, [[0], [1], [2], [3]], id="nothing was folded"),
        pytest.param([BATCH_BYTES // 3] * 8, 2, [[0, 1], [2, 3], [4, 5], [6, 7]], id="bounded"),
        pytest.param([7], 2, [[0]], id="one bucket"),
    ],
)
def test_buckets_of_which_little_is_left_are_written_together(
    sizes: list[int], at_a_time: int, batches: list[list[int]]
) -> None:
    assert batches_of(dict(enumerate(sizes)), at_a_time) == batches


@pytest.mark.parametrize(
    ("weight", "at_a_time", "buckets"),
    [
        pytest.param(1, 2, 2, id="one for each"),
        pytest.param(4 * BUCKET_BYTES, 2, 4, id="full ones"),
        pytest.param(4 * BUCKET_BYTES + 1, 2, 6, id="as many for each"),
        pytest.param(3 * BUCKET_BYTES, 1, 3, id="one at a time"),
    ],
)
def test_no_writer_waits_for_the_last_bucket(weight: int, at_a_time: int, buckets: int) -> None:
    assert buckets_of(weight, at_a_time) == buckets
    assert weight <= buckets * BUCKET_BYTES
