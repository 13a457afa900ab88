"""A table's rows as `verify` reads them: from its beginning to its watermark, cut where a statement changed its
columns, its name or which rows it has."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from consumer.ddl.changes import changes_of, takes_rows
from consumer.ddl.declared import Definition
from consumer.errors import CannotBeExact
from consumer.model.actions import Action
from consumer.model.bad_rows import Aside
from consumer.model.check import Era, Forms, Origin
from consumer.model.columns import Column
from consumer.model.ddl_policy import ignored_reason
from consumer.model.files import Bounds, DataFile, Folder, SchemaFile
from consumer.model.forms import Form
from consumer.model.load import LoadTarget
from consumer.model.names import MAX_TSO, TableName, same_name, same_names
from consumer.model.progress import DdlState, FolderProgress, Progress
from consumer.model.steps import LoadRows, Window, ddl_id
from consumer.pipeline.options import RoundOptions
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.plan.gaps import gone_upto, hole_below
from consumer.plan.lives import Life, exchanges, given_at
from consumer.plan.statement import action_of
from consumer.plan.unread import Unread, unread_files
from consumer.plan.windows import plan_load, plan_timeless_load
from consumer.ports import StorageReader
from consumer.verify.forms import added_places, forms_of, known_now, upstream_key
from consumer.verify.known import Known

_ALL = 1 << 62
"""More bytes than a table has: an era is read in one load."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The time between two of the table's statements: rows with `after` < commit-ts <= `upto`."""

    name: TableName
    after: int
    upto: int
    columns: tuple[Column, ...]
    opening: SchemaFile | None
    known: Known
    kept: bool


@dataclass(frozen=True)
class TableHistory:
    """One table of the target, whose `life` the executed statements tell, complete up to `upto`. `unread` is the
    assembly of the same listing for one who has read nothing, `moving` has the statements that exchange partitions."""

    name: TableName
    life: Life
    upto: int
    assembly: Assembly
    unread: Assembly
    moving: Catalog
    progress: Progress
    options: RoundOptions
    reader: StorageReader
    there: Collection[TableName] = ()
    """The tables of upstream that are in the target."""

    @property
    def form(self) -> Form | None:
        """What the table is in the target, None for a mirror."""
        return self.options.naming.form(self.name)

    @property
    def begins(self) -> int:
        """The statement that the table was empty behind; 0 for none in the storage."""
        kept = self.form is not None and self.form.keeps_ended
        emptied = [file.version for file in self._statements if action_of(file) is Action.TRUNCATE_TABLE and not kept]
        return max(emptied, default=self.life.birth.version if self.life.birth is not None else 0)

    @property
    def untold(self) -> str:
        """Why the storage does not tell of all rows, "" where it does."""
        begins = self.begins
        if begins <= self._given:
            return (
                "it is older than the storage's rows that were applied" if begins else "it is older than the changefeed"
            )
        if self._moves:
            return "an EXCHANGE PARTITION brought rows that are not in its files"
        born = self.life.birth
        if born is not None and born.version == begins and born.type == Action.RECOVER_TABLE:
            return "it came back with rows that TiCDC does not write again"
        gap = next((g for name in self.life.names if (g := self.unread.gap_from(name, Progress(), begins))), None)
        if gap is not None:
            return f"files are missing: {gap.message}"
        return f"files that were read up to {self.gone} are gone, or were written anew" if self.gone else ""

    @cached_property
    def gone(self) -> int:
        """The commit-ts up to which changes may be gone from the storage that the target has, 0 for none: nothing up to
        there is compared."""
        gone = gone_upto(self._all_files, self._folders, self.upto, self.reader.bounds)
        return gone if gone > self.begins else 0

    @cached_property
    def _folders(self) -> Mapping[Folder, FolderProgress]:
        """Those of which something was read."""
        catalog, names = self.assembly.catalog, self.life.names
        roots = {file.root for name in names for file in catalog.by_table.get(name, ())}
        read = [folder for root in roots for folder in self.assembly.read.get(root, ())]
        return {folder: self.progress.folders[folder] for folder in read if catalog.owner(folder) in names}

    @cached_property
    def _all_files(self) -> Sequence[DataFile]:
        return [file for name in self.life.names for file in self.assembly.files.get(name, ())]

    @property
    def unmended(self) -> str:
        """Why rows that differ are left as they are, "" for nothing."""
        if any(record.state is DdlState.INTENT for record in self.progress.ddls.values()):
            return "a statement has begun, and whether it has run is not recorded: run `once` first"
        for file in self._statements:
            record = self.progress.ddls.get(ddl_id(file))
            skipped = record is not None and record.state is DdlState.SKIPPED
            if (
                skipped
                and file.version > self._given
                and (action_of(file) is Action.TRUNCATE_TABLE or _takes_rows(file))
            ):
                return f"the statement of version {file.version}, which takes rows away, was not executed"
        folders = {folder: place for folder, place in self._folders.items() if place.last_ts > self.begins}
        hole = hole_below([file for file in self._all_files if file.folder in folders], folders)
        return f"{hole} is gone, which may have had a newer change of a row" if hole else ""

    def request_load(self) -> LoadRows:
        """A load of nothing that asks for the table as its last statement left it."""
        return LoadRows(self.name, Window(self.upto, self.upto + 1), ())

    def eras(self, target: LoadTarget, absent: Mapping[int, tuple[str, ...]]) -> tuple[Era, ...]:
        """The eras in their order; `absent` are columns, by era, that its rows were found to lack. Raises CannotBeExact
        where the key of older rows is not known."""
        spans = list(self._spans(target))[::-1]
        bounds = self._bounds(spans) if len(spans) > 1 or spans[0].after else {}
        numbers = count()
        return tuple(
            self._era(span, target, bounds, next(numbers), absent.get(number, ())) for number, span in enumerate(spans)
        )

    def forms(self, target: LoadTarget) -> Forms | None:
        """How the rows of a table that is no mirror are made."""
        return forms_of(self.form, target, self._statements)

    def later(self, target: LoadTarget, absent: tuple[str, ...] = ()) -> Era | None:
        """What the storage has of the table above its watermark, None for nothing; no statement is `pending`."""
        if self.upto == MAX_TSO:
            return None
        opening = self._before(self.upto + 1)
        span = _Span(
            self._name_at(self.upto),
            self.upto,
            MAX_TSO,
            self._columns(opening),
            opening,
            Known.now(target.columns),
            True,
        )
        era = self._era(span, target, self._bounds([span]), 1, absent)
        # Only keys count, so what the era knows is no combination of columns that rows to mend could have.
        return replace(era, origin=Origin.LATER, known=(True,) * len(era.known)) if era.task.slices else None

    @property
    def pending(self) -> SchemaFile | None:
        """The first statement above the watermark that is about the table, or about all tables of its database."""
        later = (file for file in self.assembly.catalog.files if file.version > self.upto)
        return next((file for file in later if _is_about(file, self.name)), None)

    @property
    def unread_files(self) -> Sequence[Unread]:
        """Files of the table that no round has read wholly."""
        files = self.assembly.files.get(self.name, ())
        return list(unread_files(files, self.progress.folders, self.options.dialect.timeless))

    def _spans(self, target: LoadTarget) -> Iterator[_Span]:
        """From the last to the first."""
        after = self._after
        known = known_now(self.form, target, self._columns(self._before(self.upto + 1)))
        upto, kept = self.upto, True
        cuts = [file for file in self._cuts if file.version > after]
        for number in range(len(cuts) - 1, -1, -1):
            file = cuts[number]
            own = file.name in self.life.names and file.path in self._paths
            opening = file if own else self._before(file.version)
            if file.version < upto or upto == self.upto:
                yield _Span(
                    self._name_at(file.version), file.version, upto, self._columns(opening), opening, known, kept
                )
                upto = file.version
            if own:
                known = known.before(file, self._columns(self._before(file.version)))
            kept = kept and not _takes_rows(file)
        first = cuts[0].version if cuts else self.upto + 1
        opening = self._before(first)
        yield _Span(self._name_at(after), after, upto, self._columns(opening), opening, known, kept)

    def _era(
        self, span: _Span, target: LoadTarget, bounds: Mapping[str, Bounds], number: int, absent: tuple[str, ...]
    ) -> Era:
        declared = self._declared(span.opening)
        virtual = {*target.virtual, *(name for name, said in declared.items() if said.virtual)}
        stored = tuple(
            column
            for column in span.columns
            if not column.hidden and column.name not in absent and not _is_in(column.name, virtual)
        )
        place = {same_name(column.name): position for position, column in enumerate(stored)}
        places = tuple(place.get(same_name(name), -1) if name else -1 for name in span.known.names)
        own_added = added_places(self.form, target)
        known = tuple(
            is_known and (at >= 0 or n in span.known.added or n in own_added)
            for n, (is_known, at) in enumerate(zip(span.known.known, places, strict=True))
        )
        upstream = upstream_key(self.form, target)
        for position in upstream:
            if places[position] < 0 or not known[position]:
                raise CannotBeExact(
                    f"its key was changed at {span.upto}: older rows do not show which of the target's rows they are"
                )
        key = tuple(places[position] for position in upstream)
        stored = tuple(
            replace(column, elements=_labels(column, target, places, n)) if column.labelled else column
            for n, column in enumerate(stored)
        )
        names = tuple(column.name for column in stored)
        hidden = tuple(sorted(virtual))
        own = LoadTarget(
            span.name,
            stored,
            names,
            key,
            absent=absent,
            virtual=hidden,
            aside=self._aside,
            events=self.form is not None and self.form.keeps_ended,
            shaping=self.options.shaping_of(self.name),
        )
        load = self._load(span, bounds)
        version = TableVersionConsumer(
            load, self.assembly.catalog, self.options.dialect, self.options.never_split(self.name)
        )
        self.options.check_rules(own, version.keys, version.had)
        version.check_schemas()
        forming = None if self.form is None else version.forming(self.form, own, places)
        return Era(replace(version.task(number, own), forming=forming), places, known, span.known.added, span.kept)

    @cached_property
    def _with_bad_rows(self) -> frozenset[str]:
        return frozenset(row.path for row in self.progress.bad_rows.get(self.name, {}).values())

    @property
    def _aside(self) -> Aside | None:
        """Also lines of tables that had one of its names before or have it now: a bad line does not tell its time."""
        names = {self.name, *self.life.names}
        known = frozenset(row for name in names for row in self.progress.bad_rows.get(name, ()))
        return Aside(len(known), uneven=True, known=known) if known else None

    def _load(self, span: _Span, bounds: Mapping[str, Bounds]) -> LoadRows:
        window, order = Window(span.after, span.upto), self.options.date_order
        boundaries = {file.version for file in self._statements}
        files = self._files(span.name)
        if self.options.dialect.timeless:
            own = [Unread(file, 0) for file in files if file.folder.version >= span.after]
            return plan_timeless_load(span.name, window, own, boundaries, order)
        entries = [Unread(file, 0, MAX_TSO) for file in files]
        return plan_load(span.name, window, entries, bounds, boundaries, _ALL, order)

    def _files(self, name: TableName) -> Sequence[DataFile]:
        """All of them that can have rows to look at, or those that were read where nothing else tells how far the
        target is."""
        timeless = self.options.dialect.timeless
        files = [file for file in self.assembly.files.get(name, ()) if timeless or not self._is_over(file)]
        if not timeless and self.upto != MAX_TSO:
            return files
        left = {entry.file.path for entry in unread_files(files, self.progress.folders, timeless)}
        return [file for file in files if file.path not in left]

    def _bounds(self, spans: Sequence[_Span]) -> Mapping[str, Bounds]:
        if self.options.dialect.timeless:
            return {}
        files = [file for name in dict.fromkeys(span.name for span in spans) for file in self._files(name)]
        return {path: found for path, found in self.reader.bounds(files).items() if isinstance(found, Bounds)}

    def _is_over(self, file: DataFile) -> bool:
        """Whether it was read, and all rows that were read of its folder are from before what is looked at: it can have
        lines that are bad, which nobody counts any more."""
        place = self.progress.folders.get(file.folder)
        if place is None or place.last_ts > self._after or file.path in self._with_bad_rows:
            return False
        return file.index < place.done or (file.index == place.done and place.last.holds(file))

    @cached_property
    def _after(self) -> int:
        """Changes up to there are not looked at: the table was empty, or was given as it was then, or they are gone."""
        return max(self.begins, self._given, self.gone)

    @cached_property
    def _given(self) -> int:
        """The moment as of which the target was given the table, 0 for none."""
        return max(self.progress.start_ts, given_at(self.life, self.progress))

    @property
    def _statements(self) -> list[SchemaFile]:
        """Without each TRUNCATE TABLE that a policy has ignored: the rows must be there."""
        return [file for file in self.life.statements if file.version <= self.upto and not self._is_ignored(file)]

    def _is_ignored(self, file: SchemaFile) -> bool:
        action, record = action_of(file), self.progress.ddls.get(ddl_id(file))
        if action is not Action.TRUNCATE_TABLE or record is None:
            return False
        return record.state is DdlState.SKIPPED and record.reason == ignored_reason(action)

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.life.statements)

    @cached_property
    def _known_files(self) -> list[SchemaFile]:
        """The schema files that tell the table's columns, by version."""
        by_table = self.assembly.catalog.by_table
        known = [
            file
            for name in self.life.names
            for file in by_table.get(name, ())
            if file.path in self._paths or (not file.query and self._name_at(file.version) == name)
        ]
        return sorted(known, key=_version)

    @property
    def _moves(self) -> list[SchemaFile]:
        """Statements behind the beginning that brought rows from another table."""
        found = exchanges(self.moving, self.life, self.upto)
        return [file for file in found if file.version > self.begins]

    @property
    def _cuts(self) -> list[SchemaFile]:
        """The statements that change what rows are or have, in order."""
        found: dict[str, SchemaFile] = {file.path: file for file in self._moves}
        before: SchemaFile | None = None
        for file in self._statements:
            earlier = before or self._before(file.version)
            changed = earlier is None or self._columns(earlier) != self._columns(file) or earlier.name != file.name
            if changed or _takes_rows(file) or changes_of(file).columns.columns:
                found[file.path] = file
            before = file
        return sorted(found.values(), key=lambda file: (file.version, file.path))

    def _before(self, version: int) -> SchemaFile | None:
        """The schema file that tells the table's columns before `version`."""
        known = self._known_files
        return known[max(bisect_left(known, version, key=_version) - 1, 0)] if known else None

    def _columns(self, file: SchemaFile | None) -> tuple[Column, ...]:
        """With the labels that the statements tell."""
        if file is None:
            return ()
        declared = self._declared(file)
        return tuple(
            replace(column, elements=column.elements or declared.get(same_name(column.name), Definition()).elements)
            if column.labelled
            else column
            for column in file.columns
        )

    def _declared(self, file: SchemaFile | None) -> Mapping[str, Definition]:
        return {} if file is None else self.assembly.catalog.declared(file)

    def _name_at(self, version: int) -> TableName:
        pairs = zip(self.life.names, self.life.since, strict=True)
        return next((name for name, since in reversed(list(pairs)) if since <= version), self.life.names[0])


def _is_about(file: SchemaFile, table: TableName) -> bool:
    """Whether the file's statement names the table, of whatever database: better one too many than one missing."""
    if not file.query:
        return False
    if not file.table:
        return same_name(file.database) == same_name(table.database)
    names = (file.table, *(reference.table for reference in changes_of(file).names))
    return same_name(table.table) in map(same_name, names)


def _version(file: SchemaFile) -> int:
    return file.version


def _takes_rows(file: SchemaFile) -> bool:
    return takes_rows(file) or "PARTITION" in changes_of(file).partitions.misread.upper()


def _is_in(name: str, names: set[str]) -> bool:
    return same_name(name) in same_names(names)


def _labels(column: Column, target: LoadTarget, places: Sequence[int], place: int) -> tuple[str, ...]:
    """Those of the era's own column, else of the target's, if they were not changed since."""
    if column.elements or place not in places:
        return column.elements
    now = target.columns[places.index(place)]
    return now.elements if now.type == column.type else ()
