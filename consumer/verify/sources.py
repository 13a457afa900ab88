"""Where one table's rows come from, as `verify` reads them: the statements that they went through, between which a
table has the same columns, and the files, with what may be missing from them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from consumer.ddl.changes import statement_changes, takes_rows
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
from consumer.model.types.conversions import Conversion, Way
from consumer.plan.assembly import Assembly
from consumer.plan.gaps import find_gaps, lost_rows_up_to, missing_file_below
from consumer.plan.unread import UnreadFile, rewritten_files, unread_files
from consumer.ports import StorageReader
from consumer.verify.known import ColumnOrigins, ValueRules

_KEPT_VALUES = ValueRules(lambda old, new: () if Conversion(old, new).way is Way.KEPT else None, lambda *_: None)
"""Rules that know only values that a statement keeps."""
_EMPTYING = (Action.TRUNCATE_TABLE, Action.TRUNCATE_PARTITION)


@dataclass(frozen=True)
class TableStatements:
    """The statements of the table `name` up to `end`. A TRUNCATE TABLE does not empty a table that `keeps_ended` rows
    in the target. `executed` has the paths of all statements that have run."""

    name: TableName
    table: Incarnation
    end: int
    keeps_ended: bool
    assembly: Assembly
    progress: Progress
    executed: Collection[str] = ()

    @cached_property
    def all(self) -> list[SchemaFile]:
        """All its statements, without those that would have removed rows but were ignored by a policy: the rows must
        exist."""
        return [
            file
            for file in self.table.statements
            if file.version <= self.end and not (file.action in _EMPTYING and self.is_ignored(file))
        ]

    @cached_property
    def stayed(self) -> frozenset[str]:
        """The columns, in lower case, that the target still has because a policy ignored the statement that dropped
        them."""
        ignored = (file for file in self.table.statements if file.version <= self.end and self.is_ignored(file))
        return frozenset(name for file in ignored for name in statement_changes(file).columns.dropped)

    @cached_property
    def begins(self) -> int:
        """The version of the statement after which the table was empty; 0 if the storage has none."""
        emptied = [] if self.keeps_ended else [file for file in self.all if file.action is Action.TRUNCATE_TABLE]
        birth = self.table.birth
        return max((file.version for file in emptied), default=birth.version if birth is not None else 0)

    @cached_property
    def given(self) -> int:
        """The moment as of which the target was given the table, 0 for none."""
        if any(self.progress.starts.get(name) == 0 for name in self.table.names):
            return 0
        return max(self.progress.start_ts, self.table.preloaded_at(self.progress))

    @cached_property
    def moves(self) -> list[SchemaFile]:
        """The statements after the beginning that brought rows from another table."""
        exchanges = self.assembly.history.exchanges_of(self.table, self.end)
        return [file for file in exchanges if file.version > self.begins]

    @cached_property
    def cuts(self) -> list[SchemaFile]:
        """The statements that change the columns, the key, the name or the set of rows, in order."""
        cut_files: dict[str, SchemaFile] = {file.path: file for file in self.moves}
        last: SchemaFile | None = None
        for file in self.all:
            earlier = last or self.before(file.version)
            changed = earlier is None or self.columns(earlier) != self.columns(file) or self._is_named_anew(file)
            if changed or self.moves_key(file) or takes_rows_away(file) or statement_changes(file).columns.columns:
                cut_files[file.path] = file
            last = file
        return sorted(cut_files.values(), key=lambda file: (file.version, file.path))

    def key_before(self, file: SchemaFile) -> tuple[Column, ...] | None:
        """Returns the columns of the handle key that the table had before the statement of `file`; () for none, None if
        the storage does not show it."""
        columns = self.columns(self.before(file.version))
        names = self.assembly.history.shapes(file)[0].handle_key(columns)
        return None if names is None else tuple(column for column in columns if column.name in names)

    def moves_key(self, file: SchemaFile) -> bool:
        """Returns whether the statement gave the table another handle key, removed it, or gave it its first one."""
        if not self.is_own(file) or file is self.table.birth:
            return False
        before, after = self.key_before(file), self.assembly.history.shape(file).handle_key(self.columns(file))
        if before is None or after is None:
            return (before is None) != (after is None)
        old_name = statement_changes(file).columns.old_name
        return {same_name(column.name) for column in before} != {old_name(name) for name in after}

    def remade_columns(self, file: SchemaFile) -> tuple[str, ...]:
        """Returns the columns that existed before the statement, and of whose values it may have made others. The
        statement is one of the table's own, after its first."""
        columns, columns_before = self.columns(file), self.columns(self.before(file.version))
        origins = ColumnOrigins.now(columns).before(file, columns_before, _KEPT_VALUES)
        every = zip(columns, origins.names, origins.made, strict=True)
        return tuple(column.name for column, name, made in every if name and made is None)

    def _is_named_anew(self, file: SchemaFile) -> bool:
        """Returns whether the statement gave the table another name: its first file can be that of a RENAME."""
        return self.table.name_at(file.version - 1) != self.table.name_at(file.version)

    @property
    def left_out(self) -> SchemaFile | None:
        """The first statement that would have removed rows, and was not executed."""
        for file in self.all:
            record = self.progress.ddls.get(ddl_id(file))
            skipped = record is not None and record.state is DdlState.SKIPPED and file.version > self.given
            if skipped and (file.action is Action.TRUNCATE_TABLE or takes_rows_away(file)):
                return file
        return None

    @property
    def waits(self) -> int:
        """The version of the first statement under the table's name that has not run, 0 for none: it is refused, or
        waits for others of its moment. The watermark can be that version."""
        own_files = (
            file for file in self.assembly.catalog.by_table.get(self.name, ()) if self.table.since[-1] < file.version
        )
        waiting = (file.version for file in own_files if file.query and file.path not in self.executed)
        return min((version for version in waiting if version <= self.end), default=0)

    def is_own(self, file: SchemaFile) -> bool:
        """Returns whether the statement describes columns of this table, and not of one that it exchanged a partition
        with."""
        return file.path in self._paths

    def before(self, version: int) -> SchemaFile | None:
        """Returns the schema file that describes the table's columns before `version`."""
        files = self.table.files
        return files[max(bisect_left(files, version, key=_version) - 1, 0)] if files else None

    def columns(self, file: SchemaFile | None) -> tuple[Column, ...]:
        """Returns the columns of `file`, with the labels that the statements declare."""
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
        """Returns what the statements declare of each column as of `file`."""
        return {} if file is None else self.assembly.catalog.declared(file)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.table.files)

    def is_ignored(self, file: SchemaFile) -> bool:
        """Returns whether a policy kept it from being executed."""
        return self.progress.was_ignored(ddl_id(file))


@dataclass(frozen=True)
class TableFiles:
    """The files of the table that went through `statements`. `by_progress`: only the progress of each file shows how
    far the target is. `passed_over` is as in `TableHistory`."""

    statements: TableStatements
    assembly: Assembly
    reader: StorageReader
    timeless: bool
    by_progress: bool
    passed_over: str = ""

    @cached_property
    def after(self) -> int:
        """Changes up to this commit-ts are not read: the table was empty, or they are lost, or they do not prove what
        the target was given."""
        return max(self.statements.begins, self.lost_until_ts, self.statements.given if self.passed_over else 0)

    @cached_property
    def lost_until_ts(self) -> int:
        """The commit-ts up to which the storage may lack changes that the target has, 0 for none. Nothing up to it is
        compared."""
        lost_until_ts = lost_rows_up_to(self._all, self._folders, self.statements.end, self.reader.bounds)
        return lost_until_ts if lost_until_ts > self.statements.begins else 0

    @property
    def awaited(self) -> str:
        """A newest file that its index file names but that does not exist, "" for none. TiCDC writes the index file
        first, so it is unknown whether the file is lost or still to be written."""
        indexes = self._indexes({file.root for file in self.statements.table.files})
        last_numbers: dict[Folder, int] = {}
        for file in self._all:
            last_numbers[file.folder] = max(file.index, last_numbers.get(file.folder, 0))
        newest = {folder.series: folder for folder in sorted({*last_numbers, *indexes})}
        newest_indexes = {folder: indexes[folder] for folder in newest.values() if folder in indexes}
        for folder, named_file in sorted(self.reader.named(newest_indexes).items()) if newest_indexes else ():
            if named_file.number > last_numbers.get(folder, 0):
                return f"file number {named_file.number} of {directory_of(folder)}"
        return ""

    def _indexes(self, roots: Collection[str]) -> dict[Folder, StoredFile]:
        """Returns the index files of the table that went through `statements`, from after its beginning."""
        begins, end = self.statements.begins, self.assembly.checkpoint
        index_files = self.assembly.listing.indexes.items()
        return {f: file for f, file in index_files if f.root in roots and begins <= f.version <= end}

    @property
    def hole(self) -> str:
        """A file that is missing and may have had changes after the beginning; "" for none."""
        begins = self.statements.begins
        folders = {
            folder: folder_progress
            for folder, folder_progress in self._folders.items()
            if folder_progress.last_ts > begins
        }
        return missing_file_below([file for file in self._all if file.folder in folders], folders)

    @property
    def missing(self) -> str:
        """The message about the first file that is missing between others, "" for none."""
        gaps = find_gaps(self.statements.name, self._all, {}, MAX_TSO)
        return next((gap.message for gap in gaps), "")

    @property
    def another(self) -> str:
        """A file that is no longer the one that was read, where only the progress shows what was applied; "" for
        none."""
        if not self.by_progress:
            return ""
        return next((file.path for file, _ in rewritten_files(self._behind(self._all), self._folders)), "")

    def of(self, name: TableName) -> Sequence[DataFile]:
        """Returns all files that can have rows above `after` under `name`. Where only the progress shows how far the
        target is, these are the files that were read."""
        files = self._behind(self.assembly.files.get(name, ()))
        if not self.by_progress:
            return files
        unread_paths = {entry.file.path for entry in self._unread(files)}
        return [file for file in files if file.path not in unread_paths]

    def bounds(self, names: Iterable[TableName]) -> Mapping[str, Bounds]:
        """Returns the first and last commit-ts of each file of `of`, by path; nothing if rows have no time."""
        if self.timeless:
            return {}
        files = [file for name in dict.fromkeys(names) for file in self.of(name)]
        return known_bounds(self.reader.bounds(files))

    @cached_property
    def _folders(self) -> Mapping[Folder, FolderProgress]:
        """The progress of the folders of which something was read."""
        return self.assembly.folders_of(self.statements.table.names, self.statements.progress)

    @cached_property
    def _all(self) -> Sequence[DataFile]:
        return [file for name in self.statements.table.names for file in self.assembly.files.get(name, ())]

    @cached_property
    def _with_bad_rows(self) -> frozenset[str]:
        bad = self.statements.progress.bad_rows.get(self.statements.name, {})
        return frozenset(row.path for row in bad.values())

    def _unread(self, files: Sequence[DataFile]) -> Sequence[UnreadFile]:
        return unread_files(files, self.statements.progress.folders, self.timeless)

    def _behind(self, files: Iterable[DataFile]) -> Sequence[DataFile]:
        """Returns those of `files` that can have rows above `after`."""
        if self.timeless:
            return [file for file in files if file.folder.version >= self.after]
        return [file for file in files if not self._is_over(file)]

    def _is_over(self, file: DataFile) -> bool:
        """Returns whether the file was read, and all rows that were read from its folder are up to `after`. It can have
        bad lines, which nobody counts any more."""
        folder_progress = self.statements.progress.folders.get(file.folder)
        if self.after < self.statements.given:  # rows up to there are in no folder's `last_ts`: they were dropped
            return False
        if folder_progress is None or folder_progress.last_ts > self.after or file.path in self._with_bad_rows:
            return False
        return file.index < folder_progress.done or (
            file.index == folder_progress.done and folder_progress.last.holds(file)
        )


def takes_rows_away(file: SchemaFile) -> bool:
    """Returns whether rows of the table may be missing after the statement without a change that shows it. That is also
    so if the part of the statement about partitions was not understood."""
    return takes_rows(file) or "PARTITION" in statement_changes(file).partitions.misread.upper()


def _version(file: SchemaFile) -> int:
    return file.version
