"""What ports.Loader promises, asked of every implementation, in each shape of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import consumer.spark.load as spark_load
from consumer.changes.folding import EveryChange
from consumer.changes.identity import identities
from consumer.errors import BadConfig, ConsumerError, LeaseHeld, TableError, TargetUnavailable
from consumer.model.check import CheckTask, Counted, Era, Modes
from consumer.model.load import Dialect, FileSlice, LoadOutcome, LoadPart, LoadTarget, LoadTask, ModeLoad, TableLoad
from consumer.model.names import TableName
from consumer.model.steps import Window
from consumer.model.table_modes import ModeKind, TableMode
from consumer.ports import Loader, Stored
from consumer.sink.columnar.table import ColumnarTarget
from consumer.sink.columnar.table import Held as HeldAs
from consumer.sink.columnar.writer import ParquetWriter
from consumer.spark import sizes
from consumer.spark.buckets import SHUFFLED
from consumer.spark.load import SparkLoader
from consumer.spark.settings import SparkSettings
from consumer.verify.compare import DELETE, INSERT, UPDATE
from consumer.verify.comparison import Comparison, sum_counts
from tests.contract.acts import ID, NAME
from tests.support.canal_json import ALL, join, row_line, target_of
from tests.support.inline_loader import InlineLoader

TABLES = tuple(TableName("d", f"t{number}") for number in range(3))


@dataclass(frozen=True)
class Storage:
    """A RangeReader of a few files."""

    files: Mapping[str, bytes]

    def read(self, file: Stored, offset: int, length: int) -> bytes:
        return self.files[file.path][offset : offset + length]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkLoader]:
    loader = SparkLoader(SparkSettings("local[2]"))
    assert loader.start_seconds == 0
    yield loader
    loader.close()
    loader.close()


SHAPES = [
    "inline, packed", "inline, keyed", "in process, packed", "spark, packed", "spark, keyed", "spark, many parts",
    "spark, shuffled",
]  # fmt: skip


@pytest.fixture(params=SHAPES)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Loader:
    """``spark, keyed``: rows of a load wait in files, as on one machine, and one task decodes all groups of slices.
    ``spark, many parts``: the names of these files go through the shuffle."""
    kind, shape = request.param.split(", ")
    if kind == "in process":
        own: SparkLoader = request.getfixturevalue("spark")
        monkeypatch.setattr(own, "_settings", replace(own._settings, in_process_bytes=sizes.PACKED_BYTES))
        monkeypatch.setattr(own, "_results", None)  # no load is a job
        return own
    if shape == "shuffled":
        monkeypatch.setattr(spark_load, "_exchange", lambda *_: nullcontext(SHUFFLED))
    if shape == "keyed":
        monkeypatch.setattr(spark_load, "shared_out", lambda groups, _: [groups])
    if shape == "many parts":
        monkeypatch.setattr(spark_load, "MOST_PARTS", 0)
    if shape != "packed":
        monkeypatch.setattr(sizes, "PACKED_BYTES", 0)
        monkeypatch.setattr(sizes, "DECODE_BYTES", 1)
    spark: SparkLoader | InlineLoader = (
        request.getfixturevalue("spark") if kind == "spark" else InlineLoader(0 if shape == "packed" else 3)
    )
    return spark


def target(table: TableName, key: Sequence[int] = (0,)) -> LoadTarget:
    return replace(target_of([ID, NAME], key, table), settings=ColumnarTarget((HeldAs.TEXT, HeldAs.TEXT)))


def task(number: int, storage: Storage, key: Sequence[int] = (0,)) -> LoadTask:
    """Two files of table `number`."""
    names = [f"{number}/{file}" for file in range(2)]
    slices = (
        FileSlice(path, 0, len(storage.files[path]), len(storage.files[path]), 0, at << 40, ALL, ALL)
        for at, path in enumerate(names)
    )
    return LoadTask(number, target(TABLES[number], key), ALL, tuple(slices), Dialect())


def content(number: int, *rows: tuple[str, dict[str, str | None]], since: int) -> bytes:
    table = TABLES[number].table
    lines = [row_line(kind, row, commit_ts=since + at, table=table) for at, (kind, row) in enumerate(rows)]
    return join(lines, b"\r\n")[0]


def storage() -> Storage:
    """Row 1 is changed, row 2 deleted, row 3 stays, as table `number` says in its names."""
    files = {}
    for number in range(len(TABLES)):
        new = [("INSERT", {"id": str(row), "name": f"{number}"}) for row in (1, 2, 3)]
        files[f"{number}/0"] = content(number, *new, since=10)
        later = [("UPDATE", {"id": "1", "name": f"{number} again"}), ("DELETE", {"id": "2", "name": f"{number}"})]
        files[f"{number}/1"] = content(number, *later, since=20)
    return Storage(files)


def staged(outcome: LoadOutcome) -> dict[str, tuple[bool, str | None]]:
    rows: list[dict[str, Any]] = []
    for path in {receipt.staged for receipt in outcome.receipts if receipt.staged}:
        rows += pq.read_table(path).to_pylist()
    found = {row["c0"]: (row["put"], row["c1"] if row["put"] else None) for row in rows}
    assert len(found) == len(rows), "a key is written once"
    return found


def wanted(number: int) -> dict[str, tuple[bool, str | None]]:
    return {"1": (True, f"{number} again"), "2": (False, None), "3": (True, f"{number}")}


def run(loader: Loader, tasks: Sequence[LoadTask], files: Storage, folder: Path) -> dict[int, LoadOutcome]:
    """As the pipeline does: a call for each group."""
    found = {}
    for group in loader.split(tasks):
        assert 1 <= loader.width(group) <= loader.connections
        outcomes = loader.load(group, ParquetWriter(str(folder)), files)
        assert [outcome.task for outcome in outcomes] == list(group)
        found |= {outcome.task.number: outcome for outcome in outcomes}
    return found


def test_every_task_has_one_outcome_with_what_became_of_its_rows(loader: Loader, tmp_path: Path) -> None:
    files = storage()
    found = run(loader, [task(number, files) for number in range(3)], files, tmp_path)
    assert sorted(found) == [0, 1, 2]
    for number, outcome in found.items():
        assert outcome.error is None
        assert outcome.rows == 5
        assert staged(outcome) == wanted(number)
        assert sum(receipt.puts for receipt in outcome.receipts) == 2
        assert sum(receipt.deletes for receipt in outcome.receipts) == 1
    assert loader.start_seconds >= 0


def test_tasks_are_divided_into_groups_and_none_is_lost(loader: Loader) -> None:
    tasks = [task(number, storage()) for number in range(3)]
    groups = loader.split(tasks)
    assert sorted(one.number for group in groups for one in group) == [0, 1, 2]
    assert all(groups)


def test_an_error_of_one_task_leaves_the_others_alone(loader: Loader, tmp_path: Path) -> None:
    files = storage()
    damaged = Storage({**files.files, "1/1": b"{}}\r\n"})
    found = run(loader, [task(number, damaged) for number in range(3)], damaged, tmp_path)
    assert isinstance(found[1].error, TableError)
    assert [(found[number].error, staged(found[number])) for number in (0, 2)] == [(None, wanted(0)), (None, wanted(2))]


def test_a_load_can_be_run_again(loader: Loader, tmp_path: Path) -> None:
    files = storage()
    tasks = [task(0, files)]
    first, second = (run(loader, tasks, files, tmp_path)[0] for _ in range(2))
    assert staged(first) == staged(second) == wanted(0)


def test_rows_without_a_key_are_counted_in_one_task(loader: Loader, tmp_path: Path) -> None:
    twice = content(0, *[("INSERT", {"id": "1", "name": "a"})] * 2, since=10)
    less = content(0, ("DELETE", {"id": "7", "name": "b"}), since=20)
    files = Storage({"0/0": twice, "0/1": less})
    (outcome,) = run(loader, [task(0, files, ())], files, tmp_path).values()
    assert outcome.error is None
    (receipt,) = outcome.receipts
    rows = pq.read_table(receipt.staged).to_pylist()
    assert sorted((row["n"], row["c0"], row["c1"]) for row in rows) == [(-1, "7", "b"), (2, "1", "a")]


def test_parts_that_are_told_are_parts_of_the_whole(loader: Loader, tmp_path: Path) -> None:
    files = storage()
    told: list[LoadPart] = []
    (outcome,) = loader.load([task(0, files)], ParquetWriter(str(tmp_path)), files, told.append)
    assert outcome.error is None
    assert sum(part.bytes for part in told) <= outcome.task.bytes
    assert sum(part.rows for part in told) <= sum(receipt.puts + receipt.deletes for receipt in outcome.receipts)


def back(loader: Loader, asked: LoadTask, files: Storage, rows: Collection[int] = ()) -> list[dict[str, Any]]:
    found = [row for table in loader.read(EveryChange(asked, files, rows)) for row in table.to_pylist()]
    changes = (
        change("put" if row["put"] else "delete", row["ts"], asked.slices[row["slice"]].path, int(row["c0"]), row["c1"])
        for row in found
    )
    return sorted(changes, key=lambda row: (row["_commit_ts"], row["id"]))


def change(op: str, commit_ts: int, file: str, row: int, name: str | None) -> dict[str, Any]:
    return {"_op": op, "_commit_ts": commit_ts, "_path": file, "id": row, "name": name}


def test_each_change_comes_back_once_with_its_time_and_its_file(loader: Loader) -> None:
    files = storage()
    again = Storage({**files.files, "0/1": files.files["0/1"] * 2})
    assert back(loader, task(0, again), again) == [
        *(change("put", 9 + row, "0/0", row, "0") for row in (1, 2, 3)),
        change("put", 20, "0/1", 1, "0 again"),
        change("delete", 21, "0/1", 2, "0"),
    ]


def test_changes_of_some_rows_in_a_window_come_back(loader: Loader) -> None:
    files, window = storage(), Window(10, 20)
    asked = task(0, files)
    slices = tuple(replace(piece, exact=window, coarse=window) for piece in asked.slices)
    key = pa.table({"c0": pa.array(["1"], pa.large_string())})
    rows = identities(key, (0,)).tolist()
    assert back(loader, asked, files, rows) == [
        change("put", 10, "0/0", 1, "0"),
        change("put", 20, "0/1", 1, "0 again"),
    ]
    later = replace(asked, slices=slices, window=window)
    assert back(loader, later, files, rows) == [change("put", 20, "0/1", 1, "0 again")]
    assert back(loader, later, files, [rows[0] + 1]) == []


def test_each_change_of_a_table_with_no_key_comes_back(loader: Loader) -> None:
    twice = content(0, *[("INSERT", {"id": "1", "name": "a"})] * 2, since=10)
    files = Storage({"0/0": twice, "0/1": twice})
    found = back(loader, task(0, files, ()), files)
    assert [(row["_commit_ts"], row["_op"]) for row in found] == [(10, "put"), (10, "put"), (11, "put"), (11, "put")]


def test_changes_that_cannot_be_read_are_an_error(loader: Loader) -> None:
    files = storage()
    damaged = Storage({**files.files, "0/1": b"{}}\r\n"})
    with pytest.raises(TableError):
        list(loader.read(EveryChange(task(0, damaged), damaged)))


@dataclass(frozen=True)
class Held:
    """A Comparer of a target that holds these rows, by range."""

    rows: tuple[tuple[tuple[str | None, ...], ...], ...]

    @property
    def ranges(self) -> int:
        return len(self.rows)

    def expected(self, rows: pa.Table) -> pa.Table:
        return rows

    def changes(self, rows: pa.Table) -> pa.Table:
        return rows

    def held(self, number: int) -> Iterator[pa.Table]:
        columns = zip(*self.rows[number], strict=True)
        named = {f"c{at}": pa.array(column, pa.large_string()) for at, column in enumerate(columns)}
        yield pa.table(named)


class NotReached(Held):
    def held(self, number: int) -> Iterator[pa.Table]:
        raise TargetUnavailable("the server is away")


def compared(
    loader: Loader, task: CheckTask, held: Held, files: Storage, at_a_time: int, found: Callable[[Any], Any] = len
) -> Counted:
    return sum_counts(loader.read(Comparison(task, held, files, at_a_time)), task.show, found)


def check(files: Storage, key: Sequence[int] = (0,)) -> CheckTask:
    own = task(0, files, key)
    return CheckTask(own.target, (Era(own, (own.target.key,), (0, 1), (True, True)),), complete=True, show=10)


def test_rows_that_differ_are_found_wherever_they_are(loader: Loader) -> None:
    files = storage()
    equal = compared(loader, check(files), Held(((("1", "0 again"),), (("3", "0"),))), files, 1)
    assert (equal.expected, equal.found, equal.differences) == (2, 2, 0)
    held = Held(((("2", "0"), ("1", None)), (("4", "x"), ("4", "x"))))
    counted = compared(loader, check(files), held, files, 2)
    assert (counted.missing, counted.extra, counted.differing) == (1, 3, 1)
    shown = {(row.kind, row.key[0][1], row.values) for row in counted.shown}
    assert shown == {
        ("missing", "3", ()), ("extra", "2", ()), ("extra", "4", ()), ("differs", "1", (("name", "0 again", None),)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", [ModeKind.APPEND, ModeKind.SOFT_DELETE, ModeKind.HISTORY])
def test_rows_of_a_form_are_made_where_all_changes_of_their_key_are(loader: Loader, kind: ModeKind) -> None:
    """A statement of version 15 ends all rows."""
    files, form = storage(), TableMode(kind)
    own = replace(target(TABLES[0]), load=TableLoad(TABLES[0], mode=form), events=True)
    columns = (ID, NAME, *form.added)
    key = tuple(position for position, column in enumerate(columns) if column.is_pk)
    written = replace(target_of(columns, key, TABLES[0]), settings=None)
    reading = replace(task(0, files), target=own, mode_load=ModeLoad(own, tuple(range(len(columns))), (1, 15)))
    added = {2 + at: at for at in range(len(form.added))}
    era = Era(reading, (own.key,), (0, 1, *[-1] * len(added)), (True,) * len(columns))
    asked = CheckTask(
        written, (era,), complete=True, show=10, modes=Modes(kind, (0,), added, ((15, "d.t0"),)), mending=True
    )
    epoch = "1970-01-01 00:00:00.000000"
    held: dict[ModeKind, list[tuple[str | None, ...]]] = {
        ModeKind.APPEND: [
            *((str(n), "0", "I", str(9 + n), "d.t0", "1") for n in (1, 2, 3)),
            *((str(n), "0", "D", "15", "d.t0", "15") for n in (1, 2, 3)),
            ("1", "0 again", "U", "20", "d.t0", "15"), ("2", "0", "D", "21", "d.t0", "15"),
        ],
        ModeKind.SOFT_DELETE: [("1", "0 again", None), ("2", "0", epoch), ("3", "0", epoch)],
        ModeKind.HISTORY: [
            *((str(n), "0", epoch, epoch, "0", str(9 + n)) for n in (1, 2, 3)),
            ("1", "0 again", epoch, None, "1", "20"),
        ],
    }  # fmt: skip
    rows, found = held[kind], list[pa.Table]()
    split = Held((tuple(rows[::2]), tuple(rows[1::2])))
    equal = compared(loader, asked, split, files, 2)
    assert (equal.expected, equal.found, equal.differences) == (len(rows), len(rows), 0)
    for number in range(len(rows)):
        less = Held((tuple(rows[:number] + rows[number + 1 :]),))
        found.clear()
        counted = compared(loader, asked, less, files, 2, found=found.append)
        assert (counted.missing, counted.differences) == (1, 1)
        (mended,) = (row for table in found for row in table.to_pylist())
        assert tuple(mended[f"c{at}"] for at in range(len(columns))) == rows[number]


def copies() -> Storage:
    """Two equal rows in one file, and in the next one a row that came and went."""
    went = [("INSERT", {"id": "2", "name": "b"}), ("DELETE", {"id": "2", "name": "b"})]
    twice = [("INSERT", {"id": "1", "name": "a"})] * 2
    return Storage({"0/0": content(0, *twice, since=10), "0/1": content(0, *went, since=12)})


def test_rows_without_a_key_are_compared_by_how_often_they_are_there(loader: Loader) -> None:
    files = copies()
    assert not compared(loader, check(files, ()), Held(((("1", "a"), ("1", "a")),)), files, 1).differences
    counted = compared(loader, check(files, ()), Held(((("1", "a"),), (("1", "b"),))), files, 1)
    assert {(row.kind, row.key, row.copies) for row in counted.shown} == {
        ("missing", (("id", "1"), ("name", "a")), 1), ("extra", (("id", "1"), ("name", "b")), 1),
    }  # fmt: skip


def test_rows_to_mend_come_back_as_the_files_have_them(loader: Loader) -> None:
    files, found = storage(), list[pa.Table]()
    held = Held(((("2", "0"), ("1", None)), (("4", "x"), ("4", "x"))))
    compared(loader, replace(check(files), mending=True), held, files, 2, found=found.append)
    rows = {(row["kind"], row["c0"], row["c1"]) for table in found for row in table.to_pylist()}
    assert rows == {(UPDATE, "1", "0 again"), (INSERT, "3", "0"), (DELETE, "2", None), (DELETE, "4", None)}


def test_copies_to_mend_come_back_with_both_counts(loader: Loader) -> None:
    files = copies()
    found: list[pa.Table] = []
    held = Held(((("1", "a"),), (("1", "b"),)))
    compared(loader, replace(check(files, ()), mending=True), held, files, 1, found=found.append)
    rows = {(row["n"], row["held"], row["stored"], row["c1"]) for table in found for row in table.to_pylist()}
    assert rows == {(2, 1, True, "a"), (0, 1, False, "b")}


def test_what_cannot_be_compared_is_an_error(loader: Loader) -> None:
    files = storage()
    with pytest.raises(TargetUnavailable):
        compared(loader, check(files), NotReached(((),)), files, 1)
    damaged = Storage({**files.files, "0/1": b"{}}\r\n"})
    with pytest.raises(TableError):
        compared(loader, check(damaged), Held(((("1", "0 again"),),)), damaged, 1)


@pytest.mark.parametrize(("shared", "kind"), [(True, LeaseHeld), (False, BadConfig)])
def test_a_writer_without_its_folder_was_locked_out_or_is_on_another_machine(
    shared: bool, kind: type[ConsumerError], loader: Loader, tmp_path: Path
) -> None:
    staging, files = tmp_path / "replica.duckdb.staging", storage()
    if shared:
        staging.mkdir()
    (outcome,) = loader.load([task(0, files)], ParquetWriter(str(staging / "1" / "load")), files)
    assert isinstance(outcome.error, kind)
    assert str(staging) in outcome.error.message
