"""A DuckDB file as the replica of random statements: its schemas, tables, column names and rows."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from consumer.model.names import TableName
from consumer.model.progress import is_parallel_load
from tests.support.random_ddl.original import DATABASES, OFFSET, Snapshot
from tests.support.random_ddl.replica import Replica


def duckdb_replica(folder: Path, databases: Collection[str] = DATABASES) -> Replica:
    file = folder / "replica.duckdb"
    return Replica(f"duckdb:///{file}", lambda: _state(file, databases), as_kept, file.unlink)


def _state(file: Path, databases: Collection[str]) -> Snapshot:
    if not file.exists():
        return {}
    with duckdb.connect(str(file), read_only=True) as connection:
        schemas = connection.execute(
            "SELECT schema_name FROM duckdb_schemas() WHERE database_name = current_database()"
        ).fetchall()
        found: Snapshot = {schema: {} for (schema,) in schemas if schema in databases}
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database()"
        ).fetchall()
        for schema, table in tables:
            if schema in databases and not is_parallel_load(TableName(schema, table)):
                rows = connection.execute(f'SELECT * FROM "{schema}"."{table}"')
                columns = [column[0] for column in rows.description]
                found[f"{schema}.{table}"] = {"columns": columns, "rows": sorted(rows.fetchall(), key=repr)}
        return found


def as_kept(original: Snapshot) -> Snapshot:
    """What of the original a DuckDB replica keeps: no views, no virtual columns, no definitions; TIMESTAMPs in UTC."""
    kept: Snapshot = {}
    for name, content in original.items():
        if "collation" in content:
            kept[name] = {}
        elif content["kind"] != "VIEW":
            virtual = re.findall(r"^ +`(.*)` .* GENERATED ALWAYS AS .* VIRTUAL", content["definition"], re.M)
            places = [at for at, column in enumerate(content["columns"]) if column not in virtual]
            names = re.findall(r"^ +`(.*)` timestamp", content["definition"], re.M)
            moments = {at for at in places if content["columns"][at].replace("`", "``") in names}
            rows = [tuple(_utc(row[at]) if at in moments else row[at] for at in places) for row in content["rows"]]
            kept[name] = {"columns": [content["columns"][at] for at in places], "rows": sorted(rows, key=repr)}
    return kept


def _utc(value: Any) -> Any:
    return value - OFFSET if isinstance(value, datetime) else value
