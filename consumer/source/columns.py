"""The names of the columns that are given beside those of a table. No Arrow: commands name them before there is any."""

from __future__ import annotations

OP, COMMIT_TS, COMMIT_TIME, VERSION, SEQ, BEFORE = "_op", "_commit_ts", "_commit_time", "_version", "_seq", "_before"
FILE, LINE = "_file", "_line"
TABLE, ROW = "_table", "_row"
META_COLUMNS = frozenset({OP, COMMIT_TS, COMMIT_TIME, VERSION, SEQ, BEFORE})
PLACE_COLUMNS = frozenset({FILE, LINE})
