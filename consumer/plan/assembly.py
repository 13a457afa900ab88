"""The listing and the progress together, at the start of a round."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from operator import attrgetter
from typing import NamedTuple

from consumer.errors import CannotBeExact, ConsumerError, GapFound
from consumer.history.history import History
from consumer.history.incarnations import Incarnation
from consumer.history.target_tables import TargetTables, is_pending, was_executed
from consumer.model.actions import RENAME_ACTIONS, Action
from consumer.model.ddl_policy import PolicyOf, evolve
from consumer.model.files import Bounds, DataFile, Folder, Listing, Named, SchemaFile
from consumer.model.hints import Hint, about_table, from_an_export, in_a_replay
from consumer.model.losses import Loss
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import DdlState, FolderProgress, Progress, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.model.table_rules import Batches
from consumer.model.times import MAX_TSO, tso_to_time
from consumer.plan.catalog import Catalog, schema_missing, schemas_gone
from consumer.plan.gaps import (
    find_gaps,
    find_lost_rests,
    gone_upto,
    hole_below,
    last_row,
    under_another_name,
    without_gaps,
    without_lost_rests,
)
from consumer.plan.late import (
    Ended,
    OfNobody,
    Stretches,
    WereRead,
    left_over,
    overdue_statements,
    rows_of_nobody,
    seen_rows,
)
from consumer.plan.options import FilesKnown
from consumer.plan.retention import NOT_KNOWN, CleanUp, Retention, cleaned_up, forgotten_folders, summed_up, without
from consumer.plan.rewrites import (
    Doubts,
    WrittenAnew,
    ahead_indexes,
    check_places,
    doubtful_indexes,
    lost_indexes,
    old_indexes,
    written_anew,
)
from consumer.plan.round import Round
from consumer.plan.statement import BEGINNING_ACTIONS, Statement
from consumer.plan.timeline import Timeline, build_timeline
from consumer.plan.unread import TableState, unread_files

Accepts = Callable[[TableName], bool]
"""Whether missing files of a table are accepted."""
BoundsOf = Callable[[Collection[DataFile]], Mapping[str, object]]
"""The first and the last commit-ts of files, by path, or why they cannot be read."""


class _Answer(NamedTuple):
    """The errors of an assembly, for what they were asked."""

    progress: Progress
    accept_gap: Accepts
    errors: Sequence[tuple[TableName, ConsumerError]]


@dataclass(frozen=True, slots=True)
class Assembly:
    """`tables` are the tables that this round is about: they exist, are about to, or lack a usable schema file. A
    database with pending statements of its own is among them, as a table with no name. `whole` are folders that are
    looked at from their first file on, because files of them were rewritten; `goes_on` as in WrittenAnew; `written` has
    by root and folder the number up to which all files were written. `read` are the folders of the progress, by root.
    `overdue` are the errors of tables with statements that came late, or whose end came late, or whose folder is gone.
    """

    listing: Listing
    tables: Sequence[TableName]
    catalog: Catalog
    timeline: Timeline
    files: Mapping[TableName, Sequence[DataFile]]
    broken: Mapping[TableName, ConsumerError]
    wanted: Callable[[TableName], bool]
    clean_up: CleanUp
    whole: Collection[Folder] = ()
    read: Mapping[str, Sequence[Folder]] = field(default_factory=dict)
    overdue: Mapping[TableName, ConsumerError] = field(default_factory=dict)
    goes_on: Mapping[Folder, int] = field(default_factory=dict)
    written: Mapping[str, Mapping[Folder, int]] = field(default_factory=dict)
    naming: Naming = SAME
    _answers: list[_Answer] = field(default_factory=list, init=False, compare=False, repr=False)
    """The last answer of `errors`."""

    @classmethod
    def of(
        cls,
        listing: Listing,
        progress: Progress,
        wanted: Callable[[TableName], bool],
        policy_of: PolicyOf = evolve,
        retention: Retention = NOT_KNOWN,
        whole: Collection[Folder] = (),
        naming: Naming = SAME,
    ) -> Assembly:
        catalog = Catalog.of(listing.schemas, (error.path for error in listing.broken))
        timeline = build_timeline(catalog, progress, listing.checkpoint, wanted, policy_of, listing.settled, naming)
        catalog = replace(catalog, history=timeline.history)
        # One above the checkpoint may only not be complete yet.
        due_errors = [e for e in listing.broken if e.version is None or e.version <= listing.checkpoint]
        broken = _broken(catalog, due_errors)
        # A folder above the checkpoint can be seen before its schema file: nothing in it is due yet.
        due = {
            root: [f for f in files if f.folder.version <= listing.checkpoint or catalog.schema(f.folder) is not None]
            for root, files in listing.files.items()
        }
        files = {name: _since_start(f, progress, name) for name, f in catalog.files_by_table(due).items()}
        clean_up = CleanUp.of(listing, progress, retention)
        gone = {name: schemas_gone(name, root) for root, name in catalog.gone(progress).items()}
        overdue = {**overdue_statements(timeline, progress), **left_over(progress), **gone}
        read = _by_root(progress.folders)
        troubled = {*broken, *overdue, *(files.keys() - catalog.by_table.keys())}
        tables = _tables(timeline, {*troubled, *_ended(files, timeline.history, progress)}, wanted)
        return cls(
            listing,
            tables,
            catalog,
            timeline,
            files,
            broken,
            wanted,
            clean_up,
            whole,
            read,
            overdue,
            written=_told(listing.packed, {}),
            naming=naming,
        )

    @property
    def checkpoint(self) -> int:
        return self.listing.checkpoint

    @property
    def history(self) -> History:
        """That of upstream's tables, up to the checkpoint."""
        return self.timeline.history

    def advised(self, hint: str, table: TableName, replay: bool) -> Hint:
        """`hint` about `table`: where the storage alone cannot make that again, an export must. In a `replay` its range
        is applied again."""
        known, own = about_table(hint, table), self.history.alive.get(table)
        if replay:
            return in_a_replay(known)
        return known if own is None or own.not_anew is None else from_an_export(known)

    def there(self, progress: Progress) -> dict[TableName, Incarnation]:
        """The tables that the target has, as the statements left them that have run. In a round, `progress` is further
        than the one that the assembly began with."""
        executed = self.executed(progress)
        return TargetTables(self.history, lambda file: file.path in executed).followed_tables(progress)

    def executed(self, progress: Progress) -> frozenset[str]:
        """The paths of the statements that have run, or that somebody has done by hand. One that broke off has not, as
        far as is known."""
        waiting = {statement.file.path for statement in self.timeline.pending if is_pending(statement.file, progress)}
        ran = (met.file.path for met in self.history.met if was_executed(met.file, progress))
        return frozenset(ran) - waiting

    def errors(self, progress: Progress, accept_gap: Accepts) -> Sequence[tuple[TableName, ConsumerError]]:
        """Tables that cannot begin: a broken schema file, none at all, a gap in their files. Each table is looked at
        once for one progress: a round asks before it begins, and as it does."""
        for known in self._answers:
            if known.progress is progress and known.accept_gap is accept_gap:
                return known.errors
        self._answers[:] = [_Answer(progress, accept_gap, [*self._look_for_errors(progress, accept_gap)])]
        return self._answers[0].errors

    def _look_for_errors(self, progress: Progress, accept_gap: Accepts) -> Iterator[tuple[TableName, ConsumerError]]:
        for name in filter(self.wanted, self.tables):
            error = self._broken(name, progress) or self._schemaless(name, progress) or self.overdue.get(name)
            error = error or self._lost(name, progress)
            if error is None and name in self.timeline.live and not accept_gap(name):
                error = self.gap_from(name, progress, progress.table(name).applied_ts)
            if error is not None:
                yield name, error

    def ended(self, progress: Progress) -> dict[TableName, Ended]:
        """The names that no table has at the checkpoint, with files that are left to read."""
        return {name: of for name, of in _ended(self.files, self.history, progress).items() if self.wanted(name)}

    def of_nobody(
        self,
        ended: Mapping[TableName, Ended],
        bounds: Mapping[str, Bounds | ConsumerError] | None,
        progress: Progress,
        were_read: WereRead,
    ) -> dict[TableName, OfNobody]:
        """What the files of the names hold. `bounds` are those of the files with rows that can be due, None where rows
        have no time."""
        return {
            name: rows_of_nobody(
                name,
                one,
                bounds,
                self.checkpoint,
                progress.folders,
                progress.start_of(name),
                self._seen_before(name, one, progress),
                were_read,
            )
            for name, one in ended.items()
        }

    def _seen_before(self, name: TableName, ended: Ended, progress: Progress) -> Mapping[str, Stretches]:
        """What was read of a table until the target renamed it, where it lives on."""
        for table in self.history.had(name, ended.since):
            renames = (f for f in table.files if f.version == ended.since and f.action in RENAME_ACTIONS)
            record = next((progress.ddls.get(ddl_id(file)) for file in renames), None)
            if record is not None and record.state is DdlState.DONE and table.end is None:
                roots = {entry.file.folder.root for entry in ended.unread}
                return self.seen(name, roots, progress, ended.since) if self.wanted(table.name) else {}
        return {}

    def doubts(self, progress: Progress) -> Doubts:
        """The index files that must be read to know what was written again."""
        every, alive = [file for name in self.tables for file in self.files.get(name, ())], self._alive()
        roots = {file.root for name in self.tables if self.wanted(name) for file in self.catalog.by_table.get(name, ())}
        return Doubts(
            doubtful_indexes(alive, self._known(progress), self.listing, progress),
            old_indexes(every, self.listing, progress),
            lost_indexes(alive, self.listing, progress),
            ahead_indexes(every, roots, self.listing, progress),
        )

    def written_anew(
        self, doubts: Doubts, names: Mapping[Folder, int], progress: Progress, timeless: bool, bounds: BoundsOf
    ) -> WrittenAnew:
        """What `progress` does not know of folders that it has read. `names` are the numbers that the index files in
        doubt name."""
        found = written_anew(doubts, names, self._alive(), self.listing, progress, timeless)
        if timeless or self.checkpoint != MAX_TSO:
            return found
        return replace(found, whole={*found.whole, *self._folded_again(progress, found.whole, bounds)})

    def _folded_again(self, progress: Progress, whole: Collection[Folder], bounds: BoundsOf) -> Iterator[Folder]:
        """Without a checkpoint no table moves on with its rows: the folders of those with a file to read that may have
        older rows than were read, or with a statement to run that is older. All rows behind the table's last statement
        are folded again."""
        first = {name: statement.version for statement in self.timeline.pending[::-1] for name in statement.touches}
        for name in filter(self.wanted, self.timeline.live):
            folders, position = self.folders_of((name,), progress), progress.table(name).applied_ts
            last = max((place.last_ts for place in folders.values()), default=0)
            files = self.files.get(name, ()) if last > position else ()
            unread = unread_files(files, progress.folders, whole=whole)
            ends = bounds([entry.file for entry in unread]).values() if unread else ()
            late = first.get(name, last) < last
            if late or any(
                not isinstance(end, Bounds) or (end.first <= last and not end.ends_by(position)) for end in ends
            ):
                yield from folders

    def _lost(self, name: TableName, progress: Progress) -> CannotBeExact | None:
        """Why the rows of a table cannot be folded again: not all that were read are there."""
        every, position = self.folders_of((name,), progress), progress.table(name).applied_ts
        if self.checkpoint != MAX_TSO or every.keys().isdisjoint(self.whole):
            return None
        folders = {folder: place for folder, place in every.items() if last_row(folder, place) > position}
        files = [file for file in self.files.get(name, ()) if file.folder in folders]
        hole = hole_below(files, folders)
        if not hole and gone_upto(files, folders, MAX_TSO, lambda _: {}) < max(position, 1):
            return None
        return CannotBeExact(
            "a file has older rows than were read. Without `metadata` all files are read again then, and"
            f" {hole or 'one'} that was read is gone",
            hint="put the files back that were read, or leave the table out with --tables",
            table=str(name),
        )

    def folders_of(self, names: Collection[TableName], progress: Progress) -> dict[Folder, FolderProgress]:
        """The folders of a table, by all of its `names`, of which something was read."""
        roots = {file.root for name in names for file in self.catalog.by_table.get(name, ())}
        read = (folder for root in roots for folder in self.read.get(root, ()) if folder in progress.folders)
        return {folder: progress.folders[folder] for folder in read if self.catalog.owner(folder) in names}

    def _alive(self) -> list[DataFile]:
        """The files of the tables that exist."""
        alive = (name for name in self.timeline.live if self.wanted(name))
        return [file for name in alive for file in self.files.get(name, ())]

    def _known(self, progress: Progress) -> list[Folder]:
        """The folders of the tables that exist of which something was read."""
        live = (name for name in self.timeline.live if self.wanted(name))
        roots = {file.root for name in live for file in self.catalog.by_table.get(name, ())}
        return [folder for root in roots for folder in self.read.get(root, ()) if folder in progress.folders]

    def recording(self, anew: WrittenAnew, names: Mapping[Folder, Named]) -> Assembly:
        """As it is recorded: without the index files of the unproven folders. `names` are what index files name."""
        indexes = {folder: file for folder, file in self.listing.indexes.items() if folder not in anew.unproven}
        listing = replace(self.listing, indexes=indexes)
        written = _told(
            listing.packed, self._proven({f: named.number for f, named in names.items() if named.as_listed})
        )
        return replace(self, listing=listing, goes_on=anew.goes_on, written=written)

    def _proven(self, named: Mapping[Folder, int]) -> dict[Folder, int]:
        """Of what index files name, what proves that files are lost. An index file can be newer than the files beside
        it, as in a copy of a storage. So its folder has no file and never had one, or its writer is in a later one."""
        newest: dict[tuple[str, str, str], tuple[int, str]] = {}
        roots = {folder.root for folder in named}
        there = {file.folder for root in roots for file in self.listing.files.get(root, ())}
        there |= {folder for root in roots for folder in self.read.get(root, ())}
        for folder in there:
            last = newest.get(folder.series, (0, ""))
            newest[folder.series] = max(last, (folder.version, folder.date))
        return {
            folder: number
            for folder, number in named.items()
            if folder not in there or newest[folder.series] > (folder.version, folder.date)
        }

    def new_gaps(self, progress: Progress, accept_gap: Accepts) -> set[tuple[object, ...]]:
        """The gaps that are new, and that another, full listing may explain: a local storage can show a file before the
        one in front of it, and how far the clean-up went shows in files that a partial listing leaves out."""
        found = [(name, error) for name, error in self.errors(progress, accept_gap) if isinstance(error, GapFound)]
        beginning = [s for s in self.timeline.pending if s.begins and not accept_gap(s.begins)]
        gaps = (self.gap_after(statement, progress) for statement in beginning)
        new = {_place(error) for name, error in found if error.code is not progress.table(name).code}
        losses = [*self.losses(progress, accept_gap)]
        losses += [
            (s.begins, self.losses_after(s, progress))
            for s in self.timeline.pending
            if s.begins and accept_gap(s.begins)
        ]
        known = {(name, loss) for name, own in progress.losses.items() for loss in own}
        accepted = {(name, loss.id) for name, own in losses for loss in own} - known
        return new | accepted | {_place(gap) for gap in gaps if gap is not None}

    def gap_after(self, statement: Statement, progress: Progress) -> GapFound | None:
        """The first gap in the files of the table whose rows begin again with `statement`."""
        name = statement.begins
        return None if name is None or not self.wanted(name) else self.gap_from(name, progress, statement.version)

    def gap_from(self, name: TableName, progress: Progress, version: int) -> GapFound | None:
        """The first hole in the files of the table, were it read from `version` on."""
        return next(self._gaps(name, progress, version, version), None)

    def gaps(self) -> Iterator[GapFound]:
        """The first hole in the files of each table, if it were read from its beginning."""
        for name in sorted(self.history.alive):
            yield from itertools.islice(self._gaps(name, Progress(), self.checkpoint, 0), 1)

    def round(self, tables: Mapping[TableName, TableState], files: FilesKnown, batches: Batches) -> Round:
        """The round of `tables`, each where its progress is. Rows without a time in folders from before the last
        statement that emptied their table are left out here, because only their folder shows that they are gone."""
        for name, state in tables.items() if files.dialect.timeless else ():
            state.begin(self._begun(name, state.position))
        return Round(self.checkpoint, self.timeline, tables, self.catalog.is_over, files, batches)

    def check_places(self, name: TableName, files: Iterable[DataFile], progress: Progress) -> CannotBeExact | None:
        """Why rows without a time in the `files` of a table cannot be put in their place; None where they can."""
        end = progress.table(name).applied_ts
        begun = self._begun(name, end)
        history = [file for file in self.catalog.by_table.get(name, ()) if file.version <= end]
        files = [file for file in files if file.folder.version >= begun]
        return check_places(name, files, progress.folders, history)

    def seen(self, name: TableName, roots: Iterable[str], progress: Progress, position: int) -> dict[str, Stretches]:
        """By partition, the commit-ts that rows in the new files of a table may have, where it is complete up to
        `position`."""
        listed = {file.folder for file in self.files.get(name, ())}
        known = {folder for root in roots for folder in self.read.get(root, ())}
        places = {folder: progress.folders.get(folder, FolderProgress()) for folder in (*listed, *known)}
        return seen_rows(places, max(progress.start_of(name), self._begun(name, position)), position)

    def _begun(self, name: TableName, version: int) -> int:
        """The last new beginning of the table up to `version`, 0 for none."""
        history = self.catalog.by_table.get(name, ())
        beginning = BEGINNING_ACTIONS - ({Action.TRUNCATE_TABLE} if self.naming.keeps_ended(name) else set())
        # Asked for each of them where many are pending, so it is looked for from its end.
        places = range(bisect_right(history, version, key=attrgetter("version")) - 1, -1, -1)
        return next((history[place].version for place in places if history[place].action in beginning), 0)

    def losses(self, progress: Progress, accept_gap: Accepts) -> Iterator[tuple[TableName, list[Loss]]]:
        """What the tables that `errors` lets begin go on without."""
        broken = {name for name, _ in self.errors(progress, accept_gap)}
        for name in self.tables:
            if self.wanted(name) and name in self.timeline.live and name not in broken and accept_gap(name):
                applied_ts = progress.table(name).applied_ts
                yield name, self._losses(name, progress, applied_ts)

    def losses_after(self, statement: Statement, progress: Progress) -> list[Loss]:
        """The same for the table whose rows begin again with `statement`."""
        name = statement.begins
        wanted = name is not None and self.wanted(name)
        return self._losses(name, progress, statement.version) if name is not None and wanted else []

    def without_losses(self, name: TableName, progress: Progress, after: int) -> dict[Folder, FolderProgress]:
        """The folders of a table that goes on behind `after` once its losses are accepted, where that changes them."""
        files, own, numbered = self._numbered(name, progress, after)
        rests = without_lost_rests(self.files.get(name, ()), own, after)
        places = {**progress.folders, **rests}
        return rests | without_gaps(files, places, _given(name, progress), numbered)

    def _losses(self, name: TableName, progress: Progress, after: int) -> list[Loss]:
        return [Loss.of(gap, after, self.checkpoint) for gap in self._gaps(name, progress, after, after)]

    def _gaps(self, name: TableName, progress: Progress, version: int, applied_ts: int) -> Iterator[GapFound]:
        """Holes in folders older than the last new beginning up to `version` do not matter: their rows are gone. But
        newer rows can be in an older folder, and where that was seen they are still to be read."""
        files, own, written = self._numbered(name, progress, version)
        gaps = find_gaps(name, files, progress.folders, _given(name, progress), written)
        yield from (under_another_name(gap, self.listing.unknown) for gap in gaps)
        yield from find_lost_rests(name, self.files.get(name, ()), own, applied_ts)
        if (gap := self.clean_up.gap(name, self._since(name, version), applied_ts)) is not None:
            yield gap

    def _since(self, name: TableName, version: int) -> Sequence[SchemaFile]:
        """The statements of the table from its last new beginning up to `version` on."""
        history = self.catalog.by_table.get(name, ())
        return history[bisect_left(history, self._begun(name, version), key=attrgetter("version")) :]

    def _numbered(
        self, name: TableName, progress: Progress, version: int
    ) -> tuple[list[DataFile], dict[Folder, FolderProgress], dict[Folder, int]]:
        """From there on: its files, its folders that were read, and by folder the number up to which all were
        written."""
        begun, roots = self._begun(name, version), {file.root for file in self._since(name, version)}
        files = [file for file in self.files.get(name, ()) if file.folder.version >= begun]
        own = {folder: progress.folders[folder] for root in roots for folder in self.read.get(root, ())}
        return files, own, self._written(name, begun, progress)

    def _written(self, name: TableName, since: int, progress: Progress) -> dict[Folder, int]:
        """By folder of the table, the number below which all files were written, as far as others tell that."""
        own = {file.root for file in self.catalog.by_table.get(name, ())}
        first = _first_date(progress, name)
        return {
            folder: number
            for root in own
            for folder, number in self.written.get(root, {}).items()
            if since <= folder.version <= self.checkpoint
            and (not folder.date or folder.date >= first[: len(folder.date)])
            and self.catalog.owner(folder) == name
        }

    def _broken(self, name: TableName, progress: Progress) -> ConsumerError | None:
        """An unusable schema file, unless the table is past its version: then only rows in its folder would need it."""
        error = self.broken.get(name)
        past = error is not None and error.version is not None and error.version < progress.table(name).applied_ts
        return None if past else error

    def _schemaless(self, name: TableName, progress: Progress) -> ConsumerError | None:
        """Rows with no schema file at all. One that is above the checkpoint may only not have been there yet."""
        if name in self.catalog.by_table or progress.table(name).state is State.DROPPED:
            return None
        orphans = (file for file in self.files.get(name, ()) if file.folder.version < self.checkpoint)
        return next((schema_missing(name, file) for file in orphans), None)

    def forgotten_folders(self, progress: Progress) -> set[Folder]:
        known = {*self.catalog.by_root, *self.listing.files, *self.catalog.gone(progress)}
        return forgotten_folders(self.listing, progress, known)

    def forgetting(self, progress: Progress) -> dict[Folder, FolderProgress | None]:
        """What becomes of the folders of `progress` as some of them are forgotten, and files of others."""
        return {**summed_up(self.listing, progress), **without(self.forgotten_folders(progress), progress)}

    def left_out(self, progress: Progress) -> set[Folder]:
        """Folders that were not looked at, or not at all of their files, and can be gone."""
        if not self.listing.partial:
            return set()
        forgotten = self.forgotten_folders(progress)
        # A clean-up that is half-way can have taken the last file first.
        return {*forgotten, *cleaned_up(forgotten, self.listing, progress)}

    def exclusions(self, progress: Progress) -> dict[TableName, TableProgress]:
        """Tables and databases left out by the filter, noted where they are, so that a wider filter later finds their
        statements and rows. Names that no table has any more are among them: one that a table has now may have been
        renamed from there."""
        known = {name for name, files in self.catalog.by_table.items() if files[0].version <= self.checkpoint}
        places = {name: progress.table(name) for name in {*self.files, *known} if not self.wanted(name)}
        return {
            name: TableProgress(place.applied_ts, State.EXCLUDED)
            for name, place in places.items()
            if place.state in (State.OK, State.WAITS, State.STOPPED)
            or (place.state is State.DROPPED and self._lives_again(name, place.applied_ts))
        }

    def _lives_again(self, name: TableName, version: int) -> bool:
        files = self.catalog.by_table.get(name, ())
        return bool(files) and version < files[-1].version <= self.checkpoint

    def forgotten(self, progress: Progress) -> list[TableName]:
        """Tombstones of names that the storage no longer holds, and what is not left out any more and needs nothing."""
        there = set(self.tables)
        back = [name for name, place in progress.tables.items() if place.state is State.EXCLUDED]
        return [name for name in back if self.wanted(name) and name not in there] + [
            name
            for name, table in progress.tables.items()
            if table.state is State.DROPPED and name not in self.catalog.by_table and name not in self.files
        ]


def _ended(
    files: Mapping[TableName, Sequence[DataFile]], history: History, progress: Progress
) -> dict[TableName, Ended]:
    sinces = ((name, history.ended(name)) for name in files)
    found = {n: Ended(s, unread_files(files[n], progress.folders)) for n, s in sinces if s is not None}
    return {name: of for name, of in found.items() if of.unread or progress.table(name).state is State.STOPPED}


def _tables(
    timeline: Timeline, troubled: Collection[TableName], wanted: Callable[[TableName], bool]
) -> Sequence[TableName]:
    touched = {name for statement in timeline.pending for name in statement.touches}
    return sorted(name for name in {*touched, *timeline.live, *troubled} if name in touched or wanted(name))


def _since_start(files: Sequence[DataFile], progress: Progress, name: TableName) -> Sequence[DataFile]:
    """`files` without date folders that were over when the target was given as it was upstream: no later row is in
    them. One more day stays: nodes name folders by their own clocks and zones."""
    first = _first_date(progress, name)
    if not first:
        return files
    return [file for file in files if not file.folder.date or file.folder.date >= first[: len(file.folder.date)]]


def _first_date(progress: Progress, name: TableName) -> str:
    """The first date folder that can have rows of the table which the target was not given, "" for all of them."""
    known = _given(name, progress)
    return (tso_to_time(known) - timedelta(days=2)).strftime("%Y-%m-%d") if known else ""


def _place(gap: GapFound) -> tuple[object, ...]:
    """The same of the same gap in another listing."""
    return gap.code, gap.table, gap.path, gap.missing


def _told(packed: Mapping[Folder, int], named: Mapping[Folder, int]) -> dict[str, dict[Folder, int]]:
    """By root and folder, the number up to which all files were written. The file that an index file names may not be
    there: some releases write it first, and can die in between."""
    found: dict[str, dict[Folder, int]] = {}
    for folder in {*packed, *named}:
        found.setdefault(folder.root, {})[folder] = max(packed.get(folder, 0), named.get(folder, 0) - 1)
    return found


def _given(name: TableName, progress: Progress) -> int:
    """As of when the target was given the table, 0 for never: one behind that is made again from the storage."""
    return min(progress.start_of(name), progress.table(name).applied_ts)


def _by_root(folders: Iterable[Folder]) -> dict[str, list[Folder]]:
    found: dict[str, list[Folder]] = {}
    for folder in folders:
        found.setdefault(folder.root, []).append(folder)
    return found


def _broken(catalog: Catalog, errors: Sequence[ConsumerError]) -> dict[TableName, ConsumerError]:
    owners = [(_owner(catalog, error.table), error) for error in errors]
    return {name: error.about(str(name)) for name, error in owners}


def _owner(catalog: Catalog, root: str) -> TableName:
    files = catalog.by_root.get(root)
    if files:
        return files[-1].name
    database, _, table = root.partition("/")
    return TableName(database, table)
