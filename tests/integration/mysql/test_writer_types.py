"""Every type, at its limits: what is written is what is read back, by LOAD DATA and by statements."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest

from consumer.errors import RowRefused, SchemaDrift
from consumer.model.columns import Column
from consumer.model.load import LoadTarget
from tests.integration.mysql.writing import by_statements, changes, make_target, write
from tests.servers import MariaDb

_ODD_TEXT = (
    "",
    "NULL",
    "\\N",
    "a'b\"c\\d`e",
    "\\",
    "'",
    '"',
    '""',
    ",",
    "a\r\nb\nc\rd\te",
    "nul \0 in it",
    "\x1a\x08",
    "\u2028\u2029\ufeff",
    "blanks  ",
    "  ",
    "日本語 é 😀",
    "\\0\\'",
    "%s %(a)s ? :x",
    "誠\\誠'",
)
_EVERY_BYTE = bytes(range(256))


@dataclass(frozen=True)
class Case:
    """A column, and values that are read back as they are sent, by the expression `read` of the column `c`."""

    ddl: str
    type: str
    values: tuple[Any, ...]
    read: str = "CAST(c AS CHAR)"
    unsigned: bool = False

    def shown(self, value: Any) -> str:
        return value.hex().upper() if isinstance(value, bytes) else str(value)


_TEXT = "CONVERT(c USING utf8mb4)"
_NUMBER = "CAST(CAST(c AS UNSIGNED) AS CHAR)"
CASES = {
    "tinyint": Case("TINYINT", "TINYINT", ("-128", "0", "127")),
    "tinyint_unsigned": Case("TINYINT UNSIGNED", "TINYINT", ("0", "255"), unsigned=True),
    "smallint": Case("SMALLINT", "SMALLINT", ("-32768", "32767")),
    "mediumint": Case("MEDIUMINT", "MEDIUMINT", ("-8388608", "8388607")),
    "int": Case("INT", "INT", ("-2147483648", "2147483647")),
    "bigint": Case("BIGINT", "BIGINT", ("-9223372036854775808", "9223372036854775807")),
    "bigint_unsigned": Case("BIGINT UNSIGNED", "BIGINT", ("0", "18446744073709551615"), unsigned=True),
    "decimal": Case("DECIMAL(65,30)", "DECIMAL", ("-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1")),
    "decimal_whole": Case("DECIMAL(65,0)", "DECIMAL", ("9" * 65, "-1")),
    "double": Case(
        "DOUBLE",
        "DOUBLE",
        ("17976931348623157" + "0" * 292, "0." + "0" * 323 + "5", "0.1", "-0.000001", "123456789012345680"),
    ),
    "bit1": Case("BIT(1)", "BIT", ("0", "1"), _NUMBER, unsigned=True),
    "bit9": Case("BIT(9)", "BIT", ("0", "49", "511"), _NUMBER, unsigned=True),
    "bit64": Case("BIT(64)", "BIT", ("0", "1", "18446744073709551615"), _NUMBER, unsigned=True),
    "year": Case("YEAR", "YEAR", ("0", "1901", "2000", "2155"), _NUMBER, unsigned=True),
    "enum": Case("ENUM('3','','1','日')", "ENUM", ("0", "1", "2", "3", "4"), _NUMBER),
    "set": Case("SET('2','1','a','b')", "SET", ("0", "1", "2", "3", "15"), _NUMBER),
    "date": Case("DATE", "DATE", ("0000-00-00", "2024-00-00", "2023-02-31", "1000-01-01", "9999-12-31")),
    "datetime": Case("DATETIME", "DATETIME", ("0000-00-00 00:00:00", "2024-02-29 23:59:59")),
    "datetime6": Case("DATETIME(6)", "DATETIME", ("9999-12-31 23:59:59.999999", "0000-00-00 00:00:00.000000")),
    "timestamp3": Case("TIMESTAMP(3) NULL", "TIMESTAMP", ("1970-01-01 00:00:01.000", "2038-01-19 03:14:07.999")),
    "timestamp_zero": Case("TIMESTAMP NULL", "TIMESTAMP", ("0000-00-00 00:00:00",)),
    "time": Case("TIME", "TIME", ("-838:59:59", "838:59:59", "00:00:00", "-00:00:01")),
    "time6": Case("TIME(6)", "TIME", ("-00:00:00.000001", "838:59:58.999999")),
    "varchar": Case("VARCHAR(60)", "VARCHAR", _ODD_TEXT, _TEXT),
    "text": Case("LONGTEXT", "LONGTEXT", (*_ODD_TEXT, "x" * 300_000), _TEXT),
    "char": Case("CHAR(20)", "CHAR", ("", "a", " a", "😀'\\"), _TEXT),
    "general_ci": Case("VARCHAR(20) COLLATE utf8mb4_general_ci", "VARCHAR", ("Aé", "a ", "ß"), _TEXT),
    "gbk": Case("VARCHAR(20) CHARACTER SET gbk", "VARCHAR", ("一二", "誠\\'", "", "乗"), _TEXT),
    "latin1": Case("VARCHAR(20) CHARACTER SET latin1", "VARCHAR", ("é€\\'", "ÿ", ""), _TEXT),
    "json": Case("JSON", "JSON", ('{"a": "b\\"c\\\\d\\n", "é": [1, 2.5, null]}', "null", '"x"', "[]"), _TEXT),
    "vector": Case("TEXT", "VECTOR", ("[1,2.5,-3]", "[]"), _TEXT),
    "binary": Case("BINARY(4)", "BINARY", (b"\0\0\0\0", b"a\0\0\0", b"\xff'\\\0", b"    "), "HEX(c)"),
    "varbinary": Case("VARBINARY(300)", "VARBINARY", (b"", b"\0", b" ", b"NULL", _EVERY_BYTE), "HEX(c)"),
    "blob": Case("LONGBLOB", "LONGBLOB", (b"", _EVERY_BYTE, _EVERY_BYTE * 2000), "HEX(c)"),
}


@pytest.fixture(params=["load data", "statements"])
def way(request: pytest.FixtureRequest) -> Any:
    return by_statements if request.param == "statements" else lambda target: target


@pytest.mark.parametrize("name", CASES)
def test_values_come_back_as_they_were_sent(fresh_mariadb: MariaDb, way: Any, name: str) -> None:
    case = CASES[name]
    target = _one_column(fresh_mariadb, case)
    values = [*case.values, None]
    write(fresh_mariadb, way(target), changes(target, puts=[(str(i), value) for i, value in enumerate(values)]))
    found = fresh_mariadb.execute("SET time_zone = '+00:00'", f"SELECT {case.read} FROM db.t ORDER BY id")
    expected = [None if value is None else case.shown(value) for value in values]
    if name == "double":
        assert [row[0] and float(row[0]) for row in found] == [value and float(value) for value in expected]
    else:
        assert [row[0] for row in found] == expected


@pytest.mark.parametrize("text", ["340282350000000000000000000000000000000", "16777216", "0.1", "-1.5", "0"])
def test_a_float_is_the_very_float32(fresh_mariadb: MariaDb, way: Any, text: str) -> None:
    target = _one_column(fresh_mariadb, Case("FLOAT", "FLOAT", ()))
    write(fresh_mariadb, way(target), changes(target, puts=[("1", text)]))
    ((found,),) = fresh_mariadb.execute("SELECT CAST(c AS DOUBLE) FROM db.t")
    assert found == struct.unpack("f", struct.pack("f", float(text)))[0]


def test_empty_and_null_differ_in_not_null_columns_too(fresh_mariadb: MariaDb, way: Any) -> None:
    columns = [Column("id", "INT", is_pk=True, nullable=False), Column("a", "TEXT", nullable=False)]
    columns += [Column("b", "BLOB", nullable=False), Column("c", "VARCHAR"), Column("d", "BLOB")]
    target = make_target(
        fresh_mariadb, columns, "id INT PRIMARY KEY, a TEXT NOT NULL, b BLOB NOT NULL, c VARCHAR(9), d BLOB"
    )
    write(fresh_mariadb, way(target), changes(target, puts=[("1", "", b"", "", b""), ("2", "", b"", None, None)]))
    assert fresh_mariadb.execute("SELECT * FROM db.t") == [(1, "", b"", "", b""), (2, "", b"", None, None)]


def test_the_error_value_of_an_enum_beside_other_rows(fresh_mariadb: MariaDb, way: Any) -> None:
    target = _one_column(fresh_mariadb, Case("ENUM('a','b') NOT NULL", "ENUM", ()))
    rows = [(str(i), str(i % 3)) for i in range(5000)]
    write(fresh_mariadb, way(target), changes(target, puts=rows))
    found = fresh_mariadb.execute("SELECT id, c+0 FROM db.t ORDER BY id")
    assert [(str(i), str(int(number))) for i, number in found] == rows


def test_what_is_no_number_is_refused_before_it_becomes_a_part_of_a_statement(fresh_mariadb: MariaDb) -> None:
    target = by_statements(_one_column(fresh_mariadb, Case("BIT(8)", "BIT", ())))
    with pytest.raises(RowRefused, match=r"column c \(BIT\) holds an invalid value: '1\), \(2,3'"):
        write(fresh_mariadb, target, changes(target, puts=[("1", "1), (2,3")]))
    with pytest.raises(RowRefused, match="column id"):
        write(fresh_mariadb, target, changes(target, deletes=[("1 OR 1=1", None)]))


@pytest.mark.parametrize(("kind", "ddl"), [("ENUM", "VARCHAR(9)"), ("BIT", "INT")])
def test_a_number_goes_only_where_it_means_the_same(fresh_mariadb: MariaDb, way: Any, kind: str, ddl: str) -> None:
    target = _one_column(fresh_mariadb, Case(ddl, kind, ()))
    with pytest.raises(SchemaDrift, match=f"column c is {kind} upstream and"):
        write(fresh_mariadb, way(target), changes(target, puts=[("1", "1")]))


def _one_column(server: MariaDb, case: Case) -> LoadTarget:
    columns = [Column("id", "INT", is_pk=True, nullable=False), Column("c", case.type, unsigned=case.unsigned)]
    return make_target(server, columns, f"id INT PRIMARY KEY, c {case.ddl}")
