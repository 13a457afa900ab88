"""Matches rows to the tables of a lake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer.errors import ConsumerError, TableError
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.sink.columnar.fitting import check_label_numbers, columns_drift, sent_columns
from consumer.sink.columnar.table import handle_key, visible_columns
from consumer.sink.common import reserved_database, table_missing
from consumer.sink.lake.progress import LakeTable
from consumer.sink.lake.types import column_definition, nullable, spark_name, spark_type
from consumer.sink.progress_layout import SCHEMA
from consumer.target import LoadRequest


def load_target(request: LoadRequest, tables: Mapping[TableName, LakeTable]) -> LoadTarget | ConsumerError:
    """Returns the answer to `request`. `tables` are all tables of the lake, by names in lower case."""
    try:
        if same_name(request.name.database) == SCHEMA:
            raise reserved_database(request, SCHEMA)
        table = tables.get(request.name.folded)
        if table is None:
            columns = ", ".join(column_definition(column) for column in visible_columns(request.columns))
            raise table_missing(request, f"CREATE TABLE {request.name} ({columns})")
        return _target(request, table)
    except TableError as error:
        return error


def _target(request: LoadRequest, table: LakeTable) -> LoadTarget:
    """Columns that only the table has keep their values, by the handle key. A new row has NULL there."""
    sent = sent_columns(request, table.replica.upstream)
    table_columns = {same_name(column.name): column for column in table.columns}
    if missing := [column.name for name, column in sent.items() if name not in table_columns]:
        raise columns_drift(request, f"the table lacks the rows' columns {', '.join(missing)}")
    for name, column in sent.items():
        check_label_numbers(request, column)
        if spark_type(column) != spark_type(table_columns[name]):
            raise columns_drift(
                request,
                f"column {spark_name(column.name)} would be {spark_type(column)} ({column.type} upstream), and is"
                f" {spark_type(table_columns[name])} in the table",
            )
    lost = [
        c.name for c in table.columns if c.is_pk and c.name not in request.load.absent and same_name(c.name) not in sent
    ]
    if lost:
        raise columns_drift(request, f"the rows lack the columns {', '.join(lost)} of the table's key")
    names = tuple(column.name for column in table.columns if same_name(column.name) in sent)
    columns = tuple(sent[same_name(name)] for name in names)
    key = handle_key(columns, request.unique_keys)
    table_only = tuple(name for name in (c.name for c in table.columns) if same_name(name) not in sent)
    if table_only and not key:
        raise columns_drift(
            request,
            f"the rows lack the table's columns {', '.join(table_only)}, and without a key no row can keep them",
        )
    if required := [name for name in table_only if not nullable(table_columns[same_name(name)])]:
        raise columns_drift(
            request, f"the rows have no value for the table's columns {', '.join(required)}, which are NOT NULL"
        )
    assert table.replica.upstream is not None
    virtual = tuple(sorted(table.replica.upstream.virtual))
    return LoadTarget(request.load, columns, names, key, extra_columns=table_only, defaults=False, virtual=virtual)


def tables_by_name(tables: Mapping[TableName, LakeTable], names: Sequence[TableName]) -> dict[TableName, LakeTable]:
    """Returns those of `names` that exist, by the names as given."""
    return {name: tables[name.folded] for name in names if name.folded in tables}
