"""A few points and kinds of `make proof GROUP=faults`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.faults.chain import Chain
from tests.faults.kinds import KINDS
from tests.faults.points import POINTS
from tests.faults.targets import FileTarget, LakeTarget, ServerTarget, Target
from tests.servers import SqlServer
from tests.support.lakes import FORMATS

_BY_NAME = {point.name: point for point in POINTS}


@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("a statement has run", "kill -9"),
        ("rows are written or staged", "overtaken"),
        ("before a commit", "target killed"),
    ],
)
def test_a_server_is_right_after_it(fresh_mariadb: SqlServer, tmp_path: Path, point: str, kind: str) -> None:
    assert _differences(tmp_path, lambda _: ServerTarget(fresh_mariadb), point, kind) == []


@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("rows are written or staged", "kill -9"),
        ("a load has ended", "overtaken"),
        ("rows are being published", "kill -9"),
        ("all is written, and not committed", "overtaken"),
        ("a commit is done", "kill -9"),
    ],
)
def test_a_server_of_snapshots_is_right_after_it(
    fresh_mariadb: SqlServer, tmp_path: Path, point: str, kind: str
) -> None:
    flags = ("--consistency", "snapshot")
    assert _differences(tmp_path, lambda _: ServerTarget(fresh_mariadb, *flags), point, kind) == []


@pytest.mark.parametrize(
    ("point", "kind"), [("rows are being published", "kill -9"), ("rows are written or staged", "frozen")]
)
def test_a_file_is_right_after_it(tmp_path: Path, point: str, kind: str) -> None:
    assert _differences(tmp_path, FileTarget, point, kind) == []


@pytest.mark.parametrize("lake", FORMATS)
@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("a statement has run", "kill -9"),
        ("rows are written or staged", "JVM kill -9"),
        ("before a commit", "overtaken"),
        ("rows are being published", "kill -9"),
        ("rows are being published", "overtaken"),
        ("a lake's progress is written", "kill -9"),
    ],
)
def test_a_lake_is_right_after_it(lake: str, tmp_path: Path, point: str, kind: str) -> None:
    assert _differences(tmp_path, lambda folder: LakeTarget(lake, folder), point, kind) == []


def test_a_trial_sees_one_wrong_row(tmp_path: Path) -> None:
    chain = Chain(tmp_path, FileTarget(tmp_path), 7)
    chain.workload.advance()
    assert chain.run() == 0
    assert chain.workload.differences(chain.target.query) == []
    with duckdb.connect(str(tmp_path / "replica.duckdb")) as connection:
        connection.execute("INSERT INTO e.log VALUES (4)")
    assert [line.partition(":")[0] for line in chain.workload.differences(chain.target.query)] == ["log"]


def _differences(folder: Path, target: Callable[[Path], Target], point: str, kind: str) -> list[str] | None:
    """Of the first history that comes to the point."""
    for seed in range(6):
        place = folder / str(seed)
        place.mkdir()
        found = Chain(place, target(place), seed).play(_BY_NAME[point], 1, KINDS[kind]).differences
        if found is not None:
            return found
    return None
