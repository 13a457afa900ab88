"""Holds one table's files, position, result and error in a round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from consumer.errors import ConsumerError, DdlRefused, GapFound
from consumer.model.bad_rows import BadRow
from consumer.model.files import DataFile, Folder
from consumer.model.load import FileStat, LoadOutcome
from consumer.model.names import TableName
from consumer.model.progress import AuditRow, FolderProgress, Progress, ProgressChange, State, TableProgress, Waits
from consumer.model.steps import LoadRows, Window
from consumer.model.times import LOGICAL_BITS, MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.gaps import last_row
from consumer.plan.options import RoundOptions
from consumer.plan.unread import (
    TableInRound,
    folder_after,
    folder_with_due,
    loses_record,
    rows_gone_up_to,
    unread_files,
    was_rewritten,
)
from consumer.plan.windows import ends_with_millisecond
from consumer.results import TableResult

_MILLISECOND = 1 << LOGICAL_BITS
"""The TSOs of a millisecond."""


class TableConsumer:
    """Owns one table's state of a round. `result` is summed over the rounds of a run."""

    def __init__(
        self, name: TableName, assembly: Assembly, progress: Progress, options: RoundOptions, result: TableResult
    ) -> None:
        self.name, self.result = name, result
        self.files = assembly.files.get(name, ()) if assembly.wanted(name) else ()
        self._indexes, self._ends_of = assembly.listing.indexes, assembly.rewritable_from
        self._timeless = options.files.dialect.timeless
        self._has_no_checkpoint, self._relisted = assembly.checkpoint == MAX_TSO, assembly.relisted
        unread = unread_files(self.files, progress.folders, self._timeless, assembly.relisted)
        self._with_bad_rows = {row.path for row in progress.bad_rows.get(name, {}).values()}
        """Paths of files with lines that somebody is expected to repair."""
        position = progress.table(name).applied_ts
        # `settle_moved` records that a folder was read up to the table's position: its unread files then were read
        # up to there, too.
        places = {folder: progress.folders.get(folder) for folder in {entry.file.folder for entry in unread}}
        settled = {folder for folder, place in places.items() if place and place.last_ts == position}
        self.state = TableInRound(name, position, unread, options.batches.load_bytes, settled=settled)

    def change(
        self, load: LoadRows, outcome: LoadOutcome, progress: Progress, quarantined: Mapping[str, BadRow]
    ) -> ProgressChange:
        """Returns what to record with the rows of `load`, of which `quarantined` were quarantined. Without a checkpoint
        the watermark stays."""
        return ProgressChange(
            tables={} if load.window.end == MAX_TSO else {self.name: TableProgress(load.window.end)},
            folders=self._folders(
                self.remaining_ts_by_path(load, outcome), progress.folders, outcome.files, load.window.after
            ),
            audit=(self._audit(load, outcome),),
            quarantined={self.name: quarantined} if quarantined else {},
        )

    def count(self, load: LoadRows, outcome: LoadOutcome, seconds: float) -> AuditRow:
        """Adds a load that is in the target to the result. Returns its audit row."""
        self.result.changes += outcome.rows
        self.result.rows += outcome.puts + outcome.deletes
        self.result.puts += outcome.puts
        self.result.deletes += outcome.deletes
        self.result.dropped_rows += outcome.dropped_rows
        self.result.seconds += seconds
        self.result.target_seconds += outcome.target_seconds
        return self._audit(load, outcome)

    def _audit(self, load: LoadRows, outcome: LoadOutcome) -> AuditRow:
        return AuditRow(
            "load", self.name, load.window.after, load.window.end,
            outcome.rows, outcome.puts, outcome.deletes, outcome.dropped_rows,
        )  # fmt: skip

    def remaining_ts_by_path(self, load: LoadRows, outcome: LoadOutcome) -> dict[str, int]:
        """Returns by path the lowest commit-ts that a later load must still read; 0 if the file is done.

        Rows without a commit-ts in the checkpoint's own millisecond are read again with the next checkpoint, in every
        file that has some: TiCDC may have written only a part of that millisecond.
        """
        remaining: dict[str, int] = {}
        for stat in outcome.files:
            next_ts = stat.next_ts
            coarse_ts = max(stat.coarse_ts, stat.coarse_quarantined)
            if coarse_ts and self._splits_millisecond(load.window, coarse_ts):
                next_ts = coarse_ts
            earlier = remaining.get(stat.path, 0)
            remaining[stat.path] = min(filter(None, (earlier, next_ts)), default=0)
        return remaining

    def _splits_millisecond(self, window: Window, coarse_ts: int) -> bool:
        """Returns whether the window ends inside the millisecond of `coarse_ts`, so that more rows of it may follow. A
        window that ends at a statement, or without a checkpoint, does not count."""
        boundary = window.end in self.state.boundaries or window.end == MAX_TSO
        return not boundary and not ends_with_millisecond(window.end) and coarse_ts + _MILLISECOND > window.end

    def _folders(
        self,
        read: Mapping[str, int],
        folders: Mapping[Folder, FolderProgress],
        stats: Sequence[FileStat] = (),
        position: int = 0,
        first: Mapping[str, int] | None = None,
    ) -> dict[Folder, FolderProgress]:
        """Returns the folders of the files in `read`. `stats` describe what was read, and the table was at `position`
        before. `first` has, by path, the least commit-ts of the rows of files that `stats` do not describe."""
        first, times = self._first_ts(stats, first or {}), self._row_times(stats)
        unread = {entry.file.path for entry in self.state.unread} | self.state.put_off
        checksums = {stat.path: stat.checksum for stat in stats}
        of_read = {file.folder for file in self.files if file.path in read}
        changed = {}
        for folder, group in groupby(self.files, key=lambda file: file.folder):
            if folder not in of_read:
                continue
            files, end = list(group), self._ends_of.get(folder)
            # A folder that begins with a number above 1 has lost its first files, and was found to be right without
            # them.
            place = folders.get(folder) or FolderProgress(files[0].index - 1)
            after = folder_after(place, files, read, unread, end, checksums=checksums, first=first)
            put_off = [file for file in files if file.path in unread and file.path not in read]
            gone_ts = position if loses_record(put_off, place) else 0
            gone_ts = max(place.gone_ts, gone_ts, self._gone_ts(folder, place, files, first, position))
            after = replace(after, index=self._stamp(folder), gone_ts=gone_ts)
            changed[folder] = after.with_rows(times.get(folder, []), position)
        return changed

    def _first_ts(self, stats: Sequence[FileStat], first: Mapping[str, int]) -> dict[str, int]:
        """Returns `first`, with the least commit-ts of the rows of each file that `stats` describe."""
        first_ts = dict(first)
        for stat in () if self._timeless else stats:
            # Not every quarantined line has a time.
            first_ts[stat.path] = min(first_ts.get(stat.path, MAX_TSO), stat.first_ts or MAX_TSO)
        return first_ts

    def _row_times(self, stats: Sequence[FileStat]) -> dict[Folder, list[int]]:
        """Returns by folder the first and last commit-ts of the rows that were read of each file."""
        paths = {stat.path for stat in stats}
        folder_of = {file.path: file.folder for file in self.files if file.path in paths}
        times: defaultdict[Folder, list[int]] = defaultdict(list)
        for stat in stats:
            if stat.last_ts:
                times[folder_of[stat.path]] += [stat.first_ts, stat.last_ts]
        return times

    def _gone_ts(
        self,
        folder: Folder,
        place: FolderProgress,
        files: Sequence[DataFile],
        first: Mapping[str, int],
        position: int,
    ) -> int:
        """Returns the commit-ts up to which rows of the folder may be gone, judged by its present `files`; 0 if none
        is."""
        if self._timeless:
            may_be_repaired = any(file.path in self._with_bad_rows for file in files)
            again = not may_be_repaired and was_rewritten(files, place, is_relisted=folder in self._relisted)
            return last_row(folder, place) if again else 0
        # Without a checkpoint the table does not advance, whatever was read.
        return 0 if self._has_no_checkpoint else rows_gone_up_to(files, first, place, position)

    def _stamp(self, folder: Folder) -> str:
        """Returns the stamp of the folder's index file."""
        return self._indexes[folder].stamp if folder in self._indexes else ""

    def folders_with_later_rows(
        self, first_ts_by_path: Mapping[str, int], progress: Progress
    ) -> dict[Folder, FolderProgress]:
        """Returns the progress of the folders of these files, none of which has a row for this round. The first row of
        each is at the commit-ts that `first_ts_by_path` has for its path."""
        return self._folders(first_ts_by_path, progress.folders, position=self.state.position, first=first_ts_by_path)

    def without_files(
        self, files: Sequence[DataFile], progress: Progress, end: int = 0, first: Mapping[str, int] | None = None
    ) -> dict[Folder, FolderProgress]:
        """Returns the progress of the folders of `files`, with these recorded as done: the table will not read them.
        It was complete up to `end`; `first` is as in `_folders`."""
        read = {file.path: 0 for file in files}
        return self._folders(read, progress.folders, position=end, first=first)

    def drop(self, version: int) -> None:
        """Marks the result as dropped at `version`."""
        self.result.watermark = version
        self.result.becomes("dropped")

    def stop(self, error: ConsumerError, progress: Progress) -> ProgressChange:
        """Stops the table for this run. Returns the change that records the reason, and that the file which the error
        is about is due: the file may be gone when the storage is listed next, and nothing else may show that it
        existed."""
        self.state.error = error
        self.result.becomes("stopped", error)
        self.result.version = (error.version or 0) if isinstance(error, DdlRefused) else 0
        return ProgressChange(
            tables={self.name: self.stopped_at(self.state.position)}, folders=self._due(error, progress)
        )

    def _due(self, error: ConsumerError, progress: Progress) -> dict[Folder, FolderProgress]:
        """Returns the folder of the file that `error` is about, if the file was not read before, as due."""
        # The path of a GapFound is the file after the gap, which is not the cause.
        gap = isinstance(error, GapFound)
        due = [e.file for e in self.state.unread if e.file.path == error.path and not (e.next_ts or gap)]
        folders = {}
        for file in due:
            listed = [other for other in self.files if other.folder == file.folder]
            place = progress.folders.get(file.folder) or FolderProgress(listed[0].index - 1)
            folders[file.folder] = folder_with_due(place, listed, file.index, self.state.position + 1)
        return folders

    def stopped_at(self, position: int) -> TableProgress | None:
        """Returns the table's progress at `position` if it is stopped, else None."""
        error = self.state.error
        return None if error is None else TableProgress.stopped(position, error)

    def finish(self, applied_ts: int, waits: Waits | None) -> TableProgress | None:
        """Returns the table's progress at the end of a round, None if the global applied-ts already says it. `waits` is
        what the table waits for, None if it does not wait."""
        self.result.watermark = self.state.position
        if (stopped := self.stopped_at(self.state.position)) is not None:
            return stopped
        if waits is not None:
            self.result.becomes("waits", waits)
            return TableProgress(self.state.position, State.WAITS, waits.reason, code=waits.code)
        self.result.becomes("ok")
        return None if self.state.position == applied_ts else TableProgress(self.state.position)
