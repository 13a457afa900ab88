"""What is recorded of the files of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from consumer.errors import ConsumerError, CorruptFile, GapFound
from consumer.model.files import DataFile, Listing
from consumer.model.load import Dialect, FileStat, LoadOutcome, LoadTarget, LoadTask, Purpose, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import NOT_READ, FolderProgress, OpenFile, Progress
from consumer.model.steps import LoadRows, Window
from consumer.model.table_rules import Batches, TableRules
from consumer.pipeline.table_consumer import TableConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.options import FileOptions, RoundOptions
from consumer.results import TableResult
from tests.support.build import ID, data_file, schema_file

T = TableName("d", "t")
MS = 1 << 18
FILES = [data_file(index) for index in (1, 2, 3)]
FOLDER = FILES[0].folder
OPTIONS = RoundOptions(FileOptions(Dialect()), TableRules(lambda name: True), Batches(1 << 30))


def consumer_of(progress: Progress, files: Sequence[DataFile] = FILES) -> TableConsumer:
    listing = Listing(100, [schema_file("d.t", 10)], {"d/t": list(files)})
    assembly = Assembly.of(listing, progress, lambda name: True)
    return TableConsumer(T, assembly, progress, OPTIONS, TableResult())


def outcome(window: Window, *stats: FileStat) -> LoadOutcome:
    target = LoadTarget(TableLoad(T, None, None, Purpose.LOAD_AT_ONCE), (ID,), ("id",), (0,))
    return LoadOutcome(LoadTask(0, target, window, (), Dialect()), stats, ())


@pytest.mark.parametrize(
    ("error", "known", "due"),
    [
        (CorruptFile("bad", path=FILES[2].path), (), (OpenFile(3, 51, NOT_READ, ""),)),
        (CorruptFile("bad", path=FILES[2].path), (OpenFile(3, 70, 100, "a"),), None),  # due already
        (GapFound("file number 2 is missing", path=FILES[2].path), (), None),
    ],
)
def test_a_file_that_was_listed_and_could_not_be_read_is_due(
    error: ConsumerError, known: tuple[OpenFile, ...], due: tuple[OpenFile, ...] | None
) -> None:
    progress = Progress("u", 50, folders={FOLDER: FolderProgress(2, 100, "a", known)})
    folders = consumer_of(progress).stop(error, progress).folders
    assert folders == ({} if due is None else {FOLDER: FolderProgress(2, 100, "a", due)})


def test_of_the_rests_of_a_files_slices_the_earliest_counts() -> None:
    window, consumer = Window(50, 90), consumer_of(Progress())
    stats = [FileStat("one", 1, 0, 0), FileStat("one", 1, 0, 97), FileStat("one", 1, 0, 95), FileStat("two", 1, 0, 0)]
    assert consumer.remaining_ts_by_path(LoadRows(T, window, ()), outcome(window, *stats)) == {"one": 95, "two": 0}


@pytest.mark.parametrize("name", ["coarse_ts", "coarse_quarantined"])
def test_rows_and_bad_lines_of_the_checkpoints_own_millisecond_are_read_again(name: str) -> None:
    consumer = consumer_of(Progress())
    stats = [FileStat("before", 1, 0, 0, **{name: 4 * MS}), FileStat("in", 1, 0, 0, **{name: 5 * MS})]
    for end, left in ((5 * MS + 7, 5 * MS), (6 * MS - 1, 0)):
        window = Window(MS, end)
        assert consumer.remaining_ts_by_path(LoadRows(T, window, ()), outcome(window, *stats)) == {
            "before": 0,
            "in": left,
        }
    consumer.state.boundaries.add(5 * MS + 7)
    window = Window(MS, 5 * MS + 7)
    assert consumer.remaining_ts_by_path(LoadRows(T, window, ()), outcome(window, *stats))["in"] == 0


@pytest.mark.parametrize(
    ("number", "first_ts", "gone"),
    [(1, 60, 50), (1, 40, 39), (1, 10, 0), (3, 60, 50), (3, 36, 35), (3, 35, 0), (2, 60, 50), (2, 40, 0)],
)
def test_a_file_that_counted_as_read_and_begins_later_has_lost_rows(number: int, first_ts: int, gone: int) -> None:
    """The first file began where the folder did, the last one at 35; of the second nothing is recorded."""
    before = FolderProgress(3, 100, "a", first_ts=10, last_ts=40, file_first_ts=35, head_ts=10)
    progress = Progress("u", 50, folders={FOLDER: before})
    window, file = Window(50, 90), FILES[number - 1]
    stat = FileStat(file.path, 2, int(first_ts <= 50), 0, first_ts=first_ts, last_ts=70)
    files = [replace(other, stamp="b") if other == file else other for other in FILES]
    change = consumer_of(progress, files).change(LoadRows(T, window, ()), outcome(window, stat), progress, {})
    place = change.folders[FOLDER]
    assert place is not None
    assert (place.last_ts, place.gone_ts) == (70, gone)
    assert place.file_first_ts == (first_ts if number == 3 else 35)
