"""Expressions mean what a real MariaDB makes of them: random ones over random rows."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pymysql
import pytest

from consumer.changes.conditions import compile_condition
from consumer.codec.change_table import arrow_type
from consumer.errors import CannotBeExact
from consumer.model.columns import Column
from tests.servers import MariaDb

COLUMNS = (
    Column("id", "INT"),
    Column("i", "INT"),
    Column("u", "BIGINT", unsigned=True),
    Column("d", "DECIMAL", length=10, scale=2),
    Column("w", "DECIMAL", length=38, scale=10),
    Column("f", "FLOAT"),
    Column("g", "DOUBLE"),
    Column("s", "VARCHAR", length=20),
    Column("t", "DATETIME", scale=3),
    Column("a", "DATE"),
    Column("e", "ENUM", elements=("x", "Y", "z z")),
    Column("b", "VARBINARY", length=20),
    Column("n", "VARCHAR", length=20),
)
TABLE = """CREATE TABLE p.t (id INT PRIMARY KEY, i INT, u BIGINT UNSIGNED, d DECIMAL(10,2), w DECIMAL(38,10), f FLOAT,
    g DOUBLE, s VARCHAR(20) COLLATE utf8mb4_bin, t DATETIME(3), a DATE, e ENUM('x','Y','z z') COLLATE utf8mb4_bin,
    b VARBINARY(20), n VARCHAR(20) COLLATE utf8mb4_bin)"""
INTS = ["0", "1", "-1", "2", "7", "2147483647", "-2147483648"]
UNSIGNED = ["0", "1", "7", "9223372036854775807", "9223372036854775808", "18446744073709551615"]
DECIMALS = ["0.00", "1.00", "1.50", "-1.50", "7.25", "99999999.99"]
WIDE = ["0.0000000000", "1.5000000000", "-7.0000000001", "1234567890123456789012345678.1234567890"]
FLOATS = ["0", "0.1", "1.5", "-2.25", "7"]
TEXTS = ["", "a", "A", "a ", "ab", "aB", "b", "x", "Y", "7", "é", "z z", "a%", "a_b", "数"]
ASCII = [text for text in TEXTS if text.isascii()]
TIMES = ["2024-01-01 00:00:00.000", "2024-01-01 00:00:00.100", "2023-12-31 23:59:59.999", "0000-00-00 00:00:00.000"]
DATES = ["2024-01-01", "2023-12-31", "0000-00-00"]
VALUES = (INTS, UNSIGNED, DECIMALS, WIDE, FLOATS, FLOATS, TEXTS, TIMES, DATES, ["1", "2", "3"], TEXTS, ASCII)
ROWS, EXPRESSIONS = 60, 250

Row = tuple[str | None, ...]


def rows_of(chance: random.Random) -> list[Row]:
    def value(kind: list[str]) -> str | None:
        return None if chance.random() < 0.2 else chance.choice(kind)

    return [(str(number), *map(value, VALUES)) for number in range(ROWS)]


class Expressions:
    """Random ones, by the type of their value. What is not exact here is not made: it is refused by name."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def truth(self, depth: int) -> str:
        comparison = self._chance.choice((self._numbers, self._doubles, self._texts, self._moments, self._others))
        if depth == 0:
            return comparison(depth)
        deeper: list[Callable[[], str]] = [
            lambda: f"{self.truth(depth - 1)} {self._one('AND', 'OR', 'XOR')} {self.truth(depth - 1)}",
            lambda: (
                f"({self.truth(depth - 1)}) {self._one('AND', 'OR', 'XOR', '=', '<=>', '<>')} ({self.truth(depth - 1)})"
            ),
            lambda: f"NOT {self.truth(depth - 1)}",
            lambda: f"({self.truth(depth - 1)}) IS {self._one('', 'NOT ')}{self._one('TRUE', 'FALSE', 'NULL')}",
            lambda: comparison(depth - 1),
            self._chain,
        ]
        return self._chance.choice(deeper)()

    def _chain(self) -> str:
        """Operators in a row with no parentheses: what belongs together is MySQL's to say."""
        found = self._one("", "NOT ") + self._operand()
        for _ in range(self._chance.randrange(1, 4)):
            found += self._one(
                f" {self._compared()} {self._operand()}",
                f" {self._one('AND', 'OR', 'XOR')} {self._operand()}",
                f" IS {self._one('', 'NOT ')}{self._one('TRUE', 'FALSE', 'NULL')}",
                f" {self._one('', 'NOT ')}IN (1, {self._operand()})",
                f" {self._one('', 'NOT ')}BETWEEN {self._operand()} AND {self._operand()}",
            )
        return found

    def _operand(self) -> str:
        return self._one("i", "id", "-i", "1", "0", "i + 1", "id - 1 - i", "id % 2", "TRUE", "NULL")

    def number(self, depth: int) -> str:
        plain = self._one("i", "u", "d", "w", "1", "0", "-1", "1.5", "7.25", "9223372036854775808", "NULL")
        if plain == "NULL" or depth <= 0 or self._chance.random() < 0.4:
            return "2" if plain == "NULL" else plain
        deeper = [
            lambda: f"{self._one('i', 'd', '3')} {self._one('+', '-', '*')} {self._one('i', 'd', '2', '0.5')}",
            lambda: f"({self.number(depth - 1)}) {self._one('+', '-')} ({self.number(depth - 1)})",
            lambda: f"i {self._one('%', 'DIV')} {self._one('2', '0', '-3', 'id')}",
            lambda: f"MOD(i, {self._one('2', '-3')})",
            lambda: f"ABS({self._one('i', 'd', 'd - 2')})",
            lambda: f"COALESCE({self._one('i', 'd')}, {self._one('d', '7')})",
            lambda: f"IFNULL({self._one('u', 'i')}, {self._one('1', '7.25')})",
            lambda: "CHAR_LENGTH(s)",
            lambda: f"-{self._one('i', 'd')}",
        ]
        return self._chance.choice(deeper)()

    def _numbers(self, depth: int) -> str:
        left = self.number(depth)
        return self._one(
            f"{left} {self._compared()} {self.number(depth)}",
            f"{left} {self._one('', 'NOT ')}BETWEEN {self.number(0)} AND {self.number(0)}",
            f"{left} {self._one('', 'NOT ')}IN ({self.number(0)}, {self._one('1', '7', 'NULL')}, 1.50)",
            f"{left} IS {self._one('', 'NOT ')}NULL",
            self._one("i", "d", "u", "i - 1"),
        )

    def _doubles(self, depth: int) -> str:
        value = self._one("f", "g", "f * 2", "g / 2", "g / 0", "g - f", "i + 1e0", "d / 4e0")
        return f"{value} {self._compared()} {self._one('0.1', '1.5', '1e-1', 'd', 'i', 'f', '7')}"

    def _texts(self, depth: int) -> str:
        text, other = (self._quoted(self._chance.choice(TEXTS)) for _ in range(2))
        plain = self._quoted(self._chance.choice(ASCII))
        collated = self._one("s", "s", "s COLLATE utf8mb4_bin")
        pattern = self._quoted(self._one("a%", "%b", "_", "a_", "%", "", "a|%", "%é%", "__%"))
        return self._one(
            f"{collated} {self._compared()} {text}",
            f"{collated} {self._one('', 'NOT ')}IN ({text}, {other}, {self._one('NULL', text)})",
            f"s {self._one('', 'NOT ')}BETWEEN {text} AND {other}",
            f"s {self._one('', 'NOT ')}LIKE {pattern} ESCAPE '|'",
            f"IFNULL(s, {other}) = {text}",
            f"e {self._one('=', '<>', '<=>')} {text}",
            f"n COLLATE utf8mb4_general_ci {self._compared()} {plain}",
            "n COLLATE utf8mb4_general_ci LIKE " + self._one("'A%'", "'_b'", "'%B'"),
            f"{text} = s",
        )

    def _moments(self, depth: int) -> str:
        text = self._quoted(
            self._chance.choice(["2024-01-01", "2024-01-01 00:00:00.1", "2023-12-31 23:59:59", "2024-06-30"])
        )
        return self._one(
            f"{self._one('t', 'a')} {self._compared()} {text}",
            f"t {self._one('=', '<', '>=')} a",
            f"t BETWEEN '2023-01-01' AND {text}",
            f"a IN ('2024-01-01', {text})",
            f"a {self._one('=', '<')} DATE '2024-01-01'",
        )

    def _others(self, depth: int) -> str:
        return self._one("b = 'a'", "b <> 'a '", "b < 'b'", "b = X'61'", "e IS NULL", "b IS NOT NULL", "TRUE", "FALSE")

    def _compared(self) -> str:
        return self._one("=", "<>", "!=", "<", "<=", ">", ">=", "<=>")

    def _one(self, *parts: str) -> str:
        return self._chance.choice(parts)

    @staticmethod
    def _quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"


def changes_of(rows: list[Row]) -> pa.Table:
    return pa.table(
        [
            pa.array(
                [v.encode() if v is not None and column.type == "VARBINARY" else v for v in values], arrow_type(column)
            )
            for column, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
        ],
        names=[f"c{n}" for n in range(len(COLUMNS))],
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_same_rows_as_in_mariadb(seed: int, fresh_mariadb: MariaDb) -> None:
    chance = random.Random(seed)
    rows, expressions = rows_of(chance), Expressions(chance)
    changes = changes_of(rows)
    compared = 0
    with fresh_mariadb.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET NAMES utf8mb4 COLLATE utf8mb4_bin")
        cursor.execute("SET sql_mode = ''")
        cursor.execute("CREATE DATABASE p")
        cursor.execute(TABLE)
        marks = ["%s"] * len(COLUMNS)
        marks[10] = "ELT(%s, 'x', 'Y', 'z z')"
        cursor.executemany(f"INSERT INTO p.t VALUES ({', '.join(marks)})", rows)
        cursor.execute("SET sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO'")
        for _ in range(EXPRESSIONS):
            text = expressions.truth(chance.randrange(3))
            try:
                cursor.execute(f"SELECT id FROM p.t WHERE {text}")
            except (pymysql.err.DataError, pymysql.err.OperationalError, pymysql.err.ProgrammingError):
                continue  # a number out of range, or a chain with a wrong syntax: an error upstream, too
            expected = {row[0] for row in cursor.fetchall()}
            try:
                held = compile_condition(text, COLUMNS, "utf8mb4_bin").holds(changes)
            except CannotBeExact:
                continue
            except ValueError as error:
                if "parentheses" not in str(error):
                    raise
                continue
            assert {number for number, holds in enumerate(held) if holds} == expected, text
            compared += 1
    assert compared > EXPRESSIONS * 0.8
