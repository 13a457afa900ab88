"""How much of a load whose rows met at a unique key is read when it is planned again."""

from __future__ import annotations

from consumer.model.files import DataFile, Folder
from consumer.model.names import TableName
from consumer.model.steps import LoadRows, PlannedFile, Window
from consumer.pipeline.retry_memory import Collisions


def load(after: int, size: int) -> LoadRows:
    window = Window(after, after + 10)
    file = PlannedFile(DataFile(Folder("d/t", 1), 1, "p", size, ""), 0, 0, window, window)
    return LoadRows(TableName("d", "t"), window, (file,))


def test_a_round_grows_until_it_leaves_nothing_out() -> None:
    known = Collisions()
    assert not known.has(load(5, 100))
    assert known.learn(load(5, 100), in_one_task=False, bounded=True)
    assert (known.has(load(5, 10)), known.bytes_for(load(5, 10))) == (True, 0)
    assert known.learn(load(5, 100), in_one_task=True, bounded=True)
    assert known.bytes_for(load(5, 100)) == 400
    assert not known.learn(load(5, 400), in_one_task=True, bounded=False)


def test_the_next_load_of_the_table_begins_anew() -> None:
    known = Collisions()
    known.learn(load(5, 100), in_one_task=False, bounded=False)
    assert not known.has(load(6, 100))
