"""Progress of another layout than this program's is refused on every target, and stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from consumer import __version__
from consumer.errors import BadConfig, Code
from consumer.model.names import TableName
from consumer.model.progress import (
    FORMAT_VERSION,
    DdlId,
    DdlKind,
    DdlRecord,
    Progress,
    ProgressChange,
    State,
    TableProgress,
)
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
                "continue with the program that wrote it (release 9.8.7), or fill an empty target with this one"
            )
        sink.close()
    write(target, f"UPDATE storage_consumer.consumer SET format = {FORMAT_VERSION} WHERE name = 'other'")
    write(target, "ALTER TABLE storage_consumer.folder_progress RENAME COLUMN went_ts TO gone_ts")
    assert take(target, "c").applied_ts == 40


@pytest.mark.parametrize(
    ("table", "column"),
    [("consumer", "written_by"), ("consumer", "modes"), ("ddl", "kind"), ("table_progress", "code")],
)
def test_this_layout_without_one_of_its_columns_is_told_as_no_releases(
    table: str, column: str, target: DuckDb | Server
) -> None:
    """As an early build, or a hand, can have left it."""
    take(target, "c", ProgressChange(applied_ts=40))
    write(target, f"ALTER TABLE storage_consumer.{table} DROP COLUMN {column}")
    sink = target.sink("c")
    for look in (sink.progress, lambda: sink.acquire(UPSTREAM)):
        with pytest.raises(BadConfig, match="is not as any release leaves it") as refused:
            look()
        assert column in refused.value.message
        assert "fill an empty target" in refused.value.hint
    sink.close()


def test_what_no_release_records_is_no_kind_of_statement_and_a_later_ones_code_is_some_error(
    target: DuckDb | Server,
) -> None:
    """By its kind a statement's rows are read: nobody guesses it. What a table stopped for is told anyway."""
    statement, place = DdlId("d", "t", 7, 0), TableProgress(40, State.STOPPED, "why", code=Code.ROW_REFUSED)
    record = DdlRecord.skipped(statement, DdlKind.BY_HAND, "done")
    take(target, "c", ProgressChange(tables={TableName("d", "t"): place}, ddls=(record,)))
    write(target, "UPDATE storage_consumer.table_progress SET code = 'on-the-moon'")
    assert take(target, "c").tables == {TableName("d", "t"): replace(place, code=Code.ERROR)}
    write(target, "UPDATE storage_consumer.ddl SET kind = 'by magic'")
    sink = target.sink("c")
    with pytest.raises(BadConfig, match="is not as any release leaves it"):
        sink.progress()
    sink.close()


def test_a_first_migration_would_stand_in_one_place() -> None:
    """Whoever raises the number finds this function, which says what else is to be done."""
    check_layout(FORMAT_VERSION, __version__)
    assert FORMAT_VERSION == 1
    assert "Raise FORMAT_VERSION" in str(check_layout.__doc__)
