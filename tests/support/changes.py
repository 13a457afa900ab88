"""The changes in a storage as its lines tell them, read plainly: the oracle of forms."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Keys = Mapping[str, Sequence[str]]
"""By table, the columns of its key."""


class Change(NamedTuple):
    """`table` with its database; the values of `key` as text."""

    table: str
    key: tuple[str, ...]
    commit_ts: int
    op: str


def written(storage: Path, keys: Keys) -> list[Change]:
    """Each change once, however often it was written: an UPDATE is one, and a DELETE of the old key where it gave that
    away. Lines of canal-JSON name the key where it is a primary one; else only tables in `keys` are read. CSV records
    have a commit-ts and the flag of updates, and the columns of the last schema file."""
    at: defaultdict[tuple[str, tuple[str, ...], int], set[str]] = defaultdict(set)
    for table, key, commit_ts, op in (*_json(storage, keys), *_csv(storage, keys)):
        at[table, key, commit_ts].add(op)
    found = []
    for (table, key, commit_ts), ops in at.items():
        if "old" in ops and "U" not in ops:  # no other row took the key
            ops.add("D")
        found += [Change(table, key, commit_ts, op) for op in ops - {"old"}]
    return found


def truncated(storage: Path) -> set[int]:
    """The versions of the TRUNCATE TABLEs."""
    return {schema["TableVersion"] for schema in _schemas(storage) if schema["Type"] == 11}


def keys_of(storage: Path, others: Keys) -> dict[str, Sequence[str]]:
    """The primary keys of the tables by their last schema files; `others` are those of tables that have none."""
    found: dict[str, Sequence[str]] = {}
    for schema in _schemas(storage):
        pk = [column["ColumnName"] for column in schema["TableColumns"] or () if "ColumnIsPk" in column]
        found[f"{schema['Schema']}.{schema['Table']}"] = pk
    return {table: pk or others[table] for table, pk in found.items() if pk or table in others}


def _schemas(storage: Path) -> list[dict[str, Any]]:
    found = [json.loads(file.read_text(encoding="utf-8")) for file in storage.rglob("schema*.json")]
    return sorted(found, key=lambda schema: schema["TableVersion"])


def _json(storage: Path, keys: Keys) -> Iterator[Change]:
    for file in sorted(storage.rglob("CDC*.json")):
        for line in file.read_bytes().splitlines():
            row = json.loads(line)
            table = f"{row['database']}.{row['table']}"
            (data,), commit_ts, names = row["data"], row["_tidb"]["commitTs"], row["pkNames"] or keys.get(table)
            if names is None:
                continue
            key = tuple(data[name] for name in names)
            yield Change(table, key, commit_ts, row["type"][0])
            if row["type"] == "UPDATE":
                (old,) = row["old"]
                yield Change(table, tuple(old.get(name, data[name]) for name in names), commit_ts, "old")


def _csv(storage: Path, keys: Keys) -> Iterator[Change]:
    columns = {
        f"{schema['Schema']}.{schema['Table']}": [column["ColumnName"] for column in schema["TableColumns"] or ()]
        for schema in _schemas(storage)
    }
    updates = {"I": "U", "D": "old"}
    for file in sorted(storage.rglob("CDC*.csv")):
        with file.open(encoding="utf-8", newline="") as lines:
            for op, name, database, commit_ts, is_update, *cells in csv.reader(lines):
                table = f"{database}.{name}"
                if table in keys:
                    row = dict(zip(columns[table], cells, strict=True))
                    key = tuple(row[name] for name in keys[table])
                    yield Change(table, key, int(commit_ts), updates[op] if is_update == "true" else op)
