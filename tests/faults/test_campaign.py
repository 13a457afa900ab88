"""Which chain plays which trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.campaign import Campaign
from tests.faults.chain import Outcome
from tests.faults.parts import Act, Part
from tests.faults.points import POINTS, Point
from tests.faults.results import Results
from tests.servers import SqlServer

_RUNS = 3


class _Chain:
    def __init__(self, folder: Path, differences: Callable[[int], list[str]]) -> None:
        self.folder, self._differences = folder, differences
        self.trials, self.closed = 0, 0

    def play(self, _point: Point, _number: int, _act: Act) -> Outcome:
        assert not self.closed
        self.trials += 1
        return Outcome(0, self._differences(self.trials))

    def close(self) -> None:
        self.closed += 1


def _right(_trial: int) -> list[str]:
    return []


@dataclass(frozen=True)
class _Part(Part):
    """Two points, two kinds."""

    differences: Callable[[int], list[str]] = _right
    chains: list[_Chain] = field(default_factory=list, compare=False)

    @property
    def longest(self) -> int:
        return 1_000_000

    def chain(self, folder: Path, server: SqlServer | None, _seed: int) -> _Chain:
        assert server is None
        self.chains.append(_Chain(folder, self.differences))
        return self.chains[-1]

    def _points(self) -> Sequence[Point]:
        return POINTS[:2]

    def _kinds(self) -> Mapping[str, Act]:
        return {"killed": lambda _: None, "frozen": lambda _: None}


def _played(folder: Path, jobs: int, *parts: _Part) -> Results:
    results = Results(None)
    Campaign(parts, _RUNS, jobs, 7, results, folder).play()
    return results


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_cell_is_played_in_every_round(tmp_path: Path, jobs: int) -> None:
    parts = [_Part("duckdb", "", "", level) for level in ("row", "table")]
    results = _played(tmp_path, jobs, *parts)
    assert [results.whole(part.cells()) for part in parts] == [_RUNS, _RUNS]
    assert [sum(chain.trials for chain in part.chains) for part in parts] == [4 * _RUNS, 4 * _RUNS]
    assert {(chain.closed, chain.folder.exists()) for part in parts for chain in part.chains} == {(1, False)}


def test_a_chain_goes_on_over_the_rounds_of_its_part(tmp_path: Path) -> None:
    part = _Part("duckdb", "", "", "row")
    _played(tmp_path, 1, part)
    assert [chain.trials for chain in part.chains] == [4 * _RUNS]


def test_no_part_is_a_round_ahead_of_another(tmp_path: Path) -> None:
    """One job: a chain that goes on would leave the other part behind."""
    parts = [_Part("duckdb", "", "", level) for level in ("row", "table")]
    _played(tmp_path, 1, *parts)
    assert [[chain.trials for chain in part.chains] for part in parts] == [[4, 8], [8, 4]]


def test_a_trial_that_ends_wrong_leaves_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = _Part("duckdb", "", "", "row", lambda trial: ["a: wrong"] if trial == 5 else [])
    results = _played(tmp_path, 1, part)
    assert [chain.trials for chain in part.chains] == [5, 5, 2]
    assert len(results.wrong()) == 2
    assert [chain.folder.exists() for chain in part.chains] == [True, True, False]
    assert [chain.closed for chain in part.chains] == [1, 1, 1]
    assert "a: wrong" in capsys.readouterr().out


def test_what_is_known_is_not_played(tmp_path: Path) -> None:
    part = _Part("duckdb", "", "", "row")
    results = _played(tmp_path, 1, part)
    again = _Part("duckdb", "", "", "row")
    Campaign([again], _RUNS, 1, 7, results, tmp_path).play()
    assert again.chains == []


def test_an_error_ends_all_jobs_and_closes_their_chains(tmp_path: Path) -> None:
    def fails(trial: int) -> list[str]:
        if trial == 3:
            raise OSError("no room")
        return []

    part = _Part("duckdb", "", "", "row", fails)
    with pytest.raises(OSError, match="no room"):
        _played(tmp_path, 2, part)
    assert {chain.closed for chain in part.chains} == {1}
