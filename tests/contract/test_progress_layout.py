"""Progress of another layout than this program's is refused on every target, and stays as it is."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from consumer import __version__
from consumer.errors import BadConfig
from consumer.model.progress import FORMAT_VERSION, Progress, ProgressChange
from consumer.sink.progress_layout import check_layout
from tests.contract.acts import UPSTREAM
from tests.contract.targets import DuckDb, Server


@pytest.fixture(params=["duckdb", "fresh_mariadb", "fresh_mysql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> DuckDb | Server:
    if request.param == "duckdb":
        return DuckDb(tmp_path / "replica.duckdb")
    return Server(request.getfixturevalue(request.param))


def take(target: DuckDb | Server, name: str, change: ProgressChange | None = None) -> Progress:
    sink = target.sink(name)
    try:
        found = sink.acquire(UPSTREAM)
        if change is not None:
            sink.record(change)
        return found
    finally:
        sink.close()


def write(target: DuckDb | Server, statement: str) -> None:
    if isinstance(target, Server):
        target.server.execute(statement)
        return
    with duckdb.connect(str(target.path)) as connection:
        connection.execute(statement)


@pytest.mark.parametrize("layout", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_layout_is_refused_with_what_to_do(layout: int, target: DuckDb | Server) -> None:
    """Also where it is another consumer's, and another column of it has another name."""
    take(target, "c", ProgressChange(applied_ts=40))
    take(target, "other")
    write(target, f"UPDATE storage_consumer.consumer SET format = {layout}, written_by = '9.8.7' WHERE name = 'other'")
    write(target, "ALTER TABLE storage_consumer.folder_progress RENAME COLUMN gone_ts TO went_ts")
    told = (
        f"the progress in the target has layout {layout}, written by release 9.8.7, and this program (release"
        f" {__version__}) knows layout {FORMAT_VERSION}"
    )
    for name in ("c", "other", "new"):
        sink = target.sink(name)
        for look in (sink.progress, lambda sink=sink: sink.acquire(UPSTREAM), sink.forget):
            with pytest.raises(BadConfig) as refused:
                look()
            assert refused.value.message == told
            assert refused.value.hint == (
                "go on with the program that wrote it (release 9.8.7), or fill an empty target with this one"
            )
        sink.close()
    write(target, f"UPDATE storage_consumer.consumer SET format = {FORMAT_VERSION} WHERE name = 'other'")
    write(target, "ALTER TABLE storage_consumer.folder_progress RENAME COLUMN went_ts TO gone_ts")
    assert take(target, "c").applied_ts == 40


@pytest.mark.parametrize("column", ["written_by", "modes"])
def test_this_layout_without_one_of_its_columns_is_told_as_no_releases(column: str, target: DuckDb | Server) -> None:
    """As an early build, or a hand, can have left it."""
    take(target, "c", ProgressChange(applied_ts=40))
    write(target, f"ALTER TABLE storage_consumer.consumer DROP COLUMN {column}")
    sink = target.sink("c")
    for look in (sink.progress, lambda: sink.acquire(UPSTREAM)):
        with pytest.raises(BadConfig, match="is not as any release leaves it") as refused:
            look()
        assert column in refused.value.message
        assert "fill an empty target" in refused.value.hint
    sink.close()


def test_a_first_migration_would_stand_in_one_place() -> None:
    """Whoever raises the number finds this function, which says what else is to be done."""
    check_layout(FORMAT_VERSION, __version__)
    assert FORMAT_VERSION == 1
    assert "A first migration would stand here" in str(check_layout.__doc__)
