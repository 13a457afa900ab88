"""Plans a read: the table at the requested moment, and its changes, cut where a statement changed the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from consumer.app.parts import checkpoint_of, listing_at_checkpoint, reader_of
from consumer.codec import protocol_of
from consumer.config.clocks import resolved_zone
from consumer.errors import (
    BadConfig,
    CannotBeExact,
    CheckpointBehind,
    ConsumerError,
    GapFound,
    TableError,
    TableMissing,
)
from consumer.history.incarnations import Incarnation
from consumer.model.check import Era
from consumer.model.files import Bounds, Listing
from consumer.model.hints import read_anyway_hint
from consumer.model.load import LoadTarget, Purpose, TableLoad
from consumer.model.names import TableName, same_name, same_names
from consumer.model.progress import Progress, ProgressChange
from consumer.model.texts import did_you_mean
from consumer.model.times import zone_of
from consumer.pipeline.loads import ambiguous_column, ambiguous_key
from consumer.pipeline.opening import assembly_of
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.plan.date_order import check_dates
from consumer.plan.options import RoundOptions
from consumer.plan.starting import check_moment
from consumer.plan.survey import check_selected
from consumer.plan.table_modes import stored_columns
from consumer.ports import RangeReader, StorageReader
from consumer.source.followed import followed
from consumer.source.options import Mode, ReadOptions
from consumer.verify.eras import TableHistory


@dataclass(frozen=True)
class TablePlan:
    """One table of a read: `target` has its columns as of the last moment, `eras` its rows between the statements that
    changed these. `bounds` are the first and last commit-ts of each file, by path, where they are needed."""

    target: LoadTarget
    eras: tuple[Era, ...]
    bounds: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Plan:
    """A read of tables as of the moment `end`, by the statements and files of one listing, of which `catalog` describes
    the tables. `fields` are the names of the columns that the read returns."""

    asked: ReadOptions
    end: int
    tables: tuple[TablePlan, ...]
    reader: RangeReader
    catalog: Catalog
    fields: tuple[str, ...] = ()


def plan(asked: ReadOptions, gap_hint: str = "") -> Plan:
    """Returns the plan of a read. Raises what `once` would stop the tables for, and CannotBeExact if the files do not
    show enough. `gap_hint` says what to do about a missing file. If it is empty, the hint says how to read without the
    file."""
    reader = reader_of(asked.settings)
    checkpoint = checkpoint_of(asked.settings, reader)
    end = checkpoint if asked.last is None else asked.last
    if end > checkpoint:
        raise CheckpointBehind(
            f"to-ts is {end}, but the changefeed is complete only up to {checkpoint}",
            hint="try again once it is past to-ts, or leave to-ts out to read what is there",
        )
    if asked.first:
        check_moment("from-ts", asked.first, end)
    return plan_listing(asked, reader, listing_at_checkpoint(asked.settings, reader, checkpoint), end, gap_hint)


def options_of(asked: ReadOptions) -> RoundOptions:
    """Returns the options of a round of the tables that are read."""
    options = asked.settings.round_options
    if not asked.table:
        return options
    return replace(options, rules=replace(options.rules, wanted=partial(_is_called, asked.table)))


def plan_listing(asked: ReadOptions, reader: StorageReader, listing: Listing, end: int, gap_hint: str = "") -> Plan:
    """Returns the plan of what was committed up to `end`, or up to the listing's checkpoint if that is lower."""
    options, checkpoint = options_of(asked), listing.checkpoint
    end = min(end, checkpoint)
    listing = replace(listing, checkpoint=end, settled=end < checkpoint, reached=max(checkpoint, listing.reached))
    first = ProgressChange(applied_ts=asked.first, start_ts=asked.first)
    progress = Progress().after(first) if asked.first else Progress()
    planner = _TablePlanner(asked, reader, assembly_of(reader, listing, progress, options), progress, options, end)
    try:
        plans = tuple(planner.plans())
    except GapFound as gap:
        # A read has no progress, so gaps that a target has accepted are unknown here.
        hint = gap_hint or read_anyway_hint(gap.hint)
        raise GapFound(gap.message, hint=hint, table=gap.table, path=gap.path, code=gap.code) from None
    return Plan(asked, end, plans, reader.range_reader(), planner.assembly.catalog)


def _is_called(text: str, name: TableName) -> bool:
    return same_name(str(name)) == same_name(text)


@dataclass(frozen=True)
class _TablePlanner:
    """Plans the tables of one read."""

    asked: ReadOptions
    reader: StorageReader
    assembly: Assembly
    progress: Progress
    options: RoundOptions
    end: int

    def plans(self) -> Iterator[TablePlan]:
        names = sorted(name for name in self.assembly.history.alive if name.table and self.options.rules.wanted(name))
        errors = dict(self.assembly.errors(self.progress, self.options.rules.accept_gap))
        if not names and self.asked.table:
            error = next((error for name, error in errors.items() if _is_called(self.asked.table, name)), None)
            raise error or self._missing()
        check_selected(self.assembly, self.progress, self.options.rules)
        for name in names:
            table = self.assembly.history.alive[name]
            if table.is_view or table.is_temporary:
                if self.asked.table:
                    raise TableMissing(
                        "it is a view or a temporary table, of which TiCDC writes no rows", table=str(name)
                    )
                continue
            if error := errors.get(name) or self._broken(table):
                raise error
            try:
                yield self._plan(name, table)
            except TableError as error:
                raise error.about(error.table or str(name)) from error

    def _broken(self, table: Incarnation) -> ConsumerError | None:
        """Returns the error of an unusable schema file under any of the table's names, None if there is none. Files
        from before from-ts do not count."""
        found = (self.assembly.broken.get(name) for name in table.names)
        due = (error for error in found if error is not None and (error.version or self.end) >= self.asked.first)
        return next(due, None)

    def _missing(self) -> TableMissing:
        text, history = self.asked.table, self.assembly.history
        ended = (
            (name, ts) for name in history.known_names if _is_called(text, name) and (ts := history.ended_since(name))
        )
        if (last := next(ended, None)) is not None:
            name, since = last
            table = history.at(name, since - 1)
            is_alive = table is not None and history.alive.get(table.name) is table
            return TableMissing(
                f"no table has had this name since the statement of version {since}",
                hint=f"its table is called {table.name} now"
                if table is not None and is_alive
                else f"to read its changes, give a to-ts below {since}",
                table=text,
            )
        names = (str(name) for name in history.alive if name.table)
        return TableMissing(
            f"the storage has no such table up to this moment{did_you_mean(text, names)}",
            hint="`storage-consumer inspect` lists the tables of a storage",
            table=text,
        )

    def _plan(self, name: TableName, table: Incarnation) -> TablePlan:
        zone = zone_of(resolved_zone(self.asked.settings.tz))
        rules = followed(self.asked.mode, zone)
        history = TableHistory(
            name,
            table,
            self.end,
            assembly=self.assembly,
            unread=self.assembly,
            progress=self.progress,
            options=self.options,
            reader=self.reader,
            followed=rules,
            executed=self._executed,
            applied=False,
            together=self.asked.mode is Mode.STATE,
            passed_over="changes after from-ts are asked for",
        )
        self._check_beginning(name, history)
        target = self._target(history)
        self._check_times(history)
        column = ambiguous_column(self.options.files, target)
        if column is not None and not self.options.files.accept_timestamp_key:
            raise ambiguous_key(name, column)
        eras = history.eras(target, {})
        if self.asked.mode is Mode.STATE:
            _check_whole(history)
        bounds = self._bounds(table, eras) if self.asked.mode is Mode.CHANGES else {}
        return TablePlan(target, eras, bounds)

    @cached_property
    def _executed(self) -> frozenset[str]:
        """The paths of all statements: upstream executed each of them."""
        return frozenset(met.file.path for met in self.assembly.history.followed_files)

    def _check_beginning(self, name: TableName, history: TableHistory) -> None:
        """Raises GapFound if files are missing, BadConfig if the range has changes of another table of the same
        name."""
        if not self.options.rules.accept_gap(name):
            begins = max(history.statements.begins, self.asked.first)
            for own_name in history.table.names:
                if (gap := self.assembly.gap_from(own_name, self.progress, begins)) is not None:
                    raise gap
        since, first, upstream = history.table.since[-1], self.asked.first, self.assembly.history
        if not first or self.asked.follows:
            return
        others = [table for table in upstream.tables_named(name, self.end) if table is not history.table]
        had_it_at_start = upstream.at(name, first) in others
        pairs = (pair for other in others for pair in zip(other.names, other.since, strict=True))
        got_it_later = any(given_name == name and first < ts < since for given_name, ts in pairs)
        if had_it_at_start or got_it_later:
            hint = (
                f"give --from-ts {since}; to print the changes of the other table, give `changes` a --to-ts below"
                f" {since}"
                if self.asked.of_command
                else f"give from-ts {since}, to a stream with a new checkpoint, whose copy begins with the state at"
                f" {since}, and leave it out where the query resumes by its checkpoint; to read the changes of the"
                f" other table, give a to-ts below {since}"
            )
            raise BadConfig(
                f"this table got its name at {since}; between from-ts and then, another table had the name",
                hint=hint,
                table=str(name),
            )

    def _check_times(self, history: TableHistory) -> None:
        """Raises CannotBeExact if rows have no time although the read, or the order of files, depends on it."""
        files, asked = self.options.files, self.asked
        if not files.dialect.timeless:
            return
        if asked.mode is Mode.CHANGES or asked.last is not None:
            raise CannotBeExact(
                protocol_of(files.dialect).without_times,
                hint=f"let the changefeed write commit-ts (set {protocol_of(files.dialect).commit_ts}) to a new prefix,"
                " and read that; without it only the newest state can be read (mode state, without to-ts)",
                table=str(history.name),
            )
        every = [file for name in history.table.names for file in self.assembly.files.get(name, ())]
        error = None if files.date_order else check_dates(history.name, every, every, {})
        if error is not None:
            raise error

    def _target(self, history: TableHistory) -> LoadTarget:
        """Returns the table with its columns at the end, and its key. Raises CannotBeExact."""
        file, name, rules = history.statements.before(self.end + 1), history.name, self.options.rules
        if file is None:
            raise CannotBeExact("no schema file describes the table up to this moment", table=str(name))
        shape = self.assembly.catalog.shape(file)
        stored = tuple(stored_columns(history.statements.columns(file), shape))
        columns = rules.selected(name, stored)
        if any(column.is_pk for column in stored if column not in columns):
            columns = tuple(replace(column, is_pk=False) for column in columns)
        taken = self.asked.meta & same_names(column.name for column in columns)
        if taken:
            raise CannotBeExact(
                f"its column {min(taken)} has the same name as a column that the read adds",
                hint="read the table's state instead (mode state)",
                table=str(name),
            )
        names, shaping = shape.handle_key(columns) or (), rules.shaping_of(name)
        key = tuple(at for at, column in enumerate(columns) if column.name in names)
        if self.asked.mode is Mode.CHANGES and shaping is not None and (shaping.events or shaping.where):
            raise CannotBeExact(
                "a row filter or an event filter applies to this table, but its changes can only be read unfiltered",
                hint="leave it out of [[consumer.rows]] and [[consumer.event-filters]]",
                table=str(name),
            )
        load = TableLoad(name, purpose=Purpose.COMPARE, shaping=shaping)
        return LoadTarget(load, columns, tuple(column.name for column in columns), key)

    def _bounds(self, table: Incarnation, eras: Sequence[Era]) -> dict[str, tuple[int, int]]:
        """Returns the first and last commit-ts of the files that are read, by path. Raises the error of a file's first
        or last line."""
        wanted = {piece.path for era in eras for piece in era.task.slices}
        every = (file for name in table.names for file in self.assembly.files.get(name, ()))
        found = self.reader.bounds(list({file.path: file for file in every if file.path in wanted}.values()))
        return {path: _first_and_last(bounds) for path, bounds in found.items()}


def _first_and_last(bounds: Bounds | ConsumerError) -> tuple[int, int]:
    if isinstance(bounds, ConsumerError):
        raise bounds
    return min(bounds.first, bounds.last), max(bounds.first, bounds.last)


def _check_whole(history: TableHistory) -> None:
    """Raises CannotBeExact if the storage does not have all rows of the table."""
    if incomplete := history.incomplete:
        raise CannotBeExact(
            f"the storage does not have all its rows: {incomplete}",
            hint="read its changes (mode changes); or load an export (`load-export`), and read the target",
            table=str(history.name),
        )
