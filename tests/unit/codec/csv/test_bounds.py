"""The first and last commit-ts of a CSV file, whatever its texts hold."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.codec.csv.bounds import read_csv_bounds
from consumer.codec.csv.options import CsvFormat
from consumer.codec.lines import END_SIZE
from consumer.errors import CorruptFile
from consumer.model.columns import Column
from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.load import Dialect
from tests.support.csv_rows import header, record
from tests.unit.codec.canal_json.test_bounds import Bytes

COLUMNS = (Column("id", "INT"), Column("v", "VARCHAR"))
FORMATS = [
    CsvFormat(include_commit_ts=True),
    CsvFormat(",", "", include_commit_ts=True),
    CsvFormat("[*]", "", include_commit_ts=True, output_old_value=True),
    CsvFormat("|", "'", include_commit_ts=True, output_handle_key=True, output_field_header=True),
]
# Texts that look like ends and beginnings of records in one dialect or another.
NASTY = st.text(st.sampled_from("\r\n\",'|[*]\\IUDtd17")) | st.sampled_from(
    ['\r\n"I","t","d",17,', "\r\nU,t,d,17,1", "\r\n'D'|'t'|'d'|17|", 'x\r\n"I"', '"\r\n"I","t"']
)


def bounds_of(content: bytes, csv: CsvFormat, terminator: bytes = b"\r\n") -> tuple[Bounds, Bytes]:
    reader = Bytes(content)
    file = DataFile(Folder("d/t", 5), 1, "d/t/5/CDC000001.csv", len(content), "")
    return read_csv_bounds(reader, file, Dialect("csv", terminator, csv)), reader


def file_of(rows: list[tuple[str, int, str]], csv: CsvFormat, terminator: bytes = b"\r\n") -> bytes:
    lines = [header([column.name for column in COLUMNS], csv)] if csv.output_field_header else []
    lines += [record(operation, ("1", text), COLUMNS, csv, commit_ts) for operation, commit_ts, text in rows]
    return b"".join(line + terminator for line in lines)


@given(
    st.lists(st.tuples(st.sampled_from("IUD"), st.integers(1, 1 << 62), NASTY), min_size=1, max_size=5),
    st.sampled_from(FORMATS),
    st.sampled_from([b"\r\n", b"\n", b"~"]),
)
def test_texts_that_look_like_records_are_none(
    rows: list[tuple[str, int, str]], csv: CsvFormat, terminator: bytes
) -> None:
    assert bounds_of(file_of(rows, csv, terminator), csv, terminator)[0] == Bounds(rows[0][1], rows[-1][1], exact=True)


@pytest.mark.parametrize("csv", FORMATS)
@pytest.mark.parametrize("length", [END_SIZE - 100, 3 * END_SIZE])
def test_rows_of_any_length_are_read(length: int, csv: CsvFormat) -> None:
    content = file_of([("I", ts, "\r\n" * length) for ts in (11, 12, 13)], csv)
    assert bounds_of(content, csv)[0] == Bounds(11, 13, exact=True)


def test_of_a_large_file_only_the_ends_are_read() -> None:
    content = file_of([("U", ts, "x" * 100) for ts in range(20_000)], FORMATS[0])
    found, reader = bounds_of(content, FORMATS[0])
    assert found == Bounds(0, 19_999, exact=True)
    assert sum(length for _, length in reader.reads) == 2 * END_SIZE


@pytest.mark.parametrize(
    "csv",
    [CsvFormat(";", include_commit_ts=True), CsvFormat(quote="'", include_commit_ts=True)],
)
def test_a_file_of_another_dialect_is_told_without_reading_it_all(csv: CsvFormat) -> None:
    content = file_of([("I", 7, "x" * 100)] * 20_000, FORMATS[0])
    with pytest.raises(CorruptFile, match=r"d/t/5/CDC000001\.csv: this is not a CSV file as the settings have it"):
        bounds_of(content, csv)


def test_a_file_without_commit_ts_is_told_by_its_first_row() -> None:
    content = record("I", ("x",), COLUMNS[1:], CsvFormat()) + b"\r\n"
    with pytest.raises(CorruptFile, match="operation, table, schema and commit-ts") as caught:
        bounds_of(content, FORMATS[0])
    assert "[sink.csv]" in caught.value.hint


@pytest.mark.parametrize("filler", [b"a,", b"\\a", b"a"])
def test_a_first_row_that_is_none_is_told_at_once(filler: bytes) -> None:
    csv = CsvFormat(",", "", include_commit_ts=True)
    started = time.process_time()
    with pytest.raises(CorruptFile):
        bounds_of(b"I," + filler * 100_000, csv)
    assert time.process_time() - started < 20
