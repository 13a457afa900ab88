"""Tables that another consumer of the same target keeps: what one does to them the other does not know."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from consumer.errors import DdlRefused
from consumer.model.names import TableName
from consumer.model.steps import LoadRows, ddl_id
from consumer.pipeline.context import RoundContext
from consumer.target import Sink


def kept_elsewhere(sink: Sink, tables: Collection[TableName]) -> dict[TableName, DdlRefused]:
    """Those of `tables` that this consumer must leave alone, and why."""
    return {table: _kept(table, other) for table, other in sink.kept_elsewhere(tables).items()} if tables else {}


def new_and_kept(context: RoundContext, loads: Sequence[LoadRows]) -> dict[TableName, DdlRefused]:
    """As `kept_elsewhere`, for tables whose first rows these are, and of which this consumer has run no statement. Who
    began with --start-ts has said that the target holds the tables: the other one has gone on under a new name."""
    if context.progress.start_ts:
        return {}
    return kept_elsewhere(context.ports.sink, [load.table for load in loads if _is_new(load, context)])


def _is_new(load: LoadRows, context: RoundContext) -> bool:
    folders = {planned.file.folder for planned in load.files}
    schemas = filter(None, map(context.assembly.catalog.schema, folders))
    ran = any(ddl_id(schema) in context.progress.ddls for schema in schemas)
    return not ran and context.assembly.read.keys().isdisjoint(folder.root for folder in folders)


def _kept(table: TableName, other: str) -> DdlRefused:
    return DdlRefused(
        f"the consumer {other!r} of this target keeps {table}, and two must not write to it",
        hint="give this one another --downstream-uri, or leave the table out of one of the two with --tables",
        table=str(table),
    )
