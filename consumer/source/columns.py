"""The names of the columns that are given beside those of a table, and of what an offset has. No Arrow: commands name
them before there is any."""

from __future__ import annotations

from typing import Any

OP, COMMIT_TS, COMMIT_TIME, VERSION, SEQ, BEFORE = "_op", "_commit_ts", "_commit_time", "_version", "_seq", "_before"
FILE, LINE = "_file", "_line"
TABLE, ROW = "_table", "_row"
META_COLUMNS = frozenset({OP, COMMIT_TS, COMMIT_TIME, VERSION, SEQ, BEFORE})
PLACE_COLUMNS = frozenset({FILE, LINE})
AT, OF_TABLE, FILES = "commit-ts", "table", "files"
"""The members of a stream's offset: the commit-ts up to which changes were read; the path of the table's first schema
file; and how many of its schema files were known."""
Offset = dict[str, Any]
