"""Compare a DuckDB file with a recorded state of the upstream, by the table of types in docs/duckdb.md.

Compared are schemas, tables, the order and the types of columns, and rows as a multiset. What a replica does not have
by its own documentation is left out: views, sequences, and VIRTUAL columns.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from consumer.model.names import TableName
from consumer.sink.columnar.table import quote_name
from consumer.sink.duckdb.connection import qualified_name

DOC = Path(__file__).parents[2] / "docs" / "duckdb.md"
_UPSTREAM_ONLY = {"test"}
"""The database that every TiDB is born with: nobody creates it, so it is in no storage."""
_OWN = {"storage_consumer"}
_WIDENED = {"DATE", "TIMESTAMP", "JSON"}
"""The documented types that become VARCHAR for a value they cannot hold."""

Row = tuple[Any, ...]
_DOCUMENTED: dict[str, str] = dict(
    re.findall(r"^\| ([A-Z ]+?) \| ([A-Z\[\]]+) \|", DOC.read_text(encoding="utf-8"), re.M)
)


@dataclass(frozen=True)
class Cell:
    """A recorded column: its ``type`` as SHOW CREATE TABLE has it, and the ``kind`` of text its values are kept in."""

    name: str
    type: str
    kind: str

    @property
    def base(self) -> str:
        return self.type.split("(")[0].split(" ")[0].upper()

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def documented(self) -> str:
        """The DuckDB type that the documentation promises."""
        if self.base == "DECIMAL":
            digits, scale = map(int, re.findall(r"\d+", self.type))
            return f"DECIMAL({digits},{scale})" if digits <= 38 else "VARCHAR"
        unsigned = " UNSIGNED" if "unsigned" in self.type and f"{self.base} UNSIGNED" in _DOCUMENTED else ""
        return _DOCUMENTED[self.base + unsigned]

    def expression(self, type_now: str) -> str:
        """SQL that reads the replica's column as text."""
        name = quote_name(self.name)
        if self.kind == "hex":
            return f"hex({name})"
        if type_now == "TIMESTAMP":
            return f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')"
        # DuckDB writes a DECIMAL(p,p) without the 0 before its point.
        one_more = re.sub(r"\d+,", lambda digits: f"{min(int(digits[0][:-1]) + 1, 38)},", type_now)
        return f"CAST(CAST({name} AS {one_more}) AS VARCHAR)"

    def wanted(self, type_now: str) -> Callable[[str], Any]:
        """From a recorded text to the value that is compared."""
        if type_now == "TIMESTAMP":
            return lambda text: f"{text}{'' if '.' in text else '.'}".ljust(26, "0")
        if self.base in ("ENUM", "SET") and self.kind == "num":
            return self._label
        return self.value

    def value(self, text: str) -> Any:
        """From the replica's text to the value that is compared: numbers by value, but for the digits of a DECIMAL."""
        if self.is_float:
            return float(text)
        if self.base == "VECTOR":
            return tuple(map(float, json.loads(text)))
        if self.kind == "json":
            return json.dumps(json.loads(text), sort_keys=True)
        return int(text) if self.base.endswith(("INT", "BIT", "YEAR")) else text

    def _label(self, text: str) -> str:
        number = int(text)
        labels: list[str] = [label.replace("''", "'") for label in re.findall(r"'((?:[^']|'')*)'", self.type)]
        if self.base == "ENUM":
            return ["", *labels][number]
        return ",".join(label for bit, label in enumerate(labels) if number >> bit & 1)


def compare(expected: Path, file: Path, ignore: Collection[TableName] = ()) -> list[str]:
    """Differences of the DuckDB `file` from the state in the folder `expected`, but for tables to `ignore`."""
    state = json.loads((expected / "tables.json").read_text(encoding="utf-8"))
    tables = {
        TableName(table["schema"], table["table"]): table for table in state["tables"] if table["type"] == "BASE TABLE"
    }
    ignored = {str(name) for name in ignore}
    with duckdb.connect(str(file), read_only=True) as connection:
        there = _tables(connection)
        problems = [f"{name}: should not exist" for name in there.keys() - tables.keys()]
        problems += [f"{name}: is missing" for name in tables.keys() - there.keys()]
        problems += _schemas(connection, {schema for schema, *_ in state["schemas"]})
        for name in sorted(tables.keys() & there.keys()):
            if str(name) not in ignored:
                problems += _compare_table(connection, name, tables[name], there[name], expected)
    return sorted(problem for problem in problems if problem.split(":")[0] not in ignored)


def _schemas(connection: duckdb.DuckDBPyConnection, expected: set[str]) -> list[str]:
    query = "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database() AND NOT internal"
    there = {str(name) for (name,) in connection.execute(query).fetchall()} - _OWN
    wanted = expected - _UPSTREAM_ONLY
    return [f"database {name}: should not exist" for name in there - wanted - _UPSTREAM_ONLY] + [
        f"database {name}: is missing" for name in wanted - there
    ]


def _tables(connection: duckdb.DuckDBPyConnection) -> dict[TableName, dict[str, str]]:
    """Every table of the replica: its columns in order, with their types."""
    query = (
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() AND NOT internal ORDER BY schema_name, table_name, column_index"
    )
    found: dict[TableName, dict[str, str]] = defaultdict(dict)
    for schema, table, column, kind in connection.execute(query).fetchall():
        if schema != "storage_consumer":
            found[TableName(schema, table)][column] = kind
    return found


def _compare_table(
    connection: duckdb.DuckDBPyConnection, name: TableName, table: dict[str, Any], types: dict[str, str], folder: Path
) -> Iterator[str]:
    recorded = [Cell(column["name"], column["type"], column["kind"]) for column in table["columns"]]
    kept = [place for place, cell in enumerate(recorded) if not _is_virtual(cell.name, table["create"])]
    cells = [recorded[place] for place in kept]
    if list(types) != [cell.name for cell in cells]:
        yield f"{name}: columns {list(types)}, expected {[cell.name for cell in cells]}"
        return
    for cell in cells:
        documented, type_now = cell.documented(), types[cell.name]
        if type_now != documented and not (type_now == "VARCHAR" and documented in _WIDENED):
            yield f"{name}: column {cell.name} ({cell.type}) is {type_now}, documented is {documented}"
            return
    selected = ", ".join(cell.expression(types[cell.name]) for cell in cells)
    got = connection.execute(f"SELECT {selected} FROM {qualified_name(connection, name)}").fetchall()
    lines = (folder / table["file"]).read_text(encoding="utf-8").split("\n")
    want = [[row[place] for place in kept] for row in map(json.loads, filter(None, lines))]
    floats = [place for place, cell in enumerate(cells) if cell.is_float]
    missing, extra = unmatched(
        _values(want, [cell.wanted(types[cell.name]) for cell in cells]),
        _values(got, [cell.value for cell in cells]),
        floats,
    )
    if missing or extra:
        first = f"first missing {missing[:1]}, first unexpected {extra[:1]}"
        yield f"{name}: {len(missing)} rows missing, {len(extra)} unexpected; {first}"


def _is_virtual(column: str, create: str) -> bool:
    spelled = re.escape("`" + column.replace("`", "``") + "`")
    return re.search(rf"^ +{spelled} .*GENERATED ALWAYS AS \(.*\) VIRTUAL", create, re.M) is not None


def _values(rows: Sequence[Sequence[str | None]], readers: Sequence[Callable[[str], Any]]) -> list[Row]:
    return [
        tuple(None if text is None else read(text) for read, text in zip(readers, row, strict=True)) for row in rows
    ]


def unmatched(want: Sequence[Row], got: Sequence[Row], floats: Collection[int]) -> tuple[list[Row], list[Row]]:
    """The rows that are left on both sides when as many as can be are paired. The values at the places `floats` need
    only be close; all others must be equal."""
    missing, extra = Counter(want) - Counter(got), Counter(got) - Counter(want)
    groups: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((missing, extra)):
        for row in rows.elements():
            exact = tuple(value for place, value in enumerate(row) if place not in floats)
            groups[exact][side].append(row)
    left: tuple[list[Row], list[Row]] = ([], [])
    for lone_want, lone_got in groups.values():
        pairs = _pairing([[_close(a, b, floats) for b in lone_got] for a in lone_want], len(lone_got))
        left[0].extend(row for place, row in enumerate(lone_want) if place not in pairs.values())
        left[1].extend(row for place, row in enumerate(lone_got) if place not in pairs)
    return left


def _pairing(fits: Sequence[Sequence[bool]], width: int) -> dict[int, int]:
    """The largest pairing of left and right places that fit, right -> left: by augmenting paths."""
    paired: dict[int, int] = {}

    def find(left: int, seen: set[int]) -> bool:
        for right in range(width):
            if fits[left][right] and right not in seen:
                seen.add(right)
                if right not in paired or find(paired[right], seen):
                    paired[right] = left
                    return True
        return False

    for left in range(len(fits)):
        find(left, set())
    return paired


def _close(a: Row, b: Row, floats: Collection[int]) -> bool:
    pairs = [(a[place], b[place]) for place in floats]
    return all(x is y if x is None or y is None else math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-44) for x, y in pairs)
