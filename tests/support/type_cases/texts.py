"""Texts, bytes, ENUM, SET, JSON, VECTOR."""

from __future__ import annotations

from dataclasses import replace

from consumer.model.columns import Column
from tests.support.type_cases.case import NUMBER_AND_LABELS, TEXT, TypeCase, Value, binary, text

_NATIVE = "HEX({0})"
_ODD = (
    text("", "empty, which is not NULL"),
    text("NULL", "the text, which is not NULL"),
    text("\\N", "the text, which is not NULL: CSV quotes it"),
    text('it\'s "quoted" `so`'),
    text('"'),
    text("a,b!c\td|e"),
    text("back\\slash\\"),
    text("cr\rlf\ncrlf\r\nend", "line breaks stand in CSV as they are"),
    text("nul\0end"),
    text("\u2028\u2029\ufeff"),
    text("<a>&amp;</a>"),
    text("日本語 é 😀", "4 bytes of UTF-8 too"),
    text("blanks  ", "blanks at the end stay"),
    text("\x01\x08\x1a\x7f"),
)


def _named(type_: str, length: int, name: str = "") -> Column:
    return Column(name or type_.lower(), type_, length=length)


def _texts(type_: str, length: int, *values: Value) -> TypeCase:
    return TypeCase(type_, _named(type_, length), "VARCHAR", True, values, TEXT)


TEXTS = (
    TypeCase(
        "CHAR(20)",
        _named("CHAR", 20),
        "VARCHAR",
        True,
        (
            text(""),
            replace(text("ab"), example="'ab   '", remark="blanks at the end are lost upstream already"),
            text("  a"),
            text("😀'\\,\""),
            text("NULL"),
            text("\\N"),
        ),
        TEXT,
        key=True,
    ),
    TypeCase("VARCHAR(60)", _named("VARCHAR", 60), "VARCHAR", True, _ODD, TEXT, key=True),
    _texts("TINYTEXT", 255, text(""), text("é  ")),
    _texts("TEXT", 65535, *_ODD, text("  ", "only blanks")),
    _texts("MEDIUMTEXT", 16777215, text(""), text("x" * 70_000)),
    _texts("LONGTEXT", 4294967295, text(""), text("😀" * 1000)),
    TypeCase(
        "VARCHAR(20) CHARACTER SET GBK",
        _named("VARCHAR", 20, "gbk"),
        "VARCHAR",
        True,
        (
            text("", mariadb=""),
            text("一二", "UTF-8 in the files; MariaDB has gbk's bytes, shown as HEX()", "D2BBB6FE"),
            text("誠\\", "a byte that looks like a backslash", "D55C5C"),
        ),
        _NATIVE,
    ),
    TypeCase(
        "VARCHAR(20) CHARACTER SET LATIN1",
        _named("VARCHAR", 20, "latin1"),
        "VARCHAR",
        True,
        (
            text("é€ÿ", "utf8mb4 on servers: TiDB keeps any text in latin1"),
            text("中文 😀"),
        ),
        TEXT,
    ),
)

_EVERY = bytes(range(256))


def _bytes(type_: str, length: int, sql: str, *values: Value, key: bool = False) -> TypeCase:
    return TypeCase(sql, _named(type_, length), "BLOB", True, values, _NATIVE, key)


_SHORT = (binary(b""), binary(b"\0"), binary(b" "), binary(b"NULL"), binary(b"\\N"), binary(b"'\"\\,\r\n"))

BYTES = (
    _bytes(
        "BINARY",
        255,
        "BINARY(255)",
        binary(_EVERY[1:], "every byte but 00"),
        binary(_EVERY[:255], "every byte but FF"),
        replace(binary(b"a" + bytes(254)), example="x'61'", remark="zero bytes up to its length"),
        binary(b" " * 255),
        key=True,
    ),
    _bytes("VARBINARY", 256, "VARBINARY(256)", *_SHORT, binary(b"a "), binary(_EVERY, "every byte"), key=True),
    _bytes("TINYBLOB", 255, "TINYBLOB", *_SHORT),
    _bytes("BLOB", 65535, "BLOB", *_SHORT, binary(_EVERY, "every byte"), binary(_EVERY * 40)),
    _bytes("MEDIUMBLOB", 16777215, "MEDIUMBLOB", binary(b""), binary(_EVERY[::-1])),
    _bytes("LONGBLOB", 4294967295, "LONGBLOB", binary(b""), binary(_EVERY * 300)),
)


def _labels(number: int, csv: str | None, remark: str = "") -> Value:
    shown = csv or ""
    example = "''" if csv is None else "'" + shown.replace("'", "''") + "'"
    return Value(example, str(number), csv, f"{number}={shown}", shown, remark)


_MEMBERS = tuple(f"m{number}" for number in range(1, 65))

LABELS = (
    TypeCase(
        "ENUM('3','1','2','a,b','it''s \"x\"','日')",
        Column("enum", "ENUM"),
        "VARCHAR",
        True,
        (
            _labels(1, "3", "the first label; MariaDB is shown as number=label"),
            _labels(2, "1"),
            _labels(3, "2"),
            _labels(4, "a,b"),
            _labels(5, 'it\'s "x"'),
            _labels(6, "日"),
            _labels(0, None, "the '' error value, which TiCDC cannot write as CSV"),
        ),
        NUMBER_AND_LABELS,
        key=True,
    ),
    TypeCase(
        "ENUM('','\\\\N','NULL')",
        Column("enum_odd", "ENUM", elements=("", "\\N", "NULL")),
        "VARCHAR",
        True,
        (_labels(1, "", "the label '', which is not the error value"), _labels(2, "\\N"), _labels(3, "NULL")),
        NUMBER_AND_LABELS,
    ),
    TypeCase(
        "SET('2','1','it''s \"x\"','日')",
        Column("set", "SET"),
        "VARCHAR",
        True,
        (
            _labels(0, "", "no label"),
            _labels(1, "2", "the first label"),
            _labels(2, "1"),
            _labels(3, "2,1"),
            _labels(15, '2,1,it\'s "x",日'),
        ),
        NUMBER_AND_LABELS,
        key=True,
    ),
    TypeCase(
        f"SET({','.join(map(repr, _MEMBERS))})",
        Column("set_64", "SET", elements=_MEMBERS),
        "VARCHAR",
        True,
        (_labels(1 << 63, "m64"), _labels((1 << 64) - 1, ",".join(_MEMBERS), "all 64 labels")),
        NUMBER_AND_LABELS,
    ),
)

DOCUMENTS = (
    TypeCase(
        "JSON",
        Column("json", "JSON"),
        "JSON",
        True,
        (
            text("null", "JSON's null, which is not NULL"),
            text('"null"'),
            text("{}"),
            text("[]"),
            text("true"),
            text("12.5"),
            text('{"big": 18446744073709551615, "low": -9223372036854775808, "far": 1e100}', "numbers keep all digits"),
            text('{"a": {"b": [1, [2, {"c": null}]]}}'),
            text('{"日": "😀", "html": "<a>&</a>"}'),
            text('"\\"\\\\\\n\\u0000"', "JSON's own escapes stay"),
        ),
        TEXT,
    ),
    TypeCase(
        "VECTOR(3)",
        Column("vector", "VECTOR"),
        "FLOAT[]",
        True,
        (
            replace(text("[1,2.5,-3]", "text on MariaDB"), duckdb=[1.0, 2.5, -3.0]),
            replace(text("[0,0.5,-0.25]"), duckdb=[0.0, 0.5, -0.25]),
        ),
        TEXT,
    ),
)
