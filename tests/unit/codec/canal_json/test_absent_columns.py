"""Rows that do not have the columns that they are taken to have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.errors import RowsVary, SchemaDrift
from consumer.model.columns import Column
from consumer.model.steps import Window
from tests.support.canal_json import row_line, target_of, whole, with_load
from tests.support.decoding import ID, KEYLESS, V, decode, failure, file_of

ROW = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=1)


def test_columns_that_the_rows_lack() -> None:
    target = target_of([ID, V, Column("w", "INT"), Column("x", "BLOB")])
    content = file_of(
        row_line("DELETE", {"id": "1"}, commit_ts=1), row_line("INSERT", {"id": "1", "v": None}, commit_ts=2)
    )
    error = failure(content, target)
    assert isinstance(error, RowsVary)
    assert (error.absent, error.carried, error.line) == (("w", "x"), (), 2)


def test_columns_that_only_rows_outside_the_window_lack() -> None:
    old, new = {"id": "1"}, {"id": "1", "v": None}
    content = file_of(*(row_line("INSERT", data, commit_ts=ts) for ts, data in ((1, old), (2, new), (3, old))))
    piece = replace(whole(content), exact=Window(1, 2))
    assert decode(content, piece=piece) == [(2, True, 0, 0, "1", None)]


def test_columns_that_a_later_block_lacks() -> None:
    first = file_of(ROW)
    content = first + file_of(row_line("INSERT", {"id": "1"}, commit_ts=1))
    with pytest.raises(SchemaDrift) as caught:
        decode(content, block_bytes=len(first))
    assert caught.value.line == 2


MIXED = {
    "after one that has it": [{"id": "1", "v": "a"}, {"id": "2"}],
    "after one where it is null": [{"id": "1", "v": None}, {"id": "2"}],
    "before one that has it": [{"id": "1"}, {"id": "2", "v": "a"}],
    "before one where it is null": [{"id": "1"}, {"id": "2", "v": None}],
}


@pytest.mark.parametrize("rows", MIXED.values(), ids=MIXED)
def test_one_row_that_lacks_what_the_others_have(rows: list[dict[str, str | None]]) -> None:
    error = failure(file_of(*(row_line("INSERT", row, commit_ts=1) for row in rows)))
    assert isinstance(error, RowsVary)
    assert (error.absent, error.line) == (("v",), rows.index(next(row for row in rows if "v" not in row)) + 1)


def test_null_in_old_does_not_stand_for_the_column() -> None:
    update = row_line("UPDATE", {"id": "2"}, commit_ts=1, old=[{"id": "2", "v": None}])
    error = failure(file_of(row_line("INSERT", {"id": "1", "v": None}, commit_ts=1), update))
    assert isinstance(error, RowsVary)
    assert error.line == 2


def test_rows_without_their_list_of_types_are_looked_at_one_by_one() -> None:
    whole_row = row_line("INSERT", {"id": "1", "v": None}, commit_ts=1, mysqlType=None)
    assert decode(file_of(whole_row)) == [(1, True, 0, 0, "1", None)]
    error = failure(file_of(whole_row, row_line("INSERT", {"id": "1"}, commit_ts=1, mysqlType=...)))
    assert isinstance(error, RowsVary)
    assert error.line == 2


WITHOUT_V = with_load(target_of([ID]), absent=("v",))


def test_a_column_that_is_left_out() -> None:
    content = file_of(
        row_line("INSERT", {"id": "1"}, commit_ts=1),
        row_line("UPDATE", {"id": "2"}, commit_ts=2, old=[{"id": "1"}]),
        row_line("DELETE", {"id": "2", "v": "a"}, commit_ts=3),
    )
    puts = [(ts, put, 0, 0, key) for ts, put, key in ((1, True, "1"), (2, False, "1"), (2, True, "2"), (3, False, "2"))]
    assert decode(content, WITHOUT_V) == puts


@pytest.mark.parametrize("value", ["a", "", None])
def test_a_row_that_has_a_column_left_out(value: str | None) -> None:
    lines = [row_line("INSERT", {"id": "1"}, commit_ts=1), row_line("INSERT", {"id": "2", "v": value}, commit_ts=1)]
    error = failure(file_of(*lines), WITHOUT_V)
    assert isinstance(error, RowsVary)
    assert (error.absent, error.carried, error.line) == ((), ("v",), 2)


def test_rows_of_a_table_with_no_key_must_be_whole() -> None:
    for kind in ("INSERT", "DELETE"):
        error = failure(file_of(row_line(kind, {"id": "1"}, commit_ts=1)), KEYLESS)
        assert isinstance(error, SchemaDrift)
        assert not isinstance(error, RowsVary)


def test_a_put_without_its_key() -> None:
    content = file_of(ROW, row_line("INSERT", {"v": "a"}, commit_ts=1))
    error = failure(content)
    assert isinstance(error, SchemaDrift)
    assert not isinstance(error, RowsVary)
    assert error.line == 2
