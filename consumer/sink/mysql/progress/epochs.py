"""Epochs: they lock out outdated writers, and progress that builds on data that the target has lost.

Every write transaction holds a lock on an epoch's row until it commits. A consumer that takes over raises the epochs in
these rows, so it waits for those transactions, including the statement of a killed client, which a server finishes. A
client that vanished has no running statement: the server ends its transaction after SILENCE_SECONDS.

Epochs are kept by lane. The driver has one, its statements have one, and each running load has one. The end of a load
raises only that load's lane, so its late attempts are refused while other loads continue.

A server can lose what it had committed: a replica that lagged takes its place, or it crashes and does not flush at each
commit. These rules detect it:

1. Each transaction of the driver raises the driver's epoch, and succeeds only if the previous one is still there.
2. A load begins only if the driver's last transaction before it is there.
3. Rows leave a proof in their transaction, and statements leave one after them in their session. The progress that
   depends on them is recorded only together with a check of their proofs.

Servers lose the end of what they had, never something in the middle. So nothing is recorded that builds on lost data:
the round is refused with ProgressMoved, and the next one begins from the present progress. No server's name is used, so
the result is the same behind an address that leads to another server, behind a proxy, and on nodes that share their
data. Epochs grow by random steps, so servers whose histories diverged have none in common.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Collection, Sequence

import pymysql

from consumer.errors import LeaseHeld, ProgressMoved
from consumer.sink.mysql.server.connection import SESSION_MARK, Purpose, check_session, flavor_from_greeting
from consumer.sink.mysql.server.errors import MISSING, errno
from consumer.sink.progress_sql import holder_text

TIDB_SLOTS = 64
"""The number of rows of a lane on TiDB. TiDB has no share locks: a transaction locks one row at random, and a new epoch
locks them all. Other servers use only the first row. So does the driver's lane, which has one transaction at a time."""

DRIVER, STATEMENTS, LOADS = 0, 1, 2
"""Lanes: of the driver's own transactions, of running statements, and the first lane of the loads."""

GENERATION = "SELECT CONCAT_WS(' ', MAX(epoch), MAX(holder), MAX(since)) FROM storage_consumer.lease WHERE name = {}"
"""The query for a text that changes whenever a consumer takes the target under that name, here or on a replica that
took over."""

_FENCE_WAIT_SECONDS = 1500
_BATCH = 500


def check_epoch(cursor: pymysql.cursors.Cursor, name: str, epoch: int, lane: int, driver: int = 0) -> None:
    """The first statement of every write transaction except the driver's own. Keeps `epoch` in force in `lane` until
    the transaction ends. Raises LeaseHeld if another epoch is in force. Raises ProgressMoved if the target has lost
    this epoch, or what the driver had written when its lane was at `driver`. Raises BadConfig in a session that this
    program did not set. pymysql's errors pass through."""
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
        raise lease_taken(name, *row[1:3])
    if row is None or row[0] < epoch or row[4] < driver:
        raise progress_lost(name)


def lease_taken(name: str, holder: str, since: object) -> LeaseHeld:
    """Returns the error for an epoch above this consumer's."""
    return LeaseHeld(
        f"the consumer {name!r} was taken over by {holder} since {since} UTC",
        hint="end the other one, then run again: only one consumer of a name can run",
    )


def progress_lost(name: str) -> ProgressMoved:
    """Returns the error for a target that lacks what this consumer had written: epochs never fall."""
    return ProgressMoved(
        f"the target lacks what it had recorded of the consumer {name!r}: as after a fail-over to a replica that was"
        " behind",
        hint="run again: the progress is read again, and what was lost is applied again",
    )


class DriverEpoch:
    """The driver's epoch in its lane. `now` is the epoch that its last transaction left there."""

    def __init__(self, name: str, now: int) -> None:
        self.now, self._name = now, name
        self._asked: list[int] = []
        """The epochs of later transactions whose commit was not answered. One of them may be in force."""

    @property
    def possible(self) -> tuple[int, ...]:
        """Returns the epochs of which one is in force, unless the target moved backwards or another consumer has taken
        over."""
        return (self.now, *self._asked)

    def raise_in(self, cursor: pymysql.cursors.Cursor, purpose: Purpose = "dml") -> None:
        """The first statement of the driver's write transactions; `committed` follows their commit. Raises LeaseHeld,
        ProgressMoved if the driver's last write is not there, and BadConfig in a session that was not set for
        `purpose`."""
        epoch = _raised(max(self.possible))
        try:
            raised = cursor.execute(
                "UPDATE storage_consumer.lease SET epoch = %s "
                f"WHERE name = %s AND slot = 0 AND epoch IN %s AND {SESSION_MARK} = %s",
                (epoch, self._name, self.possible, purpose),
            )
        except pymysql.MySQLError as error:
            if errno(error) not in MISSING:
                raise
            raise progress_lost(self._name) from error
        if not raised:
            self._refuse(cursor, purpose)
        self.asked(epoch)

    def asked(self, epoch: int) -> None:
        """Notes that the current transaction leaves `epoch`. Call this before its commit, whose answer may be lost."""
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
        raise progress_lost(self._name) if row is None or row[0] < self.now else lease_taken(self._name, *row[1:])


def leave_proof(cursor: pymysql.cursors.Cursor, name: str, proof: int) -> None:
    """Writes a proof in the transaction that writes rows, or after statements in their session. It may be repeated with
    them."""
    cursor.execute("INSERT IGNORE INTO storage_consumer.proof (name, id) VALUES (%s, %s)", (name, proof))


def new_proof() -> int:
    return secrets.randbits(63)


def check_proofs(cursor: pymysql.cursors.Cursor, name: str, proofs: Sequence[int]) -> None:
    """Raises ProgressMoved unless the target has all proofs."""
    for start in range(0, len(proofs), _BATCH):
        batch = proofs[start : start + _BATCH]
        cursor.execute("SELECT COUNT(*) FROM storage_consumer.proof WHERE name = %s AND id IN %s", (name, batch))
        if cursor.fetchone()[0] < len(batch):
            raise progress_lost(name)


def forget_proofs(cursor: pymysql.cursors.Cursor, name: str) -> None:
    """Removes all proofs. Call it only when no writer is leaving one, because it locks the range."""
    cursor.execute("DELETE FROM storage_consumer.proof WHERE name = %s", (name,))


def raise_epoch(cursor: pymysql.cursors.Cursor, name: str, held: Collection[int] = ()) -> int:
    """Locks out all writers of earlier epochs, once their transactions have ended. Returns the new epoch of every lane.
    The caller has the server lock, and commits.

    `held` are the epochs that this consumer may have left in the driver's lane; without them, any epoch is accepted.
    Raises LeaseHeld if the lane has another epoch that is above the smallest of them. If the lane is below all of them,
    the target has lost commits, and that is accepted.
    """
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (_FENCE_WAIT_SECONDS,))
    for lane in (DRIVER, STATEMENTS):
        _make_lane(cursor, name, lane)
    cursor.execute(
        "SELECT epoch, holder, since FROM storage_consumer.lease WHERE name = %s ORDER BY slot FOR UPDATE", (name,)
    )
    rows = cursor.fetchall()
    current, *holder = rows[0]
    if held and current not in held and current > min(held):
        raise lease_taken(name, *holder)
    epoch = _raised(max(*held, *(row[0] for row in rows)))
    forget_proofs(cursor, name)
    cursor.execute(
        "UPDATE storage_consumer.lease SET epoch = %s, holder = %s, since = UTC_TIMESTAMP(3) WHERE name = %s",
        (epoch, holder_text(), name),
    )
    return epoch


def raise_lane(cursor: pymysql.cursors.Cursor, name: str, lane: int) -> int:
    """Locks out the writers of one load, once their transactions have ended. Returns the lane's new epoch. The caller
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
    return TIDB_SLOTS if flavor_from_greeting(cursor.connection).name == "tidb" else 1


def _raised(epoch: int) -> int:
    """Returns a greater epoch by a random step. A BIGINT has room for 10**12 steps."""
    return epoch + 1 + secrets.randbits(24)
