"""Follows a table for a streaming query: says how far its changes can be read, and plans each batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from consumer.app.parts import checkpoint_of, listing_at_checkpoint, reader_of
from consumer.errors import ConsumerError, SchemaDrift, TableMissing
from consumer.history.history import History
from consumer.history.incarnations import Incarnation
from consumer.model.files import Listing, SchemaFile
from consumer.model.names import same_name
from consumer.model.progress import Progress
from consumer.pipeline.opening import assembly_of
from consumer.plan.assembly import Assembly
from consumer.source.columns import AT, FILES, OF_TABLE, Offset
from consumer.source.output import shares
from consumer.source.planning import Plan, options_of, plan_listing
from consumer.source.reading import Share
from consumer.source.unshown import Unshown, unshown_effects
from consumer.verify.sources import TableStatements

_RESUME = (
    "every change before it was read: execute it in a copy that you keep, with the default that a new column gives to"
    " older rows, then start the query again with its checkpoint, and it resumes there"
)
_NO_COPY = "a query that keeps no copy takes accept-statements = all"


class Follower:
    """Follows one table. `plan` was made when the query started, and decides its columns."""

    def __init__(self, plan: Plan) -> None:
        (self._table,) = plan.tables
        self._plan, self._reader = plan, reader_of(plan.asked.settings)
        history = plan.catalog.history
        self._known = frozenset(met.file.path for met in history.followed_files)
        """The paths of the schema files that the query's columns are made by. One that comes late is not among them,
        though its version can be that of the query's start."""
        self._files = history.alive[self._table.target.table].files
        """The table's schema files. By the first one it is found again under any name."""
        self._listing: Listing | None = None
        self._assembled: tuple[Listing, Assembly] | None = None
        """The assembly of a listing, which the start of a query and what ends it are both read from."""
        self._last, self._position, self._floor = 0, -1, 0
        """`last`: the greatest offset that was told, also by a process before this one: Spark asks for the shares from
        that offset to itself when a query is started again. `metadata` can have gone back since. `floor`: all up to
        there was read before an offset that is lower, which a Spark that does not ask so has recorded."""
        self._followed_to = -1
        """The checkpoint up to which statements were looked for that end the query."""
        self._is_checked = False
        """Whether the statements between the start of the query and its columns were looked at."""
        self._end: tuple[int, ConsumerError] | None = None

    def first_offset(self) -> Offset:
        """Returns the offset at which a new query begins."""
        first = self._plan.asked.first
        return self._offset(first) | {FILES: sum(file.version <= first for file in self._files)}

    def _offset(self, ts: int) -> Offset:
        return {AT: ts, OF_TABLE: self._files[0].path, FILES: len(self._files)}

    def latest(self) -> Offset:
        """Returns the offset up to which the query can read now. Raises the error that ends the query, once everything
        before it was read."""
        if not self._is_checked:
            self._check_start(None)
        settings = self._plan.asked.settings
        checkpoint = checkpoint_of(settings, self._reader)
        if self._end is None and checkpoint != self._followed_to:
            if self._listing is None or checkpoint != self._listing.checkpoint:
                self._listing = listing_at_checkpoint(settings, self._reader, checkpoint)
            self._followed_to, self._end = checkpoint, self._what_ends()
        last = self._plan.asked.last
        end = self._listed().checkpoint if last is None else min(self._listed().checkpoint, last)
        if self._end is not None and self._end[0] < end:
            end = self._end[0]
            if end <= max(self._last, self._position):  # its schema file can come late
                raise self._end[1]
        self._last = max(self._bounded(end), self._last)
        return self._offset(self._last)

    def shares(self, start: Offset, end: int) -> list[Share]:
        """Returns the shares of the changes after `start`, with commit-ts <= `end`. Raises the error that keeps the
        query from starting there."""
        after = start[AT]
        if not self._is_checked:
            self._check_start(start)
        self._position, self._last = end, max(after, end, self._last)
        self._floor = after if end < after else self._floor
        after = max(after, self._floor)
        return [] if end <= after else list(self._shares(after, end))

    def read(self, end: int) -> None:
        """Notes that everything up to `end` was read."""
        self._position = end

    def _listed(self, at_least: int = 0) -> Listing:
        """Returns the newest listing, or one of now if that is of a checkpoint below `at_least`."""
        if self._listing is None or self._listing.checkpoint < at_least:
            settings = self._plan.asked.settings
            self._listing = listing_at_checkpoint(settings, self._reader, checkpoint_of(settings, self._reader))
        return self._listing

    def _shares(self, after: int, end: int, size: int = 0) -> Iterator[Share]:
        """Yields the shares of a batch, with the columns that the query started with. A batch that is read again can
        be from before that start."""
        asked = self._plan.asked
        last = self._plan.end if asked.last is not None else max(end, self._plan.end)
        asked = replace(asked, first=after, last=last, follows=True, partition_bytes=size or asked.partition_bytes)
        found = plan_listing(asked, self._reader, self._listed(last), last)
        (table,) = found.tables
        if table.target.columns != self._table.target.columns:
            raise _drift("its columns are others than when the query was started", str(table.target.table))
        return shares(replace(found, fields=self._plan.fields), min(end, last))

    def _bounded(self, end: int) -> int:
        """Returns `end`, or an earlier commit-ts up to which the changes after the last batch have the bytes of one
        batch."""
        most = self._plan.asked.trigger_bytes
        if not most or not 0 <= self._position < end:
            return end
        parts = self._shares(self._position, end, most)
        first, second = next(parts, None), next(parts, None)
        return end if first is None or second is None else first.eras[0].task.window.end

    def _check_start(self, recorded: Offset | None) -> None:
        """Raises SchemaDrift for a statement between the start of the query and its columns whose effect on rows no
        change shows: changes from before it would come in columns, or by a key, that they did not have. `recorded` is
        the offset at which the query was started again, None if it is new. Raises TableMissing if that is of another
        table."""
        statements, history = self._statements(self._listed())
        asked, name = self._plan.asked, str(self._table.target.table)
        start = self.first_offset() if recorded is None else recorded
        if start.get(OF_TABLE, self._files[0].path) != self._files[0].path:
            raise _other_table(history, start[OF_TABLE], name)
        if statements is None:
            return
        numbers = {file.path: number for number, file in enumerate(self._files)} if FILES in start else {}
        for effect in unshown_effects(statements, history):
            version, number = effect.version, numbers.get(effect.path)
            # A file that came late counts as unread, though its version can be below the offset.
            is_passed = version <= start[AT] if number is None else number < start[FILES]
            if is_passed or version <= asked.accept_statements or not self._knows(effect):
                continue
            if recorded is None or effect.begins:
                raise _unshown(effect, _anew(effect.version), name)
            if version - 1 <= start[AT]:
                raise _unshown(effect, _execute(version), name)
            then = statements.table.name_at(version - 1)
            of_then = "" if same_name(str(then)) == same_name(name) else f" and table = {then}"
            raise _unshown(
                effect,
                f"read what is before it with to-ts = {version - 1}{of_then}, execute the statement in a copy that you"
                f" keep, then start the query without to-ts, and with accept-statements = {version}; {_NO_COPY}",
                name,
            )
        self._is_checked = True

    def _what_ends(self) -> tuple[int, ConsumerError] | None:
        """Returns the last moment before the first statement that the query cannot follow, and the error for it; None
        if there is no such statement."""
        statements, history = self._statements(self._listed())
        if statements is None:
            return None
        name, table = str(self._table.target.table), statements.table
        ends: list[tuple[int, ConsumerError]] = [
            (effect.version, _unshown(effect, _execute(effect.version), name))
            for effect in unshown_effects(statements, history)
            if effect.version > self._plan.asked.accept_statements and not self._knows(effect)
        ]
        files = (file for file in table.files if file.path not in self._known and file.version <= statements.end)
        ends += [(file.version, error) for file in files if (error := self._looked_at(statements, file)) is not None]
        if table.end is not None and table.end.path not in self._known:
            gone = TableMissing("a statement took the table away", hint="every change of it was read", table=name)
            ends.append((table.end.version, gone))
        version, error = min(ends, key=lambda one: one[0], default=(0, None))
        return None if error is None else (version - 1, error)

    def _knows(self, effect: Unshown) -> bool:
        """Returns whether the query's columns were made with the statement."""
        return not effect.path or effect.path in self._known

    def _statements(self, listing: Listing) -> tuple[TableStatements | None, History]:
        """Returns the statements of the table up to the listing's checkpoint, None if it is not there then."""
        if self._assembled is None or self._assembled[0] is not listing:
            options = options_of(self._plan.asked)
            self._assembled = listing, assembly_of(self._reader, listing, Progress(), options)
        assembly = self._assembled[1]
        table = _table_of(assembly.history, self._files[0].path)
        if table is None:
            return None, assembly.history
        name = self._table.target.table
        return TableStatements(name, table, listing.checkpoint, True, assembly, Progress()), assembly.history

    def _looked_at(self, statements: TableStatements, file: SchemaFile) -> ConsumerError | None:
        name, before = self._table.target.table, statements.before(file.version)
        if same_name(str(file.name)) != same_name(str(name)):
            hint = f"every change before it was read: start the query again with its checkpoint and table = {file.name}"
            return TableMissing(f"it is called {file.name} now", hint=hint, table=str(name))
        if before is not None and before.columns != file.columns:
            return _drift(f"a statement of version {file.version} changed its columns", str(name))
        if statements.moves_key(file):
            return _drift(f"a statement of version {file.version} changed its key", str(name))
        return None


def _table_of(history: History, path: str) -> Incarnation | None:
    """Returns the table whose first schema file is at `path`."""
    return next((table for table in history.incarnations if table.files and table.files[0].path == path), None)


def _other_table(history: History, path: str, name: str) -> TableMissing:
    """Returns the error for a query whose offset is of the table with its first schema file at `path`."""
    table = _table_of(history, path)
    if table is not None and history.alive.get(table.name) is table:
        hint = f"start the query again with its checkpoint and table = {table.name}"
        return TableMissing(f"the table that the query followed is called {table.name} now", hint=hint, table=name)
    hint = "read this table by a new query, with a checkpoint and a copy of its own"
    return TableMissing("the table that the query followed is gone: another one has its name", hint=hint, table=name)


def _anew(version: int) -> str:
    return (
        f"begin a new copy with the state of a moment from {version} on (mode state, or an export of upstream), and a"
        f" query with from-ts at that moment; {_NO_COPY}"
    )


def _execute(version: int) -> str:
    return (
        "every change before it was read: execute it in a copy that you keep, then start the query again with its"
        f" checkpoint and with accept-statements = {version}"
    )


def _unshown(effect: Unshown, hint: str, table: str) -> SchemaDrift:
    sentence = f"{effect.what}, and no change shows what became of its rows"
    return SchemaDrift(sentence, hint=hint, table=table, version=effect.version)


def _drift(text: str, table: str = "") -> SchemaDrift:
    return SchemaDrift(text, hint=_RESUME, table=table)
