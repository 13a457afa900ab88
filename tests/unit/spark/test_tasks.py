"""The second half of the keyed shape: buckets are folded and written one after the other."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from consumer.codec.change_table import change_schema
from consumer.errors import CorruptFile, LoadFailed
from consumer.model.columns import Column
from consumer.model.load import Dialect, LoadTarget, LoadTask, Receipt
from consumer.model.steps import Window
from consumer.spark.buckets import FAILED, RESULT, SHUFFLED
from consumer.spark.tasks import decode_to_buckets, of_table, write_buckets
from tests.support.canal_json import ALL, MemoryReader, join, row_line, target_of, whole
from tests.support.decoding import ID, V

TARGET = target_of([ID, V])


@dataclass
class Recorder:
    """A writer, and its only session, that keeps what it is given: whether a row is put, and its key."""

    calls: list[list[tuple[bool, str]]] = field(default_factory=list)

    @contextmanager
    def session(self, patience: float = 0.0) -> Iterator[Recorder]:
        yield self

    def write(self, target: LoadTarget, changes: pa.Table) -> Receipt:
        puts, keys = changes.column("put").to_pylist(), changes.column("c0").to_pylist()
        self.calls.append(list(zip(puts, keys, strict=True)))
        return Receipt(sum(puts), len(puts) - sum(puts))


def bucket(number: int, *rows: tuple[int, bool, str]) -> tuple[int, pa.Buffer]:
    """Changes (commit-ts, put, key) as the first half sends them."""
    ts, put, key = zip(*rows, strict=True)
    values = {"ts": ts, "put": put, "series": [0] * len(rows), "rank": [0] * len(rows), "c0": key, "c1": key}
    table = pa.table(values, change_schema(TARGET))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return number, sink.getvalue()


ROWS = [
    bucket(0, (1, True, "a"), (5, True, "B")),
    bucket(0, (2, False, "a")),
    bucket(1, (1, True, "c")),
    bucket(2, (1, False, "b"), (3, True, "d")),
]


def write(target: LoadTarget, rows: list[tuple[int, pa.Buffer]]) -> tuple[Recorder, list[object]]:
    seen = Recorder()
    task = LoadTask(0, target, Window(0, 9), (), Dialect())
    return seen, [pickle.loads(body) for body in write_buckets(iter(rows), task, seen)]


def test_a_bucket_is_written_as_a_whole() -> None:
    seen, _ = write(TARGET, ROWS)
    assert seen.calls == [[(True, "B"), (False, "a")], [(True, "c")], [(False, "b"), (True, "d")]]


@pytest.mark.parametrize(
    ("most", "left"),
    [
        pytest.param(1 << 20, [[1, 3, 4]], id="little: once for all groups"),
        pytest.param(0, [[1, 2], [3, 4]], id="much: of each group"),
    ],
)
def test_what_is_left_of_several_groups_goes_together(
    most: int, left: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key 2 is in both groups: `left` are the commit-ts that remain."""
    monkeypatch.setattr("consumer.changes.folding.FOLD_BYTES", most)
    lines = [
        row_line("INSERT", {"id": str(key), "v": "x"}, commit_ts=ts) for ts, key in ((1, 1), (2, 2), (3, 2), (4, 3))
    ]
    content, placed = join(lines, b"\r\n")
    file, middle = whole(content), placed[2][0]
    halves = [replace(file, length=middle), replace(file, offset=middle, length=len(content) - middle)]
    task = LoadTask(0, TARGET, ALL, tuple(halves), Dialect())
    parts = list(decode_to_buckets([[half] for half in halves], task, MemoryReader(content), 1))
    tables = [SHUFFLED.get(pa.py_buffer(part.body)) for part in parts if part.bucket == 0]
    assert [table.column("ts").to_pylist() for table in tables] == left
    assert all(part.size > 0 for part in parts if part.bucket == 0)
    assert [pickle.loads(part.body).rows for part in parts if part.bucket == RESULT] == [2, 2]


@pytest.mark.parametrize(
    ("columns", "key", "in_runs"),
    [
        ([ID, V], (0,), True),
        ([ID, V], (1,), False),
        ([ID, V], (), False),
        ([V, ID], (0, 1), True),
        ([ID, Column("b", "LONGBLOB")], (0,), False),
        ([ID, Column("b", "JSON")], (0,), False),
    ],
)
def test_buckets_hold_runs_of_whole_numbers_unless_rows_may_be_large(
    columns: list[Column], key: tuple[int, ...], in_runs: bool
) -> None:
    assert target_of(columns, key).in_runs is in_runs


def test_nothing_is_written_where_the_first_half_failed() -> None:
    failed = (FAILED, pa.py_buffer(pickle.dumps(CorruptFile("cut off"))))
    seen, results = write(TARGET, [failed, *ROWS])
    assert seen.calls == []
    assert [type(result) for result in results] == [CorruptFile]


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (MemoryError(), "memory (ulimit -v) than a worker has: MemoryError"),
        (RuntimeError("can't start new thread"), "memory or threads (ulimit -v, -u) than a worker has: can't start"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "open files (ulimit -n) than a worker has: [Errno 24]"),
    ],
)
def test_what_a_worker_lacks_is_no_bug(error: Exception, what: str) -> None:
    found = of_table(error, target_of([ID, V]).table, None)
    assert isinstance(found, LoadFailed)
    assert found.message.startswith(f"its load needs more {what}")
    assert "bug" not in found.message + found.hint
