"""Dialects told from bytes: the options of a changefeed as its rows show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumer.codec.canal_json.protocol import sniff_json
from consumer.codec.csv import sniff
from consumer.codec.csv.options import CsvFormat
from consumer.codec.protocol import Sniffed
from consumer.ddl.declared import Definition
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import Dialect
from tests.support.build import schema_file

TS = b"470611625733521409"
HIRE = schema_file("hr.employee", 5, columns=(Column("id", "INT"), Column("name", "VARCHAR"), Column("raw", "BLOB")))


def sniff_csv(content: bytes, whole: bool, schema: SchemaFile, known: bool = False) -> Sniffed | None:
    """`known`: the statements tell of all columns, and none is virtual."""
    return sniff.sniff_csv(content, whole, schema, {c.name: Definition() for c in schema.columns if known})


def csv(content: bytes, schema: SchemaFile = HIRE, whole: bool = True) -> CsvFormat:
    found = sniff_csv(content, whole, schema)
    assert found is not None
    return likeliest(found)


def likeliest(found: Sniffed) -> CsvFormat:
    """The format of the first reading, with TiCDC's defaults for what nothing shows."""
    first, csv = found.readings[0], found.dialect.options
    assert csv is not None
    return replace(
        csv,
        null="\\N" if first.null is None else first.null.decode(),
        include_commit_ts=first.include_commit_ts,
        output_old_value=first.output_old_value,
        output_handle_key=first.output_handle_key,
        binary_encoding_method=first.encoding or "base64",
    )


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
            CsvFormat(include_commit_ts=True, output_handle_key=True, binary_encoding_method="hex"),
        ),
        ([b"'I'||'employee'||'hr'||-1.5e+06||'a''b||c'||'00ff7f'"], CsvFormat("||", "'", binary_encoding_method="hex")),
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
    assert (found.dialect.terminator, likeliest(found)) == (terminator, expected)


def test_a_terminator_of_ones_own_shows_between_rows() -> None:
    rows = b'"I","employee","hr",1,"Bob","Zg=="|%|\n;"I","employee","hr",2,"Bob","Zh=="|%|\n;'
    found = sniff_csv(rows, True, HIRE)
    assert found is not None
    assert found.dialect.terminator == b"|%|\n;"
    assert sniff_csv(rows[: len(rows) // 2], False, HIRE) is None


@pytest.mark.parametrize("terminator", [b"\r\n", b"\n", b"|#\n", b"@@\r\n", b"#", b"xx\n"])
@pytest.mark.parametrize(("quote", "delimiter"), [(b'"', b","), (b"", b","), (b"'", b"|&|")])
def test_a_terminator_is_all_that_is_no_value(terminator: bytes, quote: bytes, delimiter: bytes) -> None:
    table = schema_file("d.t", 5, columns=(Column("id", "INT", is_pk=True), Column("n", "INT")))
    names = [quote + cell + quote for cell in (b"I", b"t", b"d")]
    cells = [[*names, b"%d" % (int(TS) + n), b"%d" % n, last] for n, last in enumerate((b"5", b"15", b"\\N"))]
    content = b"".join(delimiter.join(row) + terminator for row in cells)
    found = sniff_csv(content, True, table, known=True)
    assert found is not None
    assert {shape.terminator for shape in found.readings} == {terminator}
    assert {shape.null for shape in found.readings} == {b"\\N"}


def test_a_bigint_that_looks_like_a_commit_ts_is_told_by_the_columns() -> None:
    table = schema_file("d.t", 5, columns=(Column("id", "BIGINT", is_pk=True), Column("w", "BIGINT")))
    content = b"".join(b'"I","t","d",%d,%d\r\n' % (int(TS) + n, n) for n in range(3))
    found = sniff_csv(content, True, table, known=True)
    assert found is not None
    assert [shape.include_commit_ts for shape in found.readings] == [False]
    unsure = sniff_csv(content, True, table)  # one of the columns may be virtual
    assert unsure is not None
    assert [shape.include_commit_ts for shape in unsure.readings] == [False, True]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([b"00112233445566778899aabbccddeeff", b"ffeeddccbbaa99887766554433221100"], ""),
        ([b"00112233", b"0011223344"], "hex"),
        ([b"00112233", b"AAAA"], "base64"),
    ],
)
def test_an_encoding_needs_a_value_that_the_other_cannot_have(values: list[bytes], expected: str) -> None:
    content = b"".join(b'"I","employee","hr",%d,%d,"x","%b"\r\n' % (int(TS), n, v) for n, v in enumerate(values))
    found = sniff_csv(content, True, HIRE, known=True)
    assert found is not None
    assert {shape.encoding for shape in found.readings} == {expected}


def test_without_quotes_a_word_among_texts_is_no_null() -> None:
    content = b"".join(b"I,employee,hr,%d,%d,%b,\r\n" % (int(TS), n, v) for n, v in enumerate((b"x", b"NULL")))
    found = sniff_csv(content, True, HIRE, known=True)
    assert found is not None
    assert {shape.null for shape in found.readings} == {None}


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
