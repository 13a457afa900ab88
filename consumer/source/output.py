"""Makes the schema of a plan, and the shares of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from consumer.codec.typed import DAYS
from consumer.errors import BadConfig
from consumer.model.check import Era
from consumer.model.load import LoadTarget
from consumer.model.names import same_name
from consumer.model.steps import Window
from consumer.source.columns import BEFORE
from consumer.source.cutting import cut
from consumer.source.options import Mode, ReadOptions
from consumer.source.planning import Plan, TablePlan
from consumer.source.reading import Share
from consumer.source.shape import PLACES, changes_schema, several_schema, values_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


_NOTES = "ticdc"
"""The key, in the metadata of a Spark field, of what its type does not say: docs/spark.md."""


def schema_of(plan: Plan) -> pa.Schema:
    """Returns the schema of the columns that the options ask for. Raises BadConfig."""
    changes = plan.asked.mode is Mode.CHANGES
    if not plan.asked.table:
        return several_schema(changes)
    (table,) = plan.tables
    columns = [table.target.columns[at] for at in _places(table, plan.asked.columns)]
    if not changes:
        return values_schema(columns)
    before = [pa.field(BEFORE, pa.struct(list(values_schema(columns))))] if plan.asked.before else []
    return pa.schema([*changes_schema(columns), *before, *(PLACES if plan.asked.of_command else ())])


def spark_schema(plan: Plan) -> StructType:
    """Returns `schema_of` as a Spark schema. The metadata of a field says TiDB's type and whether it is of the key. A
    field is NOT NULL if no row can have NULL there. Raises BadConfig."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    schema: StructType = from_arrow_schema(schema_of(plan), prefer_timestamp_ntz=True)
    if not plan.asked.table:
        return schema
    (table,) = plan.tables
    notes = {column.name: _column_notes(table, at, plan.asked) for at, column in enumerate(table.target.columns)}
    if plan.asked.mode is Mode.CHANGES:
        notes |= {name: (False, {}) for name in plan.asked.meta - {BEFORE}}
    fields = []
    for field in schema:
        nullable, metadata = notes.get(field.name, (True, {}))
        fields.append(StructField(field.name, field.dataType, nullable, {_NOTES: metadata} if metadata else None))
    return StructType(fields)


def _column_notes(table: TablePlan, at: int, asked: ReadOptions) -> tuple[bool, dict[str, Any]]:
    """Returns whether the column at this position can have NULL, and the notes of its field. A change always has the
    key of its time. Its other values can be older than a NOT NULL, or left out by TiCDC. A mask can make any value
    NULL."""
    column, key = table.target.columns[at], table.target.key
    notes: dict[str, Any] = {"type": f"{column.type}{' UNSIGNED' if column.unsigned else ''}"}
    notes |= {name: n for name, n in (("length", column.length), ("scale", column.scale)) if n is not None}
    if at in key:
        notes["key"] = True
    of_every_key = at in key and all(len(era.keys) == 1 for era in table.eras)
    never_null = of_every_key if asked.mode is Mode.CHANGES else not column.nullable
    days_are_null = column.family in DAYS and asked.zero_dates == "null"
    return not never_null or days_are_null or table.target.load.shaping is not None, notes


def narrowed(plan: Plan, schema: StructType) -> Plan:
    """Returns the plan for a read with this `schema`: that of the plan, or some of its columns, if the user gave a
    schema. Raises BadConfig for another type."""
    known = {field.name: field for field in spark_schema(plan)}
    for field in schema:
        there = known.get(field.name)
        if there is None or there.dataType != field.dataType:
            has = "no such column" if there is None else there.dataType.simpleString()
            raise BadConfig(
                f"the schema has {field.name} as {field.dataType.simpleString()}, and the format ticdc has {has}",
                hint="leave .schema(..) out, and select and cast columns of what is read",
            )
    return replace(plan, fields=tuple(schema.names))


def shares(plan: Plan, last: int | None = None) -> Iterator[Share]:
    """Yields the shares of the plan. With `last` they hold changes up to that commit-ts only."""
    window = Window(0, plan.end if last is None else last)
    for table in plan.tables:
        yield from _of_table(plan, table, window)


def packed(found: Iterable[Share], size: int) -> Iterator[tuple[Share, ...]]:
    """Yields what each task reads: small shares together, up to about `size` bytes."""
    some: list[Share] = []
    held = 0
    for share in found:
        length = sum(era.task.bytes for era in share.eras)
        if some and held + length > size:
            yield tuple(some)
            some, held = [], 0
        some.append(share)
        held += length
    if some:
        yield tuple(some)


def _of_table(plan: Plan, table: TablePlan, window: Window) -> Iterator[Share]:
    asked, together = plan.asked, not plan.asked.table
    own = [] if together else [name for name in plan.fields if name not in asked.meta]
    wanted = _places(table, own) if together or own else ()
    before = BEFORE in asked.meta and BEFORE in plan.fields and not together
    target, eras = _pruned(table, wanted)
    if asked.mode is Mode.CHANGES:
        eras = tuple(_decoded_with(era, befores=before, bare_deletes=not before) for era in eras)
    places = {column.name: at for at, column in enumerate(target.columns)}
    columns = tuple(places[table.target.columns[at].name] for at in wanted)
    share = Share(
        target,
        eras,
        columns,
        plan.fields,
        None,
        asked.zero_dates == "error",
        together,
        before,
        asked.where,
        asked.of_command,
    )
    if asked.mode is Mode.STATE:
        yield share
        return
    for era in eras:
        # Of a table with no key a row that was written again shows by the rows before it.
        known, asked_of = (table.bounds, window) if era.keys[0] else ({}, Window(0, window.end))
        parts = list(cut(era, known, asked_of, asked.partition_bytes))
        whole = len(eras) == len(parts) == 1 and parts[0].task.window == era.task.window
        for part in parts:
            paths = {piece.path for piece in part.task.slices} if not whole else ()
            bounds = {path: found for path, found in table.bounds.items() if path in paths}
            if part.task.slices:
                yield replace(share, eras=(part,), bounds=bounds)


def _places(table: TablePlan, names: Sequence[str]) -> tuple[int, ...]:
    """Returns the positions of these columns, or of all columns if no name is given. Raises BadConfig."""
    places = {same_name(column.name): at for at, column in enumerate(table.target.columns)}
    if lost := [name for name in names if same_name(name) not in places]:
        raise BadConfig(f"{table.target.table} has no column {', '.join(lost)}", hint="correct the option columns")
    return tuple(places[same_name(name)] for name in names) or tuple(range(len(places)))


def _pruned(table: TablePlan, wanted: Sequence[int]) -> tuple[LoadTarget, tuple[Era, ...]]:
    """Returns the target and eras without the columns that are not asked for, which then are not decoded. A table
    without a key keeps all columns, since they identify its rows. So does one with rules, which can be about any
    column."""
    target = table.target
    kept = sorted({*wanted, *target.key})
    by_all_values = any(not key for era in table.eras for key in era.keys)
    if by_all_values or target.load.shaping is not None or len(kept) == len(target.columns):
        return target, table.eras
    return _some_columns(target, kept), tuple(_of_some(era, kept) for era in table.eras)


def _some_columns(target: LoadTarget, kept: Sequence[int]) -> LoadTarget:
    places = {at: n for n, at in enumerate(kept)}
    columns = tuple(target.columns[at] for at in kept)
    names = tuple(target.names[at] for at in kept)
    return replace(target, columns=columns, names=names, key=tuple(places[at] for at in target.key))


def _of_some(era: Era, kept: Sequence[int]) -> Era:
    """Returns the era with the columns `kept` only, which are positions in the target."""
    task = era.task
    of_keys = (at for key in era.keys for at in key)
    own = sorted({*(era.places[at] for at in kept if era.places[at] >= 0), *(at for at in of_keys if at >= 0)})
    source = _some_columns(task.source, own)
    places = {at: n for n, at in enumerate(own)}
    mode_load = None if task.mode_load is None else replace(task.mode_load, source=source)
    return Era(
        replace(task, target=source, mode_load=mode_load),
        tuple(tuple(places.get(at, -1) for at in key) for key in era.keys),
        tuple(places.get(era.places[at], -1) for at in kept),
        tuple(era.known[at] for at in kept),
        {n: era.added[at] for n, at in enumerate(kept) if at in era.added},
        era.kept,
        {n: era.conversions[at] for n, at in enumerate(kept) if at in era.conversions},
    )


def _decoded_with(era: Era, befores: bool, bare_deletes: bool) -> Era:
    task = era.task
    assert task.mode_load is not None
    source = replace(task.source, befores=befores, bare_deletes=bare_deletes)
    return replace(era, task=replace(task, target=source, mode_load=replace(task.mode_load, source=source)))
