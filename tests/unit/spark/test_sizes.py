"""How many tasks a large table's load has."""

from __future__ import annotations

import pytest

from consumer.spark.sizes import BUCKET_BYTES, buckets_of, decoders_of


@pytest.mark.parametrize(
    ("groups", "cores", "tasks"),
    [
        pytest.param(1, 2, 1, id="one group"),
        pytest.param(7, 2, 7, id="fewer groups than tasks are worth while"),
        pytest.param(22, 2, 8, id="four tasks a core"),
        pytest.param(100, 2, 25, id="four groups a task at most"),
        pytest.param(22, 64, 22, id="more cores than groups"),
    ],
)
def test_a_task_decodes_several_groups(groups: int, cores: int, tasks: int) -> None:
    assert decoders_of(groups, cores) == tasks


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
