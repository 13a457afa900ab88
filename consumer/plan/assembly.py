"""Combines the listing and the progress at the start of a round."""

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
from consumer.model.files import Bounds, DataFile, Folder, IndexEntry, Listing, SchemaFile
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
    accept_gaps,
    accept_lost_remainders,
    find_gaps,
    find_lost_remainders,
    last_row,
    lost_rows_up_to,
    missing_file_below,
    renamed_file_gap,
)
from consumer.plan.late import (
    EndedName,
    OrphanRows,
    Stretches,
    WereRead,
    accounted_commit_ts,
    orphan_rows,
    overdue_statements,
    tables_kept_by_policy,
)
from consumer.plan.options import FileOptions
from consumer.plan.retention import (
    NOT_KNOWN,
    CleanUp,
    Retention,
    forget_folders,
    forgotten_folders,
    possibly_cleaned_up,
    summarised_folders,
)
from consumer.plan.rewrites import (
    Doubts,
    RewrittenFolders,
    ahead_indexes,
    check_places,
    doubtful_indexes,
    find_rewritten,
    lost_indexes,
    old_indexes,
)
from consumer.plan.round import Round
from consumer.plan.statement import BEGINNING_ACTIONS, Statement
from consumer.plan.timeline import Timeline, build_timeline
from consumer.plan.unread import TableInRound, unread_files

Accepts = Callable[[TableName], bool]
"""Returns whether missing files of a table are accepted."""
BoundsOf = Callable[[Collection[DataFile]], Mapping[str, object]]
"""Returns the first and the last commit-ts of files, by path, or why they cannot be read."""


class _Answer(NamedTuple):
    """The errors of an assembly, with the arguments for which they were computed."""

    progress: Progress
    accept_gap: Accepts
    errors: Sequence[tuple[TableName, ConsumerError]]


@dataclass(frozen=True, slots=True)
class Assembly:
    """The listing together with the progress.

    `tables` are the tables of this round: they exist, are about to, or lack a usable schema file. A database with
    pending statements of its own is among them, as a table with an empty name. `relisted` are folders that are listed
    from their first file on, because files of them were rewritten. `rewritable_from` is as in RewrittenFolders.
    `written` has by root and folder the number up to which all files were written. `read` are the folders of the
    progress, by root. `overdue` are the errors of tables with statements that came late, or whose end came late, or
    whose folder is missing.
    """

    listing: Listing
    tables: Sequence[TableName]
    catalog: Catalog
    timeline: Timeline
    files: Mapping[TableName, Sequence[DataFile]]
    broken: Mapping[TableName, ConsumerError]
    wanted: Callable[[TableName], bool]
    clean_up: CleanUp
    relisted: Collection[Folder] = ()
    read: Mapping[str, Sequence[Folder]] = field(default_factory=dict)
    overdue: Mapping[TableName, ConsumerError] = field(default_factory=dict)
    rewritable_from: Mapping[Folder, int] = field(default_factory=dict)
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
        relisted: Collection[Folder] = (),
        naming: Naming = SAME,
    ) -> Assembly:
        catalog = Catalog.of(listing.schemas, (error.path for error in listing.broken))
        timeline = build_timeline(catalog, progress, listing.checkpoint, wanted, policy_of, listing.settled, naming)
        catalog = replace(catalog, history=timeline.history)
        # A schema file above the checkpoint may only be incomplete so far.
        due_errors = [e for e in listing.broken if e.version is None or e.version <= listing.checkpoint]
        broken = _broken(catalog, due_errors)
        # A folder above the checkpoint can be seen before its schema file: nothing in it is due yet.
        due = {
            root: [f for f in files if f.folder.version <= listing.checkpoint or catalog.schema(f.folder) is not None]
            for root, files in listing.files.items()
        }
        files = {name: _files_since_start(f, progress, name) for name, f in catalog.files_by_table(due).items()}
        clean_up = CleanUp.of(listing, progress, retention)
        gone = {name: schemas_gone(name, root) for root, name in catalog.missing_folders(progress).items()}
        overdue = {**overdue_statements(timeline, progress), **tables_kept_by_policy(progress), **gone}
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
            relisted,
            read,
            overdue,
            written=_written_up_to(listing.packed, {}),
            naming=naming,
        )

    @property
    def checkpoint(self) -> int:
        return self.listing.checkpoint

    @property
    def history(self) -> History:
        """The history of upstream's tables, up to the checkpoint."""
        return self.timeline.history

    def advised(self, hint: str, table: TableName, replay: bool) -> Hint:
        """Returns `hint` about `table`. If the storage alone cannot rebuild the table, the hint asks for an export. In
        a `replay` its range is applied again."""
        adapted, incarnation = about_table(hint, table), self.history.alive.get(table)
        if replay:
            return in_a_replay(adapted)
        return adapted if incarnation is None or incarnation.why_not_rebuildable is None else from_an_export(adapted)

    def target_tables(self, progress: Progress) -> dict[TableName, Incarnation]:
        """Returns the tables that the target has, as the executed statements left them. In a round, `progress` is
        further than the one that the assembly began with."""
        executed = self.executed(progress)
        return TargetTables(self.history, lambda file: file.path in executed).followed_tables(progress)

    def executed(self, progress: Progress) -> frozenset[str]:
        """Returns the paths of the statements that have run, or that somebody has done by hand. A statement that broke
        off has not run, as far as is known."""
        waiting_paths = {
            statement.file.path for statement in self.timeline.pending if is_pending(statement.file, progress)
        }
        ran = (event.file.path for event in self.history.followed_files if was_executed(event.file, progress))
        return frozenset(ran) - waiting_paths

    def errors(self, progress: Progress, accept_gap: Accepts) -> Sequence[tuple[TableName, ConsumerError]]:
        """Returns the errors of tables that cannot begin: a broken schema file, none at all, a gap in their files. Each
        table is checked once for one progress, though a round asks before it begins, and as it does."""
        for answer in self._answers:
            if answer.progress is progress and answer.accept_gap is accept_gap:
                return answer.errors
        self._answers[:] = [_Answer(progress, accept_gap, [*self._look_for_errors(progress, accept_gap)])]
        return self._answers[0].errors

    def _look_for_errors(self, progress: Progress, accept_gap: Accepts) -> Iterator[tuple[TableName, ConsumerError]]:
        for name in filter(self.wanted, self.tables):
            error = self._broken(name, progress) or self._schemaless(name, progress) or self.overdue.get(name)
            error = error or self._not_foldable(name, progress)
            if error is None and name in self.timeline.live and not accept_gap(name):
                error = self.gap_from(name, progress, progress.table(name).applied_ts)
            if error is not None:
                yield name, error

    def ended_names(self, progress: Progress) -> dict[TableName, EndedName]:
        """Returns the names that no table has at the checkpoint, with their unread files."""
        return {
            name: files_of_name
            for name, files_of_name in _ended(self.files, self.history, progress).items()
            if self.wanted(name)
        }

    def orphan_rows(
        self,
        ended: Mapping[TableName, EndedName],
        bounds: Mapping[str, Bounds | ConsumerError] | None,
        progress: Progress,
        were_read: WereRead,
    ) -> dict[TableName, OrphanRows]:
        """Returns what the files of the names hold. `bounds` are those of the files with rows that can be due, None if
        rows have no time."""
        return {
            name: orphan_rows(
                name,
                ended_name,
                bounds,
                self.checkpoint,
                progress.folders,
                progress.start_of(name),
                self._seen_before(name, ended_name, progress),
                were_read,
            )
            for name, ended_name in ended.items()
        }

    def _seen_before(self, name: TableName, ended: EndedName, progress: Progress) -> Mapping[str, Stretches]:
        """Returns the stretches that were read of a table until the target renamed it, if the table still lives."""
        for table in self.history.tables_named(name, ended.since):
            renames = (f for f in table.files if f.version == ended.since and f.action in RENAME_ACTIONS)
            record = next((progress.ddls.get(ddl_id(file)) for file in renames), None)
            if record is not None and record.state is DdlState.DONE and table.end is None:
                roots = {entry.file.folder.root for entry in ended.unread}
                return self.accounted_commit_ts(name, roots, progress, ended.since) if self.wanted(table.name) else {}
        return {}

    def doubtful_folders(self, progress: Progress) -> Doubts:
        """Returns the index files that must be read to know what was written again."""
        every, alive = [file for name in self.tables for file in self.files.get(name, ())], self._alive()
        roots = {file.root for name in self.tables if self.wanted(name) for file in self.catalog.by_table.get(name, ())}
        return Doubts(
            doubtful_indexes(alive, self._read_folders(progress), self.listing, progress),
            old_indexes(every, self.listing, progress),
            lost_indexes(alive, self.listing, progress),
            ahead_indexes(every, roots, self.listing, progress),
        )

    def find_rewritten(
        self, doubts: Doubts, names: Mapping[Folder, int], progress: Progress, timeless: bool, bounds: BoundsOf
    ) -> RewrittenFolders:
        """Returns what `progress` does not show of folders that it has read. `names` are the numbers that the index
        files in doubt name."""
        result = find_rewritten(doubts, names, self._alive(), self.listing, progress, timeless)
        if timeless or self.checkpoint != MAX_TSO:
            return result
        return replace(result, relisted={*result.relisted, *self._folded_again(progress, result.relisted, bounds)})

    def _folded_again(self, progress: Progress, relisted: Collection[Folder], bounds: BoundsOf) -> Iterator[Folder]:
        """Yields the folders whose rows are folded again in a storage without a checkpoint. No table advances with its
        rows there, so all rows after the table's last statement are folded again if a table has an unread file that may
        have older rows than were read, or a pending statement that is older."""
        first = {name: statement.version for statement in self.timeline.pending[::-1] for name in statement.touches}
        for name in filter(self.wanted, self.timeline.live):
            folders, position = self.folders_of((name,), progress), progress.table(name).applied_ts
            last = max((place.last_ts for place in folders.values()), default=0)
            files = self.files.get(name, ()) if last > position else ()
            unread = unread_files(files, progress.folders, relisted=relisted)
            ends = bounds([entry.file for entry in unread]).values() if unread else ()
            is_late = first.get(name, last) < last
            if is_late or any(
                not isinstance(end, Bounds) or (end.first <= last and not end.ends_by(position)) for end in ends
            ):
                yield from folders

    def _not_foldable(self, name: TableName, progress: Progress) -> CannotBeExact | None:
        """Returns why the rows of a table cannot be folded again, because not all that were read are there; None if
        they can."""
        every, position = self.folders_of((name,), progress), progress.table(name).applied_ts
        if self.checkpoint != MAX_TSO or every.keys().isdisjoint(self.relisted):
            return None
        folders = {folder: place for folder, place in every.items() if last_row(folder, place) > position}
        files = [file for file in self.files.get(name, ()) if file.folder in folders]
        hole = missing_file_below(files, folders)
        if not hole and lost_rows_up_to(files, folders, MAX_TSO, lambda _: {}) < max(position, 1):
            return None
        return CannotBeExact(
            "a file has older rows than were read. Without `metadata` all files are read again then, and"
            f" {hole or 'one'} that was read is gone",
            hint="put the files back that were read, or leave the table out with --tables",
            table=str(name),
        )

    def folders_of(self, names: Collection[TableName], progress: Progress) -> dict[Folder, FolderProgress]:
        """Returns the folders of a table, by all of its `names`, of which something was read."""
        roots = {file.root for name in names for file in self.catalog.by_table.get(name, ())}
        read = (folder for root in roots for folder in self.read.get(root, ()) if folder in progress.folders)
        return {folder: progress.folders[folder] for folder in read if self.catalog.owner(folder) in names}

    def _alive(self) -> list[DataFile]:
        """Returns the files of the tables that exist."""
        alive = (name for name in self.timeline.live if self.wanted(name))
        return [file for name in alive for file in self.files.get(name, ())]

    def _read_folders(self, progress: Progress) -> list[Folder]:
        """Returns the folders of the tables that exist of which something was read."""
        live = (name for name in self.timeline.live if self.wanted(name))
        roots = {file.root for name in live for file in self.catalog.by_table.get(name, ())}
        return [folder for root in roots for folder in self.read.get(root, ()) if folder in progress.folders]

    def recording(self, anew: RewrittenFolders, names: Mapping[Folder, IndexEntry]) -> Assembly:
        """Returns the assembly as it is recorded: without the index files of the unproven folders. `names` are what
        index files name."""
        indexes = {folder: file for folder, file in self.listing.indexes.items() if folder not in anew.unproven}
        listing = replace(self.listing, indexes=indexes)
        written = _written_up_to(
            listing.packed, self._proven({f: named.number for f, named in names.items() if named.as_listed})
        )
        return replace(self, listing=listing, rewritable_from=anew.rewritable_from, written=written)

    def _proven(self, named: Mapping[Folder, int]) -> dict[Folder, int]:
        """Returns those of the `named` numbers that prove that files are lost. An index file can be newer than the
        files next to it, for example in a copy of a storage. So it is a proof only if its folder has no file and never
        had one, or if its writer is in a later folder."""
        newest: dict[tuple[str, str, str], tuple[int, str]] = {}
        roots = {folder.root for folder in named}
        folders_with_files = {file.folder for root in roots for file in self.listing.files.get(root, ())}
        folders_with_files |= {folder for root in roots for folder in self.read.get(root, ())}
        for folder in folders_with_files:
            last = newest.get(folder.series, (0, ""))
            newest[folder.series] = max(last, (folder.version, folder.date))
        return {
            folder: number
            for folder, number in named.items()
            if folder not in folders_with_files or newest[folder.series] > (folder.version, folder.date)
        }

    def new_gaps(self, progress: Progress, accept_gap: Accepts) -> set[tuple[object, ...]]:
        """Returns the gaps that are new, and that another, full listing may explain: a local storage can show a file
        before the preceding one, and files that a partial listing leaves out show how far a clean-up went."""
        gap_errors = [(name, error) for name, error in self.errors(progress, accept_gap) if isinstance(error, GapFound)]
        beginning = [s for s in self.timeline.pending if s.begins and not accept_gap(s.begins)]
        gaps = (self.gap_after(statement, progress) for statement in beginning)
        new = {_place(error) for name, error in gap_errors if error.code is not progress.table(name).code}
        losses = [*self.losses(progress, accept_gap)]
        losses += [
            (s.begins, self.losses_after(s, progress))
            for s in self.timeline.pending
            if s.begins and accept_gap(s.begins)
        ]
        recorded = {(name, loss) for name, table_losses in progress.losses.items() for loss in table_losses}
        accepted = {(name, loss.id) for name, table_losses in losses for loss in table_losses} - recorded
        return new | accepted | {_place(gap) for gap in gaps if gap is not None}

    def gap_after(self, statement: Statement, progress: Progress) -> GapFound | None:
        """Returns the first gap in the files of the table whose rows begin again with `statement`."""
        name = statement.begins
        return None if name is None or not self.wanted(name) else self.gap_from(name, progress, statement.version)

    def gap_from(self, name: TableName, progress: Progress, version: int) -> GapFound | None:
        """Returns the first gap in the files of the table, if it were read from `version` on."""
        return next(self._gaps(name, progress, version, version), None)

    def gaps(self) -> Iterator[GapFound]:
        """Yields the first gap in the files of each table, if it were read from its beginning."""
        for name in sorted(self.history.alive):
            yield from itertools.islice(self._gaps(name, Progress(), self.checkpoint, 0), 1)

    def round(self, tables: Mapping[TableName, TableInRound], files: FileOptions, batches: Batches) -> Round:
        """Returns the round of `tables`, each at the place of its progress. Rows without a time in folders from before
        the last statement that emptied their table are left out here, because only their folder shows that they are
        gone."""
        for name, state in tables.items() if files.dialect.timeless else ():
            state.begin(self._last_beginning(name, state.position))
        return Round(self.checkpoint, self.timeline, tables, self.catalog.is_over, files, batches)

    def check_places(self, name: TableName, files: Iterable[DataFile], progress: Progress) -> CannotBeExact | None:
        """Returns why the order of rows without a time in the `files` of a table is not known; None if it is."""
        end = progress.table(name).applied_ts
        begun = self._last_beginning(name, end)
        history = [file for file in self.catalog.by_table.get(name, ()) if file.version <= end]
        files = [file for file in files if file.folder.version >= begun]
        return check_places(name, files, progress.folders, history)

    def accounted_commit_ts(
        self, name: TableName, roots: Iterable[str], progress: Progress, position: int
    ) -> dict[str, Stretches]:
        """Returns by partition the commit-ts that rows in the new files of a table may have, if it is complete up to
        `position`."""
        listed = {file.folder for file in self.files.get(name, ())}
        read_folders = {folder for root in roots for folder in self.read.get(root, ())}
        places = {folder: progress.folders.get(folder, FolderProgress()) for folder in (*listed, *read_folders)}
        return accounted_commit_ts(places, max(progress.start_of(name), self._last_beginning(name, position)), position)

    def _last_beginning(self, name: TableName, version: int) -> int:
        """Returns the version of the last statement up to `version` with which the table's rows begin again, 0 for
        none."""
        history = self.catalog.by_table.get(name, ())
        beginning = BEGINNING_ACTIONS - ({Action.TRUNCATE_TABLE} if self.naming.keeps_ended(name) else set())
        # This is called for each of many pending statements, so the search starts at the end.
        places = range(bisect_right(history, version, key=attrgetter("version")) - 1, -1, -1)
        return next((history[place].version for place in places if history[place].action in beginning), 0)

    def losses(self, progress: Progress, accept_gap: Accepts) -> Iterator[tuple[TableName, list[Loss]]]:
        """Yields the accepted losses of the tables that `errors` lets begin."""
        broken = {name for name, _ in self.errors(progress, accept_gap)}
        for name in self.tables:
            if self.wanted(name) and name in self.timeline.live and name not in broken and accept_gap(name):
                applied_ts = progress.table(name).applied_ts
                yield name, self._losses(name, progress, applied_ts)

    def losses_after(self, statement: Statement, progress: Progress) -> list[Loss]:
        """Returns the accepted losses of the table whose rows begin again with `statement`."""
        name = statement.begins
        wanted = name is not None and self.wanted(name)
        return self._losses(name, progress, statement.version) if name is not None and wanted else []

    def without_losses(self, name: TableName, progress: Progress, after: int) -> dict[Folder, FolderProgress]:
        """Returns the folders of a table that continues after `after` once its losses are accepted, as far as that
        changes them."""
        files, read_folders, numbered = self._numbered(name, progress, after)
        rests = accept_lost_remainders(self.files.get(name, ()), read_folders, after)
        places = {**progress.folders, **rests}
        return rests | accept_gaps(files, places, _given_ts(name, progress), numbered)

    def _losses(self, name: TableName, progress: Progress, after: int) -> list[Loss]:
        return [Loss.of(gap, after, self.checkpoint) for gap in self._gaps(name, progress, after, after)]

    def _gaps(self, name: TableName, progress: Progress, version: int, applied_ts: int) -> Iterator[GapFound]:
        """Yields the gaps. Holes in folders older than the last new beginning up to `version` do not matter: their rows
        are gone. But newer rows can be in an older folder, and if such rows were seen they are still to be read."""
        files, read_folders, written = self._numbered(name, progress, version)
        gaps = find_gaps(name, files, progress.folders, _given_ts(name, progress), written)
        yield from (renamed_file_gap(gap, self.listing.unknown) for gap in gaps)
        yield from find_lost_remainders(name, self.files.get(name, ()), read_folders, applied_ts)
        if (gap := self.clean_up.gap(name, self._since(name, version), applied_ts)) is not None:
            yield gap

    def _since(self, name: TableName, version: int) -> Sequence[SchemaFile]:
        """Returns the statements of the table from its last new beginning up to `version` on."""
        history = self.catalog.by_table.get(name, ())
        return history[bisect_left(history, self._last_beginning(name, version), key=attrgetter("version")) :]

    def _numbered(
        self, name: TableName, progress: Progress, version: int
    ) -> tuple[list[DataFile], dict[Folder, FolderProgress], dict[Folder, int]]:
        """Returns, from the last new beginning on: the table's files, its folders that were read, and by folder the
        number up to which all were written."""
        beginning, roots = self._last_beginning(name, version), {file.root for file in self._since(name, version)}
        files = [file for file in self.files.get(name, ()) if file.folder.version >= beginning]
        read_folders = {folder: progress.folders[folder] for root in roots for folder in self.read.get(root, ())}
        return files, read_folders, self._written(name, beginning, progress)

    def _written(self, name: TableName, since: int, progress: Progress) -> dict[Folder, int]:
        """Returns by folder of the table the number below which all files were written, as far as other files show
        that."""
        roots = {file.root for file in self.catalog.by_table.get(name, ())}
        first = _first_date(progress, name)
        return {
            folder: number
            for root in roots
            for folder, number in self.written.get(root, {}).items()
            if since <= folder.version <= self.checkpoint
            and (not folder.date or folder.date >= first[: len(folder.date)])
            and self.catalog.owner(folder) == name
        }

    def _broken(self, name: TableName, progress: Progress) -> ConsumerError | None:
        """Returns the error of an unusable schema file, unless the table has passed its version: then only rows in its
        folder would need it."""
        error = self.broken.get(name)
        past = error is not None and error.version is not None and error.version < progress.table(name).applied_ts
        return None if past else error

    def _schemaless(self, name: TableName, progress: Progress) -> ConsumerError | None:
        """Returns the error of rows that have no schema file at all. A schema file above the checkpoint may only be
        late."""
        if name in self.catalog.by_table or progress.table(name).state is State.DROPPED:
            return None
        orphans = (file for file in self.files.get(name, ()) if file.folder.version < self.checkpoint)
        return next((schema_missing(name, file) for file in orphans), None)

    def forgotten_folders(self, progress: Progress) -> set[Folder]:
        known = {*self.catalog.by_root, *self.listing.files, *self.catalog.missing_folders(progress)}
        return forgotten_folders(self.listing, progress, known)

    def forgotten_changes(self, progress: Progress) -> dict[Folder, FolderProgress | None]:
        """Returns what becomes of the folders of `progress` when some of them are forgotten, and files of others."""
        return {
            **summarised_folders(self.listing, progress),
            **forget_folders(self.forgotten_folders(progress), progress),
        }

    def unlisted_folders(self, progress: Progress) -> set[Folder]:
        """Returns the folders that were not listed, or not with all of their files, and that can be gone."""
        if not self.listing.partial:
            return set()
        forgotten = self.forgotten_folders(progress)
        # A clean-up that is half done can have taken the last file first.
        return {*forgotten, *possibly_cleaned_up(forgotten, self.listing, progress)}

    def exclusions(self, progress: Progress) -> dict[TableName, TableProgress]:
        """Returns the places of tables and databases that the filter excludes, so that a wider filter later finds their
        statements and rows. Names that no table has any more are among them: a present table may have been renamed from
        there."""
        begun_names = {name for name, files in self.catalog.by_table.items() if files[0].version <= self.checkpoint}
        places = {name: progress.table(name) for name in {*self.files, *begun_names} if not self.wanted(name)}
        return {
            name: TableProgress(place.applied_ts, State.EXCLUDED)
            for name, place in places.items()
            if place.state in (State.OK, State.WAITS, State.STOPPED)
            or (place.state is State.DROPPED and self._lives_again(name, place.applied_ts))
        }

    def _lives_again(self, name: TableName, version: int) -> bool:
        files = self.catalog.by_table.get(name, ())
        return bool(files) and version < files[-1].version <= self.checkpoint

    def forgotten_names(self, progress: Progress) -> list[TableName]:
        """Returns tombstones of names that the storage no longer holds, and names that are no longer excluded and need
        nothing."""
        round_tables = set(self.tables)
        excluded = [name for name, place in progress.tables.items() if place.state is State.EXCLUDED]
        return [name for name in excluded if self.wanted(name) and name not in round_tables] + [
            name
            for name, table in progress.tables.items()
            if table.state is State.DROPPED and name not in self.catalog.by_table and name not in self.files
        ]


def _ended(
    files: Mapping[TableName, Sequence[DataFile]], history: History, progress: Progress
) -> dict[TableName, EndedName]:
    sinces = ((name, history.ended_since(name)) for name in files)
    ended = {n: EndedName(s, unread_files(files[n], progress.folders)) for n, s in sinces if s is not None}
    return {
        name: files_of_name
        for name, files_of_name in ended.items()
        if files_of_name.unread or progress.table(name).state is State.STOPPED
    }


def _tables(
    timeline: Timeline, troubled: Collection[TableName], wanted: Callable[[TableName], bool]
) -> Sequence[TableName]:
    touched = {name for statement in timeline.pending for name in statement.touches}
    return sorted(name for name in {*touched, *timeline.live, *troubled} if name in touched or wanted(name))


def _files_since_start(files: Sequence[DataFile], progress: Progress, name: TableName) -> Sequence[DataFile]:
    """Returns `files` without date folders that were over when the target already held the table as it was upstream: no
    later row is in them. Two more days stay, because nodes name folders by their own clocks and zones."""
    first = _first_date(progress, name)
    if not first:
        return files
    return [file for file in files if not file.folder.date or file.folder.date >= first[: len(file.folder.date)]]


def _first_date(progress: Progress, name: TableName) -> str:
    """Returns the first date folder that can have rows which the target did not already hold, "" for all of them."""
    given_ts = _given_ts(name, progress)
    return (tso_to_time(given_ts) - timedelta(days=2)).strftime("%Y-%m-%d") if given_ts else ""


def _place(gap: GapFound) -> tuple[object, ...]:
    """Returns a key that is the same for the same gap in another listing."""
    return gap.code, gap.table, gap.path, gap.missing


def _written_up_to(packed: Mapping[Folder, int], named: Mapping[Folder, int]) -> dict[str, dict[Folder, int]]:
    """Returns by root and folder the number up to which all files were written. The file that an index file names may
    not exist: some releases write the index file first, and can die in between."""
    written: dict[str, dict[Folder, int]] = {}
    for folder in {*packed, *named}:
        written.setdefault(folder.root, {})[folder] = max(packed.get(folder, 0), named.get(folder, 0) - 1)
    return written


def _given_ts(name: TableName, progress: Progress) -> int:
    """Returns the commit-ts as of which the target already held the table, 0 for never. A later table that is loaded
    again from the storage has 0."""
    return min(progress.start_of(name), progress.table(name).applied_ts)


def _by_root(folders: Iterable[Folder]) -> dict[str, list[Folder]]:
    by_root: dict[str, list[Folder]] = {}
    for folder in folders:
        by_root.setdefault(folder.root, []).append(folder)
    return by_root


def _broken(catalog: Catalog, errors: Sequence[ConsumerError]) -> dict[TableName, ConsumerError]:
    owners = [(_owner(catalog, error.table), error) for error in errors]
    return {name: error.about(str(name)) for name, error in owners}


def _owner(catalog: Catalog, root: str) -> TableName:
    files = catalog.by_root.get(root)
    if files:
        return files[-1].name
    database, _, table = root.partition("/")
    return TableName(database, table)
