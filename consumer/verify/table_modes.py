"""Tables that are no mirrors, beside the storage: which of upstream's columns theirs are, and which rows they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from consumer.errors import ConsumerError
from consumer.model.actions import Action
from consumer.model.check import Modes
from consumer.model.columns import Column
from consumer.model.files import SchemaFile
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.model.naming import Naming
from consumer.model.table_modes import SOURCE, TableMode, source_of
from consumer.plan.catalog import Catalog
from consumer.target import LoadRequest, Only, Sink
from consumer.verify.known import Known


def added_places(mode: TableMode | None, target: LoadTarget) -> Mapping[int, int]:
    """By position in the target, which of the columns that the mode adds is there."""
    usual = {} if mode is None else {same_name(mode.name(usual)): at for at, usual in enumerate(mode.usual)}
    named = ((position, usual.get(same_name(column.name))) for position, column in enumerate(target.columns))
    return {position: at for position, at in named if at is not None}


def upstream_key(mode: TableMode | None, target: LoadTarget) -> tuple[int, ...]:
    """The positions in the target of upstream's key."""
    added = added_places(mode, target)
    return tuple(position for position in target.key if position not in added)


def known_now(mode: TableMode | None, target: LoadTarget, columns: Iterable[Column]) -> Known:
    """What rows have as the table is now, where upstream's has `columns`. What upstream's does not have is NULL: it is
    of other tables that are merged with it."""
    if mode is None:
        return Known.now(target.columns)
    added = added_places(mode, target)
    called = {same_name(mode.called(column.name)): column.name for column in columns if mode.keeps(column.name)}
    names = tuple(called.get(same_name(column.name), "") for column in target.columns)
    names = tuple("" if position in added else name for position, name in enumerate(names))
    foreign = {n: None for n, name in enumerate(names) if not name and n not in added and mode.merges}
    return Known(names, (True,) * len(names), foreign)


def forms_of(mode: TableMode | None, target: LoadTarget, statements: Sequence[SchemaFile]) -> Modes | None:
    """What the buckets must know of the table's mode; `statements` are those that it has seen."""
    if mode is None:
        return None
    emptied = [file for file in statements if file.action is Action.TRUNCATE_TABLE] if mode.keeps_ended else []
    ends = tuple((file.version, str(file.name)) for file in sorted(emptied, key=lambda file: file.version))
    return Modes(mode.kind, upstream_key(mode, target), added_places(mode, target), ends)


Request = Callable[[LoadRequest], LoadTarget | ConsumerError]


def with_others(answer: LoadTarget, request: LoadRequest, others: Mapping[str, Column], prepare: Request) -> LoadTarget:
    """`answer` of a merged table with the columns, of `others`, that its own table does not have. Where the target has
    one of them in another type, they are left as the target's own, which are not compared."""
    more = tuple(replace(others[name], is_pk=False) for name in map(same_name, answer.own) if name in others)
    again = prepare(replace(request, columns=(*request.columns, *more))) if more else answer
    return answer if isinstance(again, ConsumerError) else again


def columns_of_all(catalog: Catalog, tables: Iterable[TableName]) -> Mapping[str, Column]:
    """The columns that any of `tables` ever had, by lower-case name, as they were last."""
    files = sorted((f for name in tables for f in catalog.by_table.get(name, ())), key=lambda file: file.version)
    return {same_name(column.name): column for file in files for column in file.columns if not column.hidden}


def merged_with(table: TableName, naming: Naming, there: Iterable[TableName]) -> list[TableName]:
    """Those of `there`, the tables of upstream that are in the target, which are in the same table there."""
    own = naming.target(table).folded
    return [name for name in there if naming.merges(name) and naming.target(name).folded == own]


def own_rows(sink: Sink, mode: TableMode, target: LoadTarget, tables: Iterable[TableName]) -> Only:
    """The rows of the target that are of its table, and those that are of none of `tables`, which it is merged with."""
    at = mode.usual.index(SOURCE)
    position = next(position for position, added in added_places(mode, target).items() if added == at)
    others = {source_of(name) for name in tables} - {source_of(target.table)}
    strange = (value for value in sink.values(target, position) if value not in others)
    return Only(position, tuple(sorted({source_of(target.table), *strange})))
