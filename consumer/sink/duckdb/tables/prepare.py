"""Rows meet their replica table: which columns are written, and by which key their changes are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb

from consumer.errors import CannotBeExact, ConsumerError, SchemaDrift, TableError
from consumer.model.columns import Column
from consumer.model.hints import resync_command
from consumer.model.load import LoadTarget
from consumer.model.names import TableName, same_name
from consumer.sink.columnar import fits
from consumer.sink.columnar.merging import misfit
from consumer.sink.columnar.sql import quote
from consumer.sink.columnar.table import ColumnarTarget, ReplicaTable, handle_key
from consumer.sink.columnar.types import TEXT, duckdb_type, held_as
from consumer.sink.duckdb.tables.replica import describe, visible
from consumer.sink.missing import table_missing
from consumer.sink.progress_layout import SCHEMA
from consumer.target import LoadRequest

_ADD = "add them to the replica by hand, or let [consumer.ddl] execute the statement that does and "


def prepare(
    connection: duckdb.DuckDBPyConnection | None, requests: Sequence[LoadRequest]
) -> Sequence[LoadTarget | ConsumerError]:
    """Answers in the order of `requests`; None is a file that is not there yet."""
    found = {} if connection is None else describe(connection, {request.name for request in requests})
    return [_answer(request, found.get(request.name)) for request in requests]


def _answer(request: LoadRequest, table: ReplicaTable | None) -> LoadTarget | ConsumerError:
    try:
        if same_name(request.name.database) == SCHEMA:
            raise CannotBeExact(
                f"the database {SCHEMA} is the target's own",
                hint="route or filter it in the changefeed",
                table=str(request.table),
            )
        if table is None:
            raise table_missing(request, _create_statement(request))
        return _target(request, table)
    except TableError as error:
        return error


def _create_statement(request: LoadRequest) -> str:
    columns = ", ".join(f"{quote(column.name)} {duckdb_type(column)}" for column in visible(request.columns))
    return f"CREATE TABLE {quote(request.name.database)}.{quote(request.name.table)} ({columns})"


def _target(request: LoadRequest, table: ReplicaTable) -> LoadTarget:
    """Rows are written whole: columns that only the table has are completed from it, by the handle key."""
    sent = _sent(request, table)
    missing = [column.name for column in sent.values() if table.spelled(column.name) is None]
    if missing:
        raise _drift(request.table, f"the replica lacks the rows' columns {', '.join(missing)}", _ADD)
    present = [column for column in request.columns if column.name not in request.absent]
    if request.merged and (why := misfit(present, table)):
        raise _drift(request.table, f"its rows cannot be in {request.name} with those of others: {why}")
    names = tuple(name for name in table.types if same_name(name) in sent)
    for name in names:
        _check_type(request, sent[same_name(name)], name, table)
    _check_key(request, table, sent)
    own = tuple(name for name in table.types if same_name(name) not in sent and name not in table.generated)
    columns = tuple(sent[same_name(name)] for name in names)
    key = handle_key(columns, request.unique_keys)
    _check_collations(request, table, [names[position] for position in key] or names)
    if own and not key:
        raise _drift(
            request.table,
            f"the rows lack the replica's columns {', '.join(own)}, and without a key no row can keep them",
        )
    return LoadTarget(
        table=request.table,
        columns=columns,
        names=names,
        key=key,
        settings=ColumnarTarget(tuple(held_as(table.types[name]) for name in names)),
        own=own,
        absent=request.absent,
        routed=request.routed,
        virtual=tuple(sorted(table.upstream.virtual)) if table.upstream is not None else (),
    )


def _check_type(request: LoadRequest, column: Column, name: str, table: ReplicaTable) -> None:
    there, wanted = table.types[name], duckdb_type(column)
    if why := fits.misfit(column, there, same_name(name) in request.added):
        raise _drift(
            request.table,
            f"column {quote(name)} would be {wanted} ({column.type} upstream), and is {there} in the file: {why}",
            f"ALTER TABLE {_called(table)} ALTER {quote(name)} TYPE {wanted} and run again; or, where rows are in it, ",
        )


def _check_collations(request: LoadRequest, table: ReplicaTable, compared: Sequence[str]) -> None:
    """Rows are found by `compared`."""
    if wrong := [quote(name) for name in compared if name in table.collated]:
        changes = "; ".join(f"ALTER TABLE {_called(table)} ALTER {name} TYPE {TEXT}" for name in wrong)
        raise _drift(
            request.table,
            f"rows are found by {', '.join(wrong)}, whose collation in the file takes different texts for equal",
            f"{changes} and run again; or, where rows are in it, ",
        )


def _called(table: ReplicaTable) -> str:
    return f"{quote(table.name.database)}.{quote(table.name.table)}"


def _check_key(request: LoadRequest, table: ReplicaTable, sent: Mapping[str, Column]) -> None:
    """A table that holds several rows of a key is not written to by that key alone."""
    stored = table.upstream.stored if table.upstream is not None else ()
    lost = [column.name for column in stored if column.is_pk and same_name(column.name) not in sent]
    if lost:
        raise _drift(request.table, f"the rows lack the columns {', '.join(lost)} of the replica's key")


def _sent(request: LoadRequest, table: ReplicaTable) -> dict[str, Column]:
    """The rows' columns by lower-case name. An ENUM or SET has the labels that its table was created with."""
    columns = {
        same_name(column.name): column for column in visible(request.columns) if column.name not in request.absent
    }
    if table.upstream is not None:
        for known in table.upstream.columns:
            if known.name in table.upstream.virtual:
                columns.pop(same_name(known.name), None)
            elif same_name(known.name) in columns:
                columns[same_name(known.name)] = replace(columns[same_name(known.name)], elements=known.elements)
    return columns


def _drift(name: TableName, text: str, first: str = "") -> SchemaDrift:
    return SchemaDrift(text, hint=f"{first}empty and reload the table: {resync_command(name)}", table=str(name))
