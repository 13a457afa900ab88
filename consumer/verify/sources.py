"""What one table's rows come from, as `verify` reads them: the statements that they went through, between which a table
has the same columns, and its files, with what may be gone from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from consumer.ddl.changes import changes_of, takes_rows
from consumer.ddl.declared import Definition
from consumer.history.incarnations import Incarnation
from consumer.layout.paths import directory_of
from consumer.model.actions import Action
from consumer.model.columns import Column
from consumer.model.files import Bounds, DataFile, Folder, SchemaFile, StoredFile, known_bounds
from consumer.model.names import TableName, same_name
from consumer.model.progress import DdlState, FolderProgress, Progress
from consumer.model.steps import ddl_id
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.gaps import find_gaps, gone_upto, hole_below
from consumer.plan.unread import Unread, rewritten_files, unread_files
from consumer.ports import StorageReader

_EMPTYING = (Action.TRUNCATE_TABLE, Action.TRUNCATE_PARTITION)


@dataclass(frozen=True)
class TableStatements:
    """Those of the table `name` up to `end`. A table that `keeps_ended` rows in the target is not emptied by a TRUNCATE
    TABLE. `executed` has the paths of all statements that have run."""

    name: TableName
    table: Incarnation
    end: int
    keeps_ended: bool
    assembly: Assembly
    progress: Progress
    executed: Collection[str] = ()

    @cached_property
    def all(self) -> list[SchemaFile]:
        """Without those that would have taken rows away and that a policy has ignored: the rows must be there."""
        return [
            file
            for file in self.table.statements
            if file.version <= self.end and not (file.action in _EMPTYING and self.is_ignored(file))
        ]

    @cached_property
    def stayed(self) -> frozenset[str]:
        """The columns, in lower case, that the target has as a policy has ignored the statement that dropped them."""
        ignored = (file for file in self.table.statements if file.version <= self.end and self.is_ignored(file))
        return frozenset(name for file in ignored for name in changes_of(file).columns.dropped)

    @cached_property
    def begins(self) -> int:
        """The statement that the table was empty behind; 0 for none in the storage."""
        emptied = [] if self.keeps_ended else [file for file in self.all if file.action is Action.TRUNCATE_TABLE]
        birth = self.table.birth
        return max((file.version for file in emptied), default=birth.version if birth is not None else 0)

    @cached_property
    def given(self) -> int:
        """The moment as of which the target was given the table, 0 for none."""
        if any(self.progress.starts.get(name) == 0 for name in self.table.names):
            return 0
        return max(self.progress.start_ts, self.table.given_at(self.progress))

    @cached_property
    def moves(self) -> list[SchemaFile]:
        """Statements behind the beginning that brought rows from another table."""
        found = self.assembly.history.exchanges_of(self.table, self.end)
        return [file for file in found if file.version > self.begins]

    @cached_property
    def cuts(self) -> list[SchemaFile]:
        """The statements that change what rows are or have, in order."""
        found: dict[str, SchemaFile] = {file.path: file for file in self.moves}
        last: SchemaFile | None = None
        for file in self.all:
            earlier = last or self.before(file.version)
            changed = earlier is None or self.columns(earlier) != self.columns(file) or self._is_named_anew(file)
            if changed or self.moves_key(file) or takes_rows_away(file) or changes_of(file).columns.columns:
                found[file.path] = file
            last = file
        return sorted(found.values(), key=lambda file: (file.version, file.path))

    def key_before(self, file: SchemaFile) -> tuple[Column, ...] | None:
        """The columns of the handle key that the table had before the statement of `file`; () for none, None where the
        storage does not tell."""
        columns = self.columns(self.before(file.version))
        names = self.assembly.history.shapes(file)[0].handle_key(columns)
        return None if names is None else tuple(column for column in columns if column.name in names)

    def moves_key(self, file: SchemaFile) -> bool:
        """Whether the statement gave the table another handle key, took it away, or gave it its first one."""
        if not self.is_own(file) or file is self.table.birth:
            return False
        before, after = self.key_before(file), self.assembly.history.shape(file).handle_key(self.columns(file))
        if before is None or after is None:
            return (before is None) != (after is None)
        old_name = changes_of(file).columns.old_name
        return {same_name(column.name) for column in before} != {old_name(name) for name in after}

    def _is_named_anew(self, file: SchemaFile) -> bool:
        """Whether the statement gave the table another name: its first file can be that of a RENAME."""
        return self.table.name_at(file.version - 1) != self.table.name_at(file.version)

    @property
    def left_out(self) -> SchemaFile | None:
        """The first statement that would have taken rows away, and was not executed."""
        for file in self.all:
            record = self.progress.ddls.get(ddl_id(file))
            skipped = record is not None and record.state is DdlState.SKIPPED and file.version > self.given
            if skipped and (file.action is Action.TRUNCATE_TABLE or takes_rows_away(file)):
                return file
        return None

    @property
    def waits(self) -> int:
        """The version of the first statement filed under the table's name that has not run, 0 for none: it is refused,
        or waits for others of its moment. The watermark can be that version."""
        own = (
            file for file in self.assembly.catalog.by_table.get(self.name, ()) if self.table.since[-1] < file.version
        )
        waiting = (file.version for file in own if file.query and file.path not in self.executed)
        return min((version for version in waiting if version <= self.end), default=0)

    def is_own(self, file: SchemaFile) -> bool:
        """Whether the statement tells columns of this table, and not of one that it exchanged a partition with."""
        return file.path in self._paths

    def before(self, version: int) -> SchemaFile | None:
        """The schema file that tells the table's columns before `version`."""
        known = self.table.files
        return known[max(bisect_left(known, version, key=_version) - 1, 0)] if known else None

    def columns(self, file: SchemaFile | None) -> tuple[Column, ...]:
        """With the labels that the statements tell."""
        if file is None:
            return ()
        declared = self.declared(file)
        return tuple(
            replace(column, elements=column.elements or declared.get(same_name(column.name), Definition()).elements)
            if column.labelled
            else column
            for column in file.columns
        )

    def declared(self, file: SchemaFile | None) -> Mapping[str, Definition]:
        """What the statements say of each column as of `file`."""
        return {} if file is None else self.assembly.catalog.declared(file)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.table.files)

    def is_ignored(self, file: SchemaFile) -> bool:
        """Whether a policy kept it from being executed."""
        return self.progress.was_ignored(ddl_id(file))


@dataclass(frozen=True)
class TableFiles:
    """Those of the table that went through `statements`. `by_progress`: only the progress, by file, tells how far the
    target is. `passed_over` as of `TableHistory`."""

    statements: TableStatements
    assembly: Assembly
    reader: StorageReader
    timeless: bool
    by_progress: bool
    passed_over: str = ""

    @cached_property
    def after(self) -> int:
        """Changes up to there are not looked at: the table was empty, or they are gone, or are no proof of what the
        target was given."""
        return max(self.statements.begins, self.gone, self.statements.given if self.passed_over else 0)

    @cached_property
    def gone(self) -> int:
        """The commit-ts up to which changes may be gone from the storage that the target has, 0 for none: nothing up to
        there is compared."""
        gone = gone_upto(self._all, self._folders, self.statements.end, self.reader.bounds)
        return gone if gone > self.statements.begins else 0

    @property
    def awaited(self) -> str:
        """A newest file that its index file names and that is not there, "" for none. TiCDC writes the index file
        first, so nothing tells whether the file is lost or still to be written."""
        indexes = self._indexes({file.root for file in self.statements.table.files})
        there: dict[Folder, int] = {}
        for file in self._all:
            there[file.folder] = max(file.index, there.get(file.folder, 0))
        newest = {folder.series: folder for folder in sorted({*there, *indexes})}
        asked = {folder: indexes[folder] for folder in newest.values() if folder in indexes}
        for folder, named in sorted(self.reader.named(asked).items()) if asked else ():
            if named.number > there.get(folder, 0):
                return f"file number {named.number} of {directory_of(folder)}"
        return ""

    def _indexes(self, roots: Collection[str]) -> dict[Folder, StoredFile]:
        """The index files of the table that went through `statements`, behind its beginning."""
        begins, end = self.statements.begins, self.assembly.checkpoint
        found = self.assembly.listing.indexes.items()
        return {f: file for f, file in found if f.root in roots and begins <= f.version <= end}

    @property
    def hole(self) -> str:
        """A file that is gone, and may have had changes behind the beginning; "" for none."""
        begins = self.statements.begins
        folders = {folder: place for folder, place in self._folders.items() if place.last_ts > begins}
        return hole_below([file for file in self._all if file.folder in folders], folders)

    @property
    def missing(self) -> str:
        """What is said of the first file that is not there between others, "" for none."""
        gaps = find_gaps(self.statements.name, self._all, {}, MAX_TSO)
        return next((gap.message for gap in gaps), "")

    @property
    def another(self) -> str:
        """A file that is no longer what was read, where only the progress tells what was applied; "" for none."""
        if not self.by_progress:
            return ""
        return next((file.path for file, _ in rewritten_files(self._behind(self._all), self._folders)), "")

    def of(self, name: TableName) -> Sequence[DataFile]:
        """All that can have rows above `after` under `name`, or those that were read where nothing else tells how far
        the target is."""
        files = self._behind(self.assembly.files.get(name, ()))
        if not self.by_progress:
            return files
        left = {entry.file.path for entry in self._unread(files)}
        return [file for file in files if file.path not in left]

    def bounds(self, names: Iterable[TableName]) -> Mapping[str, Bounds]:
        """The first and last commit-ts of each file of `of`, by path; none where rows tell no time."""
        if self.timeless:
            return {}
        files = [file for name in dict.fromkeys(names) for file in self.of(name)]
        return known_bounds(self.reader.bounds(files))

    @cached_property
    def _folders(self) -> Mapping[Folder, FolderProgress]:
        """Those of which something was read."""
        return self.assembly.folders_of(self.statements.table.names, self.statements.progress)

    @cached_property
    def _all(self) -> Sequence[DataFile]:
        return [file for name in self.statements.table.names for file in self.assembly.files.get(name, ())]

    @cached_property
    def _with_bad_rows(self) -> frozenset[str]:
        bad = self.statements.progress.bad_rows.get(self.statements.name, {})
        return frozenset(row.path for row in bad.values())

    def _unread(self, files: Sequence[DataFile]) -> Sequence[Unread]:
        return unread_files(files, self.statements.progress.folders, self.timeless)

    def _behind(self, files: Iterable[DataFile]) -> Sequence[DataFile]:
        """Those of `files` that can have rows above `after`."""
        if self.timeless:
            return [file for file in files if file.folder.version >= self.after]
        return [file for file in files if not self._is_over(file)]

    def _is_over(self, file: DataFile) -> bool:
        """Whether it was read, and all rows that were read of its folder are up to `after`: it can have lines that are
        bad, which nobody counts any more."""
        place = self.statements.progress.folders.get(file.folder)
        if self.after < self.statements.given:  # rows up to there are in no folder's `last_ts`: they were dropped
            return False
        if place is None or place.last_ts > self.after or file.path in self._with_bad_rows:
            return False
        return file.index < place.done or (file.index == place.done and place.last.holds(file))


def takes_rows_away(file: SchemaFile) -> bool:
    """Whether rows of the table may be gone behind the statement, though no change tells it: also where a partition's
    part of the statement was not understood."""
    return takes_rows(file) or "PARTITION" in changes_of(file).partitions.misread.upper()


def _version(file: SchemaFile) -> int:
    return file.version
