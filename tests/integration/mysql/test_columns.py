"""Rows of an answer as columns: what pymysql makes of them value by value is the oracle."""

from __future__ import annotations

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.cursors import SSCursor

from consumer.sink.mysql.rows.compare import decode_columns
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.server.wire import fetch_packets, has_texts
from tests.integration.mysql.writing import settings_of
from tests.servers import SqlServer

Value = bytes | None
VALUES = st.none() | st.binary(max_size=9) | st.sampled_from([250, 251, 252, 65535, 65536]).map(bytes)


def packet(values: tuple[Value, ...]) -> bytes:
    """A row as the protocol has it: length-encoded strings, NULL is 0xfb."""
    parts = []
    for value in values:
        if value is None:
            parts.append(b"\xfb")
        elif len(value) < 251:
            parts.append(bytes([len(value)]) + value)
        elif len(value) < 1 << 16:
            parts.append(b"\xfc" + len(value).to_bytes(2, "little") + value)
        elif len(value) < 1 << 24:
            parts.append(b"\xfd" + len(value).to_bytes(3, "little") + value)
        else:
            parts.append(b"\xfe" + len(value).to_bytes(8, "little") + value)
    return b"".join(parts)


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), max_size=6)))
def test_they_are_the_values_of_the_rows(rows: list[tuple[Value, ...]]) -> None:
    width = len(rows[0]) if rows else 2
    columns = decode_columns([packet(row) for row in rows], [False] * width)
    assert [column.to_pylist() for column in columns] == [[row[n] for row in rows] for n in range(width)]


def test_a_value_of_more_than_16_mib() -> None:
    large = b"x" * ((1 << 24) + 5)
    (column, _) = decode_columns([packet((b"a", None)), packet((large, b"z"))], [False, True])
    assert column.to_pylist() == [b"a", large]


@pytest.mark.parametrize(
    "row",
    [b"", b"\x01a", b"\x01a\x05bc", b"\x01a\xfc\xff", b"\x01a\xfe" + b"\xff" * 8, b"\x01a\x01b\x01c"],
    ids=bytes.hex,
)
def test_a_row_that_is_none_is_refused(row: bytes) -> None:
    rows = [packet((b"a", b"b")), row, packet((b"c", b"d"))]
    for some in (rows, rows[:2], rows[1:]):
        with pytest.raises(pymysql.err.InternalError):
            decode_columns(some, [False, False])


def test_all_types_are_as_pymysql_has_them(fresh_mariadb: SqlServer) -> None:
    server = fresh_mariadb
    columns = (
        "i BIGINT, u BIGINT UNSIGNED ZEROFILL, d DECIMAL(65,30), f FLOAT, g DOUBLE, b BIT(64), y YEAR, da DATE,"
        " dt DATETIME(6), ts TIMESTAMP(3) NULL, ti TIME(6), c CHAR(20), v VARCHAR(300) CHARACTER SET latin1,"
        " t LONGTEXT, vb VARBINARY(300), bl LONGBLOB, e ENUM('a','é'), s SET('x','y'), j JSON, p POINT"
    )
    row = (
        "-5, 18446744073709551615, 0.1, -1.5, 1e300, b'101', 2026, '2026-01-02', '2026-01-02 03:04:05.000006',"
        " '2026-01-02 03:04:05.006', '-838:59:59', 'é ', REPEAT('ü', 260), REPEAT('😀', 20000), REPEAT(0xff, 251),"
        " REPEAT(0x00, 70000), 'é', 'x,y', '{\"a\": [1, null]}', POINT(1, 2)"
    )
    if server.name == "TiDB":  # it has no POINT
        columns, row = (text[: text.rindex(",", 0, text.index("POINT"))] for text in (columns, row))
    server.execute(
        "CREATE DATABASE d CHARACTER SET utf8mb4", f"CREATE TABLE d.t ({columns})", f"INSERT INTO d.t VALUES ({row})"
    )
    nothing = ", ".join(["NULL"] * (columns.count(", ") + 1))
    server.execute(f"INSERT INTO d.t VALUES ({nothing})", f"INSERT INTO d.t VALUES ({row})")
    connection = connect_to_server(settings_of(server), "dml")
    connection.decoders = {}
    try:
        with SSCursor(connection) as cursor:
            cursor.execute("SELECT * FROM d.t")
            wanted = cursor.fetchall()
            cursor.execute("SELECT * FROM d.t")
            texts = has_texts(cursor)
            batches = [decode_columns(rows, texts) for rows in iter(lambda: fetch_packets(cursor, 2), [])]
            cursor.execute("SELECT 1")  # the connection is in step
            assert cursor.fetchall() == [("1",)]
    finally:
        connection.close()
    found = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch), strict=True)]
    assert found == wanted
