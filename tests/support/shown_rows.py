"""Prints the rows of tables as a reader gives them, as texts that can be compared: ``shown_rows.py READER TABLES``.

It runs in the reader's own virtual environment, and needs nothing but the reader. TABLES is a JSON object of names and
places. It prints a JSON object: for each name the columns and the sorted rows, or the first line of the error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

Rows = tuple[list[str], Iterable[Iterable[Any]]]


def main() -> None:
    reader, tables = sys.argv[1], json.loads(sys.argv[2])
    found = {}
    for name, place in tables.items():
        try:
            found[name] = answer_of(READERS[reader](place))
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    print(json.dumps(found))


def answer_of(read: Rows) -> dict[str, Any]:
    columns, rows = read
    return {"columns": columns, "rows": sorted([shown(value) for value in row] for row in rows)}


def shown(value: Any) -> str:
    """Returns the text of a value, the same from every reader."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(int(value))
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case Decimal():
            return format(value.normalize() if value else Decimal(0), "f")
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M:%S.%f")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value.total_seconds())
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case str():
            return "'" + value
        case _:
            return json.dumps([shown(part) for part in value])


def of_arrow(table: Any) -> Rows:
    return table.column_names, (tuple(row.values()) for row in table.to_pylist())


def duckdb(query: str, *extensions: str) -> Rows:
    import duckdb as library

    with library.connect() as connection:
        for extension in extensions:
            (file,) = Path(library.__file__).parents[1].glob(f"duckdb_extension_{extension}/**/*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        connection.execute("SET TimeZone = 'UTC'")
        answer = connection.execute(query)
        return [column[0] for column in answer.description], answer.fetchall()


def duckdb_file(place: str) -> Rows:
    import duckdb as library

    file, table = place.split("#")
    with library.connect(file, read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        answer = connection.execute(f"SELECT * FROM {table}")
        return [column[0] for column in answer.description], answer.fetchall()


def duckdb_delta(place: str) -> Rows:
    return duckdb(f"SELECT * FROM delta_scan('{place}')", "delta")


def duckdb_iceberg(place: str) -> Rows:
    return duckdb(f"SELECT * FROM iceberg_scan('{place}')", "avro", "iceberg")


def polars_delta(place: str) -> Rows:
    import polars as pl

    frame = pl.read_delta(place)
    return frame.columns, frame.rows()


def polars_iceberg(place: str) -> Rows:
    import polars as pl
    from pyiceberg.table import StaticTable

    frame = pl.scan_iceberg(StaticTable.from_metadata(place)).collect()
    return frame.columns, frame.rows()


def deltalake_table(place: str) -> Rows:
    from deltalake import DeltaTable

    return of_arrow(DeltaTable(place).to_pyarrow_table())


def deltalake_query(place: str) -> Rows:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    batches = QueryBuilder().register("t", DeltaTable(place)).execute("SELECT * FROM t")
    return of_arrow(pa.table(batches.read_all() if hasattr(batches, "read_all") else batches))


def pyiceberg(place: str) -> Rows:
    from pyiceberg.table import StaticTable

    return of_arrow(StaticTable.from_metadata(place).scan().to_arrow())


READERS: dict[str, Callable[[str], Rows]] = {
    name: read
    for name, read in globals().items()
    if name.startswith(("duckdb_", "polars_", "deltalake_")) or name == "pyiceberg"
}

if __name__ == "__main__":
    main()
