"""The type cases as TiCDC writes them: a table a family, with a column a case, and a table a case that can be a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from consumer.codec.csv.options import CsvFormat
from consumer.model.actions import Action
from consumer.model.columns import Column, Family
from tests.support.csv_rows import string
from tests.support.feed import Feed
from tests.support.type_cases import FAMILIES, TypeCase, Value

DATABASE = "types"
ID = TypeCase("INT", Column("id", "INT", length=11, nullable=False, is_pk=True), "INTEGER", False, ())
COUNT = TypeCase("INT", Column("v", "INT", length=11), "INTEGER", False, ())
_SQL_TYPES = {Family.BINARY: 2004, Family.TEXT: 12, Family.INTEGER: 4}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {chr(code): f"\\u{code:04x}" for code in (*range(32), *b"<>&", 0x2028, 0x2029) if chr(code) not in _ESCAPES}


def plain(number: int) -> Value:
    """A number of the tables' own columns."""
    return Value(str(number), str(number), str(number), str(number), number)


@dataclass(frozen=True)
class CaseTable:
    """`rows` are what the files insert, `updated` and `deleted` the rows of later lines. A value None is NULL."""

    name: str
    cases: tuple[TypeCase, ...]
    rows: tuple[tuple[Value | None, ...], ...]
    updated: tuple[tuple[Value | None, ...], ...] = ()
    deleted: tuple[tuple[Value | None, ...], ...] = ()

    @property
    def create(self) -> str:
        columns = ",".join(f"`{case.column.name}` {case.sql}" for case in self.cases)
        return f"CREATE TABLE `{self.name}` ({columns},PRIMARY KEY(`{self.cases[0].column.name}`))"

    @property
    def final(self) -> list[tuple[Value | None, ...]]:
        gone = {row[0] for row in (*self.updated, *self.deleted)}
        return [*(row for row in self.rows if row[0] not in gone), *self.updated]


def case_tables(csv: bool) -> list[CaseTable]:
    """`csv`: without the values that TiCDC cannot write as CSV, which are NULL then."""
    tables = []
    for family, cases in FAMILIES.items():
        values = zip_longest(*([v if v.csv is not None or not csv else None for v in case.values] for case in cases))
        rows = enumerate((*values, (None,) * len(cases)))
        tables.append(CaseTable(family.replace(" ", "_"), (ID, *cases), tuple((plain(i), *row) for i, row in rows)))
        tables += [_keyed(case, csv) for case in cases if case.key]
    return tables


def _keyed(case: TypeCase, csv: bool) -> CaseTable:
    """Every value is a key: the first and every second after it are updated, the last is deleted."""
    key = replace(case, column=replace(case.column, nullable=False, is_pk=True), sql=f"{case.sql} NOT NULL")
    values = [value for value in case.values if value.csv is not None or not csv]
    one, two = plain(1), plain(2)
    rows = tuple((value, one) for value in values)
    updated = tuple((value, two) for value in values[:-1:2])
    return CaseTable(f"key_{case.column.name}", (key, COUNT), rows, updated, rows[-1:])


class TypeStorage(Feed):
    """Writes all tables at once. `csv` is None for canal-JSON."""

    def __init__(self, folder: Path, csv: CsvFormat | None) -> None:
        super().__init__(folder)
        self.csv = csv
        self.tables = case_tables(csv is not None)
        self.database(DATABASE, 5)
        for table in self.tables:
            name = f"{DATABASE}.{table.name}"
            self.statement(name, 10, Action.CREATE_TABLE, table.create, tuple(case.column for case in table.cases))
            line = partial(_canal_line, table) if csv is None else partial(_csv_line, table, csv)
            lines = b"".join(line(*change) for change in _changes(table))
            self.file(name, 10, lines, extension="json" if csv is None else "csv")
        self.checkpoint(100)


def _changes(table: CaseTable) -> Iterator[tuple[str, int, Sequence[Value | None]]]:
    for kind, ts, rows in (("INSERT", 20, table.rows), ("DELETE", 30, table.deleted), ("UPDATE", 30, table.updated)):
        yield from ((kind, ts, row) for row in rows)


def canal_string(text: str) -> str:
    """`text` as canal-JSON has it."""
    return f'"{"".join(_ESCAPES.get(character, character) for character in text)}"'


def _canal_line(table: CaseTable, kind: str, ts: int, row: Sequence[Value | None]) -> bytes:
    columns = [case.column for case in table.cases]

    def members(values: Iterator[str]) -> str:
        return "{" + ",".join(f'"{column.name}":{value}' for column, value in zip(columns, values, strict=True)) + "}"

    def image(values: Sequence[Value | None]) -> str:
        return members("null" if value is None else canal_string(value.canal) for value in values)

    types = members(f'"{case.mysql_type}"' for case in table.cases)
    numbers = members(str(_SQL_TYPES.get(column.family, 3)) for column in columns)
    old = f"[{image((row[0], plain(1)))}]" if kind == "UPDATE" else "null"
    return (
        f'{{"id":0,"database":"{DATABASE}","table":"{table.name}","pkNames":["{columns[0].name}"],"isDdl":false,'
        f'"type":"{kind}","es":0,"ts":1700000000000,"sql":"","sqlType":{numbers},"mysqlType":{types},'
        f'"old":{old},"data":[{image(row)}],"_tidb":{{"commitTs":{ts}}}}}\r\n'
    ).encode()


def _csv_line(table: CaseTable, csv: CsvFormat, kind: str, ts: int, row: Sequence[Value | None]) -> bytes:
    cells = [string(text, csv) for text in (kind[0], table.name, DATABASE)]
    cells.append(str(ts).encode())
    cells += [csv_cell(case, value, csv) for case, value in zip(table.cases, row, strict=True)]
    return csv.delimiter.encode().join(cells) + b"\r\n"


def csv_cell(case: TypeCase, value: Value | None, csv: CsvFormat) -> bytes:
    """The cell as it stands in the file."""
    if value is None:
        return csv.null.encode()
    assert value.csv is not None
    if csv.binary_encoding_method == "hex" and case.column.family is Family.BINARY:
        return string(str(value.mariadb).lower(), csv)
    return string(value.csv, csv) if case.quoted else value.csv.encode()
