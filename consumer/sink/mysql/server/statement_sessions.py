"""Sessions that send upstream's statements have a mark, by which others find those that are left.

What such a session was sent can come late: a proxy, or a network that stood still, delivers it after the client has
given the connection up. No epoch locks out a statement. So who tries one again first waits until no session is left
that listens: the server ends it when its connection breaks, or when nothing comes.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import pymysql

from consumer.errors import TargetBusy
from consumer.sink.mysql.progress.lease import lock_name

AT_A_TIME = 32
"""Sessions of a consumer name that send statements at a time: more of them would only wait for one another."""
_MOST = 2 * AT_A_TIME
"""Those that can be marked: a killed client can have left some that still run a statement."""
_WAIT_SECONDS, _LOOKS_EVERY = 5.0, 0.02


def mark(cursor: pymysql.cursors.Cursor, name: str, beside: int = 0) -> None:
    """The session of `cursor` is sent statements of the consumer `name`, from now on until it ends. `beside` is how
    many others surely have a mark."""
    locks = _locks(name)
    for lock in locks[beside:] + locks[:beside]:
        cursor.execute("SELECT GET_LOCK(%s, 0)", (lock,))
        if cursor.fetchone()[0]:
            return


def unmark(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """It sends no more of them."""
    cursor.execute("DO " + ", ".join(["RELEASE_LOCK(%s)"] * _MOST), _locks(name))


def wait_for_listening(cursor: pymysql.cursors.Cursor, name: str, but: Collection[int] = ()) -> None:
    """Wait until there is no marked session of `name` that a statement could still come to, but this one and those that
    are in use. One that runs a statement listens to nothing. Raises TargetBusy where it takes long."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while listening := _listening(cursor, name, but):
        if time.monotonic() > deadline:
            raise TargetBusy(
                f"the target has session {listening} of a connection that is lost, and a statement that was sent to it"
                " can still come",
                hint="try again: the server ends such a session within two minutes; nothing is lost",
            )
        time.sleep(_LOOKS_EVERY)


def _listening(cursor: pymysql.cursors.Cursor, name: str, but: Collection[int]) -> int:
    """The number of such a session, 0 where there is none."""
    cursor.execute("SELECT CONNECTION_ID(), " + ", ".join(["IS_USED_LOCK(%s)"] * _MOST), _locks(name))
    own, *holders = cursor.fetchone()
    others = set(holders) - {own, None, *but}
    if not others:
        return 0
    cursor.execute(
        "SELECT COALESCE(MIN(id), 0) FROM information_schema.processlist WHERE command = 'Sleep' AND id IN %s",
        (others,),
    )
    return int(cursor.fetchone()[0])


def _locks(name: str) -> list[str]:
    stem = lock_name(name)
    return [f"{stem}.{number}" for number in range(_MOST)]
