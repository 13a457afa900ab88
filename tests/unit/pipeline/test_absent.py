"""Which columns a load is planned without, as its rows turn out."""

from __future__ import annotations

from consumer.errors import RowsVary
from consumer.model.names import TableName
from consumer.model.steps import LoadRows, Window
from consumer.pipeline.retry_memory import AbsentColumns


def load(after: int, table: str = "t") -> LoadRows:
    return LoadRows(TableName("d", table), Window(after, after + 10), ())


def lacks(*columns: str) -> RowsVary:
    return RowsVary("", absent=columns)


def carries(*columns: str) -> RowsVary:
    return RowsVary("", carried=columns)


def test_what_rows_lack_is_left_out_from_then_on() -> None:
    absent = AbsentColumns()
    assert absent.of(load(0)) == ()
    assert absent.learn(load(0), lacks("b"))
    assert absent.learn(load(0), lacks("a"))
    assert absent.of(load(0)) == absent.of(load(10)) == ("a", "b")
    assert absent.of(load(0, "other")) == ()


def test_rows_of_one_load_that_lack_and_carry_a_column() -> None:
    absent = AbsentColumns()
    assert absent.learn(load(0), lacks("a"))
    assert not absent.learn(load(0), carries("a"))
    assert not absent.learn(load(0), lacks("a"))


def test_a_column_that_comes_back_in_a_later_load() -> None:
    absent = AbsentColumns()
    assert absent.learn(load(0), lacks("a", "b"))
    assert absent.learn(load(10), carries("a"))
    assert absent.of(load(10)) == ("b",)
    assert absent.learn(load(10), lacks("a"))
    assert not absent.learn(load(10), carries("a"))


def test_another_table_of_the_name_is_not_guessed_at() -> None:
    absent = AbsentColumns()
    assert absent.learn(load(10), lacks("a"))
    absent.begin(TableName("d", "t"), 10)
    assert absent.of(load(20)) == ("a",)
    absent.begin(TableName("d", "t"), 15)
    assert absent.of(load(20)) == ()
    assert absent.learn(load(20), lacks("b"))
    assert absent.of(load(20)) == ("b",)
