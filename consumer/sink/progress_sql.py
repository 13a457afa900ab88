"""Progress <-> the tables of schema `storage_consumer`, on every target that speaks SQL. The caller owns the
transaction and the errors of the target's client."""

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
from consumer.sink.progress_layout import COLUMNS, KEYS, LAYOUTS, check_layout, damaged, own_columns

Row = Mapping[str, Any]
"""Column -> value; all rows of one call have the same columns."""


class ProgressTables(Protocol):
    """How one target reads and writes these tables, in the transaction at hand."""

    now: str
    """The present moment in UTC, as an SQL expression."""
    of_name: Collection[str]
    """The tables whose rows belong to consumer names."""
    lock: str
    """At the end of a query: its rows stay as they are until the transaction ends, and others who lock them wait."""

    def exists(self) -> bool: ...

    def tells_case(self) -> bool:
        """Whether names of tables that differ in case alone are two tables."""

    def is_busy(self, name: str) -> bool:
        """Whether another process, or another consumer of this one, has the target under that name beside this one."""

    def position(self) -> tuple[str, str]:
        """The target's own name of the moment, in which all is that was committed before: its kind (gtid, binlog, tso)
        and its text; ("", "") where there is none."""

    def run(self, query: str, *values: object) -> Rows:
        """The rows of a query, in which each `?` is a value."""

    def matching(self, table: str, columns: str, keys: Sequence[Row]) -> Rows:
        """`columns`, as in a SELECT list, of the rows with one of `keys`."""

    def put(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows, each over the one with its key (KEYS); of two with one key the later counts."""

    def remove(self, table: str, keys: Sequence[Row]) -> None: ...

    def append(self, table: str, rows: Sequence[Row]) -> None: ...

    def update(self, table: str, changes: str, where: str, *values: object) -> None:
        """As an UPDATE of `table` does, in which each `?` is a value."""

    def delete(self, table: str, where: str, *values: object) -> None:
        """As a DELETE does."""


_Found = TypeVar("_Found")


class ProgressPorts:
    """The calls of a `ProgressPort` that do no more than to read or write these tables, for the consumer `_name`."""

    _name: str

    def _look(self, at: Callable[[ProgressTables], _Found]) -> _Found:
        """What `at` finds in the tables as they are; the target's errors are the consumer's."""
        raise NotImplementedError

    def _change(self, by: Callable[[ProgressTables], _Found]) -> _Found:
        """Of the one writer: what `by` does becomes durable, all together."""
        raise NotImplementedError

    def progress(self) -> Progress:
        return self._look(lambda tables: load(tables, self._name))

    def consumers(self) -> Mapping[str, int]:
        return self._look(consumers)

    def of_others(self) -> OwnedTables:
        return self._look(lambda tables: of_others(tables, self._name))

    def loaded(self) -> Mapping[TableName, tuple[int, int]]:
        return self._look(lambda tables: loaded(tables, self._name))

    def take(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        return self._change(lambda tables: take(tables, self._name, wanted))


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


def of_others(tables: ProgressTables, name: str, lock: str = "") -> OwnedTables:
    """To whom the target's tables belong, for the consumer `name`. With `lock`, nobody else can take one meanwhile."""
    if not tables.exists():
        return OwnedTables(name, {})
    case = tables.tells_case()
    found = tables.run(f"SELECT name, database_name, table_name FROM storage_consumer.owned_table{lock}")
    owners = {TableName(*row[1:]): str(row[0]) for row in found}
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


def take(tables: ProgressTables, name: str, wanted: Mapping[TableName, int | None]) -> OwnedTables:
    """Record that those of `wanted` that are nobody's, or go to `name` (`Owned.goes_to`), belong to it. This is the one
    place that does so, under a lock that all who take share."""
    tables.run(f"SELECT name FROM storage_consumer.consumer ORDER BY name{tables.lock}")
    before = of_others(tables, name, tables.lock)
    after, case = before.taken(wanted), tables.tells_case()
    new = (table for table in wanted if after.is_own(table) and not before.is_own(table))
    tables.put("owned_table", [_owner_row(name, table if case else table.folded) for table in new])
    return after


def loaded(tables: ProgressTables, name: str) -> dict[TableName, tuple[int, int]]:
    """What the audit rows of loads add up to."""
    counts = "SUM(row_count), SUM(puts)"
    query = f"SELECT database_name, table_name, {counts} FROM storage_consumer.audit WHERE name = ? AND step = 'load'"
    rows = tables.run(f"{query} GROUP BY database_name, table_name", name) if tables.exists() else ()
    return {TableName(database, table): (int(read), int(written)) for database, table, read, written in rows}


def not_whole(
    tables: ProgressTables, name: str, there: Callable[[Collection[TableName]], Collection[TableName]]
) -> list[TableName]:
    """The tables of consumer `name` that it was still loading, and that may be dropped: those that were to take the
    places of others, and those of an export that it has made; the target has those that `there` gives back. Raises
    BadConfig where these, or what was loaded beside its own tables, may be just about to take other places."""
    query = "SELECT database_name, table_name FROM storage_consumer.owned_table WHERE name = ?"
    own = (TableName(*row) for row in tables.run(query, name))
    made = _made(tables, name) if is_export(name) else ()
    found = [table for table in own if is_parallel_load(table) or table.folded in made]
    exchanging = "SELECT name FROM storage_consumer.table_progress WHERE state = ?"
    marked = {str(row[0]) for row in tables.run(exchanging, str(State.EXCHANGING))}
    if name in marked:
        raise BadConfig(
            f"a table of {name!r} is to be replaced by what was loaded beside it, which is not at its end",
            hint="run `once` first: it ends that",
        )
    if marked and there([*filter(is_parallel_load, found)]):
        raise BadConfig(
            f"a table that was loaded under {name!r} is taking the place of another one, which is not at its end",
            hint="run `once` under the other name first: it ends that",
        )
    return found


def _made(tables: ProgressTables, name: str) -> set[TableName]:
    """The target's tables of which statements of consumer `name` were executed, in lower case."""
    query = "SELECT database_name, table_name FROM storage_consumer.ddl WHERE name = ? AND state = ?"
    executed = [TableName(*row) for row in tables.run(query, name, str(DdlState.DONE))]
    routes = tables.run("SELECT routes FROM storage_consumer.consumer WHERE name = ?", name)
    return {naming_from(row[0]).target(table).folded for row in routes for table in executed}


_OF_TABLE = "database_name = ? AND table_name = ?"


def owner_of(tables: ProgressTables, table: TableName) -> str:
    """The consumer name to which the target's `table` belongs, "" for none."""
    return _owner(tables, table if tables.tells_case() else table.folded)


def loaded_beside(tables: ProgressTables, beside: TableName) -> tuple[str, TableName]:
    """Under which consumer name, "" for none, upstream's table is loaded that the target has as `beside` until its
    end."""
    owner = owner_of(tables, beside)
    ((routes,),) = tables.run("SELECT routes FROM storage_consumer.consumer WHERE name = ?", owner) or [("",)]
    known = tables.run("SELECT database_name, table_name FROM storage_consumer.known_table WHERE name = ?", owner)
    naming, names = naming_from(routes), (TableName(*row) for row in known)
    return owner, next((name for name in names if naming.target(name) == beside), beside)


def _owner(tables: ProgressTables, key: TableName) -> str:
    found = tables.run(f"SELECT name FROM storage_consumer.owned_table WHERE {_OF_TABLE}", *key)
    return str(found[0][0]) if found else ""


def give_away(tables: ProgressTables, table: TableName) -> None:
    """The target's `table` belongs to nobody any more. Whoever had it and has no other is forgotten."""
    key = table if tables.tells_case() else table.folded
    owner = _owner(tables, key)
    tables.delete("owned_table", _OF_TABLE, *key)
    if owner and not tables.run("SELECT 1 FROM storage_consumer.owned_table WHERE name = ? LIMIT 1", owner):
        forget(tables, owner)


def forget(tables: ProgressTables, name: str) -> None:
    """Remove every row of consumer `name`."""
    for table in tables.of_name:
        tables.delete(table, "name = ?", name)


def register(tables: ProgressTables, name: str, upstream: str, time_zone: str) -> None:
    """Write the consumer's row when it is the first run. Raises WrongUpstream where the row is another upstream's,
    BadConfig where it is bound to another time zone: one under which something was applied."""
    found = tables.run("SELECT upstream, time_zone FROM storage_consumer.consumer WHERE name = ?", name)
    if not found:
        ((now,),) = tables.run(f"SELECT {tables.now}")
        begun = (name, FORMAT_VERSION, upstream, 0, 0, str(now), __version__, time_zone)
        tables.append("consumer", [_row("consumer", *begun, "", "", "", "", 0)])
        return
    check_upstream(name, found[0][0], upstream)
    if found[0][1] != time_zone and load(tables, name).is_empty:
        tables.update("consumer", "time_zone = ?", "name = ?", time_zone, name)
    else:
        check_time_zone(name, found[0][1], time_zone)
    _leave(tables, name)  # whoever has the target may write to it
    tables.update("consumer", "written_by = ?", "name = ?", __version__, name)


def store(
    tables: ProgressTables, name: str, epoch: int, change: ProgressChange, touched: Collection[TableName] = ()
) -> None:
    """Write `change`; `touched` are tables that the target has, beside those that it says so of: all are listed in the
    public view. Raises ProgressMoved."""
    before = tables.run("SELECT applied_ts FROM storage_consumer.consumer WHERE name = ?", name)
    columns = "database_name, table_name, applied_ts, state"
    places = tables.matching("table_progress", columns, [_table_key(name, table) for table in change.tables])
    own = {TableName(*row[:2]): (int(row[2]), State(row[3])) for row in places}
    change.check(int(before[0][0]) if before else 0, {table: applied_ts for table, (applied_ts, _) in own.items()})
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
    placed = (table for table, place in change.tables.items() if place is not None)
    known = {*touched, *placed, *change.starts} - own.keys()  # who has a place is listed already
    tables.put("known_table", [_table_key(name, table) for table in known if table.table])
    _release(tables, name, change, {table: state for table, (_, state) in own.items()})
    _store_lacks(tables, name, change)
    if change.leaves:
        _leave(tables, name)
    if change.syncpoint and change.applied_ts is not None:
        _store_syncpoint(tables, name, change.applied_ts, change.syncpoint)
    if change.audit:
        ((now,),) = tables.run(f"SELECT {tables.now}")
        tables.append("audit", [_audit_row(name, epoch, str(now), row) for row in change.audit])


def _release(tables: ProgressTables, name: str, change: ProgressChange, before: Mapping[TableName, State]) -> None:
    """This is the one place that does so, but for `forget`."""
    if not ended(change, before):
        return
    ((routes,),) = tables.run("SELECT routes FROM storage_consumer.consumer WHERE name = ?", name)
    naming, case = naming_from(routes), tables.tells_case()
    rows = tables.run(_THERE, name) if naming.rename is not None else ()
    there = {TableName(*row[:2]) for row in rows if row[2] not in ENDED}
    for table in released(change, before, naming, there, case):
        tables.delete("owned_table", "name = ? AND database_name = ? AND table_name = ?", name, *table)


def ended(change: ProgressChange, before: Mapping[TableName, State]) -> set[TableName]:
    """The tables that are dropped or left out from `change` on, where `before` has their states."""
    places = {table: place.state for table, place in change.tables.items() if place is not None}
    return {table for table, state in places.items() if state in ENDED and before.get(table) is not state}


def released(
    change: ProgressChange, before: Mapping[TableName, State], naming: Naming, there: Collection[TableName], case: bool
) -> set[TableName]:
    """The target's tables, as keys, that belong to nobody from `change` on: no table of upstream is there under that
    name. `there` are those that were before. A table with rows of several stays where one of them is dropped."""
    over = ended(change, before)
    stay = set(there) - over
    for table, place in change.tables.items():
        if place is None or place.state not in ENDED or (place.state is State.DROPPED and naming.merges(table)):
            stay.add(table)
    gone, kept = ({name if case else name.folded for name in naming.targets(names)} for names in (over, stay))
    return gone - kept


def _store_starts(tables: ProgressTables, name: str, starts: Mapping[TableName, int]) -> None:
    ((known,),) = tables.run("SELECT starts FROM storage_consumer.consumer WHERE name = ?", name)
    text = starts_text({**starts_in(known), **starts})
    tables.update("consumer", "starts = ?", "name = ?", text, name)


def _leave(tables: ProgressTables, name: str) -> None:
    tables.update("syncpoint", "is_current = 0", "name = ? AND is_current = 1", name)


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
    tables.delete("syncpoint", "name = ? AND upstream_ts < ?", name, int(kept[-1][0]))


def _store_lacks(tables: ProgressTables, name: str, change: ProgressChange) -> None:
    for book in ("bad_row", "loss") if change.moved_lacks else ():
        of_table, columns = "name = ? AND database_name = ? AND table_name = ?", own_columns(book)
        query = f"SELECT {columns} FROM storage_consumer.{book} WHERE {of_table}"
        there = {old: tables.run(query, name, *old) for old in change.moved_lacks}
        for old in [old for old, found in there.items() if found]:
            tables.delete(book, of_table, name, *old)
        for old, places in change.moved_lacks.items():
            for new in places:
                tables.put(book, [_row(book, name, *new, *row[2:]) for row in there[old]])
    for table, losses in change.losses.items():
        tables.put("loss", [_row("loss", name, *table, key, *astuple(loss)) for key, loss in losses.items()])
    for table, found in change.quarantined.items():
        tables.put("bad_row", [_bad_row(name, table, row) for row in found.values()])
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


def _table_row(name: str, table: TableName, place: TableProgress | None) -> Row:
    assert place is not None
    said = (place.state.value, place.reason, Hint.of(place.hint).dumped(), place.code or "")
    return _row("table_progress", name, *table, place.applied_ts, *said)


def _folder_row(name: str, folder: Folder, place: FolderProgress | None) -> Row:
    assert place is not None
    rest = (place.index, place.first_ts, place.last_ts, place.gone_ts, place.checksum)
    last = (place.done, place.size, place.stamp, open_files(place), *rest, place.file_first_ts, place.head_ts)
    return _row("folder_progress", name, *folder, *last)


def _ddl_row(name: str, record: DdlRecord) -> Row:
    return _row("ddl", name, *record.id, record.state.value, record.before, record.reason, record.kind.value)


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

_MOMENTS = "SELECT name, routes, applied_ts, start_ts, starts FROM storage_consumer.consumer"
_PLACES = (
    "SELECT k.name, k.database_name, k.table_name, COALESCE(p.applied_ts, c.applied_ts) "
    "FROM storage_consumer.known_table k JOIN storage_consumer.consumer c ON c.name = k.name "
    "LEFT JOIN storage_consumer.table_progress p ON p.name = k.name AND p.database_name = k.database_name "
    "AND p.table_name = k.table_name WHERE k.name <> ?"
)
"""Every table of another consumer than `?`, by upstream's name, and how far it is: in the SQL of every target."""
_THERE = (
    "SELECT k.database_name, k.table_name, COALESCE(p.state, 'ok') FROM storage_consumer.known_table k "
    "LEFT JOIN storage_consumer.table_progress p ON p.name = k.name AND p.database_name = k.database_name "
    "AND p.table_name = k.table_name WHERE k.name = ?"
)
_OF_CONSUMER = ("upstream", "applied_ts", "start_ts", "time_zone", "routes", "modes", "filters")

Rows = Sequence[Sequence[Any]]
Select = Callable[[str, str], Rows]
"""Reads columns (as in a SELECT list) of a table, those rows that belong to one consumer name."""


def owned_tables(
    name: str,
    owners: Mapping[TableName, str],
    consumers: Mapping[str, Progress],
    places: Iterable[tuple[str, TableName, int]],
    busy: Collection[str],
    case: bool,
) -> OwnedTables:
    """To whom tables belong, for the consumer `name`: `owners` by the target's names, as keys where that does not tell
    `case`. Of the other `consumers` their moments and routes are given, and in `places` how far each is with tables, by
    upstream's names."""
    namings = {other: naming_from(known.routes) for other, known in consumers.items()}
    begun: dict[TableName, tuple[TableName, Owned]] = {}
    for other, table, applied_ts in places:
        there = namings[other].target(table)
        key = there if case else there.folded
        if owners.get(key) == other and (key not in begun or begun[key][1].applied_ts < applied_ts):
            begun[key] = there, Owned(other, applied_ts, consumers[other].start_of(table), other in busy)
    found = {}
    for key, other in owners.items():
        if other != name:
            known = consumers.get(other, Progress())
            there, owned = begun.get(key) or (key, Owned(other, known.applied_ts, known.start_ts, other in busy))
            found[there] = owned
    own = (key for key, owner in owners.items() if owner == name)
    return OwnedTables(name, found, own, case)


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
    tables, folders, rows, losses, ddls = (
        select(table, own_columns(table)) for table in ("table_progress", "folder_progress", "bad_row", "loss", "ddl")
    )
    bad_rows: BadRows = {}
    for database, table, row_id, *place, reason in rows:
        bad_rows.setdefault(TableName(database, table), {})[row_id] = BadRow(row_id, reason, *place)
    accepted: Losses = {}
    for database, table, loss_id, *fields in losses:
        accepted.setdefault(TableName(database, table), {})[loss_id] = Loss(*fields)
    records = [DdlRecord(DdlId(*row[:4]), DdlState(row[4]), row[5], row[6], DdlKind(row[7])) for row in ddls]
    return Progress(
        **{field: known[field] for field in _OF_CONSUMER},
        starts=starts_in(known["starts"]),
        late=bool(known["late"]),
        tables={TableName(*row[:2]): _place(*row[2:]) for row in tables},
        folders={Folder(*row[:5]): _folder(*row[5:]) for row in folders},
        ddls={record.id: record for record in records},
        bad_rows=bad_rows,
        losses=accepted,
    )


def _place(applied_ts: int, state: str, reason: str, hint: str, code: str) -> TableProgress:
    return TableProgress(applied_ts, State(state), reason, Hint.loaded(hint), None if code == "" else Code.of(code))


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
            hint="give that one as --upstream-uri, or give each upstream a --name of its own; docs/storages.md has what"
            " to do where a storage was moved",
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
        hint="run again: the progress is read again",
        table=str(table),
    )


def holder_text() -> str:
    """A text that identifies this process, for messages of others that find the lease held."""
    return f"{socket.gethostname()[:200]} (pid {os.getpid()})"
