"""How rows fit the tables of a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from consumer.errors import CannotBeExact, ConsumerError, SchemaDrift, TableError
from consumer.model.columns import Column
from consumer.model.hints import resync_command
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.sink.columnar.table import handle_key, visible
from consumer.sink.common import table_missing
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import declared, nullable, quoted, spark_type
from consumer.sink.progress_layout import SCHEMA
from consumer.target import LoadRequest


def answer(request: LoadRequest, tables: Mapping[TableName, LakeTable]) -> LoadTarget | ConsumerError:
    """`tables` are all of the lake, by names in lower case."""
    try:
        if same_name(request.name.database) == SCHEMA:
            raise CannotBeExact(
                f"the database {SCHEMA} is the target's own",
                hint="route or filter it in the changefeed",
                table=str(request.table),
            )
        table = tables.get(request.name.folded)
        if table is None:
            columns = ", ".join(declared(column) for column in visible(request.columns))
            raise table_missing(request, f"CREATE TABLE {request.name} ({columns})")
        return _target(request, table)
    except TableError as error:
        return error


def _target(request: LoadRequest, table: LakeTable) -> LoadTarget:
    """Columns that only the table has stay as they are, by the handle key; a new row has NULL there."""
    sent = _sent(request, table)
    there = {same_name(column.name): column for column in table.columns}
    if missing := [column.name for name, column in sent.items() if name not in there]:
        raise _drift(request, f"the table lacks the rows' columns {', '.join(missing)}")
    for name, column in sent.items():
        if spark_type(column) != spark_type(there[name]):
            raise _drift(
                request,
                f"column {quoted(column.name)} would be {spark_type(column)} ({column.type} upstream), and is"
                f" {spark_type(there[name])} in the table",
            )
    lost = [
        c.name for c in table.columns if c.is_pk and c.name not in request.load.absent and same_name(c.name) not in sent
    ]
    if lost:
        raise _drift(request, f"the rows lack the columns {', '.join(lost)} of the table's key")
    names = tuple(column.name for column in table.columns if same_name(column.name) in sent)
    columns = tuple(sent[same_name(name)] for name in names)
    key = handle_key(columns, request.unique_keys)
    own = tuple(name for name in (c.name for c in table.columns) if same_name(name) not in sent)
    if own and not key:
        raise _drift(
            request, f"the rows lack the table's columns {', '.join(own)}, and without a key no row can keep them"
        )
    if required := [name for name in own if not nullable(there[same_name(name)])]:
        raise _drift(
            request, f"the rows have no value for the table's columns {', '.join(required)}, which are NOT NULL"
        )
    assert table.replica.upstream is not None
    return LoadTarget(request.load, columns, names, key, own=own, virtual=tuple(sorted(table.replica.upstream.virtual)))


def _sent(request: LoadRequest, table: LakeTable) -> dict[str, Column]:
    """The rows' columns by lower-case name. An ENUM or SET has the labels that its table was created with."""
    columns = {
        same_name(column.name): column for column in visible(request.columns) if column.name not in request.load.absent
    }
    assert table.replica.upstream is not None
    for known in table.replica.upstream.columns:
        if known.name in table.replica.upstream.virtual:
            columns.pop(same_name(known.name), None)
        elif same_name(known.name) in columns:
            columns[same_name(known.name)] = replace(columns[same_name(known.name)], elements=known.elements)
    return columns


def _drift(request: LoadRequest, text: str) -> SchemaDrift:
    hint = f"empty and reload the table: {resync_command(request.table)}"
    return SchemaDrift(text, hint=hint, table=str(request.table))


def named(tables: Mapping[TableName, LakeTable], names: Sequence[TableName]) -> dict[TableName, LakeTable]:
    return {name: tables[name.folded] for name in names if name.folded in tables}
