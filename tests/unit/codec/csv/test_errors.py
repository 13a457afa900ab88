"""What is wrong with a CSV file is told by record, and by the setting that it speaks against."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from consumer.codec.csv.options import CsvFormat, format_fault
from consumer.codec.decoder import SliceDecoder
from consumer.errors import CannotBeExact, ConsumerError, CorruptFile, RowsVary, SchemaDrift
from consumer.model.columns import Column
from consumer.model.load import Dialect
from tests.support.canal_json import MemoryReader, as_rows, target_of, whole, with_load
from tests.support.csv_rows import header, record, string

COLUMNS = [Column("id", "INT"), Column("v", "VARCHAR")]
TSO = 470611813613961217
PLAIN = CsvFormat()
WITH_TS = CsvFormat(include_commit_ts=True)


def decoded(
    content: bytes,
    csv: CsvFormat,
    columns: list[Column] = COLUMNS,
    terminator: bytes = b"\n",
    key: tuple[int, ...] = (0,),
) -> list[pa.Table]:
    target = target_of(columns, key)
    dialect = Dialect("csv", terminator, csv)
    return list(SliceDecoder(MemoryReader(content), whole(content), target, dialect, target.columns).batches())


def error_of(
    content: bytes,
    csv: CsvFormat,
    columns: list[Column] = COLUMNS,
    terminator: bytes = b"\n",
    key: tuple[int, ...] = (0,),
) -> ConsumerError:
    with pytest.raises(ConsumerError) as caught:
        decoded(content, csv, columns, terminator, key)
    assert caught.value.hint
    assert caught.value.table == "d.t"
    return caught.value


def written(csv: CsvFormat) -> bytes:
    names = [header(["id", "v"], csv)] if csv.output_field_header else []
    return b"".join(line + b"\n" for line in [*names, *[record("I", ["1", "a"], COLUMNS, csv, TSO)] * 3])


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"include_commit_ts": True}, "`include-commit-ts` in [sink.csv] looks to be true"),
        ({"output_old_value": True}, "`output-old-value` in [sink.csv] looks to be true"),
        ({"output_handle_key": True}, "`output-handle-key`"),
        ({"output_field_header": True}, "`output-field-header`"),
        ({"delimiter": "|"}, "`delimiter` in [sink.csv] is ',' here, and looks to be '|'"),
        ({"quote": "'"}, "`quote` in [sink.csv] is '\"' here, and looks to be \"'\""),
        ({"quote": ""}, "`quote` in [sink.csv] is '\"' here, and looks to be ''"),
        ({"quote": "", "delimiter": "|"}, "`quote` in [sink.csv] is '\"' here, and looks to be ''"),
    ],
)
def test_a_setting_that_the_file_contradicts_is_named(change: dict[str, object], setting: str) -> None:
    found = error_of(written(replace(PLAIN, **change)), PLAIN)  # type: ignore[arg-type]
    assert setting in found.hint
    assert found.line == 1


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"include_commit_ts": True}, "`include-commit-ts` in [sink.csv] looks to be false"),
        ({"output_old_value": True}, "`output-old-value` in [sink.csv] looks to be false"),
        ({"output_handle_key": True}, "`output-handle-key`"),
        ({"output_field_header": True}, "output-field-header"),
        ({"delimiter": "|"}, "looks to be ','"),
        ({"quote": "'"}, "looks to be '\"'"),
        ({"quote": ""}, "looks to be '\"'"),
    ],
)
def test_a_setting_that_the_file_lacks_is_named(change: dict[str, object], setting: str) -> None:
    found = error_of(written(PLAIN), replace(PLAIN, **change))  # type: ignore[arg-type]
    assert setting in found.hint + found.message
    assert found.line == 1


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b'"X","t","d",5,1,"a"', "expected the operation I, U or D in the first cell, found 'X'"),
        (b'"I","t","d",x,1,"a"', "expected a commit-ts in cell 4, found 'x'"),
        (b'"I","t","d",5,1,"a"x', "a cell continues after its closing quote"),
        (b'"I","t","d",5,1,"a"b"c"', "a quote stands inside a cell and is not doubled"),
        (b'"I","t","d",5,1', "the row has 5 cells, expected 6: 4, then the columns id, v"),
        (b'"I","t","d",5,1,"\xff"', "column v: a text is not UTF-8"),
        (b'"I","t","d",5,"1","a"', "the cell for column id, of type INT, holds a text"),
        (b'"I","t","d",5,1,2', "the cell for column v, of type VARCHAR, holds a number"),
        (b'"I","t","d",5,\\N,"a"', "the row is NULL in id"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 6])
def test_the_record_is_named(broken: bytes, message: str, before: int) -> None:
    good = record("I", ["1", "a\nb"], COLUMNS, WITH_TS, TSO)
    content = b"".join(line + b"\n" for line in [*[good] * before, broken, good, good])
    found = error_of(content, WITH_TS)
    assert message in found.message
    assert found.line == before + 1


@pytest.mark.parametrize("lost", [1, 2, 9])
def test_a_file_that_is_cut_off(lost: int) -> None:
    content = written(WITH_TS)[:-lost]
    found = error_of(content, WITH_TS)
    assert isinstance(found, CorruptFile)
    assert found.line == 3


def test_a_file_that_is_cut_off_behind_a_line_break_in_a_text() -> None:
    found = error_of(written(WITH_TS) + b'"I","t","d",5,1,"a\n', WITH_TS)
    assert "a quoted cell does not end" in found.message
    assert found.line == 4


@pytest.mark.parametrize(
    ("type_", "cell", "message"),
    [
        ("ENUM", b'"c"', "column v: the label 'c' is none of ENUM('a', 'b')"),
        ("SET", b'"a,c"', "column v: the label 'c' is none of SET('a', 'b')"),
        ("BLOB", b'"YQ"', "column v: a binary value is not base64"),
        ("DOUBLE", b"1e+9999", "column v: "),
    ],
)
def test_a_value_that_is_none_of_its_type(type_: str, cell: bytes, message: str) -> None:
    columns = [Column("id", "INT"), Column("v", type_, elements=("a", "b"))]
    good = b'"I","t","d",5,1,\\N\n'
    found = error_of(good * 5 + b'"I","t","d",5,1,' + cell + b"\n" + good, WITH_TS, columns)
    assert isinstance(found, CorruptFile)
    assert message in found.message
    assert found.line == 6


@pytest.mark.parametrize("csv", [WITH_TS, CsvFormat(quote="", include_commit_ts=True)])
def test_a_set_that_is_empty_or_has_the_label_that_is(csv: CsvFormat) -> None:
    columns = [Column("id", "INT"), Column("v", "SET", elements=("a", ""))]
    good, doubtful = (b",".join([record("I", ["1"], columns[:1], csv, 5), string(v, csv)]) for v in ("a,", ""))
    found = error_of(good + b"\n" + doubtful + b"\n", csv, columns)
    assert isinstance(found, CannotBeExact)
    assert "column v holds no label here or its label ''" in found.message
    assert found.line == 2
    assert as_rows(decoded(good + b"\n", csv, columns)) == [(5, True, 0, 0, "1", "3")]


@pytest.mark.parametrize(("type_", "cell"), [("INT", b"5\r"), ("BIT", b""), ("YEAR", b"1.5"), ("FLOAT", b"NaN")])
def test_a_number_that_is_none(type_: str, cell: bytes) -> None:
    columns = [Column("id", "INT"), Column("v", type_)]
    found = error_of(b'"I","t","d",5,1,5\n"I","t","d",5,2,' + cell + b"\n", WITH_TS, columns)
    assert f"column v: {cell.decode()!r} is not a number" in found.message
    assert found.line == 2


@pytest.mark.parametrize("csv", [WITH_TS, CsvFormat(quote="", include_commit_ts=True)])
def test_a_terminator_of_which_the_file_has_more(csv: CsvFormat) -> None:
    found = error_of(record("I", ["1", "a"], COLUMNS, csv, TSO) + b"\r\n", csv)
    assert "looks to be '\\r\\n'" in found.hint
    assert found.line == 1


@pytest.mark.parametrize(("text", "fits"), [(b"a\\r\\n", True), (b"a\r", False), (b"a\nb", False)])
def test_without_quotes_a_line_break_is_escaped(text: bytes, fits: bool) -> None:
    csv = CsvFormat(quote="", include_commit_ts=True)
    content = b"I,t,d,5,1," + text + b"\r\n"
    if not fits:
        assert "is not escaped" in error_of(content, csv, terminator=b"\r\n").message
        return
    target = target_of(COLUMNS)
    dialect = Dialect("csv", b"\r\n", csv)
    [table] = SliceDecoder(MemoryReader(content), whole(content), target, dialect, target.columns).batches()
    assert table["c1"].to_pylist() == ["a\r\n"]


@pytest.mark.parametrize("names", [["id", "v\r"], ["id", "v", "w"], ["id", "v", "v"]])
def test_a_header_that_names_no_column_or_one_twice(names: list[str]) -> None:
    csv = replace(WITH_TS, output_field_header=True)
    columns = [COLUMNS[0], *[COLUMNS[1]] * (len(names) - 1)]
    row = record("I", ["1", *["a"] * (len(names) - 1)], columns, csv, TSO)
    found = error_of(header(names, csv) + b"\n" + row + b"\n", csv)
    assert isinstance(found, CorruptFile)
    assert f"the header line names {names[-1]!r}" in found.message


def test_a_table_with_no_key_needs_commit_ts() -> None:
    found = error_of(written(PLAIN), PLAIN, key=())
    assert isinstance(found, CannotBeExact)
    assert "include-commit-ts=true" in found.hint


@pytest.mark.parametrize(("type_", "stops"), [("VARCHAR", True), ("BLOB", True), ("DATE", False), ("ENUM", False)])
def test_null_or_text_without_quotes(type_: str, stops: bool) -> None:
    csv = CsvFormat("|", "", "NULL", include_commit_ts=True)
    columns = [Column("id", "INT"), Column("v", type_, elements=("a",))]
    content = b"I|t|d|5|1|NULL\n"
    if stops:
        found = error_of(content, csv, columns)
        assert isinstance(found, CannotBeExact)
        assert "may be NULL here or the text 'NULL'" in found.message
        columns[1] = replace(columns[1], nullable=False)
    target = target_of(columns)
    decoder = SliceDecoder(MemoryReader(content), whole(content), target, Dialect("csv", b"\n", csv), target.columns)
    [table] = decoder.batches()
    expected = {"VARCHAR": "NULL", "BLOB": bytes([0x35, 0x42, 0xCB])}.get(type_)
    assert table["c1"].to_pylist() == [expected]


def test_a_text_that_runs_into_a_delimiter_without_quotes() -> None:
    csv = CsvFormat("||", "", include_commit_ts=True)
    found = error_of(record("I", ["a|", "b"], [Column("id", "TEXT"), COLUMNS[1]], csv, TSO) + b"\n", csv)
    assert "content of the cell is ambiguous" in found.message


def test_columns_that_the_rows_lack_or_have_too_many() -> None:
    content = written(WITH_TS)
    target = target_of([*COLUMNS, Column("w", "INT")])
    decoder = SliceDecoder(
        MemoryReader(content), whole(content), target, Dialect("csv", b"\n", WITH_TS), tuple(COLUMNS)
    )
    with pytest.raises(RowsVary) as caught:
        list(decoder.batches())
    assert caught.value.absent == ("w",)
    selective = with_load(target_of(COLUMNS[:1]), absent=("v",))
    decoder = SliceDecoder(
        MemoryReader(content), whole(content), selective, Dialect("csv", b"\n", WITH_TS), tuple(COLUMNS)
    )
    with pytest.raises(RowsVary) as caught:
        list(decoder.batches())
    assert caught.value.carried == ("v",)


def test_a_key_that_the_rows_lack() -> None:
    found = error_of(
        written(WITH_TS), WITH_TS, [Column("id", "INT"), Column("w", "VARCHAR"), Column("x", "INT")], key=(2,)
    )
    assert isinstance(found, SchemaDrift)


@pytest.mark.parametrize(
    "csv",
    [
        CsvFormat(delimiter=""),
        CsvFormat(delimiter="\n"),
        CsvFormat(delimiter='"'),
        CsvFormat(quote="1"),
        CsvFormat(null="0"),
        CsvFormat(null="a,b"),
        CsvFormat(null='""'),
        CsvFormat(quote="", delimiter="n"),
        CsvFormat(quote="", delimiter="\\"),
        CsvFormat(quote="", null="\\"),
    ],
)
def test_settings_that_leave_cells_open(csv: CsvFormat) -> None:
    assert format_fault(csv, b"\n")
    assert isinstance(error_of(written(WITH_TS), csv), CannotBeExact)
    assert not format_fault(PLAIN, b"\n")
