"""Follows a table for a streaming query: says how far its changes can be read, and plans each batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from consumer.app.parts import checkpoint_of, listing_at_checkpoint, reader_of
from consumer.errors import ConsumerError, SchemaDrift, TableMissing
from consumer.model.files import Listing, SchemaFile
from consumer.model.names import same_name
from consumer.model.progress import Progress
from consumer.pipeline.opening import assembly_of
from consumer.source.output import shares
from consumer.source.planning import Plan, options_of, plan_listing, versions_that_move_rows
from consumer.source.reading import Share
from consumer.verify.sources import TableStatements

_GO_ON = "everything before it was read: start the query again with its checkpoint, and it resumes there"


class Follower:
    """Follows one table. `plan` was made when the query started, and decides its columns."""

    def __init__(self, plan: Plan) -> None:
        (self._table,) = plan.tables
        self._plan, self._reader = plan, reader_of(plan.asked.settings)
        self._listing: Listing | None = None
        self._last, self._position, self._floor = 0, -1, 0
        """`last`: the greatest offset that was told, also by a process before this one: Spark asks for the shares from
        that offset to itself when a query is started again. `metadata` can have gone back since. `floor`: all up to
        there was read before an offset that is lower, which a Spark that does not ask so has recorded."""
        self._end: tuple[int, ConsumerError] | None = None

    def latest(self) -> int:
        """Returns the commit-ts up to which the query can read now. Raises the error that ends the query, once
        everything before it was read."""
        settings = self._plan.asked.settings
        checkpoint = checkpoint_of(settings, self._reader)
        if self._end is None and (self._listing is None or checkpoint != self._listing.checkpoint):
            self._listing = listing_at_checkpoint(settings, self._reader, checkpoint)
            self._end = self._what_ends()
        assert self._listing is not None
        end = self._listing.checkpoint if self._end is None else self._end[0]
        if self._end is not None and end <= max(self._last, self._position):  # its schema file can come late
            raise self._end[1]
        if self._plan.asked.last is not None:
            end = min(end, self._plan.asked.last)
        self._last = max(self._bounded(end), self._last)
        return self._last

    def shares(self, after: int, end: int) -> list[Share]:
        """Returns the shares of the changes with `after` < commit-ts <= `end`."""
        self._position, self._last = end, max(after, end, self._last)
        self._floor = after if end < after else self._floor
        after = max(after, self._floor)
        return [] if end <= after else list(self._shares(after, end))

    def read(self, end: int) -> None:
        """Notes that everything up to `end` was read."""
        self._position = end

    def _shares(self, after: int, end: int, size: int = 0) -> Iterator[Share]:
        """Yields the shares of a batch, with the columns that the query started with. A batch that is read again can
        be from before that start."""
        asked = self._plan.asked
        last = max(end, self._plan.end)
        asked = replace(asked, first=after, last=last, partition_bytes=size or asked.partition_bytes)
        if self._listing is None or self._listing.checkpoint < last:
            self._listing = listing_at_checkpoint(
                asked.settings, self._reader, checkpoint_of(asked.settings, self._reader)
            )
        found = plan_listing(asked, self._reader, self._listing, last)
        (table,) = found.tables
        if table.target.columns != self._table.target.columns:
            raise _drift("its columns are others than when the query was started", str(table.target.table))
        return shares(replace(found, fields=self._plan.fields), end)

    def _bounded(self, end: int) -> int:
        """Returns `end`, or an earlier commit-ts up to which the changes after the last batch have the bytes of one
        batch."""
        most = self._plan.asked.trigger_bytes
        if not most or not 0 <= self._position < end:
            return end
        parts = self._shares(self._position, end, most)
        first, second = next(parts, None), next(parts, None)
        return end if first is None or second is None else first.eras[0].task.window.end

    def _what_ends(self) -> tuple[int, ConsumerError] | None:
        """Returns the last moment before the first statement that the query cannot follow, and the error for it; None
        if there is no such statement."""
        assert self._listing is not None
        name = self._table.target.table
        options = options_of(self._plan.asked)
        assembly = assembly_of(self._reader, self._listing, Progress(), options)
        history = assembly.history
        table = history.at(name, self._plan.end)
        if table is None:
            return None
        statements = TableStatements(name, table, self._listing.checkpoint, True, assembly, Progress())
        found = [self._looked_at(statements, file) for file in table.files if self._plan.end < file.version]
        ends = [one for one in found if one is not None]
        if table.end is not None and table.end.version > self._plan.end:
            gone = TableMissing("a statement took the table away", hint="every change of it was read", table=str(name))
            ends.append((table.end.version, gone))
        ends = [*self._unshown(statements, versions_that_move_rows(history, table, self._listing.checkpoint)), *ends]
        version, error = min(ends, key=lambda one: one[0], default=(0, None))
        return None if error is None else (version - 1, error)

    def _unshown(self, statements: TableStatements, moves: Collection[int]) -> Iterator[tuple[int, ConsumerError]]:
        """Yields the statements after what was read whose effect on rows no change shows, each with its error: `moves`
        are the versions of those that took rows away or brought some. A user has to execute them in a copy."""
        name, asked = str(self._table.target.table), self._plan.asked
        passed = max(asked.first, self._position, asked.accept_statements)
        for version in moves:
            if passed < version:
                yield version, _no_change_shows(version, "took rows away, or brought some", name)
        for file in statements.table.files:
            if not passed < file.version <= statements.end:
                continue
            if statements.moves_key(file):
                yield file.version, _no_change_shows(file.version, "changed the key", name)
            elif columns := statements.remade_columns(file):
                done = f"made other values of {', '.join(columns)}"
                yield file.version, _no_change_shows(file.version, done, name)

    def _looked_at(self, statements: TableStatements, file: SchemaFile) -> tuple[int, ConsumerError] | None:
        before = [known for known in statements.table.files if known.version < file.version]
        name = self._table.target.table
        if same_name(str(file.name)) != same_name(str(name)):
            return file.version, TableMissing(f"it is called {file.name} now", hint=_GO_ON, table=str(name))
        if before and before[-1].columns != file.columns:
            return file.version, _drift(f"a statement of version {file.version} changed its columns", str(name))
        if before and statements.moves_key(file):
            return file.version, _drift(f"a statement of version {file.version} changed its key", str(name))
        return None


def _no_change_shows(version: int, done: str, table: str) -> SchemaDrift:
    return SchemaDrift(
        f"the statement of version {version} {done}, which no change shows",
        hint="every change before it was read: execute it in a copy that you keep, then start the query again with its"
        f" checkpoint and with accept-statements = {version}",
        table=table,
    )


def _drift(text: str, table: str = "") -> SchemaDrift:
    return SchemaDrift(text, hint=_GO_ON, table=table)
