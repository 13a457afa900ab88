"""Points name what is there, and a worker stops at the point that it is wanted at."""

from __future__ import annotations

import functools
import importlib
import os
import signal
from pathlib import Path

import pytest

from tests.faults.points import OF_TASKS, POINTS, Point
from tests.faults.spark_daemon import ArmedStop
from tests.faults.stops import state


@pytest.mark.parametrize("point", [*POINTS, *OF_TASKS], ids=lambda point: point.name)
def test_the_places_of_a_point_are_there(point: Point) -> None:
    for place in point.places:
        module, _, path = place.partition(":")
        assert callable(functools.reduce(getattr, path.split("."), importlib.import_module(module)))


def test_a_worker_stops_at_the_second_time_of_the_armed_point(tmp_path: Path) -> None:
    (tmp_path / "armed-1-2").touch()
    child = os.fork()
    if child == 0:
        ArmedStop(tmp_path, 0)()
        for _ in range(2):
            ArmedStop(tmp_path, 1)()
        os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    assert state(child) == "T"
    assert [path.name for path in tmp_path.iterdir()] == [f"reached-{child}"]
    os.kill(child, signal.SIGCONT)
    assert os.waitpid(child, 0)[1] == 0
