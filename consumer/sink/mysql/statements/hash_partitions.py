"""Where MySQL and MariaDB divide rows into HASH partitions otherwise than TiDB."""

from __future__ import annotations

import pymysql

from consumer.model.actions import Action
from consumer.model.names import qualified
from consumer.model.steps import ApplyDdl
from consumer.model.table_definition import PartitionKind
from consumer.sink.mysql.server.connection import FlavorName

_BY_PARTITION = frozenset({Action.TRUNCATE_PARTITION, Action.EXCHANGE_PARTITION})


def misplaced(cursor: pymysql.cursors.Cursor, step: ApplyDdl, flavor: FlavorName) -> str:
    """Why the statement would mean other rows here, "" where it does not.

    A NULL counts as 0 upstream; MySQL and MariaDB take it for the least BIGINT, whose partition is another one unless
    their number is a power of two. pymysql's errors pass through.
    """
    partitioning = step.known.partitioning
    if flavor == "tidb" or partitioning is None or step.file.type not in _BY_PARTITION:
        return ""
    if partitioning.kind is not PartitionKind.HASH or len(partitioning.partitions).bit_count() == 1:
        return ""
    table = qualified(*step.name)
    cursor.execute(f"SELECT 1 FROM {table} WHERE ({partitioning.by[0]}) IS NULL LIMIT 1")
    if cursor.fetchone() is None:
        return ""
    return "rows whose HASH is NULL are in another partition here than upstream"
