"""One type of a column, and values of it as each side has them."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from consumer.model.columns import Column

TEXT = "CONVERT({0} USING utf8mb4)"
CHARS = "CAST({0} AS CHAR)"
NUMBER_AND_LABELS = "CONCAT(CAST({0} AS UNSIGNED), '=', {0})"


@dataclass(frozen=True)
class Value:
    """`example` is the literal upstream, `canal` the string in canal-JSON's ``data``, `csv` the cell before it is
    quoted (None: TiCDC's encoder refuses the value), `mariadb` what the case's `read` gives, `duckdb` what DuckDB's
    client gives."""

    example: str
    canal: str
    csv: str | None
    mariadb: str | float
    duckdb: object
    remark: str = ""


@dataclass(frozen=True)
class TypeCase:
    """`sql` is the type in a CREATE TABLE, `column` the schema file's, named as the case. `read` is the expression that
    shows all of a MariaDB column. `quoted`: whether CSV takes the values for strings. `key`: the values are different
    primary keys, too."""

    sql: str
    column: Column
    duckdb_type: str
    quoted: bool
    values: tuple[Value, ...]
    read: str = CHARS
    key: bool = False

    @property
    def mysql_type(self) -> str:
        """As canal-JSON has it."""
        unsigned = self.column.unsigned and self.column.type not in ("BIT", "YEAR")
        return self.column.type.lower() + " unsigned" * unsigned


def number(text: str, duckdb: object, mariadb: str | None = None, remark: str = "") -> Value:
    """A value that is the same text everywhere but in DuckDB."""
    return Value(text, text, text, text if mariadb is None else mariadb, duckdb, remark)


def text(value: str, remark: str = "", mariadb: str | None = None, duckdb: str | None = None) -> Value:
    """A value that is the same text everywhere, but where a target holds another."""
    return Value(literal(value), value, value, value if mariadb is None else mariadb, duckdb or value, remark)


def binary(value: bytes, remark: str = "") -> Value:
    """Each byte is a character of ISO-8859-1 in canal-JSON, and all of them base64 in CSV."""
    digits = value.hex().upper()
    return Value(f"x'{digits}'", value.decode("latin-1"), base64.b64encode(value).decode(), digits, value, remark)


def literal(value: str) -> str:
    """`value` as a string of SQL."""
    for raw, safe in (("\\", "\\\\"), ("'", "''"), ("\0", "\\0"), ("\r", "\\r"), ("\n", "\\n")):
        value = value.replace(raw, safe)
    return f"'{value}'"
