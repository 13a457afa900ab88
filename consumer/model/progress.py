"""The progress: what the target already has. It is the only state that outlives a run, and it is in the target
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
from consumer.model.bad_rows import BadRow, BadRows, moved
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
    """It is made again in place. The target may still have a table of this name; it is dropped before anything else."""
    EXCHANGING = "exchanging"
    """What was loaded beside it is to take its place, before anything else: all else that is recorded is of that."""
    EXCLUDED = "excluded"
    """The table filter left it out; its rows above `applied_ts` were never read."""


ENDED = (State.DROPPED, State.EXCLUDED)
"""Nothing is done to such a table any more."""


@dataclass(frozen=True, slots=True)
class TableProgress:
    """A table that is not simply where the global applied-ts is.

    Every row with commit-ts <= `applied_ts` is in the target. `reason` belongs to STOPPED, WAITS, EMPTYING and
    EXCHANGING, `hint` to STOPPED; both are for people. `code` says the same to programs: that of the error for which it
    stopped or waits.
    """

    applied_ts: int
    state: State = State.OK
    reason: str = ""
    hint: str = ""
    code: Code | None = None

    @classmethod
    def stopped(cls, applied_ts: int, error: ConsumerError) -> TableProgress:
        """One that goes no further, for `error`."""
        return cls(applied_ts, State.STOPPED, error.sentence(), error.hint, error.code)

    @classmethod
    def moved(cls, applied_ts: int) -> TableProgress:
        """One that a writer has moved with its rows: the files that they came from are not recorded as read yet."""
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
    """A file above a folder's `done` that was read: `next_ts` is its lowest commit-ts not yet applied, 0 for none. One
    of size NOT_READ was not: it is read from its beginning. `checksum` is that of its content, 0 where it is not known
    (see `FileStat`), `first_ts` the least commit-ts of its rows: 0 where that is not known, MAX_TSO where no row tells
    one."""

    index: int
    next_ts: int
    size: int
    stamp: str
    checksum: int = 0
    first_ts: int = 0

    def holds(self, file: DataFile) -> bool:
        """Whether `file` is still the one that was read, as far as is known."""
        return (self.size, self.stamp) in ((0, ""), (file.size, file.stamp))

    def may_hold(self, file: DataFile) -> bool:
        """Whether its checksum tells if `file`, which has another stamp, is still the one that was read."""
        return bool(self.checksum) and self.size == file.size and self.stamp != file.stamp


@dataclass(frozen=True, slots=True)
class FolderProgress:
    """Files 1..`done` are applied wholly and not read again; `size`, `stamp`, `checksum` and `file_first_ts` are those
    of file `done`, 0 and "" where that was not seen.

    `open` are files above `done` that were read: waiting for their rest, done out of order, or such that TiCDC may
    write again. `index` is the stamp of the folder's index file as it was when files were last read, "" where there was
    none. The rows that were read, up to how far their table was, have commit-ts from `first_ts` to `last_ts` (0: there
    were none, MAX_TSO: not known). Those up to `gone_ts` may be in the storage no more, as files were written again, or
    were in folders that are gone. `head_ts` is the least commit-ts that file 1 ever began with, 0 where that is not
    known: where it begins later, rows from before are gone.
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
        """Whether files are left to read: up to the last one that was read, as far as is known."""
        numbers = range(self.done + 1, self.done + 1 + len(self.open))
        return any(entry.next_ts or entry.index != number for entry, number in zip(self.open, numbers, strict=True))

    @property
    def last(self) -> OpenFile:
        """The record of file `done`."""
        return OpenFile(self.done, 0, self.size, self.stamp, self.checksum, self.file_first_ts)

    def copied(self, file: DataFile) -> FolderProgress:
        """The folder where `file` holds what was read, and only its stamp is another one."""
        if file.index == self.done:
            return replace(self, stamp=file.stamp)
        left = (replace(entry, stamp=file.stamp) if entry.index == file.index else entry for entry in self.open)
        return replace(self, open=tuple(left))

    def done_to(self, last: OpenFile, left: Iterable[OpenFile]) -> FolderProgress:
        """The folder with `last` as the record of the last done file, and those in `left` above it."""
        done, size, stamp, checksum, first_ts = last.index, last.size, last.stamp, last.checksum, last.first_ts
        kept = replace(self, done=done, size=size, stamp=stamp, checksum=checksum, file_first_ts=first_ts)
        return replace(kept, open=tuple(left))

    def with_rows(self, times: Collection[int], position: int) -> FolderProgress:
        """The folder once rows with these commit-ts were read, where the table was at `position` before."""
        if not times:
            return self
        if not self.last_ts:
            return replace(self, first_ts=min(times), last_ts=max(times))
        last = position if self.last_ts == MAX_TSO else self.last_ts
        return replace(self, first_ts=min(self.first_ts, *times), last_ts=max(last, *times))


class DdlId(NamedTuple):
    """A statement is its schema file: several can carry one version."""

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
    """How a statement comes to have its effect in the target, or why it never has. Those that are not EXECUTED are
    SKIPPED."""

    EXECUTED = "executed"
    """By this program: it was, it has begun, or it is tried again."""
    BY_HAND = "by hand"
    """Somebody has done what it means, and said so (`skip-ddl`)."""
    GIVEN = "given"
    """The target had its effect when its table began."""
    IGNORED = "ignored"
    """A policy keeps it from the target."""
    KEPT = "kept"
    """The same of a DROP: what it drops upstream stays in the target."""
    NO_ROWS = "no rows"
    """What it is about has no rows (a view, a global temporary table), and is left out."""
    LEFT = "left"
    """To another consumer, which has tables of its database."""
    OVERTAKEN = "overtaken"
    """A later one drops its table."""
    PASSED_OVER = "passed over"
    """The upstream's table no longer existed."""
    NOT_MADE = "not made"
    """The target can no longer have its table under that name."""


LEFT_UNDONE = {
    DdlKind.PASSED_OVER: "its table was gone before the table rules took it",
    DdlKind.NOT_MADE: "the table rules left its table out then, and another one has a name of it since",
}
"""The kinds of statements that are never executed, because their table must not be created under that name; what is
recorded as the reason."""


@dataclass(frozen=True, slots=True)
class DdlRecord:
    """`before` is the sink's own text: after a crash it shows whether the statement ran, and how much of a refused
    statement ran. `reason` is for people, who may write it themselves."""

    id: DdlId
    state: DdlState
    before: str = ""
    reason: str = ""
    kind: DdlKind = DdlKind.EXECUTED

    @classmethod
    def skipped(cls, statement: DdlId, kind: DdlKind, reason: str) -> DdlRecord:
        """One that is not executed here."""
        return cls(statement, DdlState.SKIPPED, reason=reason, kind=kind)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One finished step, for people: `changes` are the row changes read, `puts` and `deletes` what was left of them
    once folded; `statement` is the DDL text or ""."""

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
    and must not be recorded (see `check`). `by_hand` are tables, as the target calls them, of which it records
    statements that were not executed here: somebody may have changed them by hand. `moved_lacks`: where
    what these tables lack (rows that were quarantined, accepted losses) is missing now, which can be nowhere; then
    `quarantined` and `losses` are added, by table and id, and of the tables in `taken_in` those ids are forgotten.
    `late`: see `Progress`. `syncpoint`: all tables are at `applied_ts` now, which outside checkers are told; so many of
    the newest rows are kept. `leaves`: from now on they are no longer.
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
        """All changes in one; if two change the same thing, the last one counts. Takes one pass over them."""
        changes = (self, *others)
        return ProgressChange(**{one.name: _merged(one, changes) for one in fields(ProgressChange)})

    def check(self, applied_ts: int, tables: Mapping[TableName, int]) -> None:
        """Raises ProgressMoved if recording it would move the progress back. What is recorded now: the global
        `applied_ts`, and those of the `tables` that have one of their own, as TSOs. A table that was dropped may go
        back: it has no rows that could be applied twice."""
        if self.rewind:
            return
        new = applied_ts if self.applied_ts is None else self.applied_ts
        places = ((name, own.applied_ts if own else new) for name, own in self.tables.items() if not _ended(own))
        moves = [(str(name), tables.get(name, applied_ts), place) for name, place in places]
        for what, known, place in [("the replica", applied_ts, new), *moves]:
            if place < known:
                raise ProgressMoved(
                    f"the target has recorded commit-ts {known} for {what}, and this round would go back to {place}",
                    hint="run again: the progress is read again",
                )


def _merged(one: Field[Any], changes: Sequence[ProgressChange]) -> Any:
    """Of a field in all `changes`: what is in any of them, or the last value that is set."""
    values = [getattr(change, one.name) for change in changes]
    if isinstance(values[0], tuple):
        return tuple(itertools.chain.from_iterable(values))
    if isinstance(values[0], Mapping):
        return {key: value for found in values for key, value in found.items()}
    return next((value for value in reversed(values) if value != one.default), one.default)


def _ended(place: TableProgress | None) -> bool:
    return place is not None and place.state is State.DROPPED


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one consumer name. `upstream` is None before the first run.

    `start_ts`: the target was filled with the upstream's state at that commit-ts, including every statement up to it; 0
    for a target that began empty. `starts`: the same for some tables, by the names that they had then, with a commit-ts
    that is not below `start_ts`; 0 for one that was loaded again from its CREATE TABLE on. `time_zone` is the
    changefeed's, "" where that was not recorded. `bad_rows` are those that were quarantined, `losses` those that were
    accepted, also of tables that are gone and that RECOVER TABLE could bring back (`ddl_policy.trash_name`). `routes`
    are those by which its tables have their names (see `Naming`), `modes` what its tables are that are no mirrors (see
    `consumer.plan.table_modes`), `filters` the rules of its tables (see `consumer.plan.shaping`). `late`: whoever is
    notified was told that the slowest table is far behind, and not yet that this is over.
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
    def lacking(self) -> BadRows:
        """The `bad_rows` of tables that are there."""
        return {name: rows for name, rows in self.bad_rows.items() if not is_trash(name)}

    @property
    def accepted(self) -> Losses:
        """The `losses` of tables that are there."""
        return {name: found for name, found in self.losses.items() if not is_trash(name)}

    @property
    def at_one_moment(self) -> bool:
        """Whether every table that is there is complete at `applied_ts`, and has nothing else."""
        return next(self.incomplete(), None) is None

    def incomplete(self) -> Iterator[tuple[str, str]]:
        """What keeps the tables from being that, and how: one is behind or further, a statement is under way, a row is
        missing, one is of a later moment or of a millisecond of which others may be missing."""
        for name, place in sorted(self.tables.items()):
            if place.state not in ENDED:
                yield str(name), "is further or behind" if place.state is State.OK else f"is not ({place.state})"
        for ddl, record in self.ddls.items():
            if record.state is DdlState.INTENT:
                yield str(TableName(ddl.database, ddl.table)), f"has a statement under way (version {ddl.version})"
        for folder, read in self.folders.items():
            if read.last_ts < MAX_TSO and self._is_above(read.last_ts):
                yield folder.root, "is further or behind"
        for name, rows in self.lacking.items():
            yield str(name), f"lacks {count_text(len(rows), 'quarantined row')}"
        for name, losses in self.accepted.items():
            yield str(name), f"has {count_text(len(losses), 'accepted loss', 'accepted losses')}"

    def _is_above(self, last_ts: int) -> bool:
        logical = (1 << LOGICAL_BITS) - 1
        whole = bool(last_ts) and not last_ts & logical  # it may stand for a whole millisecond
        same = tso_to_ms(last_ts) == tso_to_ms(self.applied_ts) and self.applied_ts & logical < logical
        return last_ts > self.applied_ts or (whole and same)

    def table(self, name: TableName) -> TableProgress:
        return self.tables.get(name) or TableProgress(self.applied_ts)

    @property
    def slowest(self) -> int:
        """The place of the slowest table that goes on: one that waits does, a stopped one needs somebody."""
        going = (place.applied_ts for place in self.tables.values() if place.state in (State.OK, State.WAITS))
        return min([self.applied_ts, *going])

    def start_of(self, name: TableName) -> int:
        """The commit-ts at which the target was given the table that had `name` then; 0 where it was given none."""
        return self.starts.get(name, self.start_ts)

    def was_given(self, statement: DdlId) -> bool:
        """Whether the target had its effect when its table, or all of them, began."""
        record = self.ddls.get(statement)
        if record is not None:
            return record.kind is DdlKind.GIVEN
        return statement.version <= self.start_of(TableName(statement.database, statement.table))

    def was_ignored(self, statement: DdlId) -> bool:
        """Whether a policy kept it from the target."""
        record = self.ddls.get(statement)
        return record is not None and record.kind in (DdlKind.IGNORED, DdlKind.KEPT)

    @property
    def kept(self) -> set[TableName]:
        """The tables that upstream has dropped and the target has, as a policy kept the last DROP from it."""
        dropped = {name: place.applied_ts for name, place in self.tables.items() if place.state is State.DROPPED}
        found = set()
        for ddl in (ddl for ddl, record in self.ddls.items() if record.kind is DdlKind.KEPT):
            in_database = (name for name in self.tables if name.database == ddl.database)
            own = [TableName(ddl.database, ddl.table)] if ddl.table else in_database
            found |= {name for name in own if dropped.get(name, ddl.version) == ddl.version}
        return found

    def after(self, change: ProgressChange) -> Progress:
        """The progress once `change` is durable."""
        ddls = {**self.ddls, **{record.id: record for record in change.ddls}}
        for gone in change.forget_ddls:
            ddls.pop(gone, None)
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
        found = moved(self.bad_rows, change.moved_lacks)
        for name, rows in change.quarantined.items():
            found[name] = found.get(name, {}) | {key: row.record for key, row in rows.items()}
        for name, ids in change.taken_in.items():
            found[name] = {key: row for key, row in found.get(name, {}).items() if key not in ids}
        return {name: rows for name, rows in found.items() if rows}

    def _losses(self, change: ProgressChange) -> Losses:
        found = moved(self.losses, change.moved_lacks)
        return found | {name: found.get(name, {}) | dict(new) for name, new in change.losses.items() if new}


@dataclass(frozen=True, slots=True)
class Owned:
    """A table that belongs to the consumer name `consumer`, and the commit-ts up to which that has applied it.
    `start_ts`: it has taken the table as it was then; 0 for one that it began itself. `busy`: it is at work now."""

    consumer: str
    applied_ts: int
    start_ts: int = 0
    busy: bool = False

    def goes_to(self, name: str, start: int | None) -> bool:
        """Whether the table can belong to the consumer `name` instead, which begins with it at `start`; None: which
        makes it again. A replay has done its part once it has ended, and takes nothing from a consumer that goes on.
        What an export or a resync has is not whole."""
        if self.busy or (is_replay(name) and not is_replay(self.consumer)):
            return False
        if is_export(self.consumer) or is_resync(self.consumer):
            return False
        if start is None:
            return is_replay(self.consumer)
        return start >= self.applied_ts and (start > 0 or is_replay(self.consumer))


class OwnedTables(Mapping[TableName, Owned]):
    """The tables that belong to others than the consumer `name`, as the target calls them; `own` are those that belong
    to it. `case`: whether names that differ in case alone are two tables in the target."""

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
        """The tables of others in `database`, sorted."""
        wanted = self._key(TableName(database, ""))
        return sorted(name for name in self._owned if self._key(TableName(name.database, "")) == wanted)

    def taken(self, wanted: Mapping[TableName, int | None]) -> OwnedTables:
        """Once `name` has taken those of `wanted` that are nobody's or go to it (`goes_to`), each as it begins
        there."""
        begins = {self._key(table): start for table, start in wanted.items()}
        gets = {
            key
            for key, start in begins.items()
            if key not in self._by_key or self._by_key[key].goes_to(self.name, start)
        }
        kept = {table: owned for table, owned in self._owned.items() if self._key(table) not in gets}
        return OwnedTables(self.name, kept, self._own | gets, self._case)

    def without(self, ended: Iterable[TableName]) -> OwnedTables:
        """Once those of `ended` that were its own are nobody's."""
        return OwnedTables(self.name, self._owned, self._own.difference(map(self._key, ended)), self._case)

    def _key(self, name: TableName) -> TableName:
        return name if self._case else name.folded


_REPLAY = re.compile(r".+\.[0-9]+-(?:[0-9]+|checkpoint)")


def is_replay(name: str) -> bool:
    """Whether a replay keeps its progress under `name`."""
    return _REPLAY.fullmatch(name) is not None


_EXPORT = re.compile(r"(.+)\.export-[0-9]+")


def export_name(name: str, moment: int) -> str:
    """Under which an export of that moment is loaded for the consumer `name`."""
    return f"{name}.export-{moment}"


def is_export(name: str, consumer: str = "") -> bool:
    """Whether an export is being loaded under `name`, for `consumer` if it is given."""
    found = _EXPORT.fullmatch(name)
    return found is not None and consumer in ("", found[1])


_RESYNC = ".resync-"
_RESYNC_NAME = re.compile(rf".+{re.escape(_RESYNC)}[0-9a-f]{{8}}-[0-9]+")


def resync_name(name: str, table: TableName, birth: int) -> str:
    """Under which the consumer `name` loads a table again that a statement of version `birth` made."""
    return f"{_resync_stem(name)}{_digits(str(table.folded), 8)}-{birth}"


def is_resync(name: str) -> bool:
    """Whether a table is being loaded again under `name`."""
    return _RESYNC_NAME.fullmatch(name) is not None


def is_resync_of(other: str, name: str, table: TableName | None = None) -> bool:
    """Whether the consumer `name` loads this table again under `other`, or did so when it was an earlier one; None: any
    table."""
    which = "" if table is None else f"{_digits(str(table.folded), 8)}-"
    return is_resync(other) and other.startswith(_resync_stem(name) + which)


def _resync_stem(name: str) -> str:
    longest = NAME_LIMIT - len(f"{_RESYNC}{'0' * 8}-{MAX_TSO}")
    if len(name) > longest:
        name = name[: longest - 9] + "_" + _digits(name, 8)
    return name + _RESYNC


_BESIDE = "__storage_consumer_beside_"


def beside_name(table: TableName, database: str) -> TableName:
    """What a table of the target is called in `database` while it is loaded, to take the place of `table` then."""
    return TableName(database, _BESIDE + _digits(str(table.folded), 32))


def is_beside(table: TableName) -> bool:
    """Whether it is a `beside_name`."""
    return table.table.startswith(_BESIDE)


def _digits(text: str, number: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:number]
