"""Whatever the small files of a storage hold, there is one sentence about it, and it is short."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from consumer.errors import ConsumerError
from consumer.layout import schema_file
from consumer.layout.paths import IndexPath, SchemaPath
from consumer.layout.pointers import parse_checkpoint, parse_index_file
from consumer.layout.schema_file import parse_schema_file
from consumer.model.files import Folder

_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**400), 10**400), st.floats(), st.text(max_size=20),
    st.sampled_from(["INT", "true", "-1", "99999999999999999999", "1" * 5000, "\ufffd", "\U0010ffff"]),
)  # fmt: skip
_LISTS, _OBJECTS = "[" * 700 + "]" * 700, '{"a":' * 700 + "1" + "}" * 700
"""Nested deeper than Python calls functions in one another."""
VALUES = st.one_of(
    st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=8),
    st.sampled_from(["a deep list", "a deep object"]),
)
COLUMN = st.fixed_dictionaries(
    {"ColumnName": st.text(max_size=5) | VALUES},
    optional={
        name: VALUES | st.sampled_from(["INT", "10", "true"])
        for name in ("ColumnType", "ColumnDefault", "ColumnPrecision", "ColumnNullable", "ColumnElems", "Other")
    },
)
RIGHT: dict[str, Any] = {
    "Table": "t", "Schema": "d", "Version": 1, "TableVersion": 5, "Query": "", "Type": 0,
    "TableColumns": [{"ColumnName": "a", "ColumnType": "INT"}], "TableColumnsTotal": 1,
}  # fmt: skip


def written(document: object) -> bytes:
    """As JSON; two texts stand for values that Python cannot write."""
    text = json.dumps(document).replace('"a deep list"', _LISTS).replace('"a deep object"', _OBJECTS)
    return text.encode()


def said(parse: Callable[[], object]) -> str:
    """The one sentence of what is refused, "" where it is taken."""
    try:
        parse()
    except ConsumerError as error:
        return error.sentence()
    return ""


def told(content: bytes, checksum: int | None = None) -> str:
    """What is said of a schema file; "" where it is taken."""
    return said(lambda: parse_schema_file(SchemaPath("d/t", 5, checksum), content))


@given(st.lists(COLUMN, max_size=3), st.dictionaries(st.sampled_from(sorted(RIGHT)), VALUES, max_size=2), st.booleans())
@example([{"ColumnName": "a", "ColumnType": "INT", "ColumnElems": "a deep list"}], {}, False)
@example([{"ColumnName": "a", "ColumnType": "INT", "ColumnDefault": "a deep object"}], {}, True)
@example([{"ColumnName": "a", "ColumnType": "INT", "Other": "a deep list"}], {}, False)
@example([{"ColumnName": "a", "ColumnType": "z" * 100_000}], {}, False)
def test_schema_files(columns: list[Any], wrong: dict[str, Any], checked: bool) -> None:
    document = {**RIGHT, "TableColumns": columns, "TableColumnsTotal": len(columns), **wrong}
    assert len(told(written(document), 1 if checked else None)) < 2000


@given(st.binary(max_size=200), st.integers(0, 200))
def test_schema_files_that_are_damaged(noise: bytes, at: int) -> None:
    content = json.dumps(RIGHT).encode()
    assert len(told(content[:at] + noise + content[at:])) < 2000


def test_a_right_one_is_taken() -> None:
    assert told(json.dumps(RIGHT).encode()) == ""


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 100_000, b'{"Table":"t","Table":"u"}', b"\xff\xfe{", b"\0"]
)
def test_schema_files_that_are_none(content: bytes) -> None:
    assert told(content)


def test_a_schema_file_larger_than_any_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_file, "MAX_BYTES", 1000)
    assert "larger than 1000 bytes" in told(b"{" + b" " * 1000)


@given(st.one_of(st.binary(max_size=100), VALUES.map(lambda value: written({"checkpoint-ts": value}))))
@example(b'{"checkpoint-ts":1e400}')
@example(b'{"checkpoint-ts":' + b"[" * 2000)
@example(b'{"checkpoint-ts":"%b"}' % (b"z" * 4000))
def test_metadata(content: bytes) -> None:
    assert len(said(lambda: parse_checkpoint(content))) < 2000


@given(st.one_of(st.binary(max_size=100), st.text(max_size=100).map(str.encode)))
@example(b"CDC" + b"1" * 4000 + b".json")
def test_index_files(content: bytes) -> None:
    assert len(said(lambda: parse_index_file(IndexPath(Folder("d/t", 5)), content))) < 2000


@pytest.mark.parametrize("name", [b"../../../etc/CDC000001.json", b"/CDC000001.json", b"x/CDC000001.json"])
def test_an_index_file_names_no_other_folder(name: bytes) -> None:
    assert said(lambda: parse_index_file(IndexPath(Folder("d/t", 5)), name))
