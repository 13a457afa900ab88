"""Checksums against the values in TiCDC's own unit tests, and Go's way of writing JSON."""

from __future__ import annotations

import zlib

import pytest

from consumer.layout import schema_file
from consumer.layout.schema_file import checksum


def test_a_database() -> None:
    assert checksum("schema1", "", []) == 3233644819


def test_a_table() -> None:
    columns = [
        {"ColumnName": "col1", "ColumnType": "INT", "ColumnPrecision": "11"},
        {"ColumnName": "col2", "ColumnType": "VARCHAR", "ColumnPrecision": "5"},
    ]
    assert checksum("test", "table1", columns) == 4192708364
    assert checksum("test", "table1", reversed(columns)) == 4192708364


def test_a_table_with_defaults_that_are_numbers() -> None:
    columns = [
        {
            "ColumnName": "Id",
            "ColumnType": "INT",
            "ColumnDefault": 10,
            "ColumnPrecision": "11",
            "ColumnNullable": "false",
            "ColumnIsPk": "true",
        },
        {
            "ColumnName": "LastName",
            "ColumnType": "VARCHAR",
            "ColumnDefault": "Default LastName",
            "ColumnPrecision": "128",
            "ColumnNullable": "false",
        },
        {
            "ColumnName": "FirstName",
            "ColumnType": "VARCHAR",
            "ColumnDefault": "Default FirstName",
            "ColumnPrecision": "64",
        },
        {"ColumnName": "Birthday", "ColumnType": "DATETIME", "ColumnDefault": 12345678},
    ]
    assert checksum("schema1", "table1", columns) == 3752767265


def test_members_are_put_in_order_and_unknown_ones_left_out() -> None:
    column = {"Comment": "new", "ColumnElems": ["a", "<b>"], "ColumnType": "ENUM", "ColumnName": "e", "ColumnId": "1"}
    hashed = """{
    "Table": "t",
    "Schema": "s",
    "Version": 0,
    "TableColumns": [
        {
            "ColumnId": "1",
            "ColumnName": "e",
            "ColumnType": "ENUM",
            "ColumnElems": [
                "a",
                "\\u003cb\\u003e"
            ]
        }
    ],
    "TableColumnsTotal": 1
}"""
    assert checksum("s", "t", [column]) == zlib.crc32(hashed.encode())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"\\\n\r\t', r'"\"\\\n\r\t"'),
        ("<>&\u2028\u2029", r'"\u003c\u003e\u0026\u2028\u2029"'),
        ("\x00\x01\x1f\x7f", '"\\u0000\\u0001\\u001f\x7f"'),
        ("表😀é", '"表😀é"'),
        ([], "[]"),
        ({}, "{}"),
        (None, "null"),
        (True, "true"),
        (18446744073709551615, "18446744073709551615"),
        (5.0, "5"),
        (1.5, "1.5"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (0.000001, "0.000001"),
        (1.25e-7, "1.25e-7"),
    ],
)
def test_values_are_written_as_go_writes_them(value: object, text: str) -> None:
    assert schema_file.dumps(value) == text


def test_backspace_and_form_feed_have_two_spellings() -> None:
    assert schema_file.dumps("\b\f") == r'"\b\f"'
    assert schema_file.dumps("\b\f", short_controls=False) == r'"\u0008\u000c"'


@pytest.mark.parametrize(
    "text", [r'"\ufffd"', r'"\ufffd\ufffd\\ufffd"', r'"\\\ufffd"', '"\ufffd\\ufffd"', '"\U0010ffff\\ufffd"']
)
def test_lost_bytes_and_replacement_characters_are_kept_apart(text: str) -> None:
    value, lost_byte = schema_file.loads_keeping_lost_bytes(text)
    assert schema_file.dumps(value, lost_byte=lost_byte) == text


def test_what_json_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        schema_file.dumps([1j])
