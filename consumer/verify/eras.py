"""A table's rows as `verify` reads them: from its beginning to its watermark, cut where a statement changed its
columns, its handle key, its name or the set of its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from consumer.errors import CannotBeExact, Code
from consumer.history.incarnations import Incarnation
from consumer.model.actions import Action
from consumer.model.bad_rows import Quarantine
from consumer.model.check import Era, Modes
from consumer.model.columns import Column
from consumer.model.files import Bounds, SchemaFile
from consumer.model.load import LoadTarget, ModeLoad, Purpose, TableLoad
from consumer.model.names import TableName, same_name, same_names
from consumer.model.progress import DdlState, Progress
from consumer.model.rules import unshaped
from consumer.model.steps import LoadRows, Window
from consumer.model.table_modes import TableMode
from consumer.model.times import MAX_TSO
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions
from consumer.plan.shaping import broken_rules
from consumer.plan.unread import UnreadFile
from consumer.plan.windows import plan_load
from consumer.ports import StorageReader
from consumer.verify.known import (
    ColumnOrigins,
    Conversions,
    ValueRules,
    current_origins,
    mode_column_positions,
    modes_of,
    upstream_key,
)
from consumer.verify.sources import TableFiles, TableStatements, takes_rows_away


@dataclass(frozen=True, slots=True)
class _Span:
    """The time between two of the table's statements: its rows have `after` < commit-ts <= `end`."""

    name: TableName
    after: int
    end: int
    columns: tuple[Column, ...]
    opening: SchemaFile | None
    known: ColumnOrigins
    kept: bool
    keys: tuple[ColumnOrigins, ...]
    """The origins of the columns of each handle key at that time, from the key of this span to the last one before the
    target's; empty if the span has the target's key."""


@dataclass(frozen=True)
class TableHistory:
    """One table of the target, as the executed statements describe it, complete up to `end`. `unread` is the assembly
    of the same listing for a reader who has read nothing."""

    name: TableName
    table: Incarnation
    end: int
    assembly: Assembly
    unread: Assembly
    progress: Progress
    options: RoundOptions
    reader: StorageReader
    followed: ValueRules
    target_tables: Collection[TableName] = ()
    """The tables of upstream that the target has."""
    executed: Collection[str] = ()
    """The paths of the statements that have run in the target."""
    applied: bool = True
    """Whether a target has the table, and only the rows that were written there count; else all rows of the storage
    count."""
    together: bool = True
    """Whether rows of one era meet those of another; else each change is read by itself."""
    passed_over: str = ""
    """Why changes up to the moment as of which the target was given the table are not read, "" if they are."""

    @property
    def mode(self) -> TableMode | None:
        """The table's mode in the target, None for a mirror."""
        return self.options.rules.naming.mode(self.name)

    @cached_property
    def statements(self) -> TableStatements:
        """The statements that the table's rows went through."""
        keeps_ended = self.mode is not None and self.mode.keeps_ended
        return TableStatements(
            self.name, self.table, self.end, keeps_ended, self.assembly, self.progress, self.executed
        )

    @cached_property
    def files(self) -> TableFiles:
        """The files that have the table's rows."""
        timeless = self.options.files.dialect.timeless
        by_progress = self.applied and (timeless or self.end == MAX_TSO)
        return TableFiles(self.statements, self.assembly, self.reader, timeless, by_progress, self.passed_over)

    @property
    def incomplete(self) -> str:
        """Why the storage does not have all rows, "" if it does."""
        begins = self.statements.begins
        if begins <= self.statements.given:
            return (
                "the table began before the target was given it, and its changes up to then were not read"
                if begins
                else "the table is older than the changefeed"
            )
        if self.statements.moves:
            return "an EXCHANGE PARTITION brought rows that are not in its files"
        birth = self.table.birth
        if birth is not None and birth.version == begins and birth.type == Action.RECOVER_TABLE:
            return "it came back with rows that TiCDC does not write again"
        gap = next((g for name in self.table.names if (g := self.unread.gap_from(name, Progress(), begins))), None)
        if gap is not None:
            return f"files are missing: {gap.message}"
        lost_until_ts = self.files.lost_until_ts
        return f"files that were read up to {lost_until_ts} are gone, or were written again" if lost_until_ts else ""

    @property
    def is_given(self) -> bool:
        """Whether the target was given the table with the changes that the storage has from before."""
        return self.statements.given > max(self.statements.begins, self.files.lost_until_ts)

    @property
    def proves_no_start(self) -> str:
        """Why the last change of a key does not show what its row was at the moment as of which the target was given
        the table, "" if it does provided that the storage has all changes."""
        if self.options.files.dialect.timeless:
            return "rows of this storage carry no time"
        if self.mode is not None and self.mode.keeps_ended:
            return f"a table in the mode {self.mode.kind} does not show what it was given"
        if any(self.options.rules.shaping_of(name) is not None for name in self.table.names):
            return "whether the filters and masks were followed in what the target was given is not known"
        if any(file.version <= self.statements.given for file in self.statements.moves):
            return "an EXCHANGE PARTITION before that brought rows that are not in its files"
        return f"files are missing: {gap}" if (gap := self.files.missing) else ""

    @property
    def not_looked_at(self) -> int:
        """The commit-ts up to which changes of the table are skipped, 0 for none."""
        after = self.files.after
        return after if after > self.statements.begins else 0

    @property
    def unmended(self) -> str:
        """Why rows that differ are not repaired, "" if they are."""
        if any(record.state is DdlState.INTENT for record in self.progress.ddls.values()):
            return "a statement has begun, and whether it has run is not recorded: run `once` first"
        if (file := self.statements.left_out) is not None:
            return f"the statement of version {file.version}, which takes rows away, was not executed"
        hole = self.files.hole
        return f"{hole} is gone, which may have had a newer change of a row" if hole else ""

    def request_load(self) -> LoadRows:
        """Returns a load of nothing, which requests the table as the last executed statement left it."""
        end = self.statements.waits or self.end + 1
        return LoadRows(self.name, Window(end - 1, end), ())

    def eras(self, target: LoadTarget, absent: Mapping[int, tuple[str, ...]]) -> tuple[Era, ...]:
        """Returns the eras in their order. `absent` has by era the columns that its rows were found to lack. Raises
        CannotBeExact if the key of older rows is not known, or a statement separated rows from the rules of their
        table."""
        self._check_rules()
        spans = [part for span in list(self._spans(target))[::-1] for part in _at_start(span, self.statements.given)]
        bounds = self.files.bounds(span.name for span in spans) if len(spans) > 1 or spans[0].after else {}
        numbers = count()
        return tuple(
            self._era(span, target, bounds, next(numbers), absent.get(number, ()), span.opening is spans[-1].opening)
            for number, span in enumerate(spans)
        )

    def modes(self, target: LoadTarget) -> Modes | None:
        """Returns how the rows of a table that is no mirror are made."""
        return modes_of(self.mode, target, self.statements.all)

    def _spans(self, target: LoadTarget) -> Iterator[_Span]:
        """Yields the spans from the last to the first."""
        after = self.files.after
        columns = self.statements.columns(self.statements.before(self.end + 1))
        origins = current_origins(self.mode, target, columns, self.statements.stayed)
        end, kept, keys = self.end, True, tuple[ColumnOrigins, ...]()
        cuts = [file for file in self.statements.cuts if file.version > after]
        for file in reversed(cuts):
            is_own = self.statements.is_own(file)
            opening = file if is_own else self.statements.before(file.version)
            if file.version < end or end == self.end:
                yield self._span(file.version, end, opening, origins, kept, keys)
                end = file.version
            if is_own:
                columns_before = self.statements.columns(self.statements.before(file.version))
                origins = origins.before(file, columns_before, self.followed)
                keys = tuple(key.before(file, columns_before, self.followed) for key in keys)
                if self.statements.moves_key(file):
                    keys = (ColumnOrigins.now(self._key_before(file)), *keys)
            kept = kept and not takes_rows_away(file)
        first_cut = cuts[0].version if cuts else self.end + 1
        yield self._span(after, end, self.statements.before(first_cut), origins, kept, keys)

    def _check_rules(self) -> None:
        """Raises CannotBeExact for what `once` refuses: rows would be filtered or masked by the rules of another
        table."""
        shaping_of, statements = self.options.rules.shaping_of, self.statements
        executed = [file for file in (*statements.all, *statements.moves) if not statements.is_ignored(file)]
        for file in executed if shaping_of is not unshaped else ():
            old_name, earlier = self.table.name_at(file.version - 1), statements.before(file.version)
            columns = None if earlier is None or earlier is file else earlier.columns
            if conflict := broken_rules(file, (old_name,), columns, shaping_of, creates=file is self.table.birth):
                raise CannotBeExact(
                    f"{conflict}; the statement of version {file.version}: {file.query}",
                    hint="give the same filters and masks to all names that the table and its columns have had",
                    table=str(self.name),
                    code=Code.RULES_CONFLICT,
                )

    def _key_before(self, file: SchemaFile) -> Sequence[Column]:
        """Returns the columns of the key before the statement. Raises CannotBeExact if the rows before and after it do
        not meet by keys that are known."""
        key, change = self.statements.key_before(file), f"the statement of version {file.version} changed its key"
        if key is None:
            raise CannotBeExact(f"{change}, and the storage does not show what it was before", table=str(self.name))
        if self.mode is not None and self.together:
            raise CannotBeExact(
                f"{change}, and in the table mode {self.mode} its rows before and after that cannot be compared",
                table=str(self.name),
            )
        return key

    def _span(
        self,
        after: int,
        end: int,
        opening: SchemaFile | None,
        origins: ColumnOrigins,
        kept: bool,
        keys: tuple[ColumnOrigins, ...],
    ) -> _Span:
        name, columns = self.table.name_at(after), self.statements.columns(opening)
        return _Span(name, after, end, columns, opening, origins, kept, keys)

    def _era(
        self,
        span: _Span,
        target: LoadTarget,
        bounds: Mapping[str, Bounds],
        number: int,
        absent: tuple[str, ...],
        last: bool = True,
    ) -> Era:
        """`last`: the table's columns are the current ones."""
        declared = self.statements.declared(span.opening)
        virtual = {*target.virtual, *(name for name, column in declared.items() if column.virtual)}
        stored = tuple(
            column
            for column in span.columns
            if not column.hidden and column.name not in absent and not _is_in(column.name, virtual)
        )
        positions = {same_name(column.name): position for position, column in enumerate(stored)}
        era_positions = tuple(positions.get(same_name(name), -1) if name else -1 for name in span.known.names)
        mode_columns = mode_column_positions(self.mode, target)
        is_known = tuple(
            made is not None and (index >= 0 or n in span.known.added or n in mode_columns)
            for n, (made, index) in enumerate(zip(span.known.made, era_positions, strict=True))
        )
        conversions = {
            n: made for n, made in enumerate(span.known.made) if made and is_known[n] and era_positions[n] >= 0
        }
        keys = self._keys(span, positions, upstream_key(self.mode, target), era_positions, is_known)
        stored = tuple(
            replace(column, elements=_labels(column, target, era_positions, n)) if column.labelled else column
            for n, column in enumerate(stored)
        )
        names = tuple(column.name for column in stored)
        hidden = tuple(sorted(virtual))
        era_target = LoadTarget(
            TableLoad(
                span.name,
                mode=self.mode,
                purpose=Purpose.COMPARE,
                absent=absent,
                unselected=target.load.unselected,
                shaping=self.options.rules.shaping_of(self.name),
                quarantine=self._quarantined,
            ),
            stored,
            names,
            keys[0],
            computed=target.computed if last and self.mode is None else (),
            virtual=hidden,
            events=self.mode is not None and self.mode.keeps_ended,
        )
        load_step = self._load(span, bounds)
        version = TableVersionConsumer(load_step, self.assembly.catalog, self.options.files.dialect, self.options.rules)
        version.check_rules(era_target)
        version.check_schemas()
        mode_load = None if self.mode is None else ModeLoad(era_target, era_positions, version.versions)
        given = span.end <= self.statements.given
        task = version.task(number, era_target, mode_load)
        return Era(task, keys, era_positions, is_known, span.known.added, span.kept, conversions, given)

    def _keys(
        self,
        span: _Span,
        place: Mapping[str, int],
        upstream: Sequence[int],
        places: Sequence[int],
        known: Sequence[bool],
    ) -> tuple[tuple[int, ...], ...]:
        """Returns `Era.keys`. `place` has the positions of the era's columns by name; `places` and `known` describe the
        target's columns, of which those at `upstream` are its key. Raises CannotBeExact."""
        keys = [
            [(place.get(same_name(name), -1), made == ()) for name, made in zip(key.names, key.made, strict=True)]
            for key in span.keys
        ]
        keys.append(
            [(places[position], known[position] and _stay_apart(span.known.made[position])) for position in upstream]
        )
        needed = keys if self.together else keys[:1]
        if any(at < 0 or not is_known for key in needed for at, is_known in key):
            raise CannotBeExact(
                f"its key was changed at {span.end}: older rows do not show which of the target's rows they are"
            )
        return tuple(tuple(at for at, _ in key) for key in keys)

    @property
    def _quarantined(self) -> Quarantine | None:
        """The known bad lines of all tables that had one of its names before or have it now: a bad line does not show
        its time."""
        names = {self.name, *self.table.names}
        bad_rows = frozenset(row for name in names for row in self.progress.bad_rows.get(name, ()))
        return Quarantine(len(bad_rows), uneven=True, only_ids=bad_rows) if bad_rows else None

    def _load(self, span: _Span, bounds: Mapping[str, Bounds]) -> LoadRows:
        settings, boundaries = self.options.files, {file.version for file in self.statements.all}
        files = self.files.of(span.name)
        if settings.dialect.timeless:
            files = [file for file in files if file.folder.version >= span.after]
        unread = [UnreadFile(file, 0, MAX_TSO) for file in files]
        return plan_load(span.name, Window(span.after, span.end), unread, bounds, boundaries, settings)


def _at_start(span: _Span, start: int) -> Iterator[_Span]:
    """Yields the span in two parts if the target was given the table within it."""
    if span.after < start < span.end:
        yield replace(span, end=start)
        yield replace(span, after=start)
    else:
        yield span


def _is_in(name: str, names: set[str]) -> bool:
    return same_name(name) in same_names(names)


def _stay_apart(made: Conversions) -> bool:
    """Returns whether values that were different still are."""
    return made is not None and all(conversion.stay_apart for conversion in made)


def _labels(column: Column, target: LoadTarget, places: Sequence[int], position: int) -> tuple[str, ...]:
    """Returns the labels of the era's own column, else those of the target's column, if its type has not changed
    since."""
    if column.elements or position not in places:
        return column.elements
    target_column = target.columns[places.index(position)]
    return target_column.elements if target_column.type == column.type else ()
