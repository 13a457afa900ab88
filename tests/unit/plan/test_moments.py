"""Where the rounds of `--consistency snapshot` end."""

from __future__ import annotations

from consumer.model.names import TableName
from consumer.model.progress import Progress, State, TableProgress
from consumer.plan.windows import Stretch, common_moment, next_moment

A, B = TableName("d", "a"), TableName("d", "b")


def test_without_statements_all_goes_to_the_checkpoint() -> None:
    assert next_moment([Stretch(A, 100, 20, 90)], [], 10, 50, 1000) == 50


def test_rows_in_front_of_a_statement_come_first() -> None:
    assert next_moment([Stretch(A, 100, 20, 90)], [30, 40], 10, 50, 1000) == 29


def test_a_statement_right_in_front_of_the_rows_comes_with_them_and_no_other_does() -> None:
    assert next_moment([Stretch(A, 100, 31, 90)], [30], 29, 50, 1000) == 50
    assert next_moment([Stretch(A, 100, 31, 90)], [30, 40], 10, 50, 1000) == 39
    assert next_moment([], [30, 40], 10, 50, 1000) == 39


def test_rows_that_are_applied_do_not_count() -> None:
    assert next_moment([Stretch(A, 100, 1, 10)], [30], 10, 50, 1000) == 50
    assert next_moment([Stretch(A, 100, 1, 90, lowest=35)], [30], 10, 50, 1000) == 50


def test_a_round_of_many_bytes_ends_where_all_tables_together_have_so_many() -> None:
    files = [Stretch(A, 1000, 1, 100), Stretch(B, 3000, 1, 100)]
    assert next_moment(files, [], 0, 100, 400) == 10
    assert next_moment(files, [], 10, 100, 400) == 20


def test_one_transaction_of_too_many_bytes_leaves_no_moment() -> None:
    files = [Stretch(A, 300, 20, 20), Stretch(B, 300, 20, 20)]
    assert next_moment(files, [], 10, 100, 400) == 19
    assert next_moment(files, [], 19, 100, 400) == 19
    assert next_moment(files, [], 19, 100, 600) == 100


def test_tables_are_together_from_the_furthest_one_on() -> None:
    places = {A: TableProgress(70), B: TableProgress(90, State.STOPPED)}
    assert common_moment(Progress(applied_ts=50, tables=places)) == 70
    assert common_moment(Progress(applied_ts=80, tables=places)) == 80
