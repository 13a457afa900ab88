"""A file holds the rows of its own table and nothing else: whatever else is in it is told."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.codec.csv.options import CsvFormat
from consumer.codec.decoder import SliceDecoder
from consumer.errors import CorruptFile
from consumer.model.load import Dialect
from tests.support.canal_json import MemoryReader, as_rows, row_line, target_of, whole
from tests.support.csv_rows import header, record, string
from tests.support.decoding import ID, V, decode, failure, file_of

ROW = row_line("INSERT", {"id": "1", "v": "a"}, commit_ts=1)
FORMATS = [CsvFormat(), CsvFormat(include_commit_ts=True, output_field_header=True), CsvFormat(quote="", delimiter="|")]


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"database": "x"}, 'found `database` "x"'),
        ({"table": "y"}, 'found `table` "y"'),
        ({"table": "t "}, 'found `table` "t "'),
        ({"table": None}, "found `table` null"),
        ({"database": ...}, "found `database` null"),
        ({"database": 1}, "found `database` 1"),
        ({"isDdl": True}, "found a statement"),
    ],
)
def test_a_line_that_is_no_row_of_this_table(members: dict[str, Any], found: str) -> None:
    error = failure(file_of(ROW, row_line("INSERT", {"id": "2", "v": "a"}, commit_ts=1, **members), ROW))
    assert (type(error), error.line) == (CorruptFile, 2)
    assert found in error.message


def test_case_does_not_tell_tables_apart() -> None:
    content = file_of(ROW, row_line("INSERT", {"id": "2", "v": "a"}, commit_ts=1, database="D", table="T"))
    assert [row[4] for row in decode(content)] == ["1", "2"]


@pytest.mark.parametrize("csv", FORMATS)
@pytest.mark.parametrize(("database", "table", "cell"), [("x", "t", 3), ("d", "tt", 2), ("t", "d", 2)])
def test_a_record_of_another_table(csv: CsvFormat, database: str, table: str, cell: int) -> None:
    records = [_record(csv), _named(csv, database, table), _record(csv)]
    with pytest.raises(CorruptFile, match=f"expected the name of d.t in cell {cell}") as caught:
        _decode_csv(csv, records)
    assert caught.value.line == 2 + csv.output_field_header
    assert caught.value.hint


@pytest.mark.parametrize("csv", FORMATS)
def test_case_does_not_tell_tables_apart_in_csv(csv: CsvFormat) -> None:
    assert len(_decode_csv(csv, [_record(csv), _named(csv, "D", "T")])) == 2


@pytest.mark.parametrize("csv", FORMATS)
@pytest.mark.parametrize("places", [(0,), (0, 0), (1, 2), (3,), (0, 3, 3)])
def test_blank_lines_are_no_rows(csv: CsvFormat, places: tuple[int, ...]) -> None:
    """In both protocols: lines begin at `places` among three rows. A file of nothing else lacks what it was to hold."""
    records, lines = [_record(csv)] * 3, [ROW] * 3
    for place in sorted(places, reverse=True):
        records.insert(place, b"")
        lines.insert(place, b"")
    assert _decode_csv(csv, records) == _decode_csv(csv, [_record(csv)] * 3)
    assert decode(file_of(*lines)) == decode(file_of(ROW, ROW, ROW))
    for decoded in (lambda: _decode_csv(csv, [b""] * len(places)), lambda: decode(file_of(*[b""] * len(places)))):
        with pytest.raises(CorruptFile, match="the file has no row"):
            decoded()


def test_a_header_alone_is_a_file_that_was_cut_off() -> None:
    with pytest.raises(CorruptFile, match="the file has no row"):
        _decode_csv(CsvFormat(output_field_header=True), [])


def _record(csv: CsvFormat) -> bytes:
    return record("I", ["1", "a"], [ID, V], csv, 7)


def _named(csv: CsvFormat, database: str, table: str) -> bytes:
    between = csv.delimiter.encode()
    written, wanted = (between.join(string(name, csv) for name in pair) for pair in (("t", "d"), (table, database)))
    return _record(csv).replace(written, wanted, 1)


def _decode_csv(csv: CsvFormat, records: list[bytes]) -> list[Any]:
    head = [header(["id", "v"], csv)] if csv.output_field_header else []
    content = b"".join(line + b"\r\n" for line in [*head, *records])
    target, dialect = target_of([ID, V]), Dialect("csv", b"\r\n", csv)
    decoder = SliceDecoder(MemoryReader(content), whole(content), target, dialect, target.columns)
    return as_rows(list(decoder.batches()))
