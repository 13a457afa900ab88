"""Reads and writes the progress in the tables of schema `storage_consumer`, on every target that speaks SQL. The caller
owns the transaction and handles the errors of the target's client."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any, Protocol, TypeVar

from consumer import __version__
from consumer.errors import BadConfig, Code, ProgressMoved, WrongUpstream
from consumer.model.bad_rows import BadRow, BadRows
from consumer.model.files import Folder
from consumer.model.hints import Hint
from consumer.model.losses import Loss, Losses
from consumer.model.names import TableName
from consumer.model.naming import Naming, naming_from
from consumer.model.progress import (
    ENDED,
    FORMAT_VERSION,
    AuditRow,
    DdlId,
    DdlKind,
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
    is_export,
    is_parallel_load,
)
from consumer.model.steps import Window
from consumer.model.times import tso_to_text
from consumer.sink.progress_layout import COLUMNS, KEYS, LAYOUTS, check_layout, damaged, unnamed_columns

Row = Mapping[str, Any]
"""Maps columns to values. All rows of one call have the same columns."""


class ProgressTables(Protocol):
    """How one target reads and writes the progress tables, in the current transaction."""

    now: str
    """The current time in UTC, as an SQL expression."""
    of_name: Collection[str]
    """The tables whose rows belong to consumer names."""
    lock: str
    """A suffix of a query that locks its rows until the transaction ends. Others who lock the same rows wait."""

    def exists(self) -> bool: ...

    def tells_case(self) -> bool:
        """Returns whether names of tables that differ only in case are two tables."""

    def is_busy(self, name: str) -> bool:
        """Returns whether another process, or another consumer of this process, is using the target under that name."""

    def position(self) -> tuple[str, str]:
        """Returns the target's own position, as its kind (gtid, binlog, tso) and its text. Everything that was
        committed before is at or below it. ("", "") if the target has none."""

    def run(self, query: str, *values: object) -> Rows:
        """Returns the rows of a query. Each `?` in it stands for one of `values`."""

    def matching(self, table: str, columns: str, keys: Sequence[Row]) -> Rows:
        """Returns `columns` (a SELECT list) of the rows that have one of `keys`."""

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Writes rows, each over the row with the same key (KEYS). If two of `rows` have one key, the later one
        counts."""

    def remove(self, table: str, keys: Sequence[Row]) -> None: ...

    def append(self, table: str, rows: Sequence[Row]) -> None: ...

    def update(self, table: str, changes: str, where: str, *values: object) -> None:
        """Runs an UPDATE of `table`. Each `?` stands for one of `values`."""

    def delete(self, table: str, where: str, *values: object) -> None:
        """Runs a DELETE from `table`. Each `?` stands for one of `values`."""


_Found = TypeVar("_Found")


class ProgressPorts:
    """The calls of a `ProgressPort` that only read or write the progress tables, for the consumer `_name`."""

    _name: str

    def _look(self, read: Callable[[ProgressTables], _Found]) -> _Found:
        """Returns the result of `read` for the current tables. The target's errors are raised as the consumer's."""
        raise NotImplementedError

    def _change(self, write: Callable[[ProgressTables], _Found]) -> _Found:
        """Runs `write` as the one writer and returns its result. All of its changes become durable together."""
        raise NotImplementedError

    def progress(self) -> Progress:
        return self._look(lambda tables: read_progress(tables, self._name))

    def consumers(self) -> Mapping[str, int]:
        return self._look(consumers)

    def of_others(self) -> OwnedTables:
        return self._look(lambda tables: tables_of_others(tables, self._name))

    def loaded(self) -> Mapping[TableName, tuple[int, int]]:
        return self._look(lambda tables: loaded_counts(tables, self._name))

    def take(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        return self._change(lambda tables: claim_tables(tables, self._name, wanted))


def read_progress(tables: ProgressTables, name: str) -> Progress:
    """Returns the progress of consumer `name`, empty if there is none. Raises BadConfig for another layout."""
    if not tables.exists():
        return Progress()
    for layout in tables.run(LAYOUTS):
        check_layout(*layout)
    if not tables.run("SELECT 1 FROM storage_consumer.consumer WHERE name = ?", name):
        return Progress()
    return progress_of(
        lambda table, columns: tables.run(f"SELECT {columns} FROM storage_consumer.{table} WHERE name = ?", name)
    )


def consumers(tables: ProgressTables) -> dict[str, int]:
    """Returns every consumer name with the number of its healthy tables."""
    return {str(name): int(count) for name, count in tables.run(CONSUMERS)} if tables.exists() else {}


def tables_of_others(tables: ProgressTables, name: str, lock: str = "") -> OwnedTables:
    """Returns the owners of the target's tables, as seen by the consumer `name`. With `lock`, nobody else can take a
    table until the transaction ends."""
    if not tables.exists():
        return OwnedTables(name, {})
    case = tables.tells_case()
    rows_of_owners = tables.run(f"SELECT name, database_name, table_name FROM storage_consumer.owned_table{lock}")
    owners = {TableName(*row[1:]): str(row[0]) for row in rows_of_owners}
    others = {owner for owner in owners.values() if owner != name}
    consumers: dict[str, Progress] = {}
    for other, routes, *moments, starts in tables.run(_MOMENTS) if others else ():
        if other in others:
            applied_ts, start_ts = map(int, moments)
            consumers[str(other)] = Progress(
                routes=str(routes), applied_ts=applied_ts, start_ts=start_ts, starts=starts_in(starts)
            )
    rows = tables.run(_PLACES, name) if others else ()
    places = [(str(row[0]), TableName(*row[1:3]), int(row[3])) for row in rows if row[0] in others]
    return owned_tables(name, owners, consumers, places, {other for other in others if tables.is_busy(other)}, case)


def claim_tables(tables: ProgressTables, name: str, wanted: Mapping[TableName, int | None]) -> OwnedTables:
    """Records that tables of `wanted` belong to `name`: those that have no owner, and those that may pass to it
    (`Owned.goes_to`). No other function does so. A lock shared by all callers makes them take turns."""
    tables.run(f"SELECT name FROM storage_consumer.consumer ORDER BY name{tables.lock}")
    before = tables_of_others(tables, name, tables.lock)
    after, case = before.after_taking(wanted), tables.tells_case()
    new = (table for table in wanted if after.is_own(table) and not before.is_own(table))
    tables.put("owned_table", [_owner_row(name, table if case else table.folded) for table in new])
    return after


def loaded_counts(tables: ProgressTables, name: str) -> dict[TableName, tuple[int, int]]:
    """Returns by table the numbers of row changes read and of rows put, as sums over the audit rows of loads."""
    counts = "SUM(row_count), SUM(puts)"
    query = f"SELECT database_name, table_name, {counts} FROM storage_consumer.audit WHERE name = ? AND step = 'load'"
    rows = tables.run(f"{query} GROUP BY database_name, table_name", name) if tables.exists() else ()
    return {TableName(database, table): (int(read), int(written)) for database, table, read, written in rows}


def unfinished_tables(
    tables: ProgressTables, name: str, existing: Callable[[Collection[TableName]], Collection[TableName]]
) -> list[TableName]:
    """Returns the unfinished tables of consumer `name`, which may be dropped: parallel tables that were to replace
    others, and the tables that an export created. `existing` returns those of its argument that the target has.

    Raises BadConfig if one of these tables, or a table that was loaded parallel to one of the consumer's own, may be in
    the middle of a replacement.
    """
    query = "SELECT database_name, table_name FROM storage_consumer.owned_table WHERE name = ?"
    own_tables = (TableName(*row) for row in tables.run(query, name))
    made = _made(tables, name) if is_export(name) else ()
    unfinished = [table for table in own_tables if is_parallel_load(table) or table.folded in made]
    exchanging = "SELECT name FROM storage_consumer.table_progress WHERE state = ?"
    marked = {str(row[0]) for row in tables.run(exchanging, str(State.EXCHANGING))}
    if name in marked:
        raise BadConfig(
            f"a table of {name!r} is to be replaced by what was loaded beside it, which is not at its end",
            hint="run `once` first: it ends that",
        )
    if marked and existing([*filter(is_parallel_load, unfinished)]):
        raise BadConfig(
            f"a table that was loaded under {name!r} is taking the place of another one, which is not at its end",
            hint="run `once` under the other name first: it ends that",
        )
    return unfinished


def _made(tables: ProgressTables, name: str) -> set[TableName]:
    """Returns the target tables, in lower case, on which statements of consumer `name` were executed."""
    query = "SELECT database_name, table_name FROM storage_consumer.ddl WHERE name = ? AND state = ?"
    executed = [TableName(*row) for row in tables.run(query, name, str(DdlState.DONE))]
    routes = tables.run("SELECT routes FROM storage_consumer.consumer WHERE name = ?", name)
    return {naming_from(row[0]).target(table).folded for row in routes for table in executed}


_OF_TABLE = "database_name = ? AND table_name = ?"


def owner_of(tables: ProgressTables, table: TableName) -> str:
    """Returns the consumer name to which the target's `table` belongs, "" if none."""
    return _owner(tables, table if tables.tells_case() else table.folded)


def parallel_load(tables: ProgressTables, parallel: TableName) -> tuple[str, TableName]:
    """Returns the consumer name that is loading the table `parallel` of the target ("" if none), and the upstream table
    that it loads there."""
    owner = owner_of(tables, parallel)
    ((routes,),) = tables.run("SELECT routes FROM storage_consumer.consumer WHERE name = ?", owner) or [("",)]
    rows = tables.run("SELECT database_name, table_name FROM storage_consumer.known_table WHERE name = ?", owner)
    naming, names = naming_from(routes), (TableName(*row) for row in rows)
    return owner, next((name for name in names if naming.target(name) == parallel), parallel)


def _owner(tables: ProgressTables, key: TableName) -> str:
    rows = tables.run(f"SELECT name FROM storage_consumer.owned_table WHERE {_OF_TABLE}", *key)
    return str(rows[0][0]) if rows else ""


def give_away(tables: ProgressTables, table: TableName) -> None:
    """Ends the ownership of the target's `table`. If its owner has no other table, the owner is forgotten."""
    key = table if tables.tells_case() else table.folded
    owner = _owner(tables, key)
    tables.delete("owned_table", _OF_TABLE, *key)
    if owner and not tables.run("SELECT 1 FROM storage_consumer.owned_table WHERE name = ? LIMIT 1", owner):
        forget_consumer(tables, owner)


def forget_consumer(tables: ProgressTables, name: str) -> None:
    """Removes every row of consumer `name`."""
    for table in tables.of_name:
        tables.delete(table, "name = ?", name)


def register(tables: ProgressTables, name: str, upstream: str, time_zone: str) -> None:
    """Writes the consumer's row in its first run. Raises WrongUpstream if the row belongs to another upstream. Raises
    BadConfig if it is bound to another time zone, under which something was applied."""
    rows = tables.run("SELECT upstream, time_zone FROM storage_consumer.consumer WHERE name = ?", name)
    if not rows:
        ((now,),) = tables.run(f"SELECT {tables.now}")
        values = (name, FORMAT_VERSION, upstream, 0, 0, str(now), __version__, time_zone)
        tables.append("consumer", [_row("consumer", *values, "", "", "", "", 0)])
        return
    check_upstream(name, rows[0][0], upstream)
    if rows[0][1] != time_zone and read_progress(tables, name).is_empty:
        tables.update("consumer", "time_zone = ?", "name = ?", time_zone, name)
    else:
        check_time_zone(name, rows[0][1], time_zone)
    _leave(tables, name)  # from now on this consumer may write to the target
    tables.update("consumer", "written_by = ?", "name = ?", __version__, name)


def write_progress(
    tables: ProgressTables, name: str, epoch: int, change: ProgressChange, touched: Collection[TableName] = ()
) -> None:
    """Writes `change`. `touched` are further tables that the target has; they are listed in the public view like those
    that `change` names. Raises ProgressMoved."""
    before = tables.run("SELECT applied_ts FROM storage_consumer.consumer WHERE name = ?", name)
    columns = "database_name, table_name, applied_ts, state"
    places = tables.matching("table_progress", columns, [_table_key(name, table) for table in change.tables])
    recorded = {TableName(*row[:2]): (int(row[2]), State(row[3])) for row in places}
    change.check(int(before[0][0]) if before else 0, {table: applied_ts for table, (applied_ts, _) in recorded.items()})
    if change.applied_ts is not None:
        moved = f"applied_ts = ?, updated = {tables.now}"
        tables.update("consumer", moved, "name = ?", change.applied_ts, name)
        tables.delete("audit", f"name = ? AND finished < {tables.now} - INTERVAL {AUDIT_DAYS} DAY", name)
    rules = (("routes", change.routes), ("modes", change.modes), ("filters", change.filters))
    late = None if change.late is None else int(change.late)
    for column, value in (("start_ts", change.start_ts), ("late", late), *rules):
        if value is not None:
            tables.update("consumer", f"{column} = ?", "name = ?", value, name)
    if change.starts:
        _store_starts(tables, name, change.starts)
    removed_tables = [table for table, record in change.tables.items() if record is None]
    # When a tombstone is removed, its row of the public view is removed too.
    ended_tombstones = [table for table in removed_tables if table in recorded and recorded[table][1] is State.DROPPED]
    tables.remove("known_table", [_table_key(name, table) for table in ended_tombstones])
    tables.remove("table_progress", [_table_key(name, table) for table in removed_tables])
    tables.put("table_progress", [_table_row(name, *item) for item in change.tables.items() if item[1] is not None])
    tables.remove(
        "folder_progress",
        [_key("folder_progress", name, *f) for f, record in change.folders.items() if record is None],
    )
    tables.put("folder_progress", [_folder_row(name, *item) for item in change.folders.items() if item[1] is not None])
    tables.put("ddl", [_ddl_row(name, record) for record in change.ddls])
    tables.remove("ddl", [_key("ddl", name, *ddl) for ddl in change.forget_ddls])
    placed = (table for table, record in change.tables.items() if record is not None)
    new_tables = {*touched, *placed, *change.starts} - recorded.keys()  # tables with progress are listed already
    tables.put("known_table", [_table_key(name, table) for table in new_tables if table.table])
    _release(tables, name, change, {table: state for table, (_, state) in recorded.items()})
    _store_lacks(tables, name, change)
    if change.leaves:
        _leave(tables, name)
    if change.syncpoint and change.applied_ts is not None:
        _store_syncpoint(tables, name, change.applied_ts, change.syncpoint)
    if change.audit:
        ((now,),) = tables.run(f"SELECT {tables.now}")
        tables.append("audit", [_audit_row(name, epoch, str(now), row) for row in change.audit])


def _release(tables: ProgressTables, name: str, change: ProgressChange, before: Mapping[TableName, State]) -> None:
    """Ends the ownership of tables that `change` drops or excludes. Only this function and `forget_consumer` do so."""
    if not ended_tables(change, before):
        return
    ((routes,),) = tables.run("SELECT routes FROM storage_consumer.consumer WHERE name = ?", name)
    naming, case = naming_from(routes), tables.tells_case()
    rows = tables.run(_THERE, name) if naming.rename is not None else ()
    active = {TableName(*row[:2]) for row in rows if row[2] not in ENDED}
    for table in released_tables(change, before, naming, active, case):
        tables.delete("owned_table", "name = ? AND database_name = ? AND table_name = ?", name, *table)


def ended_tables(change: ProgressChange, before: Mapping[TableName, State]) -> set[TableName]:
    """Returns the tables that `change` makes dropped or excluded. `before` has their previous states."""
    places = {table: progress.state for table, progress in change.tables.items() if progress is not None}
    return {table for table, state in places.items() if state in ENDED and before.get(table) is not state}


def released_tables(
    change: ProgressChange, before: Mapping[TableName, State], naming: Naming, active: Collection[TableName], case: bool
) -> set[TableName]:
    """Returns the keys of the target's tables that `change` leaves without an owner: no active upstream table has that
    name any more. `active` are the tables that were active before. A merged table keeps its owner when one of its
    sources is dropped."""
    ended_now = ended_tables(change, before)
    stay = set(active) - ended_now
    for table, record in change.tables.items():
        if record is None or record.state not in ENDED or (record.state is State.DROPPED and naming.merges(table)):
            stay.add(table)
    freed, kept = ({name if case else name.folded for name in naming.targets(names)} for names in (ended_now, stay))
    return freed - kept


def _store_starts(tables: ProgressTables, name: str, starts: Mapping[TableName, int]) -> None:
    ((recorded,),) = tables.run("SELECT starts FROM storage_consumer.consumer WHERE name = ?", name)
    text = starts_text({**starts_in(recorded), **starts})
    tables.update("consumer", "starts = ?", "name = ?", text, name)


def _leave(tables: ProgressTables, name: str) -> None:
    tables.update("syncpoint", "is_current = 0", "name = ? AND is_current = 1", name)


def _store_syncpoint(tables: ProgressTables, name: str, applied_ts: int, keep: int) -> None:
    """Records a syncpoint. All rows of the round were committed before this transaction, so the position that it reads
    includes them."""
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
    tables.delete("syncpoint", "name = ? AND upstream_ts < ?", name, int(kept[-1][0]))


def _store_lacks(tables: ProgressTables, name: str, change: ProgressChange) -> None:
    for book in ("bad_row", "loss") if change.moved_lacks else ():
        of_table, columns = "name = ? AND database_name = ? AND table_name = ?", unnamed_columns(book)
        query = f"SELECT {columns} FROM storage_consumer.{book} WHERE {of_table}"
        rows = {old: tables.run(query, name, *old) for old in change.moved_lacks}
        for old in [old for old, bad_rows in rows.items() if bad_rows]:
            tables.delete(book, of_table, name, *old)
        for old, places in change.moved_lacks.items():
            for new in places:
                tables.put(book, [_row(book, name, *new, *row[2:]) for row in rows[old]])
    for table, losses in change.losses.items():
        tables.put("loss", [_row("loss", name, *table, key, *astuple(loss)) for key, loss in losses.items()])
    for table, bad_rows in change.quarantined.items():
        tables.put("bad_row", [_bad_row(name, table, row) for row in bad_rows.values()])
    for table, ids in change.taken_in.items():
        tables.remove("bad_row", [_key("bad_row", name, *table, key) for key in ids])


def _row(table: str, *values: object) -> Row:
    return dict(zip(COLUMNS[table], values, strict=True))


def _key(table: str, *values: object) -> Row:
    return dict(zip(KEYS[table], values, strict=True))


def _owner_row(name: str, table: TableName) -> Row:
    return _row("owned_table", *table, name)


def _table_key(name: str, table: TableName) -> Row:
    return _key("known_table", name, *table)


def _table_row(name: str, table: TableName, record: TableProgress | None) -> Row:
    assert record is not None
    details = (record.state.value, record.reason, Hint.of(record.hint).dumped(), record.code or "")
    return _row("table_progress", name, *table, record.applied_ts, *details)


def _folder_row(name: str, folder: Folder, record: FolderProgress | None) -> Row:
    assert record is not None
    rest = (record.index, record.first_ts, record.last_ts, record.gone_ts, record.checksum)
    last = (
        record.done,
        record.size,
        record.stamp,
        open_files_text(record),
        *rest,
        record.file_first_ts,
        record.head_ts,
    )
    return _row("folder_progress", name, *folder, *last)


def _ddl_row(name: str, record: DdlRecord) -> Row:
    return _row("ddl", name, *record.id, record.state.value, record.before, record.reason, record.kind.value)


def _bad_row(name: str, table: TableName, row: BadRow) -> Row:
    location = (row.path, row.line, row.offset, row.version, row.commit_ts, row.letter)
    return _row("bad_row", name, *table, row.id, *location, row.reason)


def _audit_row(name: str, epoch: int, now: str, row: AuditRow) -> Row:
    counts = (row.changes, row.puts, row.deletes, row.dropped_rows)
    return _row("audit", name, epoch, now, row.step, *row.table, row.from_ts, row.to_ts, *counts, row.statement)


def sha256(text: str) -> str:
    """Returns the hash of `text` as hexadecimal digits. It stands for texts that are too long for a column's index."""
    return hashlib.sha256(text.encode()).hexdigest()


AUDIT_DAYS = 30
"""The number of days for which audit rows are kept."""

CONSUMERS = (
    "SELECT c.name, COUNT(r.state) FROM storage_consumer.consumer c "
    "LEFT JOIN storage_consumer.replica r ON r.consumer = c.name AND r.state = 'ok' GROUP BY c.name ORDER BY c.name"
)
"""The query for every consumer name with the number of its healthy tables, in the SQL of every target."""

_MOMENTS = "SELECT name, routes, applied_ts, start_ts, starts FROM storage_consumer.consumer"
_PLACES = (
    "SELECT k.name, k.database_name, k.table_name, COALESCE(p.applied_ts, c.applied_ts) "
    "FROM storage_consumer.known_table k JOIN storage_consumer.consumer c ON c.name = k.name "
    "LEFT JOIN storage_consumer.table_progress p ON p.name = k.name AND p.database_name = k.database_name "
    "AND p.table_name = k.table_name WHERE k.name <> ?"
)
"""The query for every table of the consumers other than `?`, by its upstream name, with its applied-ts. It is in the
SQL of every target."""
_THERE = (
    "SELECT k.database_name, k.table_name, COALESCE(p.state, 'ok') FROM storage_consumer.known_table k "
    "LEFT JOIN storage_consumer.table_progress p ON p.name = k.name AND p.database_name = k.database_name "
    "AND p.table_name = k.table_name WHERE k.name = ?"
)
_OF_CONSUMER = ("upstream", "applied_ts", "start_ts", "time_zone", "routes", "modes", "filters")

Rows = Sequence[Sequence[Any]]
Select = Callable[[str, str], Rows]
"""Reads columns (a SELECT list) of a table: the rows that belong to one consumer name."""


def owned_tables(
    name: str,
    owners: Mapping[TableName, str],
    consumers: Mapping[str, Progress],
    places: Iterable[tuple[str, TableName, int]],
    busy: Collection[str],
    case: bool,
) -> OwnedTables:
    """Returns the owners of tables, as seen by the consumer `name`.

    `owners` has the target's names, in lower case unless `case` says that the target distinguishes case. `consumers`
    has the moments and routes of the other consumers. `places` has their tables, by upstream names, with the applied-ts
    of each. `busy` are the consumers that are at work.
    """
    namings = {other: naming_from(progress.routes) for other, progress in consumers.items()}
    begun: dict[TableName, tuple[TableName, Owned]] = {}
    for other, table, applied_ts in places:
        target = namings[other].target(table)
        key = target if case else target.folded
        if owners.get(key) == other and (key not in begun or begun[key][1].applied_ts < applied_ts):
            begun[key] = target, Owned(other, applied_ts, consumers[other].start_of(table), other in busy)
    owned_by_others = {}
    for key, other in owners.items():
        if other != name:
            progress = consumers.get(other, Progress())
            target, owned = begun.get(key) or (key, Owned(other, progress.applied_ts, progress.start_ts, other in busy))
            owned_by_others[target] = owned
    own_tables = (key for key, owner in owners.items() if owner == name)
    return OwnedTables(name, owned_by_others, own_tables, case)


def progress_of(select: Select) -> Progress:
    """Returns the progress of the consumer name that `select` reads. Raises BadConfig if it was changed by hand."""
    try:
        return _progress_of(select)
    except (TypeError, ValueError) as error:
        raise damaged(str(error)) from error


def _progress_of(select: Select) -> Progress:
    (row,) = select("consumer", unnamed_columns("consumer"))
    consumer = dict(zip(unnamed_columns("consumer").split(", "), row, strict=True))
    for column in ("routes", "modes", "filters"):
        _json(consumer[column] or "null")
    tables, folders, rows, losses, ddls = (
        select(table, unnamed_columns(table))
        for table in ("table_progress", "folder_progress", "bad_row", "loss", "ddl")
    )
    bad_rows: BadRows = {}
    for database, table, row_id, *location, reason in rows:
        bad_rows.setdefault(TableName(database, table), {})[row_id] = BadRow(row_id, reason, *location)
    accepted: Losses = {}
    for database, table, loss_id, *fields in losses:
        accepted.setdefault(TableName(database, table), {})[loss_id] = Loss(*fields)
    records = [DdlRecord(DdlId(*row[:4]), DdlState(row[4]), row[5], row[6], DdlKind(row[7])) for row in ddls]
    return Progress(
        **{field: consumer[field] for field in _OF_CONSUMER},
        starts=starts_in(consumer["starts"]),
        late=bool(consumer["late"]),
        tables={TableName(*row[:2]): _place(*row[2:]) for row in tables},
        folders={Folder(*row[:5]): _folder(*row[5:]) for row in folders},
        ddls={record.id: record for record in records},
        bad_rows=bad_rows,
        losses=accepted,
    )


def _place(applied_ts: int, state: str, reason: str, hint: str, code: str) -> TableProgress:
    return TableProgress(applied_ts, State(state), reason, Hint.loaded(hint), None if code == "" else Code.of(code))


_NONE_OPEN = "[]"
"""The text for no open files. Nearly every folder has it, and a start reads thousands of folders."""


def open_files_text(kept: FolderProgress) -> str:
    """Returns the text for the column `open_files`."""
    return json.dumps([astuple(file) for file in kept.open])


def starts_text(starts: Mapping[TableName, int]) -> str:
    """Returns the text for the column `starts`."""
    return json.dumps(sorted((*name, ts) for name, ts in starts.items())) if starts else ""


def starts_in(text: str) -> dict[TableName, int]:
    """Parses the text of the column `starts`."""
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
    """Raises WrongUpstream if the progress belongs to another upstream."""
    if recorded != upstream:
        raise WrongUpstream(
            f"the progress of consumer {name!r} belongs to the upstream {recorded}, not to {upstream}",
            hint="give that one as --upstream-uri, or give each upstream a --name of its own; docs/storages.md has what"
            " to do where a storage was moved",
        )


def check_time_zone(name: str, recorded: str, zone: str) -> None:
    """Raises BadConfig if the progress was made under another time zone: TIMESTAMPs would become other moments."""
    if recorded != zone:
        raise BadConfig(
            f"--tz is {zone}, but the replica of name {name!r} is filled under --tz {recorded}",
            hint=f"give --tz {recorded}; where it was wrong, fill a new target under another --name",
        )


def begins_too_early(table: TableName, window: Window, applied_ts: int) -> ProgressMoved:
    """Returns the error for a load of a table with no key of which the target has some rows already."""
    return ProgressMoved(
        f"the rows up to {applied_ts} are applied already, but the window begins at {window.after}",
        hint="run again: the progress is read again",
        table=str(table),
    )


def holder_text() -> str:
    """Returns a text that identifies this process. It appears in the messages of others that find the lease held."""
    return f"{socket.gethostname()[:200]} (pid {os.getpid()})"
