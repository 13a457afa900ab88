"""Rows that exchange their keys in a transaction whose halves of UPDATEs stand side by side."""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest

from consumer.changes.keyed import fold_keyed, without_late_deletes
from consumer.errors import CannotBeExact
from consumer.model.load import POSITION_BITS

Line = tuple[str, str, str | None, str | None]
"""I or D, and three columns."""
COLUMNS = ("c0", "c1", "c2")


def lines(*text: Line, ts: int = 0, file: int = 0, timeless: bool = True) -> pa.Table:
    count = len(text)
    meta = {
        "ts": pa.array([ts] * count, pa.int64()),
        "put": pa.array([line[0] == "I" for line in text], pa.bool_()),
        "series": pa.array([1] * count, pa.int32()),
        "rank": pa.array([((file << POSITION_BITS) + at) * timeless for at in range(1, count + 1)], pa.int64()),
    }
    return pa.table(meta | {name: pa.array([x[n] for x in text], pa.string()) for n, name in enumerate(COLUMNS, 1)})


def left(changes: pa.Table, key: tuple[int, ...] = (0,)) -> dict[str, tuple[str | None, ...]]:
    """By key, what the last change of it leaves there."""
    found = {}
    for row in without_late_deletes(changes, key).to_pylist():
        found[row["c0"]] = (row["c0"], row["c1"], row["c2"]) if row["put"] else None
    return {name: row for name, row in found.items() if row is not None}


def moves(*moved: tuple[str, str, str | None]) -> list[Line]:
    """UPDATEs, each of the row with a value from one key to another."""
    return [line for old, new, v in moved for line in (("D", old, v, None), ("I", new, v, None))]


def test_rows_that_exchange_their_keys_are_there_in_whichever_order_they_stand() -> None:
    rotation = [("1", "2", "a"), ("2", "3", "b"), ("3", "1", "c")]
    for order in permutations(rotation):
        assert {key: row[1] for key, row in left(lines(*moves(*order))).items()} == {"2": "a", "3": "b", "1": "c"}


@pytest.mark.parametrize(("one", "other"), [("a", None), (None, "a"), ("", None)])
def test_null_is_a_value_where_another_column_shows_that_all_are_told(one: str | None, other: str | None) -> None:
    text = [("D", "1", one, "x"), ("I", "2", one, "x"), ("D", "2", other, "x"), ("I", "1", other, "x")]
    assert left(lines(*text)) == {"2": ("2", one, "x"), "1": ("1", other, "x")}


def test_a_row_that_was_moved_and_then_removed_is_gone() -> None:
    assert left(lines(*moves(("1", "2", "a")), ("D", "2", "a", None))) == {}
    assert left(lines(*moves(("1", "2", "a"), ("2", "1", "a")))) == {"1": ("1", "a", None)}
    key_alone: Line = ("D", "2", None, None)
    assert left(lines(*moves(("1", "2", "a")), key_alone)) == {}


def test_another_file_and_a_commit_ts_tell_for_themselves() -> None:
    apart = pa.concat_tables([lines(("I", "2", "a", None)), lines(("D", "2", "b", None), file=1)])
    assert left(apart) == {}
    assert left(lines(("I", "2", "a", None), ("D", "2", "b", None), ts=7, timeless=False)) == {}


def test_a_row_that_comes_to_a_key_in_front_of_the_delete_of_the_one_that_left_it() -> None:
    text: tuple[Line, ...] = (("I", "7", "a", None), ("D", "7", "b", None), ("I", "8", "b", None))
    assert left(lines(*text, ts=7)) == {"7": ("7", "a", None), "8": ("8", "b", None)}
    later = pa.concat_tables([lines(text[0], ts=7), lines(*text[1:], ts=8)])
    assert left(later) == {"8": ("8", "b", None)}


def test_an_update_that_is_not_split_shows_what_it_found() -> None:
    """Rows that exchange the keys 1 and 2; what an UPDATE found has its own place, below 0."""
    changes = lines(*moves(("1", "2", "a"), ("2", "1", "b")), ts=7)
    whole = changes.set_column(3, "rank", pa.array([-1, 1, -2, 2], pa.int64()))
    assert without_late_deletes(whole, (0,)).column("rank").to_pylist() == [-1, 1, 2]


@pytest.mark.parametrize("told", [None, "a"])
def test_a_delete_behind_an_update_that_is_not_split_may_be_another_rows(told: str | None) -> None:
    """The row that had the key 2, or the one that has it now, where both are alike or the delete has its key alone."""
    changes = lines(*moves(("3", "2", "a")), ("D", "2", told, None), ts=7)
    unsplit = changes.set_column(3, "rank", pa.array([-1, 1, 2], pa.int64()))
    found = without_late_deletes(unsplit, (0,))
    with pytest.raises(CannotBeExact, match="gave that key away within one millisecond"):
        fold_keyed(found, [0], final=True)
    later = pa.concat_tables([found, lines(("I", "2", "c", None), ts=8)])
    assert fold_keyed(later, [0], final=True).column("c1").to_pylist()[-1] == "c"
