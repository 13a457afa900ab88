"""The progress: what the target already has. It is the only state that outlives a run, and it is kept in the target
itself."""

from __future__ import annotations

import enum
import hashlib
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, NamedTuple

from consumer.errors import Code, ConsumerError, ProgressMoved
from consumer.model.bad_rows import BadRow, BadRows, moved_by_table
from consumer.model.ddl_policy import is_trash
from consumer.model.files import DataFile, Folder
from consumer.model.losses import Loss, Losses
from consumer.model.names import NAME_LIMIT, TableName
from consumer.model.texts import count_text
from consumer.model.times import LOGICAL_BITS, MAX_TSO, tso_to_ms

FORMAT_VERSION = 1


class State(enum.StrEnum):
    OK = "ok"
    STOPPED = "stopped"
    WAITS = "waits"
    """Complete up to a statement that waits for a stopped table."""
    DROPPED = "dropped"
    """A tombstone: the name no longer exists upstream, and its old files must not be applied again."""
    EMPTYING = "emptying"
    """It is rebuilt in place. The target may still have a table of this name; it is dropped before anything else."""
    EXCHANGING = "exchanging"
    """A table that was loaded in parallel is to replace it, before anything else: everything else recorded is of that
    table."""
    EXCLUDED = "excluded"
    """The table filter excludes it; its rows above `applied_ts` were never read."""


ENDED = (State.DROPPED, State.EXCLUDED)
"""Nothing is done to a table in one of these states any more."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """A table that is not simply at the global applied-ts.

    Every row with commit-ts <= `applied_ts` is in the target. `reason` is set for STOPPED, WAITS, EMPTYING and
    EXCHANGING, `hint` for STOPPED; both are for people. `code` is the same for programs: that of the error for which it
    stopped or waits.
    """

    applied_ts: int
    state: State = State.OK
    reason: str = ""
    hint: str = ""
    code: Code | None = None

    @classmethod
    def stopped(cls, applied_ts: int, error: ConsumerError) -> TableProgress:
        """Returns the progress of a table that stopped for `error`."""
        return cls(applied_ts, State.STOPPED, error.sentence(), error.hint, error.code)

    @classmethod
    def moved(cls, applied_ts: int) -> TableProgress:
        """Returns the progress of a table that a writer has moved with its rows: the files of these are not recorded as
        read yet."""
        reason = "its rows are written, and the files that they came from are not recorded yet"
        return cls(applied_ts, reason=reason, code=Code.MOVED_BY_WRITER)


class Waits(NamedTuple):
    """What a table waits for: the code of an error that may pass, or WAITS_FOR_STATEMENT."""

    code: Code
    reason: str


NOT_READ = -1
"""The size of an OpenFile that was listed and could not be read."""


@dataclass(frozen=True, slots=True, order=True)
class OpenFile:
    """A file above a folder's `done` that was read. `next_ts` is its lowest commit-ts not yet applied, 0 for none. A
    file of size NOT_READ was not read: it is read from its beginning.

    `checksum` is that of its content, 0 if it is not known (see `FileStat`). `first_ts` is the least commit-ts of its
    rows: 0 if it is not known, MAX_TSO if no row has one.
    """

    index: int
    next_ts: int
    size: int
    stamp: str
    checksum: int = 0
    first_ts: int = 0

    def holds(self, file: DataFile) -> bool:
        """Returns whether `file` is still the one that was read, as far as is known."""
        return (self.size, self.stamp) in ((0, ""), (file.size, file.stamp))

    def may_hold(self, file: DataFile) -> bool:
        """Returns whether the checksum can show that `file`, which has another stamp, is still the one that was
        read."""
        return bool(self.checksum) and self.size == file.size and self.stamp != file.stamp


@dataclass(frozen=True, slots=True)
class FolderProgress:
    """What was read of a folder. Files 1..`done` are applied completely and not read again. `size`, `stamp`, `checksum`
    and `file_first_ts` are those of file `done`, 0 and "" if they were not seen.

    `open` are files above `done` that were read: they wait for their remaining rows, or were done out of order, or may
    be rewritten by TiCDC. `index` is the stamp of the folder's index file when files were last read, "" if there was
    none.

    The rows that were read, up to the place of their table, have commit-ts from `first_ts` to `last_ts` (0: there were
    none, MAX_TSO: not known). Rows up to `gone_ts` may be gone from the storage, because files were rewritten, or were
    in folders that are gone. `head_ts` is the least commit-ts with which file 1 ever began, 0 if it is not known: if
    the file begins later now, earlier rows are gone.
    """

    done: int = 0
    size: int = 0
    stamp: str = ""
    open: tuple[OpenFile, ...] = ()
    index: str = ""
    first_ts: int = 0
    last_ts: int = 0
    gone_ts: int = 0
    checksum: int = 0
    file_first_ts: int = 0
    head_ts: int = 0

    @property
    def waits(self) -> bool:
        """Whether files remain to be read, up to the last one that was read, as far as is known."""
        numbers = range(self.done + 1, self.done + 1 + len(self.open))
        return any(entry.next_ts or entry.index != number for entry, number in zip(self.open, numbers, strict=True))

    @property
    def last(self) -> OpenFile:
        """The record of file `done`."""
        return OpenFile(self.done, 0, self.size, self.stamp, self.checksum, self.file_first_ts)

    def copied(self, file: DataFile) -> FolderProgress:
        """Returns the folder if `file` has the content that was read, and only its stamp differs."""
        if file.index == self.done:
            return replace(self, stamp=file.stamp)
        entries = (replace(entry, stamp=file.stamp) if entry.index == file.index else entry for entry in self.open)
        return replace(self, open=tuple(entries))

    def done_to(self, last: OpenFile, above: Iterable[OpenFile]) -> FolderProgress:
        """Returns the folder with `last` as the record of the last done file, and the records `above` it."""
        done, size, stamp, checksum, first_ts = last.index, last.size, last.stamp, last.checksum, last.first_ts
        kept = replace(self, done=done, size=size, stamp=stamp, checksum=checksum, file_first_ts=first_ts)
        return replace(kept, open=tuple(above))

    def with_rows(self, times: Collection[int], position: int) -> FolderProgress:
        """Returns the folder once rows with these commit-ts were read, of a table that was at `position` before."""
        if not times:
            return self
        if not self.last_ts:
            return replace(self, first_ts=min(times), last_ts=max(times))
        last = position if self.last_ts == MAX_TSO else self.last_ts
        return replace(self, first_ts=min(self.first_ts, *times), last_ts=max(last, *times))


class DdlId(NamedTuple):
    """Identifies a statement by its schema file: several files can have one version."""

    database: str
    table: str
    version: int
    checksum: int


class DdlState(enum.StrEnum):
    INTENT = "intent"
    REFUSED = "refused"
    """The target refused it, so it did not run. The next run tries it again from the state at that time."""
    DONE = "done"
    SKIPPED = "skipped"


class DdlKind(enum.StrEnum):
    """How a statement gets its effect in the target, or why it never gets it. All kinds but EXECUTED are SKIPPED."""

    EXECUTED = "executed"
    """This program executes it: it was executed, has begun, or is tried again."""
    BY_HAND = "by hand"
    """Somebody has done what it means, and recorded that (`skip-ddl`)."""
    GIVEN = "given"
    """The target already had its effect when its table began."""
    IGNORED = "ignored"
    """A policy keeps it from the target."""
    KEPT = "kept"
    """A policy keeps a DROP from the target: what it drops upstream stays in the target."""
    NO_ROWS = "no rows"
    """Its table has no rows (a view, a global temporary table), and is excluded."""
    LEFT = "left"
    """It is left to another consumer, which has tables of its database."""
    OVERTAKEN = "overtaken"
    """A later statement drops its table."""
    PASSED_OVER = "passed over"
    """The upstream's table no longer existed."""
    NOT_MADE = "not made"
    """The target can no longer have its table under that name."""


LEFT_UNDONE = {
    DdlKind.PASSED_OVER: "its table was gone before the table rules took it",
    DdlKind.NOT_MADE: "the table rules left its table out then, and another one has a name of it since",
}
"""The kinds of statements that are never executed, because their table must not be created under that name, with the
recorded reason."""


@dataclass(frozen=True, slots=True)
class DdlRecord:
    """The record of a statement. `before` is the sink's own text: after a crash it shows whether the statement ran, and
    how much of a refused statement ran. `reason` is for people, who may write it themselves."""

    id: DdlId
    state: DdlState
    before: str = ""
    reason: str = ""
    kind: DdlKind = DdlKind.EXECUTED

    @classmethod
    def skipped(cls, statement: DdlId, kind: DdlKind, reason: str) -> DdlRecord:
        """Returns the record of a statement that is not executed here."""
        return cls(statement, DdlState.SKIPPED, reason=reason, kind=kind)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One finished step, for people. `changes` are the row changes read. `puts` and `deletes` are what remained of them
    after the fold. `statement` is the DDL text or ""."""

    step: str
    table: TableName
    from_ts: int
    to_ts: int
    changes: int = 0
    puts: int = 0
    deletes: int = 0
    dropped_rows: int = 0
    statement: str = ""

    @property
    def rows(self) -> int:
        return self.puts + self.deletes


@dataclass(frozen=True, slots=True)
class ProgressChange:
    """What one transaction adds to the progress. A table mapped to None falls back to the global applied-ts.

    No table goes back by it, unless it is a `rewind`: a change that moves a table back was made from outdated progress,
    and must not be recorded (see `check`). The other fields:

    - `by_hand` are tables, by the target's names, with statements that are recorded as not executed here: somebody may
      have changed these tables by hand.
    - `moved_lacks` has by table where its missing rows (quarantined rows, accepted losses) are missing now, which can
      be nowhere. After that `quarantined` and `losses` are added, by table and id, and the ids in `taken_in` are
      removed.
    - `late` is as in `Progress`.
    - `syncpoint` means, if not 0, that all tables are at `applied_ts` now, which is published for outside checkers. It
      is the number of newest syncpoint rows to keep.
    - `leaves` means that the tables leave this common moment now.
    """

    applied_ts: int | None = None
    tables: Mapping[TableName, TableProgress | None] = field(default_factory=dict)
    folders: Mapping[Folder, FolderProgress | None] = field(default_factory=dict)
    ddls: tuple[DdlRecord, ...] = ()
    forget_ddls: tuple[DdlId, ...] = ()
    audit: tuple[AuditRow, ...] = ()
    start_ts: int | None = None
    starts: Mapping[TableName, int] = field(default_factory=dict)
    rewind: bool = False
    by_hand: tuple[TableName, ...] = ()
    routes: str | None = None
    modes: str | None = None
    filters: str | None = None
    moved_lacks: Mapping[TableName, Collection[TableName]] = field(default_factory=dict)
    quarantined: Mapping[TableName, Mapping[str, BadRow]] = field(default_factory=dict)
    taken_in: Mapping[TableName, Collection[str]] = field(default_factory=dict)
    losses: Mapping[TableName, Mapping[str, Loss]] = field(default_factory=dict)
    late: bool | None = None
    syncpoint: int = 0
    leaves: bool = False

    def merged(self, *others: ProgressChange) -> ProgressChange:
        """Returns all changes in one; if two change the same thing, the last one counts. Takes one pass over them."""
        changes = (self, *others)
        return ProgressChange(**{field_.name: _merged(field_, changes) for field_ in fields(ProgressChange)})

    def check(self, applied_ts: int, tables: Mapping[TableName, int]) -> None:
        """Raises ProgressMoved if recording the change would move the progress back. `applied_ts` and `tables` are the
        recorded TSOs: the global one, and those of tables that have one of their own. A table that was dropped may go
        back: it has no rows that could be applied twice."""
        if self.rewind:
            return
        new = applied_ts if self.applied_ts is None else self.applied_ts
        places = (
            (name, own_place.applied_ts if own_place else new)
            for name, own_place in self.tables.items()
            if not _ended(own_place)
        )
        moves = [(str(name), tables.get(name, applied_ts), place) for name, place in places]
        for what, recorded, place in [("the replica", applied_ts, new), *moves]:
            if place < recorded:
                raise ProgressMoved(
                    f"the target has recorded commit-ts {recorded} for {what}, and this round would go back to {place}",
                    hint="run again: the progress is read again",
                )


def _merged(field_: Field[Any], changes: Sequence[ProgressChange]) -> Any:
    """Returns the value of one field over all `changes`: the union of collections, or the last value that is set."""
    values = [getattr(change, field_.name) for change in changes]
    if isinstance(values[0], tuple):
        return tuple(itertools.chain.from_iterable(values))
    if isinstance(values[0], Mapping):
        return {key: value for mapping in values for key, value in mapping.items()}
    return next((value for value in reversed(values) if value != field_.default), field_.default)


def _ended(place: TableProgress | None) -> bool:
    return place is not None and place.state is State.DROPPED


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one consumer name.

    - `upstream` is None before the first run.
    - `start_ts` other than 0 means that the target was filled with the upstream's state at that commit-ts, including
      every statement up to it; 0 for a target that began empty.
    - `starts` is the same for single tables, by the names that they had then, with a commit-ts that is not below
      `start_ts`; 0 for a table that was loaded again from its CREATE TABLE on.
    - `time_zone` is the changefeed's, "" if it was not recorded.
    - `bad_rows` are the quarantined rows, `losses` the accepted losses. Both include tables that were dropped and that
      RECOVER TABLE could bring back (`ddl_policy.trash_name`).
    - `routes` are the routes by which its tables have their names (see `Naming`), `modes` the table modes of its tables
      (see `consumer.plan.table_modes`), `filters` the rules of its tables (see `consumer.plan.shaping`).
    - `late` means that a notification was sent that the slowest table lags, and none yet that this is over.
    """

    upstream: str | None = None
    applied_ts: int = 0
    tables: Mapping[TableName, TableProgress] = field(default_factory=dict)
    folders: Mapping[Folder, FolderProgress] = field(default_factory=dict)
    ddls: Mapping[DdlId, DdlRecord] = field(default_factory=dict)
    start_ts: int = 0
    starts: Mapping[TableName, int] = field(default_factory=dict)
    time_zone: str = field(default="", compare=False)
    bad_rows: BadRows = field(default_factory=dict)
    losses: Losses = field(default_factory=dict)
    routes: str = ""
    modes: str = ""
    filters: str = ""
    late: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever applied under this name."""
        return not (self.applied_ts or self.start_ts or self.tables or self.folders or self.ddls)

    @property
    def is_new(self) -> bool:
        """Whether no round has ended under this name: at most the moment of all tables is recorded."""
        return self.applied_ts == self.start_ts and not (self.tables or self.folders or self.ddls)

    @property
    def quarantined_rows(self) -> BadRows:
        """The `bad_rows` of tables that exist."""
        return {name: rows for name, rows in self.bad_rows.items() if not is_trash(name)}

    @property
    def accepted_losses(self) -> Losses:
        """The `losses` of tables that exist."""
        return {name: losses for name, losses in self.losses.items() if not is_trash(name)}

    @property
    def at_one_moment(self) -> bool:
        """Whether every table that exists is complete at `applied_ts`, and has no later rows."""
        return next(self.incomplete(), None) is None

    def incomplete(self) -> Iterator[tuple[str, str]]:
        """Yields what keeps the tables from that, and how: one is not at `applied_ts`, a statement is under way, a row
        is missing, or one has rows of a later moment or of a millisecond of which others may be missing."""
        for name, place in sorted(self.tables.items()):
            if place.state not in ENDED:
                yield str(name), "is further or behind" if place.state is State.OK else f"is not ({place.state})"
        for ddl, record in self.ddls.items():
            if record.state is DdlState.INTENT:
                yield str(TableName(ddl.database, ddl.table)), f"has a statement under way (version {ddl.version})"
        for folder, read in self.folders.items():
            if read.last_ts < MAX_TSO and self._is_above(read.last_ts):
                yield folder.root, "is further or behind"
        for name, rows in self.quarantined_rows.items():
            yield str(name), f"lacks {count_text(len(rows), 'quarantined row')}"
        for name, losses in self.accepted_losses.items():
            yield str(name), f"has {count_text(len(losses), 'accepted loss', 'accepted losses')}"

    def _is_above(self, last_ts: int) -> bool:
        logical = (1 << LOGICAL_BITS) - 1
        may_be_millisecond = (
            bool(last_ts) and not last_ts & logical
        )  # such a commit-ts may stand for a whole millisecond
        same = tso_to_ms(last_ts) == tso_to_ms(self.applied_ts) and self.applied_ts & logical < logical
        return last_ts > self.applied_ts or (may_be_millisecond and same)

    def table(self, name: TableName) -> TableProgress:
        return self.tables.get(name) or TableProgress(self.applied_ts)

    @property
    def slowest(self) -> int:
        """The place of the slowest table that advances. A table that waits will advance by itself; a stopped one needs
        somebody."""
        going = (place.applied_ts for place in self.tables.values() if place.state in (State.OK, State.WAITS))
        return min([self.applied_ts, *going])

    def start_of(self, name: TableName) -> int:
        """Returns the commit-ts up to which the target already held the table that had `name` then; 0 if it began
        empty."""
        return self.starts.get(name, self.start_ts)

    def was_preloaded(self, statement: DdlId) -> bool:
        """Returns whether the target already had the statement's effect when its table, or all of them, began."""
        record = self.ddls.get(statement)
        if record is not None:
            return record.kind is DdlKind.GIVEN
        return statement.version <= self.start_of(TableName(statement.database, statement.table))

    def was_ignored(self, statement: DdlId) -> bool:
        """Returns whether a policy kept the statement from the target."""
        record = self.ddls.get(statement)
        return record is not None and record.kind in (DdlKind.IGNORED, DdlKind.KEPT)

    @property
    def kept_tables(self) -> set[TableName]:
        """The tables that upstream has dropped and the target still has, because a policy kept the last DROP from
        it."""
        dropped = {name: place.applied_ts for name, place in self.tables.items() if place.state is State.DROPPED}
        tables = set()
        for ddl in (ddl for ddl, record in self.ddls.items() if record.kind is DdlKind.KEPT):
            in_database = (name for name in self.tables if name.database == ddl.database)
            candidates = [TableName(ddl.database, ddl.table)] if ddl.table else in_database
            tables |= {name for name in candidates if dropped.get(name, ddl.version) == ddl.version}
        return tables

    def after(self, change: ProgressChange) -> Progress:
        """Returns the progress once `change` is durable."""
        ddls = {**self.ddls, **{record.id: record for record in change.ddls}}
        for forgotten in change.forget_ddls:
            ddls.pop(forgotten, None)
        return replace(
            self,
            applied_ts=self.applied_ts if change.applied_ts is None else change.applied_ts,
            start_ts=self.start_ts if change.start_ts is None else change.start_ts,
            starts={**self.starts, **change.starts},
            tables={n: t for n, t in {**self.tables, **change.tables}.items() if t is not None},
            folders={f: p for f, p in {**self.folders, **change.folders}.items() if p is not None},
            ddls=ddls,
            bad_rows=self._bad_rows(change),
            losses=self._losses(change),
            routes=self.routes if change.routes is None else change.routes,
            modes=self.modes if change.modes is None else change.modes,
            filters=self.filters if change.filters is None else change.filters,
            late=self.late if change.late is None else change.late,
        )

    def _bad_rows(self, change: ProgressChange) -> BadRows:
        rows_by_table = moved_by_table(self.bad_rows, change.moved_lacks)
        for name, rows in change.quarantined.items():
            rows_by_table[name] = rows_by_table.get(name, {}) | {key: row.record for key, row in rows.items()}
        for name, ids in change.taken_in.items():
            rows_by_table[name] = {key: row for key, row in rows_by_table.get(name, {}).items() if key not in ids}
        return {name: rows for name, rows in rows_by_table.items() if rows}

    def _losses(self, change: ProgressChange) -> Losses:
        by_table = moved_by_table(self.losses, change.moved_lacks)
        return by_table | {name: by_table.get(name, {}) | dict(new) for name, new in change.losses.items() if new}


@dataclass(frozen=True, slots=True)
class Owned:
    """A table that belongs to the consumer name `consumer`, and the commit-ts up to which that consumer has applied it.
    `start_ts` other than 0 means that it took over the table as of then; 0 for a table that it began itself. `busy`
    means that it is at work now."""

    consumer: str
    applied_ts: int
    start_ts: int = 0
    busy: bool = False

    def goes_to(self, name: str, start: int | None) -> bool:
        """Returns whether the table can belong to the consumer `name` instead, which begins with it at `start`, or
        creates it again if that is None. A replay has done its part once it has ended, and takes nothing from a
        consumer that goes on. The table of an export or a resync is not complete."""
        if self.busy or (is_replay(name) and not is_replay(self.consumer)):
            return False
        if is_export(self.consumer) or is_resync(self.consumer):
            return False
        if start is None:
            return is_replay(self.consumer)
        return start >= self.applied_ts and (start > 0 or is_replay(self.consumer))


class OwnedTables(Mapping[TableName, Owned]):
    """The tables that belong to other consumers than `name`, by the target's names. `own` are those that belong to
    `name`. `case` is true if names that differ only in case are two tables in the target."""

    def __init__(self, name: str, owned: Mapping[TableName, Owned], own: Iterable[TableName] = (), case: bool = True):
        self.name, self._owned, self._case = name, owned, case
        self._by_key = {self._key(name): place for name, place in owned.items()}
        self._own = frozenset(map(self._key, own))

    def __getitem__(self, name: TableName) -> Owned:
        return self._by_key[self._key(name)]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._owned)

    def __len__(self) -> int:
        return len(self._owned)

    def is_own(self, name: TableName) -> bool:
        return self._key(name) in self._own

    def has_own_in(self, database: str) -> bool:
        wanted = self._key(TableName(database, "")).database
        return any(own.database == wanted for own in self._own)

    def in_database(self, database: str) -> Sequence[TableName]:
        """Returns the tables of others in `database`, sorted."""
        wanted = self._key(TableName(database, ""))
        return sorted(name for name in self._owned if self._key(TableName(name.database, "")) == wanted)

    def after_taking(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        """Returns the tables once `name` has taken those of `wanted` that belong to nobody or go to it (`goes_to`).
        `wanted` has where it begins with each."""
        begins = {self._key(table): start for table, start in wanted.items()}
        gets = {
            key
            for key, start in begins.items()
            if key not in self._by_key or self._by_key[key].goes_to(self.name, start)
        }
        kept = {table: owned for table, owned in self._owned.items() if self._key(table) not in gets}
        return OwnedTables(self.name, kept, self._own | gets, self._case)

    def after_release(self, ended: Iterable[TableName]) -> OwnedTables:
        """Returns the tables once those of `ended` that were its own belong to nobody."""
        return OwnedTables(self.name, self._owned, self._own.difference(map(self._key, ended)), self._case)

    def _key(self, name: TableName) -> TableName:
        return name if self._case else name.folded


_REPLAY = re.compile(r".+\.[0-9]+-(?:[0-9]+|checkpoint)")


def is_replay(name: str) -> bool:
    """Returns whether a replay keeps its progress under `name`."""
    return _REPLAY.fullmatch(name) is not None


_EXPORT = re.compile(r"(.+)\.export-[0-9]+")


def export_name(name: str, moment: int) -> str:
    """Returns the consumer name under which an export of that moment is loaded for the consumer `name`."""
    return f"{name}.export-{moment}"


def is_export(name: str, consumer: str = "") -> bool:
    """Returns whether an export is being loaded under `name`, for `consumer` if that is not ""."""
    match = _EXPORT.fullmatch(name)
    return match is not None and consumer in ("", match[1])


_RESYNC = ".resync-"
_RESYNC_NAME = re.compile(rf".+{re.escape(_RESYNC)}[0-9a-f]{{8}}-[0-9]+")


def resync_name(name: str, table: TableName, birth: int) -> str:
    """Returns the consumer name under which the consumer `name` loads a table again that a statement of version `birth`
    created."""
    return f"{_resync_stem(name)}{_digits(str(table.folded), 8)}-{birth}"


def is_resync(name: str) -> bool:
    """Returns whether a table is being loaded again under `name`."""
    return _RESYNC_NAME.fullmatch(name) is not None


def is_resync_of(other: str, name: str, table: TableName | None = None) -> bool:
    """Returns whether the consumer `name`, or an earlier one of that name, loads this table again under `other`. None
    stands for any table."""
    which = "" if table is None else f"{_digits(str(table.folded), 8)}-"
    return is_resync(other) and other.startswith(_resync_stem(name) + which)


def _resync_stem(name: str) -> str:
    longest = NAME_LIMIT - len(f"{_RESYNC}{'0' * 8}-{MAX_TSO}")
    if len(name) > longest:
        name = name[: longest - 9] + "_" + _digits(name, 8)
    return name + _RESYNC


_BESIDE = "__storage_consumer_beside_"


def parallel_load_name(table: TableName, database: str) -> TableName:
    """Returns the name in `database` of a table that is loaded to replace `table`."""
    return TableName(database, _BESIDE + _digits(str(table.folded), 32))


def is_parallel_load(table: TableName) -> bool:
    """Returns whether it is a `parallel_load_name`."""
    return table.table.startswith(_BESIDE)


def _digits(text: str, number: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:number]
