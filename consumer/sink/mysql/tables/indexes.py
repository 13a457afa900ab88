"""The indexes and foreign keys that a table of the target has."""

from __future__ import annotations

import pymysql

from consumer.model.names import TableName
from consumer.model.table_definition import KnownForeignKey, KnownIndex, Part, TableIndexes


def table_indexes(cursor: pymysql.cursors.Cursor, table: TableName) -> TableIndexes:
    """As the server shows them; none of a table that is not there."""
    cursor.execute(
        "SELECT index_name, non_unique, column_name, sub_part FROM information_schema.statistics"
        " WHERE table_schema = %s AND table_name = %s ORDER BY index_name, seq_in_index",
        (table.database, table.table),
    )
    parts: dict[tuple[str, str], list[Part]] = {}
    for name, non_unique, column, length in cursor.fetchall():
        kind = "PRIMARY" if name == "PRIMARY" else "INDEX" if int(non_unique) else "UNIQUE"
        parts.setdefault((name, kind), []).append(Part(column, length is not None))
    cursor.execute(
        "SELECT constraint_name FROM information_schema.table_constraints"
        " WHERE table_schema = %s AND table_name = %s AND constraint_type = 'FOREIGN KEY'",
        (table.database, table.table),
    )
    return TableIndexes(
        True,
        tuple(KnownIndex(name, kind, tuple(columns)) for (name, kind), columns in parts.items()),
        tuple(KnownForeignKey(name, name) for (name,) in cursor.fetchall()),
    )
