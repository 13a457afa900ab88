"""Rows without commit-ts come to the fold by whole files, in whatever pieces these are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from consumer.changes import folding
from consumer.changes.folding import decode_folded
from consumer.codec import decoder
from consumer.model.columns import Column
from consumer.model.load import Dialect, FileSlice, LoadTask
from consumer.model.rules import Mask, MaskKind, Shaping
from tests.support.build import ID
from tests.support.canal_json import ALL, MemoryReader, row_line, target_of, whole, with_load

V = Column("v", "VARCHAR", length=20)
SHAPINGS = (
    None,
    Shaping(where="v LIKE 'new%'", collation="utf8mb4_bin"),
    Shaping(masks=(Mask(("v",), MaskKind.FIXED, "x"),)),
)
MOVED, COUNT = 1000, 40
"""Each transaction of the new architecture puts a row under the key of one that it moves so far."""


def transaction(key: int, commit_ts: int | None) -> Iterator[bytes]:
    for kind, to, value in (("INSERT", key, "new"), ("DELETE", key, "old"), ("INSERT", MOVED + key, "old")):
        yield row_line(kind, {"id": str(to), "v": f"{value} {key}"}, es=key, commit_ts=commit_ts) + b"\r\n"


def content(timed: bool) -> bytes:
    return b"".join(line for key in range(1, COUNT) for line in transaction(key, key << 18 if timed else None))


def cut(piece: FileSlice, count: int) -> tuple[FileSlice, ...]:
    step = -(-piece.size // count)
    begins = range(0, piece.size, step)
    return tuple(
        replace(piece, offset=begin, length=min(step, piece.size - begin), position=piece.position + begin)
        for begin in begins
    )


@pytest.mark.parametrize("timed", [False, True], ids=["es alone", "commit-ts"])
@pytest.mark.parametrize("slices", [1, 2, 7])
@pytest.mark.parametrize("block_bytes", [300, 1000, 8 << 20])
@pytest.mark.parametrize("shaping", SHAPINGS, ids=["all rows", "row filter", "mask"])
def test_a_late_delete_is_known_across_blocks_and_slices(
    block_bytes: int, slices: int, timed: bool, shaping: Shaping | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "BLOCK_BYTES", block_bytes)
    text = content(timed)
    target = with_load(target_of([ID, V]), shaping=shaping)
    task = LoadTask(0, target, ALL, cut(whole(text), slices), Dialect())
    stats, changes = decode_folded(task.slices, task, MemoryReader(text), final=True)
    rows = {row["c0"]: row["c1"] for row in changes.to_pylist() if row["put"]}
    there = {str(key): f"new {key}" for key in range(1, COUNT)}
    if shaping is None or not shaping.where:
        there |= {str(MOVED + key): f"old {key}" for key in range(1, COUNT)}
    assert rows == (dict.fromkeys(there, "x") if shaping is not None and shaping.masks else there)
    assert sum(stat.rows for stat in stats) == 3 * (COUNT - 1)


@pytest.mark.parametrize("fold_rows", [1, 2, 3])
def test_changes_are_finally_folded_also_where_the_last_ones_filled_a_pile(
    fold_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that two series hold is one row, in the end."""
    monkeypatch.setattr(folding, "FOLD_ROWS", fold_rows)
    text = row_line("INSERT", {"id": "1", "v": "a"}, es=5) + b"\r\n"
    pieces = (whole(text), replace(whole(text), series=1))
    task = LoadTask(0, target_of([ID, V]), ALL, pieces, Dialect())
    stats, changes = decode_folded(pieces, task, MemoryReader(text), final=True)
    assert [stat.rows for stat in stats] == [1, 1]
    assert changes.column("c1").to_pylist() == ["a"]
