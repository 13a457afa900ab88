"""Names and texts in the SQL of DuckDB, in which columnar targets can compute: it reads and writes Parquet anywhere."""

from __future__ import annotations


def quote(name: str) -> str:
    """`name` as an identifier in a statement."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """`text` as a string in a statement."""
    return "'" + text.replace("'", "''") + "'"
