"""Versions of rows that end: their keys are staged in the session, and one statement ends those that are current. It
can run again: a version that has ended stays as it is."""

from __future__ import annotations

import pyarrow as pa
import pymysql

from consumer.model.load import LoadTarget
from consumer.model.names import quote
from consumer.model.times import LOGICAL_BITS
from consumer.sink.mysql.rows.staged import STAGED, key_stage_of, same_values
from consumer.sink.mysql.target import mysql_target, table_of


def keys_of(target: LoadTarget, deletes: pa.Table) -> pa.Table:
    """Rows of the stage: `deletes` have the columns of the key under their positions in `target`."""
    named = deletes.select([f"c{position}" for position in target.key])
    return named.rename_columns([f"c{position}" for position in range(len(target.key))])


def end_versions(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """End the versions whose keys are staged, in the transaction at hand."""
    ending = target.ending
    assert ending is not None
    table, stage = table_of(target), key_stage_of(target)
    began, ended, current = (quote(target.names[n]) for n in (ending.began, ending.ended, ending.current))
    same = " AND ".join(same_values(target, position) for position in target.key if position != ending.began)
    stays = "".join(f", {table}.{name} = {table}.{name}" for name in _stamped(target))
    time = f"'1970-01-01' + INTERVAL ({STAGED}.{began} >> {LOGICAL_BITS}) * 1000 MICROSECOND"
    cursor.execute(
        f"UPDATE {stage} {STAGED} STRAIGHT_JOIN {table} ON {same} AND {table}.{began} < {STAGED}.{began}"
        f" AND {table}.{ended} IS NULL"
        f" SET {table}.{ended} = {time}, {table}.{current} = 0{stays}"
    )


def _stamped(target: LoadTarget) -> list[str]:
    """The columns that can be ON UPDATE CURRENT_TIMESTAMP, where somebody made the table: all keep their values."""
    ending, settings = target.ending, mysql_target(target)
    assert ending is not None
    written = [column for n, column in enumerate(settings.columns) if n not in (ending.ended, ending.current)]
    stay = [column for column in (*written, *settings.own) if not column.generated]
    return [quote(column.name) for column in stay if column.data_type in ("timestamp", "datetime")]
