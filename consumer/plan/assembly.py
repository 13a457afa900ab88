"""What a listing and the progress say together, at the start of a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from consumer.errors import ConsumerError, GapFound
from consumer.model.files import DataFile, Listing
from consumer.model.names import TableName
from consumer.model.progress import Progress, State, TableProgress
from consumer.plan.catalog import Catalog, schema_missing
from consumer.plan.gaps import find_gap
from consumer.plan.timeline import BEGINNING_ACTIONS, Statement, Timeline, action_of, build_timeline

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Assembly:
    """`tables` are the tables that this round is about: they exist, are about to, or lack a usable schema file. A
    database with pending statements of its own is among them, as a table with no name."""

    listing: Listing
    catalog: Catalog
    timeline: Timeline
    files: Mapping[TableName, Sequence[DataFile]]
    broken: Mapping[TableName, ConsumerError]
    wanted: Callable[[TableName], bool]

    @classmethod
    def of(cls, listing: Listing, progress: Progress, wanted: Callable[[TableName], bool]) -> Assembly:
        catalog = Catalog.of(listing.schemas)
        timeline = build_timeline(catalog, progress, listing.checkpoint, wanted)
        broken = _broken(catalog, listing.broken)
        # A folder above the checkpoint can be seen before its schema file: nothing in it is due yet.
        due = {
            root: [f for f in files if f.folder.version <= listing.checkpoint or catalog.schema(f.folder) is not None]
            for root, files in listing.files.items()
        }
        return cls(listing, catalog, timeline, catalog.files_by_table(due), broken, wanted)

    @property
    def checkpoint(self) -> int:
        return self.listing.checkpoint

    @property
    def tables(self) -> list[TableName]:
        pending = self.timeline.pending
        touched = {name for statement in pending for name in statement.touches}
        schemaless = {name for name in self.files if name not in self.catalog.by_table}
        names = touched | set(self.timeline.live) | set(self.broken) | schemaless
        return sorted(name for name in names if self.wanted(name) or name in touched)

    def faults(self, progress: Progress, accept_gap: bool) -> Iterator[tuple[TableName, ConsumerError]]:
        """Tables that cannot begin: a broken schema file, none at all, a gap in their files."""
        for name in filter(self.wanted, self.tables):
            error = self._broken(name, progress) or self._schemaless(name, progress)
            if error is None and not accept_gap and name in self.timeline.live:
                error = self._gap(name, progress, progress.table(name).applied_ts)
            if error is not None:
                yield name, error

    def gap_after(self, statement: Statement, progress: Progress) -> GapFound | None:
        """The first hole in the files of the table that begins anew with `statement`."""
        name = statement.begins
        return None if name is None or not self.wanted(name) else self._gap(name, progress, statement.version)

    def _gap(self, name: TableName, progress: Progress, version: int) -> GapFound | None:
        """Folders older than the last new beginning up to `version` do not matter: their rows are gone."""
        history = self.catalog.by_table.get(name, ())
        begins = (f.version for f in history if f.version <= version and action_of(f) in BEGINNING_ACTIONS)
        since = max(begins, default=0)
        return find_gap(name, [f for f in self.files.get(name, ()) if f.folder.version >= since], progress.folders)

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

    def notes(self, progress: Progress) -> Iterator[str]:
        """What a person should read once."""
        unknown = self.listing.unknown
        if unknown:
            shown = ", ".join(unknown[:SHOWN]) + (", ..." if len(unknown) > SHOWN else "")
            yield f"{len(unknown)} paths are of no form that TiCDC writes and were left alone: {shown}"
        if self.timeline.overdue:
            yield f"{len(self.timeline.overdue)} statements are older than the progress and were not executed"
        if self.checkpoint < progress.applied_ts:
            yield (
                f"checkpoint-ts {self.checkpoint} is below what was applied already ({progress.applied_ts}):"
                " nothing to do until TiCDC is past it again"
            )

    def exclusions(self, progress: Progress) -> dict[TableName, TableProgress]:
        """Tables and databases left out by the filter, noted where they are, so that a wider filter later finds their
        statements and rows."""
        databases = {f.name for f in self.catalog.files if not f.table and f.version <= self.checkpoint}
        return {
            name: TableProgress(progress.table(name).applied_ts, State.EXCLUDED)
            for name in {*self.files, *self.timeline.live, *databases}
            if not self.wanted(name) and progress.table(name).state is State.OK
        }

    def forgotten(self, progress: Progress) -> list[TableName]:
        """Tombstones of names that the storage no longer holds, and databases that are no longer left out."""
        back = [n for n, place in progress.tables.items() if not n.table and place.state is State.EXCLUDED]
        return [name for name in back if self.wanted(name) and name not in self.tables] + [
            name
            for name, table in progress.tables.items()
            if table.state is State.DROPPED and name not in self.catalog.by_table and name not in self.files
        ]


def _broken(catalog: Catalog, errors: Sequence[ConsumerError]) -> dict[TableName, ConsumerError]:
    owners = [(_owner(catalog, error.table), error) for error in errors]
    return {name: error.about(str(name)) for name, error in owners}


def _owner(catalog: Catalog, root: str) -> TableName:
    files = catalog.by_root.get(root)
    if files:
        return files[-1].name
    database, _, table = root.partition("/")
    return TableName(database, table)
