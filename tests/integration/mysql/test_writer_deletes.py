"""Deletes by handle key: exact for every type, by an index, and never of another row."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.model.columns import Column
from tests.integration.mysql.writing import changes, make_target, write
from tests.servers import MariaDb

_LABELS = ",".join(f"'l{number}'" for number in range(64))
# name -> (column's DDL, its type in the schema file, distinct values, the key's column if it is not all of `c`)
KEYS: dict[str, tuple[str, str, tuple[Any, ...], str]] = {
    "int": ("INT NOT NULL", "INT", ("-1", "0", "2147483647"), "c"),
    "bigint": ("BIGINT NOT NULL", "BIGINT", ("9007199254740992", "9007199254740993", "-9223372036854775808"), "c"),
    "unsigned": ("BIGINT UNSIGNED NOT NULL", "BIGINT", ("18446744073709551615", "18446744073709551614", "0"), "c"),
    "in text": ("VARCHAR(30) NOT NULL", "BIGINT", ("9007199254740992", "9007199254740993"), "c"),
    "decimal in text": ("VARCHAR(30) NOT NULL", "DECIMAL", ("9007199254740992", "9007199254740993"), "c"),
    "decimal": ("DECIMAL(30,10) NOT NULL", "DECIMAL", ("1.0000000001", "1.0000000002", "-99999999999999999.5"), "c"),
    "float": ("FLOAT NOT NULL", "FLOAT", ("0.1", "16777216", "340282350000000000000000000000000000000"), "c"),
    "double": ("DOUBLE NOT NULL", "DOUBLE", ("0.1", "0.10000000000000002", "1" + "0" * 300), "c"),
    "bit": ("BIT(64) NOT NULL", "BIT", ("49", "1", "18446744073709551615"), "c"),
    "year": ("YEAR NOT NULL", "YEAR", ("0", "2000", "1901"), "c"),
    "enum": ("ENUM('2','1','x') NOT NULL", "ENUM", ("0", "1", "2"), "c"),
    "set": ("SET('2','1','x') NOT NULL", "SET", ("0", "1", "3"), "c"),
    "set64": (f"SET({_LABELS}) NOT NULL", "SET", ("1", str(1 << 63), str((1 << 63) + 1), str((1 << 64) - 1)), "c"),
    "date": ("DATE NOT NULL", "DATE", ("0000-00-00", "2024-00-00", "2023-02-31"), "c"),
    "datetime": ("DATETIME(6) NOT NULL", "DATETIME", ("2024-01-01 00:00:00.000001", "2024-01-01 00:00:00.000002"), "c"),
    "timestamp": ("TIMESTAMP(3) NOT NULL", "TIMESTAMP", ("2024-01-01 00:00:00.001", "2024-07-01 00:00:00.000"), "c"),
    "time": ("TIME(3) NOT NULL", "TIME", ("-00:00:00.001", "00:00:00.001", "838:59:58.999"), "c"),
    "varchar": ("VARCHAR(40) NOT NULL", "VARCHAR", ("a'\\\"", "", "\0", "0", "1e0"), "c"),
    "ci": ("VARCHAR(40) COLLATE utf8mb4_general_ci NOT NULL", "VARCHAR", ("aé", "b", "日"), "c"),
    "gbk": ("VARCHAR(40) CHARACTER SET gbk NOT NULL", "VARCHAR", ("一'", "誠\\", "b"), "c"),
    "latin1": ("VARCHAR(40) CHARACTER SET latin1 NOT NULL", "VARCHAR", ("é'", "\\", "b"), "c"),
    "text": ("TEXT NOT NULL", "TEXT", ("x" * 900, "y" * 900, ""), "c(255)"),
    "binary": ("BINARY(3) NOT NULL", "BINARY", (b"a\0\0", b"\xff'\\", b"   "), "c"),
    "varbinary": ("VARBINARY(300) NOT NULL", "VARBINARY", (bytes(range(256)), b"", b"a", b"a "), "c"),
    "blob": ("BLOB NOT NULL", "BLOB", (b"\0\xff", b"", b"''"), "c(255)"),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_one_column(fresh_mariadb: MariaDb, name: str) -> None:
    ddl, kind, values, key = KEYS[name]
    columns = [Column("c", kind, unsigned="UNSIGNED" in ddl, is_pk=True, nullable=False), Column("v", "INT")]
    target = make_target(fresh_mariadb, columns, f"c {ddl}, v INT, PRIMARY KEY ({key})")
    rows = [(value, str(number)) for number, value in enumerate(values)]
    write(fresh_mariadb, target, changes(target, puts=rows))
    for number, row in enumerate(rows):
        assert _numbers(fresh_mariadb) == list(range(number, len(rows)))
        receipt = write(fresh_mariadb, target, changes(target, deletes=[(row[0], None)]))
        assert (receipt.puts, receipt.deletes) == (0, 1)
    assert _numbers(fresh_mariadb) == []


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_two_columns_goes_by_its_index(fresh_mariadb: MariaDb, name: str) -> None:
    ddl, kind, values, key = KEYS[name]
    columns = [
        Column("n", "INT", is_pk=True, nullable=False),
        Column("c", kind, unsigned="UNSIGNED" in ddl, is_pk=True, nullable=False),
        Column("v", "INT"),
    ]
    target = make_target(fresh_mariadb, columns, f"n INT, c {ddl}, v INT, PRIMARY KEY (n, {key})")
    rows = [(str(n), values[n % len(values)], str(n)) for n in range(4000)]
    write(fresh_mariadb, target, changes(target, puts=rows))
    before = _rows_read(fresh_mariadb)
    gone = {n for n in range(4000) if n % 97 == 5}
    write(fresh_mariadb, target, changes(target, deletes=[(str(n), values[n % len(values)], None) for n in gone]))
    write(fresh_mariadb, target, changes(target, deletes=[(str(n), values[(n + 1) % len(values)], None) for n in gone]))
    assert _rows_read(fresh_mariadb) - before < 3000
    assert _numbers(fresh_mariadb) == [n for n in range(4000) if n not in gone]


def test_a_row_whose_key_only_looks_the_same_stays(fresh_mariadb: MariaDb) -> None:
    columns = [Column("c", "VARCHAR", is_pk=True, nullable=False), Column("v", "INT")]
    target = make_target(fresh_mariadb, columns, "c VARCHAR(9) PRIMARY KEY, v INT")
    write(fresh_mariadb, target, changes(target, puts=[("a", "1")]))
    write(fresh_mariadb, target, changes(target, deletes=[("a ", None)]))
    assert _numbers(fresh_mariadb) == [1]


def test_deletes_come_before_puts_over_all_batches(fresh_mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumer.sink.mysql.rows.writer.PUT_ROWS", 7)
    monkeypatch.setattr("consumer.sink.mysql.rows.writer.DELETE_ROWS", 5)
    columns = [Column("c", "INT", is_pk=True, nullable=False), Column("v", "INT")]
    target = make_target(fresh_mariadb, columns, "c INT PRIMARY KEY, v INT")
    rows = [(str(n), str(n)) for n in range(50)]
    receipt = write(fresh_mariadb, target, changes(target, puts=rows, deletes=rows))
    assert (receipt.puts, receipt.deletes) == (50, 50)
    assert _numbers(fresh_mariadb) == list(range(50))


def _numbers(server: MariaDb) -> list[int]:
    return [number for (number,) in server.execute("SELECT v FROM db.t ORDER BY v")]


def _rows_read(server: MariaDb) -> int:
    found = server.execute("SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_read_rnd_next', 'Handler_read_next')")
    return sum(int(value) for _, value in found)
