"""Rows that upstream tells apart and a unique key of the target does not: REPLACE would lose one of them in silence.

Where a key compares coarsely (a ``_ci`` collation), definitions do not tell whether upstream's does so too: the rows
of a load are staged and compared by the server before one is written. Trailing blanks, which most collations pass over,
are looked for in the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from consumer.errors import CannotBeExact
from consumer.model.columns import Family
from consumer.model.load import LoadTarget
from consumer.sink.mysql.batches import joined
from consumer.sink.mysql.complete import KEYS, STAGE, same_handle
from consumer.sink.mysql.connection import qualified, quote
from consumer.sink.mysql.deletes import same_bytes
from consumer.sink.mysql.values import key_literals, mysql_target, sql

_CONDITION_ROWS = 100
_BYTES = 256 * 1024


def refuse_staged_twins(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> None:
    """Raises CannotBeExact where two staged rows are equal in a checked key, or one is equal to a row of the target
    that no staged row replaces. Deletes must have been executed."""
    settings = mysql_target(target)
    table = qualified(settings.database, settings.table)
    handle = _names(target, target.key)
    cursor.execute(f"INSERT INTO {KEYS} ({handle}) SELECT {handle} FROM {STAGE}")
    first = quote(target.names[target.key[0]])
    for key in settings.checked:
        names = _names(target, key)
        whole = _no_nulls(target, key)
        cursor.execute(f"SELECT 1 FROM {STAGE} WHERE {whole} GROUP BY {names} HAVING COUNT(*) > 1 LIMIT 1")
        if cursor.fetchone():
            raise _twins(target, key)
        equal = " AND ".join(f"t.{quote(target.names[n])} = s.{quote(target.names[n])}" for n in key)
        cursor.execute(
            f"SELECT 1 FROM {STAGE} s JOIN {table} t ON {equal} LEFT JOIN {KEYS} k ON {same_handle(target, 't', 'k')} "
            f"WHERE k.{first} IS NULL LIMIT 1"
        )
        if cursor.fetchone():
            raise _twins(target, key)


def refuse_blank_twins(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: pa.Table) -> None:
    """Raises CannotBeExact where keys of `puts` differ from one another, or from a row of the target, in trailing
    blanks only. Deletes must have been executed."""
    texts = [n for n in target.key if target.columns[n].family is Family.TEXT]
    blank = [pc.ends_with(puts.column(f"c{n}"), " ") for n in texts]
    if not any(pc.any(flags).as_py() for flags in blank):
        return
    columns = {f"c{n}": puts.column(f"c{n}") for n in target.key}
    trimmed = pa.table({**columns, **{f"c{n}": pc.utf8_rtrim(puts.column(f"c{n}"), " ") for n in texts}})
    padded = _padded(cursor, target)
    if padded and trimmed.group_by(trimmed.column_names).aggregate([]).num_rows < puts.num_rows:
        raise _twins(target, target.key)
    ended = blank[0]
    for flags in blank[1:]:
        ended = pc.or_(ended, flags)
    if padded:
        _look_for_twins(cursor, target, puts.filter(ended), texts)


def _padded(cursor: pymysql.cursors.Cursor, target: LoadTarget) -> bool:
    """Whether the key passes over trailing blanks: asked of the server, which knows its collations."""
    found = {mysql_target(target).collations[n] for n in target.key} - {""}
    charset = {collation: collation.partition("_")[0] for collation in found}
    compared = [
        f"CONVERT('a ' USING {charset[c]}) COLLATE {c} = CONVERT('a' USING {charset[c]})" for c in sorted(found)
    ]
    if not compared:
        return False
    cursor.execute(f"SELECT {' OR '.join(compared)}")
    return bool(cursor.fetchone()[0])


def _look_for_twins(cursor: pymysql.cursors.Cursor, target: LoadTarget, puts: pa.Table, texts: Sequence[int]) -> None:
    settings = mysql_target(target)
    literals = dict(zip(target.key, key_literals(target, puts, target.key), strict=True))
    equal = [sql(f"{quote(target.names[n])} = ", literals[n]) for n in target.key]
    same = [same_bytes(quote(target.names[n]), literals[n]) for n in texts]
    rendered = sql("(", sql(*equal, between=" AND "), " AND NOT (", sql(*same, between=" AND "), ")) OR ")
    head = f"SELECT 1 FROM {qualified(settings.database, settings.table)} WHERE ".encode()
    for piece in joined(rendered, b" OR ", _CONDITION_ROWS, _BYTES):
        cursor.execute(head + piece.text + b" LIMIT 1")
        if cursor.fetchone():
            raise _twins(target, target.key)


def _names(target: LoadTarget, key: Sequence[int]) -> str:
    return ", ".join(quote(target.names[position]) for position in key)


def _no_nulls(target: LoadTarget, key: Sequence[int]) -> str:
    return " AND ".join(f"{quote(target.names[position])} IS NOT NULL" for position in key)


def _twins(target: LoadTarget, key: Sequence[int]) -> CannotBeExact:
    names = _names(target, key)
    return CannotBeExact(
        f"rows that are different upstream have one value in the target's unique key on {names}, which compares more"
        " coarsely than upstream's: one of them would be lost",
        hint=f"give {names} a collation that compares as upstream does (utf8mb4_bin, or one with NO PAD where"
        " upstream's keys differ in trailing blanks), or drop the key where upstream has none; then resync the table",
        table=str(target.table),
    )
