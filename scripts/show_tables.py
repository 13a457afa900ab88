"""Print the tables of a DuckDB file, a few rows of each: ``python scripts/show_tables.py replica.duckdb``."""

from __future__ import annotations

import sys

import duckdb
from rich.console import Console
from rich.table import Table
from rich.text import Text

MOST_ROWS = 5
TABLES = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_schema <> 'storage_consumer' AND table_type = 'BASE TABLE' ORDER BY ALL
"""


def show(path: str) -> None:
    """Every table of the file but the consumer's own."""
    console = Console()
    with duckdb.connect(path, read_only=True) as connection:
        for schema, name in connection.execute(TABLES).fetchall():
            quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))
            count = connection.execute(f"SELECT count(*) FROM {quoted}").fetchall()[0][0]
            console.print(Text(f"{schema}.{name}, {count} {'row' if count == 1 else 'rows'}", style="bold"))
            console.print(_first_rows(connection, quoted))


def _first_rows(connection: duckdb.DuckDBPyConnection, quoted: str) -> Table:
    rows = connection.execute(f"SELECT * FROM {quoted} ORDER BY ALL LIMIT {MOST_ROWS}")
    table = Table(*(column[0] for column in rows.description or ()))
    for row in rows.fetchall():
        table.add_row(*(Text("NULL" if value is None else str(value)) for value in row))
    return table


if __name__ == "__main__":
    show(sys.argv[1])
