"""What a listing and the progress say together: what a round is about, what cannot begin, what is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from consumer.errors import CorruptFile
from consumer.model.actions import Action
from consumer.model.files import DataFile, Listing, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import (
    NOT_READ,
    DdlRecord,
    DdlState,
    FolderProgress,
    OpenFile,
    Progress,
    State,
    TableProgress,
)
from consumer.model.steps import ddl_id
from consumer.model.times import ms_to_tso
from consumer.plan.assembly import Assembly
from consumer.plan.notes import notes
from tests.support.build import data_file, schema_file

T = TableName("d", "t")
CREATE = schema_file("d.t", 10)
TRUNCATE = schema_file("d.t", 30, Action.TRUNCATE_TABLE, "TRUNCATE TABLE `t`")


def everything(name: TableName) -> bool:
    return True


def assembly(
    schemas: Sequence[SchemaFile],
    files: Sequence[DataFile] = (),
    progress: Progress | None = None,
    wanted: Callable[[TableName], bool] = everything,
    broken: Sequence[CorruptFile] = (),
) -> Assembly:
    by_root: dict[str, list[DataFile]] = {}
    for file in files:
        by_root.setdefault(file.folder.root, []).append(file)
    return Assembly.of(Listing(100, schemas, by_root, (), broken), progress or Progress(), wanted)


def applied(*files: SchemaFile, tables: dict[TableName, TableProgress] | None = None) -> Progress:
    ddls = {ddl_id(file): DdlRecord(ddl_id(file), DdlState.DONE) for file in files}
    return Progress("u", 50, tables or {}, {}, ddls)


def errors(found: Assembly, progress: Progress, accept_gap: bool = False) -> dict[str, str]:
    return {str(name): error.message for name, error in found.errors(progress, lambda _: accept_gap)}


def test_rows_without_any_schema_file_are_a_fault_unless_they_are_not_due() -> None:
    found, progress = assembly([], [data_file(1)]), Progress()
    assert list(errors(found, progress)) == ["d.t"]
    assert found.errors(progress, False) is found.errors(progress, False)  # each table is looked at once
    found = assembly([], [data_file(1, version=101)])
    assert errors(found, Progress()) == {}
    assert found.tables == []


def test_a_folder_above_the_checkpoint_counts_once_its_schema_file_is_there() -> None:
    late = data_file(1, version=101)
    assert assembly([CREATE], [data_file(1), late]).files[T] == [data_file(1)]
    assert assembly([CREATE, schema_file("d.t", 101, query="")], [data_file(1), late]).files[T] == [data_file(1), late]


def test_a_missing_file_is_a_fault_of_a_living_table() -> None:
    progress = applied(CREATE)
    found = assembly([CREATE], [data_file(2)], progress)
    assert list(errors(found, progress)) == ["d.t"]
    assert errors(found, progress, accept_gap=True) == {}


def test_a_missing_file_of_a_table_about_to_begin_is_found_with_its_statement() -> None:
    found = assembly([CREATE], [data_file(2)])
    assert errors(found, Progress()) == {}
    gap = found.gap_after(found.timeline.pending[0], Progress())
    assert gap is not None
    assert "number 1" in gap.message


def test_a_missing_file_from_before_the_rows_began_anew_is_none() -> None:
    for place in (30, 50):
        progress = applied(CREATE, TRUNCATE, tables={T: TableProgress(place)})
        found = assembly([CREATE, TRUNCATE], [data_file(2), data_file(1, version=30)], progress)
        assert errors(found, progress) == {}


def test_rows_behind_a_truncate_that_are_left_in_an_older_folder_are_missed_once_their_file_is_gone() -> None:
    """A changefeed that begins again goes on in the newest folder of the same columns."""
    progress = applied(CREATE, TRUNCATE, tables={T: TableProgress(40)})
    for next_ts, gone in ((41, ["d.t"]), (25, [])):
        due = FolderProgress(1, 100, "a", (OpenFile(2, next_ts, NOT_READ, ""),))
        known = replace(progress, folders={data_file(1).folder: due})
        for files, fault in (([data_file(1), data_file(2)], []), ([data_file(1)], gone), ([], gone)):
            assert list(errors(assembly([CREATE, TRUNCATE], files, known), known)) == fault


def test_date_folders_from_two_days_before_the_target_was_given_its_tables_on_are_read() -> None:
    """Nodes name folders by their own clocks and zones."""
    given = ms_to_tso(int(datetime(2026, 3, 5, 1, tzinfo=UTC).timestamp() * 1000))
    dates = ("2026", "2026-02", "2026-02-28", "2026-03", "2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05")
    files = [data_file(1, date=date) for date in dates]
    found = assembly([CREATE], files, Progress("u", given, start_ts=given)).files[T]
    assert [file.folder.date for file in found] == ["2026", "2026-03", "2026-03-03", "2026-03-04", "2026-03-05"]


def test_a_broken_schema_file_is_a_fault_until_the_table_is_past_it() -> None:
    broken = CorruptFile("not JSON", table="d/t", path="d/t/meta/schema_20_0000000001.json", version=20)
    for place, fault in ((15, ["d.t"]), (20, ["d.t"]), (30, [])):
        progress = applied(CREATE, TRUNCATE, tables={T: TableProgress(place)})
        found = assembly([CREATE, TRUNCATE], (), progress, broken=[broken])
        assert list(errors(found, progress)) == fault


def test_what_is_left_out_keeps_the_place_where_it_was() -> None:
    def only_t(name: TableName) -> bool:
        return name in (T, TableName("d", ""))

    schemas = [
        CREATE,
        schema_file("d.new", 60),
        schema_file("d.known", 10),
        schema_file("d.gone", 10),
        schema_file("e", 60, Action.CREATE_SCHEMA, "CREATE DATABASE `e`"),
    ]
    tables = {
        TableName("d", "known"): TableProgress(40),
        TableName("d", "gone"): TableProgress(20, State.DROPPED),
    }
    progress = applied(CREATE, tables=tables)
    assert assembly(schemas, (), progress, only_t).exclusions(progress) == {
        TableName("d", "new"): TableProgress(50, State.EXCLUDED),
        TableName("d", "known"): TableProgress(40, State.EXCLUDED),
        TableName("e", ""): TableProgress(50, State.EXCLUDED),
    }
    assert assembly(schemas, (), progress, only_t).tables == [T]
    assert assembly(schemas, (), progress).exclusions(progress) == {}


def test_tombstones_last_as_long_as_the_storage_holds_the_name() -> None:
    gone = {T: TableProgress(20, State.DROPPED)}
    progress = applied(tables=gone)
    assert assembly([], (), progress).forgotten_names(progress) == [T]
    assert assembly([CREATE], (), progress).forgotten_names(progress) == []
    assert assembly([], [data_file(1)], progress).forgotten_names(progress) == []


def test_the_files_of_a_tombstone_are_no_fault() -> None:
    progress = applied(CREATE, tables={T: TableProgress(20, State.DROPPED)})
    assert errors(assembly([], [data_file(3)], progress), progress) == {}


def test_a_checkpoint_below_the_progress_is_told() -> None:
    progress = Progress("u", 200, {}, {data_file(1).folder: FolderProgress(1, 100, "a")})
    found = [note.text for note in notes(assembly([CREATE], [data_file(1)], progress), progress)]
    assert any("below what was applied" in note for note in found)
