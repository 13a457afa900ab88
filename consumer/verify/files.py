"""The files of one table that `verify` reads, and what may be gone from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.gaps import gone_upto, hole_below
from consumer.plan.unread import Unread, rewritten_files, unread_files
from consumer.ports import StorageReader
from consumer.verify.statements import TableStatements


@dataclass(frozen=True)
class TableFiles:
    """Those of the table that went through `statements`."""

    statements: TableStatements
    assembly: Assembly
    reader: StorageReader
    timeless: bool

    @cached_property
    def after(self) -> int:
        """Changes up to there are not looked at: the table was empty, or was given as it was then, or they are gone."""
        return max(self.statements.begins, self.statements.given, self.gone)

    @cached_property
    def gone(self) -> int:
        """The commit-ts up to which changes may be gone from the storage that the target has, 0 for none: nothing up to
        there is compared."""
        gone = gone_upto(self._all, self._folders, self.statements.end, self.reader.bounds)
        return gone if gone > self.statements.begins else 0

    @property
    def hole(self) -> str:
        """A file that is gone, and may have had changes behind the beginning; "" for none."""
        begins = self.statements.begins
        folders = {folder: place for folder, place in self._folders.items() if place.last_ts > begins}
        return hole_below([file for file in self._all if file.folder in folders], folders)

    @property
    def another(self) -> str:
        """A file that is no longer what was read, where only the progress tells what was applied; "" for none."""
        if not self._by_progress:
            return ""
        return next((file.path for file, _ in rewritten_files(self._behind(self._all), self._folders)), "")

    def of(self, name: TableName) -> Sequence[DataFile]:
        """All that can have rows above `after` under `name`, or those that were read where nothing else tells how far
        the target is."""
        files = self._behind(self.assembly.files.get(name, ()))
        if not self._by_progress:
            return files
        left = {entry.file.path for entry in self._unread(files)}
        return [file for file in files if file.path not in left]

    def bounds(self, names: Iterable[TableName]) -> Mapping[str, Bounds]:
        """The first and last commit-ts of each file of `of`, by path; none where rows tell no time."""
        if self.timeless:
            return {}
        files = [file for name in dict.fromkeys(names) for file in self.of(name)]
        return {path: found for path, found in self.reader.bounds(files).items() if isinstance(found, Bounds)}

    @property
    def _by_progress(self) -> bool:
        """Whether only the progress, by file, tells how far the target is."""
        return self.timeless or self.statements.end == MAX_TSO

    @cached_property
    def _folders(self) -> Mapping[Folder, FolderProgress]:
        """Those of which something was read."""
        catalog, names, known = self.assembly.catalog, self.statements.table.names, self.statements.progress.folders
        roots = {file.root for name in names for file in catalog.by_table.get(name, ())}
        read = [folder for root in roots for folder in self.assembly.read.get(root, ())]
        return {folder: known[folder] for folder in read if catalog.owner(folder) in names}

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
        if place is None or place.last_ts > self.after or file.path in self._with_bad_rows:
            return False
        return file.index < place.done or (file.index == place.done and place.last.holds(file))
