"""Rows that a target refuses are told with the file and the line that the newest of them stands in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pytest

from consumer import app
from consumer.codec.csv.options import CsvFormat
from consumer.config.load import load
from consumer.errors import ConsumerError, RowRefused
from consumer.model.columns import Column
from consumer.model.names import TableName
from consumer.pipeline import version_consumer
from tests.support import csv_rows
from tests.support.build import ID
from tests.support.canal_json import row_line
from tests.support.feed import Feed
from tests.support.inline_loader import InlineLoader
from tests.support.observers import Recorder

TEXT = Column("s", "VARCHAR", length=8)
COLUMNS = (ID, Column("v", "INT"), TEXT)
TIMED = CsvFormat(include_commit_ts=True, output_old_value=True)
FORMS: dict[str, CsvFormat | None] = {
    "canal-json": None,
    "csv": TIMED,
    "csv-header": replace(TIMED, output_field_header=True),
    "csv-no-quote": replace(TIMED, quote=""),
    "csv-timeless": CsvFormat(),
}
Row = tuple[int, str, str | None, str]
"""Commit-ts, id, v, s."""
LONG, LARGE = "s longer than it may be", "99999999999"


@dataclass
class Storage:
    """The table d.t, older than the changefeed, in files of one form."""

    feed: Feed
    csv: CsvFormat | None
    columns: tuple[Column, ...] = COLUMNS

    def file(self, *rows: Row) -> str:
        """Its path in the storage."""
        lines = [self._line(*row) for row in rows]
        if self.csv is not None and self.csv.output_field_header:
            lines.insert(0, csv_rows.header([column.name for column in self.columns], self.csv))
        extension = "json" if self.csv is None else "csv"
        path = self.feed.file("d.t", 2, b"".join(line + b"\r\n" for line in lines), extension=extension)
        return str(path.relative_to(self.feed.folder))

    def _line(self, ts: int, key: str, v: str | None, s: str) -> bytes:
        if self.csv is None:
            return row_line("INSERT", {"id": key, "v": v, "s": s}, commit_ts=ts)
        return csv_rows.record("I", (key, v, s), self.columns, self.csv, ts)

    def line(self, row: int) -> int:
        """The number of the line of a file's `row`, counted from 1."""
        return row + (self.csv is not None and self.csv.output_field_header)

    def once(self, target: str, checkpoint: int, loader: InlineLoader) -> ConsumerError | None:
        """What stopped the table."""
        self.feed.checkpoint(checkpoint)
        flags: dict[str, object] = {"upstream_uri": f"file://{self.feed.folder}?protocol=canal-json", "tz": "UTC"}
        if self.csv is not None:
            flags["upstream_uri"] = f"file://{self.feed.folder}?protocol=csv"
            flags |= {"csv_include_commit_ts": self.csv.include_commit_ts, "csv_null": self.csv.null}
            flags |= {"csv_quote": self.csv.quote or "none"}
            flags |= {"csv_output_old_value": self.csv.output_old_value}
            flags |= {"csv_output_field_header": self.csv.output_field_header}
        seen = Recorder()
        app.once(load({**flags, "downstream_uri": target}, {}).settings, seen, loader)
        return seen.stopped.get(TableName("d", "t"))


@pytest.fixture(params=FORMS)
def storage(tmp_path: Path, request: pytest.FixtureRequest) -> Storage:
    feed = Feed(tmp_path / "storage")
    feed.describe("d.t", 2, COLUMNS)
    return Storage(feed, FORMS[request.param])


Made = Callable[[str], str]
"""Makes d.t in the target by its columns, and gives the target's URI."""


@pytest.fixture(params=["mariadb", "mysql", "tidb", "duckdb"])
def made(tmp_path: Path, request: pytest.FixtureRequest) -> Made:
    def on_server(columns: str) -> str:
        server = request.getfixturevalue(f"fresh_{request.param}")
        server.execute("CREATE DATABASE d", f"CREATE TABLE d.t ({columns})")
        return str(server.url())

    def in_file(columns: str) -> str:
        with duckdb.connect(str(tmp_path / "replica.duckdb")) as connection:
            connection.execute("CREATE SCHEMA d")
            connection.execute(f"CREATE TABLE d.t ({columns.replace(' PRIMARY KEY', '')})")
        return f"duckdb:///{tmp_path}/replica.duckdb"

    return in_file if request.param == "duckdb" else on_server


def good(first: int, count: int) -> list[Row]:
    """Rows of many keys; their texts go over lines."""
    return [(first + n, str(100 + n), str(n), "a\r\n'b" if n % 3 else "é,\"{'") for n in range(count)]


def write(storage: Storage, v: str | None, s: str) -> dict[str, int]:
    """Four files, in three of which the row 7 is as the target refuses it. The line of it by path."""
    storage.file(*good(10, 40))
    bad = ("7", v, s)
    files = [
        storage.file(*good(200, 11), (300, *bad), *good(301, 30)),
        storage.file(*good(410, 3), (500, *bad), *good(501, 60)),
        storage.file(*good(350, 8), (400, *bad), *good(401, 20)),
    ]
    return dict(zip(files, map(storage.line, (12, 4, 9)), strict=True))


def newest(storage: Storage, lines: dict[str, int]) -> tuple[str, int]:
    """Where rows have no time, the last of them is the newest."""
    timeless = storage.csv is not None and not storage.csv.include_commit_ts
    return list(lines.items())[2 if timeless else 1]


CASES = {
    "out of range": (LARGE, "s", "id INT PRIMARY KEY, v INT, s VARCHAR(8)"),
    "NULL": (None, "s", "id INT PRIMARY KEY, v INT NOT NULL, s VARCHAR(8)"),
    "too long": ("1", LONG, "id INT PRIMARY KEY, v INT, s VARCHAR(8)"),
}
_OF_A_FORM = (("mariadb", "out of range"), ("duckdb", "NULL"))


@pytest.mark.parametrize(
    ("storage", "made", "case"),
    [
        *(("canal-json", server, case) for server in ("mariadb", "mysql", "tidb") for case in CASES),
        # texts of a DuckDB file have no greatest length
        *(("canal-json", "duckdb", case) for case in CASES if case != "too long"),
        # The form says where a line is, the target why it is refused.
        *((form, *place) for form in FORMS if form != "canal-json" for place in _OF_A_FORM),
    ],
    indirect=["storage", "made"],
)
def test_the_newest_line_of_the_row(storage: Storage, made: Made, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_consumer, "SLICE_BYTES", 700)
    v, s, columns = CASES[case]
    target, loader = made(columns), InlineLoader(keyed=3 if case == "NULL" else 0)
    storage.file(*good(3, 5))
    assert storage.once(target, 9, loader) is None
    lines = write(storage, v, s)
    for _ in range(2):
        error = storage.once(target, 1000, loader)
        assert isinstance(error, RowRefused)
        assert (error.path, error.line) == newest(storage, lines)
        assert f"{error.path}:{error.line}: " in str(error)


@pytest.mark.parametrize("form", ["canal-json", "csv"])
def test_a_table_with_no_key(form: str, made: Made, tmp_path: Path) -> None:
    columns = (Column("id", "INT"), *COLUMNS[1:])
    feed = Feed(tmp_path / "storage")
    feed.describe("d.t", 2, columns)
    storage = Storage(feed, FORMS[form], columns)
    target = made("id INT, v INT, s VARCHAR(8)")
    lines = write(storage, LARGE, "s")
    error = storage.once(target, 1000, InlineLoader())
    assert isinstance(error, RowRefused)
    assert (error.path, error.line) == newest(storage, lines)


def test_a_type_of_the_file_that_is_narrower(storage: Storage, tmp_path: Path) -> None:
    """What only DuckDB itself finds, when rows are published."""
    with duckdb.connect(str(tmp_path / "replica.duckdb")) as connection:
        connection.execute("CREATE SCHEMA d")
        connection.execute("CREATE TABLE d.t (id INT, v TINYINT, s VARCHAR)")
    lines = write(storage, "1000", "s")
    error = storage.once(f"duckdb:///{tmp_path}/replica.duckdb", 1000, InlineLoader())
    assert isinstance(error, RowRefused)
    assert (error.path, error.line) == newest(storage, lines)


@pytest.mark.parametrize("key", [True, False])
def test_what_is_no_value_of_its_type(key: bool, made: Made, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "storage")
    feed.describe("d.t", 2, (replace(ID, is_pk=key), Column("b", "BIT", length=8)))
    target = made(f"id INT{' PRIMARY KEY' * key} NOT NULL, b {'UBIGINT' if made.__name__ == 'in_file' else 'BIT(8)'}")
    for first in (10, 20, 30):
        values = {n: "x" if n == 24 else str(n) for n in range(first, first + 10)}
        lines = (row_line("INSERT", {"id": str(n), "b": b}, commit_ts=n) for n, b in values.items())
        feed.file("d.t", 2, b"".join(line + b"\r\n" for line in lines))
    error = Storage(feed, None).once(target, 1000, InlineLoader())
    assert isinstance(error, RowRefused)
    assert (error.path, error.line) == ("d/t/2/CDC00000000000000000002.json", 5)
