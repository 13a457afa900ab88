"""DATE, DATETIME, TIMESTAMP, TIME. The changefeed's clock is `ZONE`."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime

from consumer.model.columns import Column
from tests.support.type_cases.case import TypeCase, Value, number, text

ZONE = "Europe/Berlin"


def _date(value: str) -> Value:
    return _quoted(number(value, date.fromisoformat(value)))


def _moment(value: str, utc: str = "", remark: str = "") -> Value:
    """`utc` is what the targets hold of a TIMESTAMP."""
    return _quoted(number(value, datetime.fromisoformat(utc or value), utc or value, remark))


def _quoted(value: Value) -> Value:
    return replace(value, example=f"'{value.example}'")


DATES = (
    TypeCase(
        "DATE",
        Column("date", "DATE"),
        "DATE",
        True,
        (_date("0001-01-01"), _date("1000-01-01"), _date("1969-12-31"), _date("2024-02-29"), _date("9999-12-31")),
        key=True,
    ),
    TypeCase(
        "DATE",
        Column("date_odd", "DATE"),
        "VARCHAR",
        True,
        (
            text("0000-00-00", "no date of DuckDB's: the whole column becomes VARCHAR"),
            text("2024-00-00"),
            text("2024-02-00"),
            text("2023-02-31"),
            text("9999-12-31"),
        ),
        key=True,
    ),
    TypeCase(
        "DATETIME",
        Column("datetime", "DATETIME"),
        "TIMESTAMP",
        True,
        (_moment("1000-01-01 00:00:00"), _moment("9999-12-31 23:59:59")),
        key=True,
    ),
    TypeCase(
        "DATETIME(6)",
        Column("datetime_6", "DATETIME", scale=6),
        "TIMESTAMP",
        True,
        (
            _moment("1000-01-01 00:00:00.000000"),
            _moment("2024-03-31 02:30:00.000001", remark="no zone: the hour that Berlin skips is one"),
            _moment("9999-12-31 23:59:59.999999"),
        ),
        key=True,
    ),
    TypeCase(
        "DATETIME(2)",
        Column("datetime_odd", "DATETIME", scale=2),
        "VARCHAR",
        True,
        (text("0000-00-00 00:00:00.00"), text("2024-00-00 12:00:00.50"), text("2024-02-29 23:59:59.99")),
        key=True,
    ),
)

TIMESTAMPS = (
    TypeCase(
        "TIMESTAMP(3)",
        Column("timestamp_3", "TIMESTAMP", scale=3),
        "TIMESTAMP",
        True,
        (
            _moment("1970-01-01 01:00:01.000", "1970-01-01 00:00:01.000", "the first; targets hold UTC"),
            _moment("2024-01-15 12:00:00.500", "2024-01-15 11:00:00.500", "winter"),
            _moment("2024-03-31 01:59:59.999", "2024-03-31 00:59:59.999", "before the clock goes to summer time"),
            _moment("2024-03-31 03:00:00.000", "2024-03-31 01:00:00.000", "after it"),
            _moment("2024-10-27 01:59:59.999", "2024-10-26 23:59:59.999", "before the hour that comes twice"),
            _moment("2024-10-27 03:00:00.000", "2024-10-27 02:00:00.000", "after it"),
            _moment("2038-01-19 04:14:07.999", "2038-01-19 03:14:07.999", "the last"),
        ),
    ),
    TypeCase(
        "TIMESTAMP",
        Column("timestamp_odd", "TIMESTAMP"),
        "VARCHAR",
        True,
        (
            text("0000-00-00 00:00:00", "has no zone"),
            text("2024-07-01 12:00:00", "summer", mariadb="2024-07-01 10:00:00", duckdb="2024-07-01 10:00:00"),
        ),
    ),
)

TIMES = (
    TypeCase(
        "TIME",
        Column("time", "TIME"),
        "VARCHAR",
        True,
        (
            text("-838:59:59"),
            text("-00:00:01"),
            text("00:00:00"),
            text("23:59:59"),
            text("24:00:01", "over a day"),
            text("838:59:59"),
        ),
        key=True,
    ),
    TypeCase(
        "TIME(6)",
        Column("time_6", "TIME", scale=6),
        "VARCHAR",
        True,
        (text("-00:00:00.000001"), text("-838:59:59.000000"), text("838:59:58.999999"), text("12:34:56.700000")),
        key=True,
    ),
)
