"""Dialects told from bytes: the options of a changefeed as its rows show them."""

from __future__ import annotations

import pytest

from consumer.codec.sniff import sniff_csv, sniff_json
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import CsvFormat, Dialect
from tests.support.build import schema_file

TS = b"470611625733521409"
HIRE = schema_file("hr.employee", 5, columns=(Column("id", "INT"), Column("name", "VARCHAR"), Column("raw", "BLOB")))


def csv(content: bytes, schema: SchemaFile = HIRE, whole: bool = True) -> CsvFormat:
    found = sniff_csv(content, whole, schema)
    assert found is not None
    assert found.dialect.csv is not None
    return found.dialect.csv


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([b'"I","employee","hr",1,"Bob",\\N'], CsvFormat()),
        ([b'"I","employee","hr",%b,1,"Bob",\\N' % TS], CsvFormat(include_commit_ts=True)),
        (
            [b'"D","employee","hr",%b,true,1,"Bob",NULL' % TS, b'"I","employee","hr",%b,true,1,"B","Zm9v"' % TS],
            CsvFormat(include_commit_ts=True, output_old_value=True, null="NULL"),
        ),
        (
            [b'"U","employee","hr",%b,"1",1,"Bob","ff"' % TS],
            CsvFormat(include_commit_ts=True, output_handle_key=True, binary_encoding="hex"),
        ),
        ([b"'I'||'employee'||'hr'||-1.5e+06||'a''b||c'||'00ff7f'"], CsvFormat("||", "'", binary_encoding="hex")),
        (
            [b"I,employee,hr,%b,1,Bob\\,x,Zm9=" % TS, b"D,employee,hr,%b,2,,\\N" % TS],
            CsvFormat(quote="", include_commit_ts=True),
        ),
    ],
)
@pytest.mark.parametrize("terminator", [b"\r\n", b"\n"])
def test_csv_options(rows: list[bytes], expected: CsvFormat, terminator: bytes) -> None:
    found = sniff_csv(b"".join(row + terminator for row in rows), True, HIRE)
    assert found is not None
    assert found.dialect == Dialect("csv", terminator, expected)
    assert found.commit_ts is expected.include_commit_ts


def test_a_terminator_of_ones_own_shows_between_rows() -> None:
    rows = b'"I","employee","hr",1,"Bob","Zg=="|%|\n;"I","employee","hr",2,"Bob","Zh=="|%|\n;'
    found = sniff_csv(rows, True, HIRE)
    assert found is not None
    assert found.dialect.terminator == b"|%|\n;"
    assert sniff_csv(rows[: len(rows) // 2], True, HIRE) is None


def test_a_header_tells_all_but_the_null() -> None:
    header = b"ticdc-meta$operation;ticdc-meta$table;ticdc-meta$schema;ticdc-meta$is-update;id;name;raw\n"
    found = csv(header + b'"I";"employee";"hr";false;1;"Bob";\\N\n')
    assert found == CsvFormat(";", output_old_value=True, output_field_header=True)


def test_line_breaks_in_texts_are_no_terminators() -> None:
    content = b'"I","employee","hr",1,"a\nb\n","YQ=="\r\n"I","employee","hr",2,"c\n","YQ=="\r\n'
    found = sniff_csv(content, True, HIRE)
    assert found is not None
    assert found.dialect.terminator == b"\r\n"


def test_a_name_with_a_quote_in_it_is_found() -> None:
    odd = schema_file('hr.it\'s "q"', 5)
    assert csv(b'"I","it\'s ""q""","hr",1,2\r\n', odd).quote == '"'


def test_the_head_of_a_file_needs_two_rows() -> None:
    row = b'"I","employee","hr",1,"Bob",\\N\r\n'
    assert sniff_csv(row + row[:9], False, HIRE) is None
    assert csv(row + row + row[:9], whole=False) == CsvFormat()
    assert sniff_csv(b'"I","other","hr",1\r\n', True, HIRE) is None


@pytest.mark.parametrize("terminator", [b"\r\n", b"\n", b"#"])
@pytest.mark.parametrize(("extension", "expected"), [(b',"_tidb":{"commitTs":5}', True), (b"", False)])
def test_canal_json_options(terminator: bytes, extension: bytes, expected: bool) -> None:
    row = b'{"id":0,"data":[{"v":"}\\r\\n{\xc3\xa9"}]' + extension + b"}" + terminator
    found = sniff_json(row, True)
    assert found is not None
    assert (found.dialect, found.commit_ts) == (Dialect("canal-json", terminator), expected)
    assert sniff_json(row + row[:15], False) == found
    assert sniff_json(row, False) is None
    assert sniff_json(row[:-9], True) is None
