"""Schema files: the real ones parse, the generated ones are real, and damaged ones are refused by name."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.errors import ChecksumMismatch, CorruptFile
from consumer.layout.paths import SchemaPath, schema_path
from consumer.layout.schema_file import parse_schema_file
from consumer.model.columns import Column, Family
from tests.support.written_files import render_schema_file

FIXTURES = Path(__file__).parents[3] / "fixtures" / "cdc"
REAL = sorted(
    (path.relative_to(storage).as_posix(), path)
    for storage in FIXTURES.glob("*/storage")
    for path in storage.rglob("schema_*.json")
    if path.is_file()
)
COLUMNS = (
    Column("id", "BIGINT", unsigned=True, length=20, nullable=False, is_pk=True),
    Column("price", "DECIMAL", length=10, scale=2, default="1.50"),
    Column("kind", "ENUM", elements=("a", "<b>")),
    Column("at", "TIMESTAMP", scale=3, default="CURRENT_TIMESTAMP"),
)
VERSION = 470612145620385792


@pytest.mark.parametrize(("relative", "path"), REAL, ids=[relative for relative, _ in REAL])
def test_real_schema_files_parse_and_render(relative: str, path: Path) -> None:
    found = schema_path(relative)
    assert found is not None
    document = json.loads(path.read_bytes())
    file = parse_schema_file(found, path.read_bytes())
    assert (file.database, file.table, file.query) == (document["Schema"], document["Table"], document["Query"])
    assert (file.version, file.type) == (document["TableVersion"], document["Type"])
    assert [column.name for column in file.columns] == [c["ColumnName"] for c in document["TableColumns"] or []]
    again = render_schema_file(file.database, file.table, file.version, file.columns, file.query, file.type)
    assert again == (found, path.read_bytes())


def test_fixtures_are_there() -> None:
    assert len(REAL) > 40


def test_columns_are_read_whole() -> None:
    path, content = render_schema_file("db", "t", VERSION, COLUMNS, "CREATE TABLE `t` ..", 3)
    file = parse_schema_file(path, content)
    assert file.columns == COLUMNS
    assert (file.path, file.root) == (f"db/t/meta/schema_{VERSION}_{path.checksum:010d}.json", "db/t")
    assert (file.version, file.type, file.query, file.checksum) == (VERSION, 3, "CREATE TABLE `t` ..", path.checksum)


TEXTS = st.text(st.characters(codec="utf-8"))
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1).filter(lambda t: t.strip(".") != "")
COLUMN = st.builds(
    Column,
    name=NAMES,
    type=st.sampled_from(["INT", "BIT", "YEAR", "JSON", "VAR_STRING", "UNSPECIFIED", "VECTOR", "LONGBLOB"]),
    unsigned=st.booleans(),
    length=st.none() | st.integers(0, 4294967295),
    scale=st.none() | st.integers(0, 30),
    nullable=st.booleans(),
    is_pk=st.booleans(),
    default=st.none() | TEXTS,
    elements=st.lists(TEXTS).map(tuple),
)


@given(NAMES, NAMES, st.integers(0, (1 << 64) - 1), st.lists(COLUMN), TEXTS, st.integers(0, 255))
def test_what_is_rendered_is_parsed_back(
    database: str, table: str, version: int, columns: list[Column], query: str, action: int
) -> None:
    path, content = render_schema_file(database, table, version, columns, query, action)
    file = parse_schema_file(path, content)
    assert (file.database, file.table, file.version) == (database, table, version)
    assert (file.columns, file.query, file.type) == (tuple(columns), query, action)


@pytest.mark.parametrize(
    ("written", "family", "unsigned"),
    [
        ("BIT UNSIGNED", Family.BIT, True),
        ("YEAR UNSIGNED", Family.YEAR, True),
        ("JSON UNSIGNED", Family.JSON, True),
        ("VAR_STRING", Family.TEXT, False),
        ("BIGINT UNSIGNED", Family.INTEGER, True),
    ],
)
def test_types_with_odd_names(written: str, family: Family, unsigned: bool) -> None:
    kind, _, suffix = written.partition(" ")
    path, content = render_schema_file("db", "t", 5, [Column("c", kind, unsigned=bool(suffix))])
    assert f'"ColumnType": "{written}"'.encode() in content
    (column,) = parse_schema_file(path, content).columns
    assert (column.family, column.unsigned) == (family, unsigned)


HASHED = """{{
    "Table": "t",
    "Schema": "db",
    "Version": 0,
    "TableColumns": [
        {{
            "ColumnName": "c",
            "ColumnType": "BIT UNSIGNED",
            "ColumnDefault": "{default}"
        }}
    ],
    "TableColumnsTotal": 1
}}"""


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"\u0002\ufffd", "\x02\ufffd"),
        ("\\ufffd\ufffd", "\ufffd\ufffd"),
        (r"\b\f", "\b\f"),
        (r"\u0008\u000c", "\b\f"),
    ],
)
def test_defaults_whose_text_does_not_survive_a_round_trip_pass(written: str, value: str) -> None:
    hashed = HASHED.format(default=written)
    content = hashed.replace('"Version": 0,', '"Version": 1, "TableVersion": 9, "Query": "", "Type": 0,').encode()
    file = parse_schema_file(SchemaPath("db/t", 9, zlib.crc32(hashed.encode())), content)
    assert file.columns[0].default == value


def test_a_default_that_is_a_number_is_kept_as_text() -> None:
    hashed = HASHED.format(default="7").replace('"7"', "7")
    content = hashed.replace('"Version": 0,', '"Version": 1, "TableVersion": 9, "Query": "", "Type": 0,').encode()
    file = parse_schema_file(SchemaPath("db/t", 9, zlib.crc32(hashed.encode())), content)
    assert file.columns[0].default == "7"


def test_old_files_have_their_version_in_another_member_and_no_checksum() -> None:
    content = HASHED.format(default="x").replace('"Version": 0', f'"Version": {VERSION}').encode()
    file = parse_schema_file(SchemaPath("db/t", VERSION, None), content)
    assert (file.version, file.query, file.type, len(file.columns)) == (VERSION, "", 0, 1)
    assert file.checksum == zlib.crc32(HASHED.format(default="x").encode())
    assert file.path == f"db/t/{VERSION}/schema.json"


@pytest.mark.parametrize(
    ("database", "table", "root"),
    [
        ("go2", "a/b", "go2/a/b"),
        ("go2", "..", ""),
        ("go2", ".", "go2"),
        ("go2", "x//1/", "go2/x/1"),
        ("a/..", "t", "t"),
    ],
)
def test_names_that_a_path_cleaner_changes(database: str, table: str, root: str) -> None:
    path, content = render_schema_file(database, table, 5, COLUMNS)
    assert path.root == root
    assert (parse_schema_file(path, content).database, parse_schema_file(path, content).table) == (database, table)


def test_tables_lie_under_their_id_too() -> None:
    path, content = render_schema_file("db", "t", 5, COLUMNS)
    assert str(parse_schema_file(replace(path, root="1234"), content).name) == "db.t"


def test_a_wrong_checksum_names_both_sums() -> None:
    path, content = render_schema_file("db", "t", 5, COLUMNS)
    wrong = replace(path, checksum=17)
    with pytest.raises(ChecksumMismatch, match=f"0000000017, .* {path.checksum:010d}") as caught:
        parse_schema_file(wrong, content)
    assert (caught.value.table, caught.value.version) == ("db/t", 5)
    assert caught.value.path == "db/t/meta/schema_5_0000000017.json"
    assert caught.value.hint


def _edited(**changes: object) -> tuple[SchemaPath, bytes]:
    path, content = render_schema_file("db", "t", 5, [Column("c", "INT")])
    document = json.loads(content) | changes
    return path, json.dumps({name: value for name, value in document.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"TableVersion": 6}, "path says version 5, but its content 6"),
        ({"TableVersion": "5"}, "TableVersion is no int"),
        ({"TableVersion": ...}, "TableVersion is missing"),
        ({"TableVersion": 5.0}, "TableVersion is no int"),
        ({"Query": None}, "Query is missing"),
        ({"Query": 1}, "Query is no str"),
        ({"Type": True}, "Type is no int"),
        ({"Version": 2}, "format version 2"),
        ({"Table": ...}, "Table is missing"),
        ({"TableColumns": {}}, "TableColumns is not an array"),
        ({"TableColumns": [1]}, "TableColumns is not an array of objects"),
        ({"TableColumns": [{}]}, "ColumnName is missing"),
        ({"TableColumnsTotal": "1"}, "TableColumnsTotal is no int"),
        ({"TableColumnsTotal": 2}, "TableColumnsTotal is not the number"),
    ],
)
def test_malformed_members_are_named(changes: dict[str, object], sentence: str) -> None:
    path, content = _edited(**changes)
    with pytest.raises(CorruptFile, match=sentence) as caught:
        parse_schema_file(path, content)
    assert (caught.value.table, caught.value.version) == ("db/t", 5)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"Table": "\\ud800"}'])
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptFile, match=r"not JSON|not a JSON object"):
        parse_schema_file(SchemaPath("db/t", 5, 1), content)


@pytest.mark.parametrize(("root", "table"), [("db/u", "t"), ("db", "t"), ("DB/t", "t"), ("1234", "")])
def test_a_file_in_the_wrong_place_is_refused(root: str, table: str) -> None:
    path, content = render_schema_file("db", table, 5, [])
    with pytest.raises(CorruptFile, match="content names `db`"):
        parse_schema_file(replace(path, root=root), content)


@pytest.mark.parametrize(
    ("member", "value", "sentence"),
    [
        ("ColumnType", "GEOMETRY", "column `c`: type GEOMETRY is not known"),
        ("ColumnType", "int", "column `c`: type int is not known"),
        ("ColumnType", 3, "column `c`: member ColumnType is no str"),
        ("ColumnPrecision", "ten", "column `c`: member ColumnPrecision is not a number"),
        ("ColumnPrecision", 10, "column `c`: member ColumnPrecision is no str"),
        ("ColumnNullable", "no", "column `c`: member ColumnNullable is neither"),
        ("ColumnDefault", ["x"], "column `c`: member ColumnDefault is not a scalar"),
        ("ColumnElems", [1], "column `c`: member ColumnElems is not an array of strings"),
    ],
)
def test_malformed_columns_are_named(member: str, value: object, sentence: str) -> None:
    column = {"ColumnName": "c", "ColumnType": "INT", member: value}
    document = {"Table": "t", "Schema": "db", "Version": 5, "TableColumns": [column], "TableColumnsTotal": 1}
    with pytest.raises(CorruptFile, match=sentence):
        parse_schema_file(SchemaPath("db/t", 5, None), json.dumps(document).encode())
