"""Integers, BIT, YEAR, DECIMAL, FLOAT, DOUBLE."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from consumer.model.columns import Column
from tests.support.type_cases.case import TypeCase, Value, number


def _integer(type_: str, display: int, unsigned: bool, duckdb: str, *values: int) -> TypeCase:
    sql = type_ + " UNSIGNED" * unsigned
    column = Column(sql.lower().replace(" ", "_"), type_, unsigned, display)
    return TypeCase(sql, column, duckdb, False, tuple(number(str(value), value) for value in values), key=True)


INTEGERS = (
    _integer("TINYINT", 4, False, "TINYINT", -128, -1, 0, 127),
    _integer("TINYINT", 3, True, "UTINYINT", 0, 128, 255),
    _integer("SMALLINT", 6, False, "SMALLINT", -32768, 0, 32767),
    _integer("SMALLINT", 5, True, "USMALLINT", 0, 32768, 65535),
    _integer("MEDIUMINT", 9, False, "INTEGER", -8388608, 0, 8388607),
    _integer("MEDIUMINT", 8, True, "UINTEGER", 0, 8388608, 16777215),
    _integer("INT", 11, False, "INTEGER", -2147483648, 0, 2147483647),
    _integer("INT", 10, True, "UINTEGER", 0, 2147483648, 4294967295),
    _integer("BIGINT", 20, False, "BIGINT", -9223372036854775808, 0, 9007199254740993, 9223372036854775807),
    _integer("BIGINT", 20, True, "UBIGINT", 0, 9223372036854775808, 18446744073709551615),
)


def _bit(length: int, *values: int) -> TypeCase:
    column = Column(f"bit_{length}", "BIT", True, length)
    notes = {49: "no text: 49 is not '1'"}
    written = tuple(
        replace(number(str(value), value, remark=notes.get(value, "")), example=f"b'{value:b}'") for value in values
    )
    return TypeCase(f"BIT({length})", column, "UBIGINT", False, written, "CAST({0} + 0 AS CHAR)", key=True)


BITS_AND_YEARS = (
    _bit(1, 0, 1),
    _bit(8, 0, 49, 255),
    _bit(64, 0, 1, 9223372036854775808, 18446744073709551615),
    TypeCase(
        "YEAR",
        Column("year", "YEAR", True, 4),
        "USMALLINT",
        False,
        (
            number("0", 0, "0000", "the year 0000, never 2000"),
            number("1901", 1901),
            number("2000", 2000),
            number("2155", 2155),
        ),
        key=True,
    ),
)

_ZEROS = "0" * 30


def _decimal(digits: int, scale: int, duckdb: str, *values: str) -> TypeCase:
    column = Column(f"decimal_{digits}_{scale}", "DECIMAL", False, digits, scale)
    held = (number(value, value if duckdb == "VARCHAR" else Decimal(value)) for value in values)
    return TypeCase(f"DECIMAL({digits},{scale})", column, duckdb, True, tuple(held), key=True)


DECIMALS = (
    _decimal(10, 0, "DECIMAL(10,0)", "-9999999999", "0", "9999999999"),
    _decimal(10, 2, "DECIMAL(10,2)", "-99999999.99", "-0.01", "0.00", "1.10"),
    _decimal(38, 10, "DECIMAL(38,10)", "-" + "9" * 28 + "." + "9" * 10, "0.0000000001", "9" * 28 + "." + "9" * 10),
    _decimal(
        65, 30, "VARCHAR",
        "-" + "9" * 35 + "." + "9" * 30, f"0.{_ZEROS}", "0." + "0" * 29 + "1", "9" * 35 + "." + "9" * 30,
    ),
    _decimal(65, 0, "VARCHAR", "-" + "9" * 65, "0", "9" * 65),
)  # fmt: skip


def _real(plain: str, csv: str, value: float, remark: str = "") -> Value:
    return Value(csv, plain, csv, value, value, remark)


_COMMON = (
    _real("0", "0", 0.0),
    Value("-0e0", "0", "0", 0.0, 0.0, "TiDB stores no -0"),
    _real("-1.5", "-1.5", -1.5),
    _real("0.0001", "0.0001", 0.0001),
    _real("0.00001", "1e-05", 1e-05, "below 0.0001: an exponent in CSV"),
    _real("999999", "999999", 999999.0),
    _real("1000000", "1e+06", 1e6, "from 1000000: an exponent in CSV"),
    _real("-1234567", "-1.234567e+06", -1234567.0),
)
_AS_FLOAT32 = {"0.0001": 9.999999747378752e-05, "1e-05": 9.999999747378752e-06}
"""The double that equals the 32-bit value nearest to the text."""

REALS = (
    TypeCase(
        "FLOAT",
        Column("float", "FLOAT", length=12),
        "FLOAT",
        False,
        (
            *(
                replace(value, mariadb=_AS_FLOAT32[value.csv], duckdb=_AS_FLOAT32[value.csv])
                if value.csv in _AS_FLOAT32
                else value
                for value in _COMMON
            ),
            _real("0.1", "0.1", 0.10000000149011612, "the 32-bit value nearest to 0.1"),
            _real("16777216", "1.6777216e+07", 16777216.0),
            _real("340282350000000000000000000000000000000", "3.4028235e+38", 3.4028234663852886e38, "the greatest"),
            _real("-340282350000000000000000000000000000000", "-3.4028235e+38", -3.4028234663852886e38),
            _real("0." + "0" * 37 + "11754944", "1.1754944e-38", 1.1754943508222875e-38, "the least normal one"),
            _real("0." + "0" * 44 + "1", "1e-45", 1.401298464324817e-45, "the least"),
        ),
        "CAST({0} AS DOUBLE)",
    ),
    TypeCase(
        "DOUBLE",
        Column("double", "DOUBLE", length=22),
        "DOUBLE",
        False,
        (
            *_COMMON,
            _real("0.1", "0.1", 0.1),
            _real("20971520.25", "2.097152025e+07", 20971520.25),
            _real("17976931348623157" + "0" * 292, "1.7976931348623157e+308", 1.7976931348623157e308, "the greatest"),
            _real("-17976931348623157" + "0" * 292, "-1.7976931348623157e+308", -1.7976931348623157e308),
            _real("0." + "0" * 307 + "22250738585072014", "2.2250738585072014e-308", 2.2250738585072014e-308),
            _real("0." + "0" * 323 + "5", "5e-324", 5e-324, "the least"),
        ),
        "CAST({0} AS DOUBLE)",
    ),
)
