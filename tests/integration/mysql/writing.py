"""What the tests of the writer share: a target that has a progress schema and a lease, and change tables by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from consumer.model.columns import Column, Family
from consumer.model.load import LoadTarget, Purpose, Receipt, TableLoad
from consumer.model.names import TableName
from consumer.model.progress import FORMAT_VERSION
from consumer.sink.mysql.progress.epochs import DRIVER, LOADS, TIDB_SLOTS
from consumer.sink.mysql.progress.schema import ensure_schema
from consumer.sink.mysql.rows.writer import MySqlWriter
from consumer.sink.mysql.server.connection import connect_to_server
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.tables.prepare import prepare_targets
from consumer.sink.mysql.target import MySqlTarget
from consumer.target import LoadRequest
from tests.servers import MariaDb

EPOCH = 7
NAME = "writer-test"


def settings_of(server: MariaDb) -> MySqlSettings:
    return MySqlSettings(host="127.0.0.1", port=server.port, user="root", password="", name=NAME, time_zone="+00:00")


def make_target(
    server: MariaDb,
    columns: Sequence[Column],
    ddl: str,
    *,
    table: str = "t",
    unique: Sequence[str] = (),
    purpose: Purpose = Purpose.LOAD_IN_PARTS,
) -> LoadTarget:
    """Create ``db.{table}`` as `ddl` says (the body of a CREATE TABLE), and look at it as the driver does. `unique` are
    columns that upstream is known to have a unique key on, each by itself; `asked` is of a LoadRequest."""
    settings = settings_of(server)
    connection = connect_to_server(settings, "ddl", autocommit=True)
    with connection.cursor() as cursor:
        ensure_schema(cursor)
        cursor.executemany(
            "REPLACE INTO storage_consumer.lease (name, slot, epoch, holder, since) VALUES (%s, %s, %s, 'test', NOW())",
            [(NAME, lane * TIDB_SLOTS + slot, EPOCH) for lane in (DRIVER, LOADS) for slot in range(TIDB_SLOTS)],
        )
        cursor.execute(
            "REPLACE INTO storage_consumer.consumer "
            "(name, format, upstream, applied_ts, start_ts, updated, written_by) "
            "VALUES (%s, %s, 'file:///test', 0, 0, NOW(), '')",
            (NAME, FORMAT_VERSION),
        )
        cursor.execute("CREATE DATABASE IF NOT EXISTS db CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        cursor.execute(f"CREATE TABLE db.`{table}` ({ddl}) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin")
        told = frozenset(frozenset([name]) for name in unique)
        request = LoadRequest(TableLoad(TableName("db", table), purpose=purpose), tuple(columns), known_unique=told)
        (found,) = prepare_targets(cursor, [request], settings)
    connection.close()
    assert isinstance(found, LoadTarget), found
    return found


def by_statements(target: LoadTarget) -> LoadTarget:
    """The same target, as if its server did not take LOAD DATA LOCAL."""
    assert isinstance(target.settings, MySqlTarget)
    return replace(
        target, settings=replace(target.settings, server=replace(target.settings.server, local_infile=False))
    )


def changes(target: LoadTarget, puts: Sequence[Sequence[Any]] = (), deletes: Sequence[Sequence[Any]] = ()) -> pa.Table:
    """A change table: `puts` and `deletes` are rows of values as canal-JSON carries them (bytes for binary types)."""
    rows = [*puts, *deletes]
    count = len(rows)
    return pa.table(
        {
            "ts": pa.array([1] * count, pa.int64()),
            "put": pa.array([True] * len(puts) + [False] * len(deletes), pa.bool_()),
            "series": pa.array([0] * count, pa.int32()),
            "rank": pa.array(range(count), pa.int64()),
            **_values(target, rows),
        }
    )


def counted(target: LoadTarget, rows: Sequence[tuple[int, Sequence[Any]]]) -> pa.Table:
    """A table of net changes: (copies, values)."""
    numbers = pa.array([count for count, _ in rows], pa.int64())
    return pa.table({"n": numbers, **_values(target, [values for _, values in rows])})


def write(server: MariaDb, target: LoadTarget, table: pa.Table, patience: float = 15.0) -> Receipt:
    with MySqlWriter(settings_of(server), EPOCH).session(patience) as session:
        return session.write(target, table)


def _values(target: LoadTarget, rows: Sequence[Sequence[Any]]) -> dict[str, pa.Array]:
    return {
        f"c{position}": pa.array(
            [row[position] for row in rows], pa.binary() if column.family is Family.BINARY else pa.string()
        )
        for position, column in enumerate(target.columns)
    }
