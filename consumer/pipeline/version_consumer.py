"""TableVersionConsumer: the rows of one DDL interval of one table, as one load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from consumer.codec import protocol_of
from consumer.ddl.changes import Shape
from consumer.ddl.declared import Definition
from consumer.errors import CannotBeExact, Code, SchemaDrift
from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS
from consumer.model.bad_rows import Quarantine
from consumer.model.columns import Column, mislabelled
from consumer.model.files import Folder, SchemaFile
from consumer.model.load import POSITION_BITS, Dialect, FileSlice, LoadTarget, LoadTask, ModeLoad, Purpose, TableLoad
from consumer.model.names import TableName, same_name, same_names
from consumer.model.steps import LoadRows, PlannedFile, Window
from consumer.model.table_definition import KeyColumns
from consumer.model.table_modes import Chosen, TableMode
from consumer.model.table_rules import TableRules
from consumer.plan.catalog import Catalog, schema_missing
from consumer.plan.late import Stretches
from consumer.plan.table_modes import mode_columns, stored_columns
from consumer.target import LoadRequest

SLICE_BYTES = 32 << 20
"""A file is cut into equal slices of about this size, a quarter more at most. TiCDC's full files are a little larger
than `file-size`, by default 64 MiB: two such slices."""
AT_ONCE_BYTES = 64 << 20
"""A load up to this size is one task's anyway."""
_MADE = CREATE_ACTIONS | RENAME_ACTIONS  # one that moves a merged table is refused, so a person did what it means


@dataclass(frozen=True, slots=True)
class TableVersionConsumer:
    """Turns a planned load into a request to the sink (`request`) and a task for executors (`task`).

    `seen` are the commit-ts, by partition, that its rows may have; empty if this is not checked. Files with
    the paths `with_bad` are not: they have quarantined lines, and one of unknown time has any once it is mended.
    """

    load: LoadRows
    catalog: Catalog
    dialect: Dialect
    rules: TableRules
    seen: Mapping[str, Stretches] = field(default_factory=dict)
    with_bad: Collection[str] = ()

    def request(
        self, absent: tuple[str, ...] = (), purpose: Purpose | None = None, quarantine: Quarantine | None = None
    ) -> LoadRequest:
        """`absent` are columns that the rows lack; `purpose` is None for a load that no writer has met RowsCollide in.
        Raises SchemaMissing when a folder's schema file is not there, CannotBeExact where the table cannot have its
        mode."""
        self.check_schemas()
        columns, shape = self._described
        selected = set(self.rules.selected(self.load.table, columns))
        left_out = tuple(column.name for column in columns if column not in selected)
        if any(column.is_pk and column.name in absent for column in columns):
            columns = tuple(replace(column, is_pk=False) for column in columns)  # another unique key tells rows apart
        load = TableLoad(
            self.load.table,
            self._routed,
            self.rules.naming.mode(self.load.table),
            purpose or (Purpose.LOAD_AT_ONCE if self.load.bytes <= AT_ONCE_BYTES else Purpose.LOAD_IN_PARTS),
            absent,
            left_out,
            self.rules.shaping_of(self.load.table),
            quarantine,
        )
        labels = self._labels(columns, shape)
        if load.mode is not None:
            return self._mode_request(load, load.mode, columns, shape, labels)
        written = [column for column in columns if column.name not in absent]
        return LoadRequest(
            load,
            columns,
            shape.unique_keys(written),
            shape.index_names,
            shape.told_unique,
            shape.told_names,
            labels,
            shape.plain,
            shape.leaves_rows or (load.shaping is not None and load.shaping.leaves_rows),
        )

    @property
    def _described(self) -> tuple[tuple[Column, ...], Shape]:
        """The columns that hold up to the end of the interval: a file in a newer folder may only hold rows above it."""
        statements = self._history(self.load.table)
        history = statements or sorted(self._schemas(), key=lambda schema: schema.version)[:1]
        return history[-1].columns, self.catalog.shape(statements[-1]) if statements else Shape()

    def _mode_request(
        self,
        load: TableLoad,
        mode: TableMode,
        columns: Sequence[Column],
        shape: Shape,
        labels: Mapping[str, tuple[str, ...]],
    ) -> LoadRequest:
        """For a table that has no key but its primary one, in the target."""
        table = load.table
        if mode.chosen is not None:
            self._check_chosen(mode.chosen, load.absent)
        if mode.merges and not any(file.type in _MADE for file in self._history(table)):
            raise CannotBeExact(
                "its CREATE TABLE is not in the storage, so its columns were not compared with those of the tables that"
                " a route merges it with",
                hint="leave the table out of the route",
                table=str(table),
                code=Code.RULES_CONFLICT,
            )
        named = {same_name(mode.called(name)): found for name, found in labels.items() if mode.keeps(name)}
        return LoadRequest(load, mode_columns(mode, table, columns, shape), labels=named)

    def _check_chosen(self, chosen: Chosen, absent: tuple[str, ...]) -> None:
        if lost := chosen.lacking(self.had()):
            raise CannotBeExact(
                f"[[consumer.columns]] gives columns of it that it never had ({', '.join(lost)})",
                hint="correct the name, or write it with a * where the column comes later",
                table=str(self.load.table),
                code=Code.RULES_CONFLICT,
            )
        if absent:
            raise CannotBeExact(
                f"its rows lack columns ({', '.join(absent)}), and [[consumer.columns]] is for rows that are whole",
                hint="leave the table out of [[consumer.columns]], and fill it again under another --name and a route:"
                " TiCDC's column selectors choose its columns already",
                table=str(self.load.table),
                code=Code.RULES_CONFLICT,
            )

    @property
    def _routed(self) -> TableName | None:
        there = self.rules.naming.target(self.load.table)
        return None if there == self.load.table else there

    @property
    def keys(self) -> KeyColumns | None:
        """What the statements tell of the table's unique keys, None where that is not all."""
        statements = self._history(self.load.table)
        return self.catalog.shape(statements[-1]).indexes.key_columns if statements else None

    @property
    def made(self) -> int:
        """The statement that made the table or gave it its name, 0 where the storage does not tell."""
        return max((file.version for file in self._history(self.load.table) if file.type in _MADE), default=0)

    def had(self) -> frozenset[str]:
        """The columns, in lower case, that the table has in any version that the storage tells of."""
        files = (*self.catalog.by_table.get(self.load.table, ()), *self._schemas())
        return same_names(column.name for file in files for column in file.columns)

    def check_schemas(self) -> None:
        """Raises SchemaMissing when a folder's schema file is not there."""
        for planned in self.load.files:
            if self.catalog.schema(planned.file.folder) is None:
                raise schema_missing(self.load.table, planned.file)

    def _labels(self, columns: Sequence[Column], shape: Shape) -> dict[str, tuple[str, ...]]:
        listed = [column for column in columns if column.type in ("ENUM", "SET")]
        if protocol_of(self.dialect).writes_labels or not listed:
            return {}
        found = {same_name(column.name): column.elements for column in listed}
        known = {name: labels or shape.columns.get(name, Definition()).elements for name, labels in found.items()}
        self._check_labels(known)
        return {name: labels for name, labels in known.items() if labels}

    def _check_labels(self, known: Mapping[str, tuple[str, ...]]) -> None:
        """Rows have the numbers of the labels in their own schema file. Those in folders from before the last statement
        are older than it."""
        history, own = self._history(self.load.table), {schema.path for schema in self._schemas()}
        begins = max((file.version for file in history if file.query), default=0)
        for schema in history:
            for column in schema.columns if schema.version >= begins and schema.path in own else ():
                labels = known.get(same_name(column.name), ())
                if labels and mislabelled(column.elements, labels):
                    raise CannotBeExact(
                        f"column {column.name}: its labels are not in the order of {schema.path} any more, no statement"
                        " tells that, and the rows carry the labels' numbers",
                        hint="load the table from an export of a moment behind that change, with `load-export`",
                        table=str(self.load.table),
                    )

    def task(self, number: int, target: LoadTarget, mode_load: ModeLoad | None) -> LoadTask:
        """Raises CannotBeExact if it is unknown how to read CSV rows."""
        protocol = protocol_of(self.dialect)
        whole = not target.key or target.whole or not protocol.splittable(self.dialect)
        schemas = self._schemas()
        numbers = {schema.path: number for number, schema in enumerate(schemas)}
        slices = [piece for planned in self.load.files for piece in self._slices(planned, whole, numbers)]
        source = target if mode_load is None else mode_load.source
        layouts = protocol.layouts(schemas, self.catalog.declared, source, self.dialect)
        return LoadTask(
            number,
            target,
            self.load.window,
            tuple(slices),
            self.dialect,
            layouts,
            self._parts(),
            self._writers(),
            self.rules.never_split(self.load.table),
            mode_load,
        )

    def mode_load(self, target: LoadTarget) -> ModeLoad | None:
        """How changes become rows of `target`; None where they are. Raises SchemaDrift where it computes a column that
        the table's mode adds."""
        mode_load = self._mode_load(target)
        if mode_load is not None:
            _check_written(mode_load.mode, target)
        return mode_load

    def _mode_load(self, target: LoadTarget) -> ModeLoad | None:
        mode = target.load.mode
        if mode is None:
            return None
        usual = {same_name(mode.name(usual)): at for at, usual in enumerate(mode.usual)}
        own = {position: column for position, column in enumerate(target.names) if same_name(column) not in usual}
        upstream = self._upstream(mode, target, own)
        places = {position: at for at, (position, _, _) in enumerate(upstream) if position is not None}
        source = replace(
            target,
            columns=tuple(column for _, column, _ in upstream),
            names=tuple(name for _, _, name in upstream),
            key=tuple(places[position] for position in target.key if position in own),
            events=mode.keeps_ended,
        )
        found = (places.get(n, len(upstream) + usual.get(same_name(name), 0)) for n, name in enumerate(target.names))
        return ModeLoad(source, tuple(found), self.versions)

    @property
    def versions(self) -> tuple[int, ...]:
        """The table's, rising."""
        return tuple(sorted(file.version for file in self._history(self.load.table)))

    def _upstream(
        self, mode: TableMode, target: LoadTarget, own: Mapping[int, str]
    ) -> Sequence[tuple[int | None, Column, str]]:
        """The columns to decode, each with its position in the target, None where the target does not have it."""
        if mode.chosen is None:
            return [(position, target.columns[position], name) for position, name in own.items()]
        there = {same_name(name): position for position, name in own.items()}
        found: list[tuple[int | None, Column, str]] = []
        for column in stored_columns(*self._described):
            position = there.get(same_name(mode.called(column.name))) if mode.chosen.keeps(column.name) else None
            if position is None:
                found.append((None, column, column.name))
            else:
                known = replace(target.columns[position], name=column.name)
                found.append((position, known, own[position]))
        return found

    def check_rules(self, target: LoadTarget) -> None:
        """Raises CannotBeExact where the rules about the changes of the table cannot be followed for a load into
        `target`."""
        if target.load.shaping is None:
            return
        from consumer.changes.rules import check_rules  # Arrow is loaded only where there are rules

        check_rules(target, self.dialect, self.keys, self.had)

    def source(self, target: LoadTarget) -> LoadTarget:
        """What rows are decoded for, which the rules about changes are about: upstream's columns."""
        mode_load = self._mode_load(target)
        return target if mode_load is None else mode_load.source

    def _parts(self) -> tuple[int, ...]:
        """By the number of a series, which of the table's partitions it writes."""
        return self._numbered(lambda folder: folder.partition)

    def _writers(self) -> tuple[int, ...]:
        """By the number of a series, who writes it."""
        return self._numbered(lambda folder: folder.series)

    def _numbered(self, of: Callable[[Folder], Hashable]) -> tuple[int, ...]:
        """By the number of a series, a number of what its folders have in common."""
        found = {planned.series: of(planned.file.folder) for planned in self.load.files}
        numbers = {value: number for number, value in enumerate(dict.fromkeys(found.values()))}
        return tuple(numbers[found[series]] for series in sorted(found))

    def _slices(self, planned: PlannedFile, whole: bool, layouts: Mapping[str, int]) -> Iterator[FileSlice]:
        file = planned.file
        schema = self.catalog.schema(file.folder)
        ts = protocol_of(self.dialect).file_ts(file, self.dialect)
        count = 1 if whole else max(1, -(-file.size * 4 // (SLICE_BYTES * 5)))
        step = max(-(-file.size // count), 1)
        for offset in range(0, max(file.size, 1), step):
            yield FileSlice(
                file.path,
                offset,
                min(step, file.size - offset),
                file.size,
                planned.series,
                (planned.ordinal << POSITION_BITS) + offset,
                self._own(planned.exact, schema),
                planned.coarse,
                layout=0 if schema is None else layouts[schema.path],
                stamp=file.stamp,
                seen=() if file.path in self.with_bad else self.seen.get(file.folder.partition, ()),
                ts=ts,
            )

    def _own(self, window: Window, schema: SchemaFile | None) -> Window:
        """The part of `window` that rows of a folder can be in.

        Rows that are older than the statement that began their folder were sent again. TiCDC chooses the folder by
        the checksum, which ignores the order of columns. If the order has changed, the cells of these rows are
        ambiguous.
        """
        by_position = protocol_of(self.dialect).by_position(self.dialect)
        if schema is None or not by_position or not schema.query or not self.catalog.reordered(schema):
            return window
        return replace(window, after=max(window.after, min(schema.version, window.end)))

    def _history(self, table: TableName) -> Sequence[SchemaFile]:
        """Those that the table has when the load is written: not the one that ends a window with rows."""
        files, window = self.catalog.by_table.get(table, ()), self.load.window
        return [file for file in files if file.version < window.end or file.version <= window.after]

    def _schemas(self) -> list[SchemaFile]:
        """The schema files of the load's folders, each once."""
        folders = dict.fromkeys(planned.file.folder for planned in self.load.files)
        found = {(folder.root, folder.version): self.catalog.schema(folder) for folder in folders}
        return [schema for schema in found.values() if schema is not None]


def _check_written(mode: TableMode, target: LoadTarget) -> None:
    there = same_names(target.names)
    if computed := [name for name in map(mode.name, mode.usual) if same_name(name) not in there]:
        names = ", ".join(computed)
        raise SchemaDrift(
            f"the target computes {names} itself, which the table mode {mode.kind} writes",
            hint=f"make it a plain column in {target.name}, then run again",
            table=str(target.table),
        )
