"""Progress as rows of the tables in schema `storage_consumer`, the same on every target that speaks SQL."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from consumer.errors import BadConfig, ProgressMoved, WrongUpstream
from consumer.model.bad_rows import BadRow, BadRows
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.naming import SAME, naming_from
from consumer.model.progress import (
    GIVEN,
    DdlId,
    DdlRecord,
    DdlState,
    FolderProgress,
    OpenFile,
    Owned,
    OwnedTables,
    Progress,
    State,
    TableProgress,
)
from consumer.model.steps import Window
from consumer.sink.progress_layout import damaged, own_columns

AUDIT_DAYS = 30
"""How long audit rows are kept."""

CONSUMERS = (
    "SELECT c.name, COUNT(r.state) FROM storage_consumer.consumer c "
    "LEFT JOIN storage_consumer.replica r ON r.consumer = c.name AND r.state = 'ok' GROUP BY c.name ORDER BY c.name"
)
"""Every consumer name, with how many of its tables are in order: in the SQL of every target."""

OF_OTHERS = (
    "SELECT k.name, COALESCE(p.applied_ts, c.applied_ts, 0), k.database_name, k.table_name "
    "FROM storage_consumer.known_table k LEFT JOIN storage_consumer.consumer c ON c.name = k.name "
    "LEFT JOIN storage_consumer.table_progress p ON p.name = k.name AND p.database_name = k.database_name "
    "AND p.table_name = k.table_name WHERE k.name <> ? AND (COALESCE(p.state, 'ok') = 'ok' "
    "OR (p.state IN ('stopped', 'waits', 'emptying') AND EXISTS (SELECT 1 FROM storage_consumer.ddl d "
    "WHERE d.name = k.name AND d.database_name = k.database_name AND d.table_name = k.table_name "
    f"AND d.state <> 'refused' AND LEFT(d.reason, {len(GIVEN)}) <> '{GIVEN}'))) ORDER BY k.name"
)
"""Every table that belongs to another consumer than `?`, by its name, and how far it is: in the SQL of every target. It
is in order, or has come to a stop behind a statement of its own."""
_OF_CONSUMER = ("upstream", "applied_ts", "start_ts", "time_zone", "routes", "modes", "filters")
_REPLAY = re.compile(r".+\.[0-9]+-(?:[0-9]+|checkpoint)")

Rows = Sequence[Sequence[Any]]
Select = Callable[[str, str], Rows]
"""Reads columns (as in a SELECT list) of a table, those rows that belong to one consumer name."""


def others_of(rows: Rows, consumers: Mapping[str, Progress], case: bool) -> OwnedTables:
    """`rows` of OF_OTHERS: the tables, as the target calls them, each with its consumer. Of several that have taken it
    one from the other, it is the last one. `consumers` have their routes and moments. A replay owns none."""
    kept: dict[TableName, Owned] = {}
    replayed: dict[TableName, Owned] = {}
    namings = {other: naming_from(known.routes) for other, known in consumers.items() if known.routes}
    for other, applied_ts, *table in rows:
        name = TableName(*table)
        there = namings.get(other, SAME).target(name)
        owned = Owned(other, int(applied_ts), consumers[other].start_of(name))
        if is_replay(other):
            replayed[there] = max(replayed.get(there, owned), owned, key=lambda one: one.applied_ts)
        else:
            kept[there] = max(kept.get(there, owned), owned, key=lambda one: (one.start_ts, one.applied_ts))
    return OwnedTables(kept, case, replayed)


def is_replay(name: str) -> bool:
    """Whether a replay keeps its progress under `name`."""
    return _REPLAY.fullmatch(name) is not None


def progress_of(select: Select) -> Progress:
    """The progress of the consumer name that `select` reads. Raises BadConfig for what was changed by hand."""
    try:
        return _progress_of(select)
    except (TypeError, ValueError) as error:
        raise damaged(str(error)) from error


def _progress_of(select: Select) -> Progress:
    (row,) = select("consumer", own_columns("consumer"))
    known = dict(zip(own_columns("consumer").split(", "), row, strict=True))
    for column in ("routes", "modes", "filters"):
        _json(known[column] or "null")
    tables, folders, rows, ddls = (
        select(table, own_columns(table)) for table in ("table_progress", "folder_progress", "bad_row", "ddl")
    )
    bad_rows: BadRows = {}
    for database, table, row_id, *place, reason in rows:
        bad_rows.setdefault(TableName(database, table), {})[row_id] = BadRow(row_id, reason, *place)
    records = [DdlRecord(DdlId(*row[:4]), DdlState(row[4]), *row[5:]) for row in ddls]
    return Progress(
        **{field: known[field] for field in _OF_CONSUMER},
        starts=starts_in(known["starts"]),
        tables={TableName(*row[:2]): TableProgress(row[2], State(row[3]), *row[4:]) for row in tables},
        folders={Folder(*row[:5]): _folder(*row[5:]) for row in folders},
        ddls={record.id: record for record in records},
        bad_rows=bad_rows,
    )


_NONE_OPEN = "[]"
"""Nearly every folder has this: thousands are read at a start."""


def open_files(kept: FolderProgress) -> str:
    """What the column `open_files` holds."""
    return json.dumps([astuple(file) for file in kept.open])


def starts_text(starts: Mapping[TableName, int]) -> str:
    """What the column `starts` holds."""
    return json.dumps(sorted((*name, ts) for name, ts in starts.items())) if starts else ""


def starts_in(text: str) -> dict[TableName, int]:
    return {TableName(database, table): ts for database, table, ts in _json(text or "[]")}


def _folder(done: int, size: int, stamp: str, opened: str, *rest: Any) -> FolderProgress:
    return FolderProgress(done, size, stamp, _opened(opened), *rest)


def _opened(text: str) -> tuple[OpenFile, ...]:
    return () if text == _NONE_OPEN else tuple(OpenFile(*fields) for fields in _json(text))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is not JSON") from error


def check_upstream(name: str, recorded: str, upstream: str) -> None:
    """Raises WrongUpstream for progress that is another upstream's."""
    if recorded != upstream:
        raise WrongUpstream(
            f"the progress of consumer {name!r} belongs to the upstream {recorded}, not to {upstream}",
            hint="give each upstream a --name of its own",
        )


def check_time_zone(name: str, recorded: str, zone: str) -> None:
    """Raises BadConfig for progress under another zone: its TIMESTAMPs would become other moments."""
    if recorded != zone:
        raise BadConfig(
            f"--tz is {zone}, but the replica of name {name!r} is filled under --tz {recorded}",
            hint=f"give --tz {recorded}; where it was wrong, fill a new target under another --name",
        )


def begins_too_early(table: TableName, window: Window, applied_ts: int) -> ProgressMoved:
    """What to raise for a load of a table with no key, of which the target has a part already."""
    return ProgressMoved(
        f"the rows up to {applied_ts} are applied already, but the window begins at {window.after}",
        hint="run again: the progress is read anew",
        table=str(table),
    )


def holder_text() -> str:
    """A text that identifies this process, for messages of others that find the lease held."""
    return f"{socket.gethostname()[:200]} (pid {os.getpid()})"
