"""The files of one table's life that `verify` reads, and what may be gone from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from consumer.model.files import Bounds, DataFile, Folder
from consumer.model.names import MAX_TSO, TableName
from consumer.model.progress import FolderProgress, Progress
from consumer.plan.assembly import Assembly
from consumer.plan.gaps import gone_upto, hole_below
from consumer.plan.unread import Unread, unread_files
from consumer.ports import StorageReader


@dataclass(frozen=True)
class TableFiles:
    """Those of the table `name`, which had these `names` and is complete up to `upto`. Rows up to `begins` are of
    tables from before."""

    name: TableName
    names: Sequence[TableName]
    begins: int
    upto: int
    assembly: Assembly
    progress: Progress
    reader: StorageReader
    timeless: bool

    @cached_property
    def gone(self) -> int:
        """The commit-ts up to which changes may be gone from the storage that the target has, 0 for none: nothing up to
        there is compared."""
        gone = gone_upto(self._all, self._folders, self.upto, self.reader.bounds)
        return gone if gone > self.begins else 0

    @property
    def hole(self) -> str | None:
        """A file that is gone, and may have had changes behind the beginning."""
        folders = {folder: place for folder, place in self._folders.items() if place.last_ts > self.begins}
        return hole_below([file for file in self._all if file.folder in folders], folders)

    @property
    def unread(self) -> Sequence[Unread]:
        """Those of its present name that no round has read wholly."""
        files = self.assembly.files.get(self.name, ())
        return list(unread_files(files, self.progress.folders, self.timeless))

    def of(self, name: TableName, after: int) -> Sequence[DataFile]:
        """All that can have rows above `after` under `name`, or those that were read where nothing else tells how far
        the target is."""
        files = [file for file in self.assembly.files.get(name, ()) if self.timeless or not self._is_over(file, after)]
        if not self.timeless and self.upto != MAX_TSO:
            return files
        left = {entry.file.path for entry in unread_files(files, self.progress.folders, self.timeless)}
        return [file for file in files if file.path not in left]

    def bounds(self, names: Sequence[TableName], after: int) -> Mapping[str, Bounds]:
        """The first and last commit-ts of each file of `of`, by path; none where rows tell no time."""
        if self.timeless:
            return {}
        files = [file for name in dict.fromkeys(names) for file in self.of(name, after)]
        return {path: found for path, found in self.reader.bounds(files).items() if isinstance(found, Bounds)}

    @cached_property
    def _folders(self) -> Mapping[Folder, FolderProgress]:
        """Those of which something was read."""
        catalog = self.assembly.catalog
        roots = {file.root for name in self.names for file in catalog.by_table.get(name, ())}
        read = [folder for root in roots for folder in self.assembly.read.get(root, ())]
        return {folder: self.progress.folders[folder] for folder in read if catalog.owner(folder) in self.names}

    @cached_property
    def _all(self) -> Sequence[DataFile]:
        return [file for name in self.names for file in self.assembly.files.get(name, ())]

    @cached_property
    def _with_bad_rows(self) -> frozenset[str]:
        return frozenset(row.path for row in self.progress.bad_rows.get(self.name, {}).values())

    def _is_over(self, file: DataFile, after: int) -> bool:
        """Whether it was read, and all rows that were read of its folder are up to `after`: it can have lines that are
        bad, which nobody counts any more."""
        place = self.progress.folders.get(file.folder)
        if place is None or place.last_ts > after or file.path in self._with_bad_rows:
            return False
        return file.index < place.done or (file.index == place.done and place.last.holds(file))
