"""Turns the rows of one table between two of its statements into one load."""

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
"""The size in bytes of a slice of a file. A file is cut into equal slices of about this size, a quarter more at most.
TiCDC's full files are a little larger than `file-size`, by default 64 MiB: two such slices."""
AT_ONCE_BYTES = 64 << 20
"""A load up to this size in bytes always fits in one task."""
_MADE = (
    CREATE_ACTIONS | RENAME_ACTIONS
)  # a statement that renames a merged table is refused, so a person has done what it means


@dataclass(frozen=True, slots=True)
class TableVersionConsumer:
    """Turns a planned load into a request to the sink (`request`) and a task for executors (`task`).

    `accounted` are the commit-ts, by partition, that its rows may have; empty if this is not checked. Files in
    `with_bad` are not checked: a quarantined line whose time is unknown may get any time when it is repaired.
    """

    load: LoadRows
    catalog: Catalog
    dialect: Dialect
    rules: TableRules
    accounted: Mapping[str, Stretches] = field(default_factory=dict)
    with_bad: Collection[str] = ()

    def request(
        self, absent: tuple[str, ...] = (), purpose: Purpose | None = None, quarantine: Quarantine | None = None
    ) -> LoadRequest:
        """Returns the request to the sink. `absent` are columns that the rows lack. `purpose` is None for a load whose
        rows have not collided (RowsCollide) in a writer.

        Raises SchemaMissing if a folder's schema file is missing, CannotBeExact if the table cannot have its mode.
        """
        self.check_schemas()
        columns, shape = self._described
        selected = set(self.rules.selected(self.load.table, columns))
        left_out = tuple(column.name for column in columns if column not in selected)
        if any(column.is_pk and column.name in absent for column in columns):
            columns = tuple(replace(column, is_pk=False) for column in columns)  # another unique key identifies rows
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
            shape.known_unique_columns,
            shape.known_index_names,
            labels,
            shape.plain,
            shape.leaves_rows or (load.shaping is not None and load.shaping.leaves_rows),
        )

    @property
    def _described(self) -> tuple[tuple[Column, ...], Shape]:
        """The columns that are valid up to the end of the interval, and the shape of the table: a file in a newer
        folder may only hold rows above it."""
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
        """Returns the request for a table whose only key in the target is its primary key."""
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
        named = {same_name(mode.called(name)): elements for name, elements in labels.items() if mode.keeps(name)}
        return LoadRequest(load, mode_columns(mode, table, columns, shape), labels=named)

    def _check_chosen(self, chosen: Chosen, absent: tuple[str, ...]) -> None:
        if lost := chosen.lacking(self.all_columns()):
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
        target = self.rules.naming.target(self.load.table)
        return None if target == self.load.table else target

    @property
    def keys(self) -> KeyColumns | None:
        """What the statements declare of the table's unique keys, None if that is not all."""
        statements = self._history(self.load.table)
        return self.catalog.shape(statements[-1]).indexes.key_columns if statements else None

    @property
    def made(self) -> int:
        """The version of the statement that created the table or gave it its name, 0 if the storage does not show
        it."""
        return max((file.version for file in self._history(self.load.table) if file.type in _MADE), default=0)

    def all_columns(self) -> frozenset[str]:
        """Returns the columns, in lower case, that the table has in any version that is in the storage."""
        files = (*self.catalog.by_table.get(self.load.table, ()), *self._schemas())
        return same_names(column.name for file in files for column in file.columns)

    def check_schemas(self) -> None:
        """Raises SchemaMissing if a folder's schema file is missing."""
        for planned in self.load.files:
            if self.catalog.schema(planned.file.folder) is None:
                raise schema_missing(self.load.table, planned.file)

    def _labels(self, columns: Sequence[Column], shape: Shape) -> dict[str, tuple[str, ...]]:
        listed = [column for column in columns if column.type in ("ENUM", "SET")]
        if protocol_of(self.dialect).writes_labels or not listed:
            return {}
        declared_labels = {same_name(column.name): column.elements for column in listed}
        labels_of = {
            name: elements or shape.columns.get(name, Definition()).elements
            for name, elements in declared_labels.items()
        }
        self._check_labels(labels_of)
        return {name: elements for name, elements in labels_of.items() if elements}

    def _check_labels(self, labels_of: Mapping[str, tuple[str, ...]]) -> None:
        """Raises CannotBeExact if labels changed their order. Rows have the numbers of the labels in their own schema
        file. Rows in folders from before the last statement are older than it."""
        history, own_paths = self._history(self.load.table), {schema.path for schema in self._schemas()}
        begins = max((file.version for file in history if file.query), default=0)
        for schema in history:
            for column in schema.columns if schema.version >= begins and schema.path in own_paths else ():
                labels = labels_of.get(same_name(column.name), ())
                if labels and mislabelled(column.elements, labels):
                    raise CannotBeExact(
                        f"column {column.name}: its labels are not in the order of {schema.path} any more, no statement"
                        " tells that, and the rows carry the labels' numbers",
                        hint="load the table from an export of a moment after that change, with `load-export`",
                        table=str(self.load.table),
                    )

    def task(self, number: int, target: LoadTarget, mode_load: ModeLoad | None) -> LoadTask:
        """Returns the task. Raises CannotBeExact if it is unknown how to read CSV rows."""
        protocol = protocol_of(self.dialect)
        in_one_slice = not target.key or target.in_one_call or not protocol.splittable(self.dialect)
        schemas = self._schemas()
        numbers = {schema.path: number for number, schema in enumerate(schemas)}
        slices = [piece for planned in self.load.files for piece in self._slices(planned, in_one_slice, numbers)]
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
        """Returns how changes become rows of `target`; None if they are its rows already. Raises SchemaDrift if the
        target computes a column that the table's mode writes."""
        mode_load = self._mode_load(target)
        if mode_load is not None:
            _check_written(mode_load.mode, target)
        return mode_load

    def _mode_load(self, target: LoadTarget) -> ModeLoad | None:
        mode = target.load.mode
        if mode is None:
            return None
        usual = {same_name(mode.name(usual)): index for index, usual in enumerate(mode.usual)}
        upstream_columns = {
            position: column for position, column in enumerate(target.names) if same_name(column) not in usual
        }
        upstream = self._upstream(mode, target, upstream_columns)
        places = {position: index for index, (position, _, _) in enumerate(upstream) if position is not None}
        source = replace(
            target,
            columns=tuple(column for _, column, _ in upstream),
            names=tuple(name for _, _, name in upstream),
            key=tuple(places[position] for position in target.key if position in upstream_columns),
            events=mode.keeps_ended,
        )
        sources = (places.get(n, len(upstream) + usual.get(same_name(name), 0)) for n, name in enumerate(target.names))
        return ModeLoad(source, tuple(sources), self.versions)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions of the table's schema files, ascending."""
        return tuple(sorted(file.version for file in self._history(self.load.table)))

    def _upstream(
        self, mode: TableMode, target: LoadTarget, upstream_columns: Mapping[int, str]
    ) -> Sequence[tuple[int | None, Column, str]]:
        """Returns the columns to decode, each with its position in the target, None if the target does not have it, and
        its name."""
        if mode.chosen is None:
            return [(position, target.columns[position], name) for position, name in upstream_columns.items()]
        position_of = {same_name(name): position for position, name in upstream_columns.items()}
        decoded: list[tuple[int | None, Column, str]] = []
        columns, shape = self._described
        computed = () if protocol_of(self.dialect).writes_computed else shape.computed
        for column in stored_columns(columns, shape):
            position = position_of.get(same_name(mode.called(column.name))) if mode.chosen.keeps(column.name) else None
            if position is None and same_name(column.name) in computed:
                continue
            if position is None:
                decoded.append((None, column, column.name))
            else:
                column_of_target = replace(target.columns[position], name=column.name)
                decoded.append((position, column_of_target, upstream_columns[position]))
        return decoded

    def check_rules(self, target: LoadTarget) -> None:
        """Raises CannotBeExact if the table's rules about changes cannot be followed for a load into `target`."""
        if target.load.shaping is None:
            return
        from consumer.changes.rules import check_rules  # Arrow is loaded only where there are rules

        check_rules(target, self.dialect, self.keys, self.all_columns)

    def source(self, target: LoadTarget) -> LoadTarget:
        """Returns the target for which rows are decoded and to which the rules about changes apply: it has upstream's
        columns."""
        mode_load = self._mode_load(target)
        return target if mode_load is None else mode_load.source

    def _parts(self) -> tuple[int, ...]:
        """Returns, by the number of a series, the number of the table's partition that it writes."""
        return self._numbered(lambda folder: folder.partition)

    def _writers(self) -> tuple[int, ...]:
        """Returns, by the number of a series, the number of its writer."""
        return self._numbered(lambda folder: folder.series)

    def _numbered(self, of: Callable[[Folder], Hashable]) -> tuple[int, ...]:
        """Returns, by the number of a series, a number for the value that `of` returns for its folders."""
        value_of = {planned.series: of(planned.file.folder) for planned in self.load.files}
        numbers = {value: number for number, value in enumerate(dict.fromkeys(value_of.values()))}
        return tuple(numbers[value_of[series]] for series in sorted(value_of))

    def _slices(self, planned: PlannedFile, in_one_slice: bool, layouts: Mapping[str, int]) -> Iterator[FileSlice]:
        file = planned.file
        schema = self.catalog.schema(file.folder)
        ts = protocol_of(self.dialect).file_ts(file, self.dialect)
        count = 1 if in_one_slice else max(1, -(-file.size * 4 // (SLICE_BYTES * 5)))
        step = max(-(-file.size // count), 1)
        for offset in range(0, max(file.size, 1), step):
            yield FileSlice(
                file.path,
                offset,
                min(step, file.size - offset),
                file.size,
                planned.series,
                (planned.ordinal << POSITION_BITS) + offset,
                self._window_of_folder(planned.exact, schema),
                planned.coarse,
                layout=0 if schema is None else layouts[schema.path],
                stamp=file.stamp,
                seen=() if file.path in self.with_bad else self.accounted.get(file.folder.partition, ()),
                ts=ts,
            )

    def _window_of_folder(self, window: Window, schema: SchemaFile | None) -> Window:
        """Returns the part of `window` in which the rows of a folder can be.

        Rows that are older than the statement that began their folder were sent again. TiCDC chooses the folder by the
        checksum, which ignores the order of columns. If the order has changed, the cells of these rows are ambiguous.
        """
        by_position = protocol_of(self.dialect).by_position(self.dialect)
        if schema is None or not by_position or not schema.query or not self.catalog.reordered(schema):
            return window
        return replace(window, after=max(window.after, min(schema.version, window.end)))

    def _history(self, table: TableName) -> Sequence[SchemaFile]:
        """Returns the schema files that the table has when the load is written. The one that ends a window with rows is
        not among them."""
        files, window = self.catalog.by_table.get(table, ()), self.load.window
        return [file for file in files if file.version < window.end or file.version <= window.after]

    def _schemas(self) -> list[SchemaFile]:
        """Returns the schema files of the load's folders, each once."""
        folders = dict.fromkeys(planned.file.folder for planned in self.load.files)
        schemas = {(folder.root, folder.version): self.catalog.schema(folder) for folder in folders}
        return [schema for schema in schemas.values() if schema is not None]


def _check_written(mode: TableMode, target: LoadTarget) -> None:
    names_in_target = same_names(target.names)
    if computed := [name for name in map(mode.name, mode.usual) if same_name(name) not in names_in_target]:
        names = ", ".join(computed)
        raise SchemaDrift(
            f"the target computes {names} itself, which the table mode {mode.kind} writes",
            hint=f"make it a plain column in {target.name}, then run again",
            table=str(target.table),
        )
