"""The place in the trash of a table that upstream takes away."""

from __future__ import annotations

import duckdb

from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.steps import ApplyDdl
from consumer.sink.duckdb.connection import qualified
from consumer.sink.duckdb.statements.operations import Tables
from consumer.sink.duckdb.tables import has_rows


def is_taken(connection: duckdb.DuckDBPyConnection, step: ApplyDdl, trash: TableName, tables: Tables) -> bool:
    """Whether the place in the trash holds other rows than the table that is to go there; `tables` has both. Those that
    an earlier execution put there, before a resync, are the same."""
    own, kept = tables.get(step.standing), tables.get(trash)
    if step.file.type not in (Action.DROP_TABLE, Action.TRUNCATE_TABLE) or own is None or kept is None:
        return False
    if not has_rows(connection, own.name):
        return False
    one, other = (f"SELECT * FROM {qualified(connection, name)}" for name in (own.name, kept.name))
    differ = f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}) LIMIT 1"
    return list(own.types.items()) != list(kept.types.items()) or bool(connection.execute(differ).fetchall())
