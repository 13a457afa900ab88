"""Epochs: they lock out outdated writers, and progress that builds on what the target has lost.

Every write transaction holds a lock on a row until it commits, and who takes over raises the epochs in these rows,
which waits for those transactions: also for the statement of a killed client, which a server finishes. A client that
vanished has no statement: the server ends its transaction after SILENCE_SECONDS.

Epochs are kept by lane. The driver has one, its statements have one, and each load that is under way has one: the end
of a load raises that one alone, so an attempt that comes late is refused, and other loads go on.

A server can lose what it had committed: a replica that was behind takes its place, or it crashes and does not flush at
each commit. Each transaction of the driver raises the driver's epoch and goes through only where the one before it is
still there; a load begins only where the last one before it is. Rows leave a proof in their transaction, statements one
behind them in their session, and what says that they are there is recorded only beside their proofs. Servers lose the
end of what they had, never something in the middle, so nothing is recorded of what is lost: the round is refused with
ProgressMoved, and the next one begins from the progress that there is. This asks for no server's name, so it says the
same behind an address that leads to another one, behind a proxy, and on nodes that share their data; epochs grow by
chance, so servers that went apart have none in common.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Collection, Sequence

import pymysql

from consumer.errors import LeaseHeld, ProgressMoved
from consumer.sink.mysql.server.connection import SESSION_MARK, Purpose, check_session, greeted
from consumer.sink.mysql.server.errors import MISSING, errno
from consumer.sink.progress_sql import holder_text

TIDB_SLOTS = 64
"""Rows of a lane. TiDB has no share locks: a transaction locks one of them at random, a new epoch locks them all. Other
servers have the first alone; so has the driver's lane, where there is one transaction at a time."""

DRIVER, STATEMENTS, LOADS = 0, 1, 2
"""Lanes: the driver's own transactions, statements while they run, and the first of the loads'."""

GENERATION = "SELECT CONCAT_WS(' ', MAX(epoch), MAX(holder), MAX(since)) FROM storage_consumer.lease WHERE name = {}"
"""Another text whenever somebody takes or writes to the target under that name, here or where a replica took over."""

_FENCE_WAIT_SECONDS = 1500
_BATCH = 500


def check_epoch(cursor: pymysql.cursors.Cursor, name: str, epoch: int, lane: int, driver: int = 0) -> None:
    """First statement of every write transaction but the driver's own: raises LeaseHeld unless `epoch` is the one in
    force in `lane`, and keeps it in force until the transaction ends. Raises ProgressMoved where the target has lost
    that, or what the driver had written when its lane was at `driver`; BadConfig in a session that is not ours.
    pymysql's errors pass through."""
    tidb = _slots(cursor) > 1
    cursor.execute(
        f"SELECT epoch, holder, since, {SESSION_MARK}, "
        "(SELECT d.epoch FROM storage_consumer.lease d WHERE d.name = %s AND d.slot = 0) "
        "FROM storage_consumer.lease WHERE name = %s AND slot = %s " + ("FOR UPDATE" if tidb else "LOCK IN SHARE MODE"),
        (name, name, lane * TIDB_SLOTS + (random.randrange(TIDB_SLOTS) if tidb else 0)),
    )
    row = cursor.fetchone()
    if row is not None:
        check_session(row[3], "dml")
    if row is not None and row[0] > epoch and lane >= LOADS:
        raise LeaseHeld("this writer comes too late: its load has ended, or another consumer has taken over")
    if row is not None and row[0] > epoch:
        raise taken_over(name, *row[1:3])
    if row is None or row[0] < epoch or row[4] < driver:
        raise gone_back(name)


def taken_over(name: str, holder: str, since: object) -> LeaseHeld:
    """The error if an epoch is above ours."""
    return LeaseHeld(
        f"the consumer {name!r} was taken over by {holder} since {since} UTC",
        hint="end the other one, then run again: only one consumer of a name can run",
    )


def gone_back(name: str) -> ProgressMoved:
    """The error if the target lacks what we had written: epochs never fall."""
    return ProgressMoved(
        f"the target lacks what it had recorded of the consumer {name!r}: as after a fail-over to a replica that was"
        " behind",
        hint="run again: the progress is read again, and what was lost is applied again",
    )


class DriverEpoch:
    """The driver's place in its lane: `now` is the epoch that its last transaction left there."""

    def __init__(self, name: str, now: int) -> None:
        self.now, self._name = now, name
        self._asked: list[int] = []
        """Those of transactions since whose commit was not answered: one of them may be in force."""

    @property
    def known(self) -> tuple[int, ...]:
        """Of these one is in force, unless the target went back or another consumer has taken over."""
        return (self.now, *self._asked)

    def raise_in(self, cursor: pymysql.cursors.Cursor, purpose: Purpose = "dml") -> None:
        """First statement of the driver's write transactions, with `committed` behind their commit. Raises LeaseHeld,
        ProgressMoved where what the driver wrote last is not there, BadConfig in a session that is not ours for
        `purpose`."""
        epoch = _raised(max(self.known))
        try:
            found = cursor.execute(
                "UPDATE storage_consumer.lease SET epoch = %s "
                f"WHERE name = %s AND slot = 0 AND epoch IN %s AND {SESSION_MARK} = %s",
                (epoch, self._name, self.known, purpose),
            )
        except pymysql.MySQLError as error:
            if errno(error) not in MISSING:
                raise
            raise gone_back(self._name) from error
        if not found:
            self._refuse(cursor, purpose)
        self.asked(epoch)

    def asked(self, epoch: int) -> None:
        """The transaction at hand leaves `epoch`: call this before its commit, whose answer may be lost."""
        self._asked.append(epoch)

    def committed(self) -> None:
        self.now, self._asked = self._asked[-1], []

    def _refuse(self, cursor: pymysql.cursors.Cursor, purpose: Purpose) -> None:
        cursor.execute(f"SELECT {SESSION_MARK}")
        check_session(cursor.fetchone()[0], purpose)
        cursor.execute(
            "SELECT epoch, holder, since FROM storage_consumer.lease WHERE name = %s AND slot = 0 FOR UPDATE",
            (self._name,),
        )
        row = cursor.fetchone()
        raise gone_back(self._name) if row is None or row[0] < self.now else taken_over(self._name, *row[1:])


def leave_proof(cursor: pymysql.cursors.Cursor, name: str, proof: int) -> None:
    """In the transaction that writes rows, or behind statements in their session: may be repeated with it."""
    cursor.execute("INSERT IGNORE INTO storage_consumer.proof (name, id) VALUES (%s, %s)", (name, proof))


def new_proof() -> int:
    return secrets.randbits(63)


def check_proofs(cursor: pymysql.cursors.Cursor, name: str, proofs: Sequence[int]) -> None:
    """Raises ProgressMoved unless the target has all of them."""
    for start in range(0, len(proofs), _BATCH):
        batch = proofs[start : start + _BATCH]
        cursor.execute("SELECT COUNT(*) FROM storage_consumer.proof WHERE name = %s AND id IN %s", (name, batch))
        if cursor.fetchone()[0] < len(batch):
            raise gone_back(name)


def forget_proofs(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """Where nothing is under way that leaves some: the range is locked."""
    cursor.execute("DELETE FROM storage_consumer.proof WHERE name = %s", (name,))


def raise_epoch(cursor: pymysql.cursors.Cursor, name: str, held: Collection[int] = ()) -> int:
    """Lock out all writers of earlier epochs, once their transactions have ended; returns the epoch of every lane now.
    The caller has the server lock, and commits.

    `held` are the epochs of which one is the driver's lane's, the least surely; none: whatever is in force may be.
    Raises LeaseHeld where it is another above those: a lower one is of a target that went back.
    """
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (_FENCE_WAIT_SECONDS,))
    for lane in (DRIVER, STATEMENTS):
        _make_lane(cursor, name, lane)
    cursor.execute(
        "SELECT epoch, holder, since FROM storage_consumer.lease WHERE name = %s ORDER BY slot FOR UPDATE", (name,)
    )
    rows = cursor.fetchall()
    found, *holder = rows[0]
    if held and found not in held and found > min(held):
        raise taken_over(name, *holder)
    epoch = _raised(max(*held, *(row[0] for row in rows)))
    forget_proofs(cursor, name)
    cursor.execute(
        "UPDATE storage_consumer.lease SET epoch = %s, holder = %s, since = UTC_TIMESTAMP(3) WHERE name = %s",
        (epoch, holder_text(), name),
    )
    return epoch


def raise_lane(cursor: pymysql.cursors.Cursor, name: str, lane: int) -> int:
    """Lock out the writers of one load, once their transactions have ended; returns the lane's epoch now. The caller
    holds the driver's epoch, and commits."""
    _make_lane(cursor, name, lane)
    slots = (lane * TIDB_SLOTS, (lane + 1) * TIDB_SLOTS - 1)
    cursor.execute(
        "UPDATE storage_consumer.lease SET epoch = epoch + %s WHERE name = %s AND slot BETWEEN %s AND %s",
        (_raised(0), name, *slots),
    )
    cursor.execute(
        "SELECT MAX(epoch) FROM storage_consumer.lease WHERE name = %s AND slot BETWEEN %s AND %s", (name, *slots)
    )
    return int(cursor.fetchone()[0])


def _make_lane(cursor: pymysql.cursors.Cursor, name: str, lane: int) -> None:
    first = lane * TIDB_SLOTS
    cursor.executemany(
        "INSERT IGNORE INTO storage_consumer.lease (name, slot, epoch, holder, since) VALUES (%s, %s, %s, %s, %s)",
        [(name, slot, 0, holder_text(), "1970-01-01") for slot in range(first, first + _slots(cursor))],
    )


def _slots(cursor: pymysql.cursors.Cursor) -> int:
    return TIDB_SLOTS if greeted(cursor.connection).name == "tidb" else 1


def _raised(epoch: int) -> int:
    """One above, by chance. A BIGINT has room for 10**12 of them."""
    return epoch + 1 + secrets.randbits(24)
