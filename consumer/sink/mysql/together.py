"""The transaction that writes what is staged and records it: of one consumer, or of several that use one server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pymysql

from consumer.errors import ConsumerError, TargetBusy, TargetUnavailable
from consumer.model.load import LoadOutcome
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.sink.completed import completed
from consumer.sink.mysql.progress.epochs import check_proofs
from consumer.sink.mysql.progress.store import store
from consumer.sink.mysql.rows.load_data import NotLoaded
from consumer.sink.mysql.rows.publish import Publisher
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.settings import MySqlSettings
from consumer.target import NotOne


@dataclass(frozen=True, slots=True)
class StagedShare:
    """What one consumer has staged, in the files `paths` of each outcome, and what it records. `epoch` is its own;
    `first` tells its stages in the session from those of others."""

    settings: MySqlSettings
    driver: Driver
    epoch: int
    staged: Sequence[tuple[LoadOutcome, Sequence[str]]]
    change: ProgressChange
    touched: set[TableName]
    proofs: Sequence[int]
    first: int = 1

    def write(self, cursor: pymysql.cursors.Cursor, publisher: Publisher) -> ProgressChange:
        """In the transaction at hand; what it has recorded."""
        check_proofs(cursor, self.settings.name, self.proofs)
        written = publisher.write(cursor, self.epoch)
        rows = tuple(row for outcome, defaulted in written for row in completed(outcome, defaulted))
        recorded = replace(self.change, audit=self.change.audit + rows)
        store(cursor, self.settings.name, self.epoch, recorded, self.touched)
        return recorded


def commit_shares(shares: Sequence[StagedShare]) -> list[ProgressChange]:
    """What was recorded of each. Raises NotOne where one of them cannot be committed, and ConsumerError for all."""
    publishers = [Publisher(share.settings, share.staged, share.first) for share in shares]
    numbered = list(enumerate(zip(shares, publishers, strict=True)))
    driver = shares[0].driver

    def save() -> list[ProgressChange]:
        with driver.cursor("rows") as cursor:
            for number, (_, publisher) in numbered:
                with _of(number):
                    publisher.prepare(cursor)
            for number, (share, _) in numbered:
                with _of(number):
                    share.driver.epoch.raise_in(cursor)
            recorded = []
            for number, (share, publisher) in numbered:
                with _of(number), publisher.bounded():
                    recorded.append(share.write(cursor, publisher))
            with publishers[-1].bounded():
                cursor.connection.commit()
            for share in shares:
                share.driver.epoch.committed()
            for publisher in reversed(publishers):
                publisher.clear(cursor)
        return recorded

    while True:
        try:
            return driver.retried(save)
        except NotLoaded:
            continue  # by statements then, which find the row that does not fit


@contextmanager
def _of(number: int) -> Iterator[None]:
    """Errors that are not the server's are those of the share `number`."""
    try:
        yield
    except (TargetBusy, TargetUnavailable):
        raise
    except ConsumerError as error:
        raise NotOne(number, error) from error
