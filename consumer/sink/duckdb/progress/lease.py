"""The epoch in the database, beside the lock on a file: DuckDB itself keeps other processes out only while the file is
open, which it is not between rounds."""

from __future__ import annotations

import duckdb

from consumer.errors import LeaseHeld
from consumer.sink.progress_layout import SCHEMA, damaged
from consumer.sink.progress_rows import holder_text

TURN = "SELECT concat_ws(' ', epoch, holder, since) FROM {}.storage_consumer.lease"
"""Of the file with that catalog: another text whenever somebody takes it."""


def raise_epoch(connection: duckdb.DuckDBPyConnection) -> int:
    """Lock out all writers of earlier epochs; returns the new one. The caller commits."""
    found = connection.execute(
        "UPDATE storage_consumer.lease SET epoch = epoch + 1, holder = ?, since = now() AT TIME ZONE 'UTC' "
        "RETURNING epoch",
        (holder_text(),),
    ).fetchall()
    if not found:
        raise damaged(f"{SCHEMA}.lease has no row")
    return int(found[0][0])


def check_epoch(connection: duckdb.DuckDBPyConnection, epoch: int) -> None:
    """Part of every write transaction: raises LeaseHeld unless `epoch` is the one in force."""
    found = connection.execute("SELECT epoch, holder FROM storage_consumer.lease").fetchall()
    if not found or found[0][0] != epoch:
        holder = found[0][1] if found else "nobody: its progress was removed"
        raise LeaseHeld(
            f"this consumer was taken over by {holder}",
            hint="end the other one, then run again: only one consumer of a file can run",
        )
