"""Progress <-> the tables of schema `storage_consumer`, on every target that speaks SQL. The caller owns the
transaction and the errors of the target's client."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Protocol

from consumer import __version__
from consumer.errors import BadConfig, ProgressMoved, WrongUpstream
from consumer.model.bad_rows import BadRow, BadRows
from consumer.model.files import Folder
from consumer.model.names import TableName
from consumer.model.naming import SAME, naming_from
from consumer.model.progress import (
    FORMAT_VERSION,
    GIVEN,
    AuditRow,
    DdlId,
    DdlRecord,
    DdlState,
    FolderProgress,
    OpenFile,
    Owned,
    OwnedTables,
    Progress,
    ProgressChange,
    State,
    TableProgress,
    is_replay,
)
from consumer.model.steps import Window
from consumer.model.times import tso_to_text
from consumer.sink.progress_layout import COLUMNS, KEYS, LAYOUTS, check_layout, damaged, own_columns

Row = Mapping[str, Any]
"""Column -> value; all rows of one call have the same columns."""


class ProgressTables(Protocol):
    """How one target reads and writes these tables, in the transaction at hand."""

    now: str
    """The present moment in UTC, as an SQL expression."""
    of_name: Collection[str]
    """The tables whose rows belong to consumer names."""

    def exists(self) -> bool: ...

    def tells_case(self) -> bool:
        """Whether names of tables that differ in case alone are two tables."""

    def position(self) -> tuple[str, str]:
        """The target's own name of the moment, in which all is that was committed before: its kind (gtid, binlog, tso)
        and its text; ("", "") where there is none."""

    def run(self, query: str, *values: object) -> Rows:
        """Run a statement in which each `?` is a value; the rows, of a query."""

    def matching(self, table: str, columns: str, keys: Sequence[Row]) -> Rows:
        """`columns`, as in a SELECT list, of the rows with one of `keys`."""

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows, each over the one with its key (KEYS); of two with one key the later counts."""

    def remove(self, table: str, keys: Sequence[Row]) -> None: ...

    def append(self, table: str, rows: Sequence[Row]) -> None: ...


def load(tables: ProgressTables, name: str) -> Progress:
    """The progress of consumer `name`; empty where there is none. Raises BadConfig for another layout."""
    if not tables.exists():
        return Progress()
    for found in tables.run(LAYOUTS):
        check_layout(*found)
    if not tables.run("SELECT 1 FROM storage_consumer.consumer WHERE name = ?", name):
        return Progress()
    return progress_of(
        lambda table, columns: tables.run(f"SELECT {columns} FROM storage_consumer.{table} WHERE name = ?", name)
    )


def consumers(tables: ProgressTables) -> dict[str, int]:
    """Every consumer name, with how many of its tables are in order."""
    return {str(name): int(count) for name, count in tables.run(CONSUMERS)} if tables.exists() else {}


def of_others(tables: ProgressTables, name: str) -> OwnedTables:
    """The tables that another consumer than `name` keeps, as the target calls them, with that one."""
    rows = tables.run(OF_OTHERS, name) if tables.exists() else ()
    if not rows:
        return OwnedTables({}, case=False)
    columns = "name, routes, start_ts, starts"
    consumers = {
        str(other): Progress(routes=str(routes), start_ts=int(start_ts), starts=starts_in(starts))
        for other, routes, start_ts, starts in tables.run(f"SELECT {columns} FROM storage_consumer.consumer")
    }
    return others_of(rows, consumers, case=tables.tells_case())


def forget(tables: ProgressTables, name: str) -> None:
    """Remove every row of consumer `name`."""
    for table in tables.of_name:
        tables.run(f"DELETE FROM storage_consumer.{table} WHERE name = ?", name)


def register(tables: ProgressTables, name: str, upstream: str, time_zone: str) -> None:
    """Write the consumer's row when it is the first run. Raises WrongUpstream where the row is another upstream's,
    BadConfig where it is bound to another time zone."""
    found = tables.run("SELECT upstream, time_zone FROM storage_consumer.consumer WHERE name = ?", name)
    if not found:
        tables.run(
            f"INSERT INTO storage_consumer.consumer ({', '.join(COLUMNS['consumer'])}) "
            f"VALUES (?, ?, ?, 0, 0, {tables.now}, ?, ?, '', '', '', '')",
            *(name, FORMAT_VERSION, upstream, __version__, time_zone),
        )
        return
    check_upstream(name, found[0][0], upstream)
    check_time_zone(name, found[0][1], time_zone)
    _leave(tables, name)  # whoever has the target may write to it
    tables.run("UPDATE storage_consumer.consumer SET written_by = ? WHERE name = ?", __version__, name)


def store(
    tables: ProgressTables, name: str, epoch: int, change: ProgressChange, touched: Collection[TableName] = ()
) -> None:
    """Write `change`; `touched` are tables to be listed in the public view. Raises ProgressMoved."""
    before = tables.run("SELECT applied_ts FROM storage_consumer.consumer WHERE name = ?", name)
    columns = "database_name, table_name, applied_ts, state"
    places = tables.matching("table_progress", columns, [_table_key(name, table) for table in change.tables])
    own = {TableName(*row[:2]): (int(row[2]), State(row[3])) for row in places}
    change.check(int(before[0][0]) if before else 0, {table: applied_ts for table, (applied_ts, _) in own.items()})
    if change.applied_ts is not None:
        tables.run(
            f"UPDATE storage_consumer.consumer SET applied_ts = ?, updated = {tables.now} WHERE name = ?",
            *(change.applied_ts, name),
        )
        old = f"finished < {tables.now} - INTERVAL {AUDIT_DAYS} DAY"
        tables.run(f"DELETE FROM storage_consumer.audit WHERE name = ? AND {old}", name)
    rules = (("routes", change.routes), ("modes", change.modes), ("filters", change.filters))
    for column, value in (("start_ts", change.start_ts), *rules):
        if value is not None:
            tables.run(f"UPDATE storage_consumer.consumer SET {column} = ? WHERE name = ?", value, name)
    if change.starts:
        _store_starts(tables, name, change.starts)
    gone = [table for table, place in change.tables.items() if place is None]
    # A tombstone that goes away takes its row of the public view along.
    ended = [table for table in gone if table in own and own[table][1] is State.DROPPED]
    tables.remove("known_table", [_table_key(name, table) for table in ended])
    tables.remove("table_progress", [_table_key(name, table) for table in gone])
    tables.put("table_progress", [_table_row(name, *item) for item in change.tables.items() if item[1] is not None])
    tables.remove(
        "folder_progress", [_key("folder_progress", name, *f) for f, place in change.folders.items() if place is None]
    )
    tables.put("folder_progress", [_folder_row(name, *item) for item in change.folders.items() if item[1] is not None])
    tables.put("ddl", [_ddl_row(name, record) for record in change.ddls])
    tables.remove("ddl", [_key("ddl", name, *ddl) for ddl in change.forget_ddls])
    tables.put("known_table", [_table_key(name, table) for table in touched if table.table])
    _store_bad_rows(tables, name, change)
    if change.leaves:
        _leave(tables, name)
    if change.syncpoint and change.applied_ts is not None:
        _store_syncpoint(tables, name, change.applied_ts, change.syncpoint)
    if change.audit:
        ((now,),) = tables.run(f"SELECT {tables.now}")
        tables.append("audit", [_audit_row(name, epoch, str(now), row) for row in change.audit])


def _store_starts(tables: ProgressTables, name: str, starts: Mapping[TableName, int]) -> None:
    ((known,),) = tables.run("SELECT starts FROM storage_consumer.consumer WHERE name = ?", name)
    text = starts_text({**starts_in(known), **starts})
    tables.run("UPDATE storage_consumer.consumer SET starts = ? WHERE name = ?", text, name)


def _leave(tables: ProgressTables, name: str) -> None:
    tables.run("UPDATE storage_consumer.syncpoint SET is_current = 0 WHERE name = ? AND is_current = 1", name)


def _store_syncpoint(tables: ProgressTables, name: str, applied_ts: int, keep: int) -> None:
    """All rows of the round were committed before this transaction, so they are in the position that it reads."""
    _leave(tables, name)
    kind, position = tables.position()
    ((now,),) = tables.run(f"SELECT {tables.now}")
    row = {
        "name": name,
        "upstream_ts": applied_ts,
        "upstream_time": tso_to_text(applied_ts)[:-3],
        "position_kind": kind,
        "position": position,
        "written": str(now),
        "is_current": 1,
    }
    tables.put("syncpoint", [row])
    newest = "SELECT upstream_ts FROM storage_consumer.syncpoint WHERE name = ? ORDER BY upstream_ts DESC"
    kept = tables.run(f"{newest} LIMIT {keep}", name)
    tables.run("DELETE FROM storage_consumer.syncpoint WHERE name = ? AND upstream_ts < ?", name, int(kept[-1][0]))


def _store_bad_rows(tables: ProgressTables, name: str, change: ProgressChange) -> None:
    if change.moved_bad:
        where = "FROM storage_consumer.bad_row WHERE name = ? AND database_name = ? AND table_name = ?"
        there = {old: tables.run(f"SELECT {own_columns('bad_row')} {where}", name, *old) for old in change.moved_bad}
        for old in [old for old, found in there.items() if found]:
            tables.run(f"DELETE {where}", name, *old)
        for old, places in change.moved_bad.items():
            for new in places:
                tables.put("bad_row", [_row("bad_row", name, *new, *row[2:]) for row in there[old]])
    for table, found in change.quarantined.items():
        tables.put("bad_row", [_bad_row(name, table, row) for row in found.values()])
    for table, ids in change.taken_in.items():
        tables.remove("bad_row", [_key("bad_row", name, *table, key) for key in ids])


def _row(table: str, *values: object) -> Row:
    return dict(zip(COLUMNS[table], values, strict=True))


def _key(table: str, *values: object) -> Row:
    return dict(zip(KEYS[table], values, strict=True))


def _table_key(name: str, table: TableName) -> Row:
    return _key("known_table", name, *table)


def _table_row(name: str, table: TableName, place: TableProgress | None) -> Row:
    assert place is not None
    return _row("table_progress", name, *table, place.applied_ts, place.state.value, place.reason, place.hint)


def _folder_row(name: str, folder: Folder, place: FolderProgress | None) -> Row:
    assert place is not None
    times = (place.first_ts, place.last_ts, place.gone_ts)
    last = (place.done, place.size, place.stamp, open_files(place), place.index, *times)
    return _row("folder_progress", name, *folder, *last)


def _ddl_row(name: str, record: DdlRecord) -> Row:
    return _row("ddl", name, *record.id, record.state.value, record.before, record.reason)


def _bad_row(name: str, table: TableName, row: BadRow) -> Row:
    place = (row.path, row.line, row.offset, row.version, row.commit_ts, row.letter)
    return _row("bad_row", name, *table, row.id, *place, row.reason)


def _audit_row(name: str, epoch: int, now: str, row: AuditRow) -> Row:
    counts = (row.changes, row.puts, row.deletes, row.dropped_rows)
    return _row("audit", name, epoch, now, row.step, *row.table, row.from_ts, row.to_ts, *counts, row.statement)


def sha256(text: str) -> str:
    """As hexadecimal digits: of what is too long for a column's index."""
    return hashlib.sha256(text.encode()).hexdigest()


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
