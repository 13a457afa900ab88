"""What trials came to is kept, and counted as far as every cell has had as many."""

from __future__ import annotations

from pathlib import Path

from tests.faults.results import Cell, Result, Results

A, B, C, D = (Cell("T", point, kind) for point in ("p", "q") for kind in ("x", "y"))


def result(cell: Cell, number: int, first: int = 0, *differences: str) -> Result:
    return Result(cell, number, first, (0,), differences, 0.5)


def test_a_table_counts_whole_rounds_alone() -> None:
    results = Results(None)
    for cell in (A, B, C, D, A, B):
        results.keep(result(cell, int(results.has(cell, 0)), -9))
    assert results.whole([A, B, C, D]) == 1
    assert results.table([A, B, C, D]).splitlines() == [
        "| point | x | y |",
        "| --- | --- | --- |",
        "| p | 1 (-9) | 1 (-9) |",
        "| q | 1 (-9) | 1 (-9) |",
    ]


def test_a_wrong_trial_is_told_beside_the_right_ones() -> None:
    results = Results(None)
    for number, found in enumerate([result(A, 0, 4), result(A, 1, 0, "a row"), result(A, 2, 4)]):
        assert found.number == number
        results.keep(found)
    assert results.table([A]).splitlines()[2] == "| p | 2 of 3 (0: 1, 4: 2) |"
    assert [found.number for found in results.wrong()] == [1]


def test_a_file_of_results_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "results"
    Results(path).keep(result(A, 0, 4, "a row"))
    again = Results(path)
    assert again.has(A, 0)
    assert not again.has(A, 1)
    assert again.wrong() == [result(A, 0, 4, "a row")]
