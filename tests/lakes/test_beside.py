"""A lake's table that is loaded again is loaded beside the one that is there, and takes its place in one commit."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from consumer import app
from consumer.app import parts
from consumer.config.settings import Settings
from consumer.results import RunResult
from consumer.sink import sink_for
from consumer.spark.load import SparkLoader
from consumer.target import TargetOptions
from tests.lakes.test_by_hand import COUNTED, KEYED, Lake, made
from tests.lakes.test_deaths import rows_of
from tests.support.crashes import Crash, CrashingSink, Fuse
from tests.support.lakes import FORMATS, lake_sink
from tests.support.observers import Recorder


@pytest.fixture(params=FORMATS)
def lake(request: pytest.FixtureRequest, lake_spark: SparkLoader, tmp_path: Path) -> Lake:
    return made(request.param, tmp_path, lake_spark)


def resync(lake: Lake, settings: Settings) -> RunResult:
    return app.resync(settings, Recorder(), KEYED, lake.loader)


def test_a_load_that_stops_leaves_the_table_as_it_was(lake: Lake) -> None:
    lake.add_rows(16, 2)
    assert lake.once(20)[KEYED].state == "ok"
    file = next(iter(sorted((lake.feed.folder / "d" / "k" / "10").glob("CDC*2.json"))))
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"id": "2"', b'"id": "x8"'))
    stopped = resync(lake, lake.settings)
    assert stopped.exit_code == 3
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1), (2, 2)]
    lake.add_rows(21, 3)
    assert lake.once(30)[KEYED].state == "ok"
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1), (2, 2), (3, 3)]
    file.write_bytes(good)
    assert resync(lake, lake.settings).exit_code == 0
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1), (2, 2), (3, 3)]
    known = lake_sink(lake.uri, lake.loader)
    assert sorted(known._lake_tables()) == [KEYED, COUNTED, ("d", "o")]
    assert list(known.consumers()) == ["default"]
    lake.add_rows(31, 4)
    assert lake.once(40)[KEYED].state == "ok"
    assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_killed_anywhere_the_table_is_whole(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for moment in range(0, 200, 4):
        fuse, result = Fuse(moment), None
        with monkeypatch.context() as patched, suppress(Crash):
            patched.setattr(parts, "sink_for", partial(_dying_sink, fuse))
            result = resync(lake, lake.settings)
        assert rows_of(lake.uri, lake.loader)[KEYED] == [(1, 1)]
        if result is not None:
            assert result.exit_code == 0
            break
    assert moment > 8
    assert list(lake_sink(lake.uri, lake.loader).consumers()) == ["default"]


def _dying_sink(fuse: Fuse, uri: str, options: TargetOptions) -> Any:
    return CrashingSink(sink_for(uri, options), fuse)
