"""The progress schema comes to be, or is brought forward to this release's format.

Every statement here commits by itself, so each may find its work done: a migration that was cut short is run again from
its beginning, as the formats are written last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pymysql

from consumer import __version__
from consumer.errors import LeaseHeld
from consumer.model.progress import FORMAT_VERSION
from consumer.sink.mysql.progress.epochs import raise_epoch
from consumer.sink.mysql.progress.lease import lock_name
from consumer.sink.mysql.progress.schema import COLUMNS, create_missing, create_view, exists, layout
from consumer.sink.progress_formats import ADDED, check_format
from consumer.sink.progress_layout import SCHEMA

_WAIT_SECONDS = 5


def ensure_schema(cursor: pymysql.cursors.Cursor) -> None:
    """Create the progress schema, or bring an older one forward.

    Raises BadConfig for a later format, LeaseHeld while another consumer of the target is at work on an older one;
    pymysql's errors pass through.
    """
    if not exists(cursor):
        create_missing(cursor)
        _bring_forward(cursor, 1)
        return
    cursor.execute(f"SELECT MIN(format), MAX(format) FROM {SCHEMA}.consumer")
    oldest, newest = cursor.fetchone()
    if newest is not None and newest > FORMAT_VERSION:
        cursor.execute(f"SELECT format, written_by FROM {SCHEMA}.consumer WHERE format = %s", (newest,))
        check_format(*cursor.fetchone())
    if oldest is None or oldest < FORMAT_VERSION:  # without a consumer the layout may be of any age
        with _alone(cursor) as names:
            _bring_forward(cursor, oldest or 1, names)


def _bring_forward(cursor: pymysql.cursors.Cursor, oldest: int, names: Sequence[str] = ()) -> None:
    """`names` are the consumers of the older layout. One that has lost its lock, and comes back, writes nothing."""
    create_missing(cursor)
    for name in names:
        raise_epoch(cursor, name)
    cursor.connection.commit()
    for version in range(oldest + 1, FORMAT_VERSION + 1):
        _STEPS[version](cursor)
    create_view(cursor)
    cursor.execute(
        f"UPDATE {SCHEMA}.consumer SET format = %s, written_by = %s WHERE format < %s",
        (FORMAT_VERSION, __version__, FORMAT_VERSION),
    )
    cursor.connection.commit()


def _to_2(cursor: pymysql.cursors.Cursor) -> None:
    _add_columns(cursor, 2)


_STEPS: Mapping[int, Callable[[pymysql.cursors.Cursor], None]] = {2: _to_2}


def _add_columns(cursor: pymysql.cursors.Cursor, version: int) -> None:
    there = layout(cursor)
    for table, column in ADDED[version]:
        if (table, column) not in there:
            cursor.execute(f"ALTER TABLE {SCHEMA}.{table} ADD COLUMN {column} {COLUMNS[table][column]}")


@contextmanager
def _alone(cursor: pymysql.cursors.Cursor) -> Iterator[list[str]]:
    """All consumer names, while their locks are held: none of them can be at work on the older layout. An error closes
    the connection, and with it the server frees them."""
    cursor.execute(f"SELECT name FROM {SCHEMA}.consumer ORDER BY name")
    names = [str(name) for (name,) in cursor.fetchall()]
    for name in names:
        cursor.execute("SELECT GET_LOCK(%s, %s)", (lock_name(name), _WAIT_SECONDS))
        if not cursor.fetchone()[0]:
            raise LeaseHeld(
                f"the progress in the target must be migrated to format {FORMAT_VERSION}, "
                f"and the consumer named {name!r} is running",
                hint="end it, then start this one again: all consumers of a target must be of one release",
            )
    yield names
    for name in names:
        cursor.execute("SELECT RELEASE_LOCK(%s)", (lock_name(name),))
