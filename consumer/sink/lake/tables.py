"""How rows fit the tables of a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer.errors import ConsumerError, TableError
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.sink.columnar.fitting import check_labels, drift, sent_columns
from consumer.sink.columnar.table import handle_key, visible
from consumer.sink.common import own_database, table_missing
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import declared, nullable, quoted, spark_type
from consumer.sink.progress_layout import SCHEMA
from consumer.target import LoadRequest


def answer(request: LoadRequest, tables: Mapping[TableName, LakeTable]) -> LoadTarget | ConsumerError:
    """`tables` are all of the lake, by names in lower case."""
    try:
        if same_name(request.name.database) == SCHEMA:
            raise own_database(request, SCHEMA)
        table = tables.get(request.name.folded)
        if table is None:
            columns = ", ".join(declared(column) for column in visible(request.columns))
            raise table_missing(request, f"CREATE TABLE {request.name} ({columns})")
        return _target(request, table)
    except TableError as error:
        return error


def _target(request: LoadRequest, table: LakeTable) -> LoadTarget:
    """Columns that only the table has stay as they are, by the handle key; a new row has NULL there."""
    sent = sent_columns(request, table.replica.upstream)
    there = {same_name(column.name): column for column in table.columns}
    if missing := [column.name for name, column in sent.items() if name not in there]:
        raise drift(request, f"the table lacks the rows' columns {', '.join(missing)}")
    for name, column in sent.items():
        check_labels(request, column)
        if spark_type(column) != spark_type(there[name]):
            raise drift(
                request,
                f"column {quoted(column.name)} would be {spark_type(column)} ({column.type} upstream), and is"
                f" {spark_type(there[name])} in the table",
            )
    lost = [
        c.name for c in table.columns if c.is_pk and c.name not in request.load.absent and same_name(c.name) not in sent
    ]
    if lost:
        raise drift(request, f"the rows lack the columns {', '.join(lost)} of the table's key")
    names = tuple(column.name for column in table.columns if same_name(column.name) in sent)
    columns = tuple(sent[same_name(name)] for name in names)
    key = handle_key(columns, request.unique_keys)
    own = tuple(name for name in (c.name for c in table.columns) if same_name(name) not in sent)
    if own and not key:
        raise drift(
            request, f"the rows lack the table's columns {', '.join(own)}, and without a key no row can keep them"
        )
    if required := [name for name in own if not nullable(there[same_name(name)])]:
        raise drift(
            request, f"the rows have no value for the table's columns {', '.join(required)}, which are NOT NULL"
        )
    assert table.replica.upstream is not None
    virtual = tuple(sorted(table.replica.upstream.virtual))
    return LoadTarget(request.load, columns, names, key, own=own, defaults=False, virtual=virtual)


def named(tables: Mapping[TableName, LakeTable], names: Sequence[TableName]) -> dict[TableName, LakeTable]:
    return {name: tables[name.folded] for name in names if name.folded in tables}
