"""Writes what writers have staged in files. The driver does so in the transaction that records it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pymysql

from consumer.changes.identity import identities
from consumer.errors import LoadFailed
from consumer.model.load import LoadOutcome, LoadTarget
from consumer.model.names import TableName
from consumer.model.progress import ProgressChange
from consumer.model.texts import count_text
from consumer.sink.common import completed_row
from consumer.sink.mysql.progress.epochs import check_proofs
from consumer.sink.mysql.progress.store import store
from consumer.sink.mysql.rows import multiset
from consumer.sink.mysql.rows.staged import drop_stage
from consumer.sink.mysql.rows.statements import by_statements, row_slices
from consumer.sink.mysql.rows.values import refused_row_named
from consumer.sink.mysql.rows.write import (
    DELETE_ROWS,
    PUT_BYTES,
    NotLoaded,
    by_load_data,
    can_load,
    make_stages,
    write_rows,
)
from consumer.sink.mysql.rows.writer import StagedKind, puts_and_deletes, read_staged_rows
from consumer.sink.mysql.server import connection as server
from consumer.sink.mysql.server.driver import Driver
from consumer.sink.mysql.server.errors import TOO_LARGE, errno, server_error
from consumer.sink.mysql.settings import MySqlSettings
from consumer.sink.mysql.target import mysql_target


def publish_staged(
    driver: Driver,
    settings: MySqlSettings,
    epoch: int,
    staged: Sequence[tuple[LoadOutcome, Sequence[str]]],
    change: ProgressChange,
    touched: Collection[TableName],
    proofs: Sequence[int],
) -> ProgressChange:
    """Writes the staged files of each outcome and records `change` in one transaction. Returns what was recorded.
    Raises LoadFailed if it is too large for the server, and the errors of `Publication.write`."""
    publisher = Publisher(settings, staged)

    def save() -> ProgressChange:
        with driver.cursor("rows") as cursor:
            publisher.prepare(cursor)
            driver.epoch.raise_in(cursor)
            with publisher.bounded():
                check_proofs(cursor, settings.name, proofs)
                written = publisher.write(cursor, epoch)
                rows = tuple(row for outcome, defaulted in written for row in completed_row(outcome, defaulted))
                recorded = replace(change, audit=change.audit + rows)
                store(cursor, settings.name, epoch, recorded, touched)
                cursor.connection.commit()
            driver.epoch.committed()
            publisher.clear(cursor)
        return recorded

    while True:
        try:
            return driver.retried(save)
        except NotLoaded:
            continue  # next by statements, which find the row that does not fit


@dataclass
class Publication:
    """The staged rows of one outcome, in the files `paths`. `number` distinguishes its stage from others in the
    session."""

    outcome: LoadOutcome
    paths: Sequence[str]
    number: int

    @cached_property
    def target(self) -> LoadTarget:
        target = self.outcome.task.target
        return replace(target, settings=replace(mysql_target(target), stage=self.number))

    @cached_property
    def _needs_stage(self) -> bool:
        return mysql_target(self.target).is_staged or self.target.ending is not None

    def prepare(self, cursor: pymysql.cursors.Cursor) -> None:
        """Prepares the session before the transaction. It ends the current one."""
        try:
            if self._needs_stage:
                make_stages(cursor, self.target, puts=True)
        except pymysql.MySQLError as error:
            raise server_error(error, "rows", table=str(self.outcome.table)) from error

    def clear(self, cursor: pymysql.cursors.Cursor) -> None:
        """Removes the stages after the transaction."""
        if self._needs_stage:
            with suppress(pymysql.MySQLError):  # the session's end removes it, too
                drop_stage(cursor, self.target)

    def write(
        self, cursor: pymysql.cursors.Cursor, settings: MySqlSettings, epoch: int, packet: int, loads: bool
    ) -> int:
        """Writes the rows in the current transaction, except those that are left out. Returns how many got the target's
        defaults. `loads` says that LOAD DATA may be tried. Raises NotLoaded, RowRefused, RowsCollide, SchemaDrift,
        CannotBeExact, and a server's errors of a write."""
        try:
            return self._write(cursor, settings, epoch, packet, loads)
        except pymysql.MySQLError as error:
            if errno(error) in TOO_LARGE:
                raise
            raise server_error(error, "rows", table=str(self.outcome.table)) from error

    def _write(
        self, cursor: pymysql.cursors.Cursor, settings: MySqlSettings, epoch: int, packet: int, loads: bool
    ) -> int:
        target, puts, deletes = self.target, [], []
        for path in self.paths:
            kind, rows = read_staged_rows(path)
            rows = self._chosen(rows)
            if not rows.num_rows:
                continue
            with refused_row_named(target, rows):
                match kind:
                    case StagedKind.CHANGES:
                        put, delete = puts_and_deletes(target, rows)
                        puts += [put] if put.num_rows else []
                        deletes += [delete] if delete.num_rows else []
                    case StagedKind.NET:
                        window = self.outcome.task.window
                        multiset.apply_counts(cursor, settings, epoch, target, rows, window, packet)
                    case StagedKind.COPIES:
                        for piece in row_slices(rows, DELETE_ROWS, PUT_BYTES):
                            multiset.make_copies(cursor, target, piece, packet)
        put_by = by_load_data if loads and can_load(target, shared=True) else by_statements
        return write_rows(cursor, target, puts, deletes, packet, put_by)

    def _chosen(self, rows: pa.Table) -> pa.Table:
        left_out = self.outcome.unpublished
        if not left_out:
            return rows
        stays = ~np.isin(identities(rows, self.target.key), np.array(sorted(left_out), np.uint64))
        return rows.filter(pa.array(stays))


class Publisher:
    """Writes what outcomes have staged, on the driver's connection. It remembers which tables LOAD DATA cannot write
    exactly, so a transaction that ended with NotLoaded can be started again."""

    def __init__(self, settings: MySqlSettings, staged: Sequence[tuple[LoadOutcome, Sequence[str]]]) -> None:
        self.settings = settings
        parts = [Publication(outcome, paths, number) for number, (outcome, paths) in enumerate(staged, 1) if paths]
        self.publications = sorted(parts, key=lambda part: part.outcome.table)
        self._by_statements: set[int] = set()
        self._none_by_load_data = False

    def prepare(self, cursor: pymysql.cursors.Cursor) -> None:
        """Prepares the session before the transaction."""
        for publication in self.publications:
            publication.prepare(cursor)

    def clear(self, cursor: pymysql.cursors.Cursor) -> None:
        """Removes the stages after the transaction."""
        for publication in self.publications:
            publication.clear(cursor)

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Wraps the transaction. Raises LoadFailed if it is too large for the server."""
        try:
            yield
        except pymysql.MySQLError as error:
            if errno(error) not in TOO_LARGE:
                raise
            raise _too_large([publication.outcome for publication in self.publications], str(error.args[-1])) from error

    def write(self, cursor: pymysql.cursors.Cursor, epoch: int) -> list[tuple[LoadOutcome, int]]:
        """Writes all in the current transaction. Returns each outcome with the number of its rows that got the target's
        defaults. Raises NotLoaded, and the errors of `Publication.write`."""
        cursor.execute("SELECT @@max_allowed_packet")
        packet = int(cursor.fetchone()[0])
        with server.short_lock_waits(cursor):
            return list(self._written(cursor, epoch, packet))

    def _written(self, cursor: pymysql.cursors.Cursor, epoch: int, packet: int) -> Iterator[tuple[LoadOutcome, int]]:
        for publication in self.publications:
            loads = not self._none_by_load_data and publication.number not in self._by_statements
            try:
                yield publication.outcome, publication.write(cursor, self.settings, epoch, packet, loads)
            except NotLoaded as reason:
                self._none_by_load_data |= reason.switched_off
                self._by_statements.add(publication.number)
                raise


def _too_large(outcomes: Sequence[LoadOutcome], reason: str) -> LoadFailed:
    rows = sum(outcome.puts + outcome.deletes for outcome in outcomes)
    largest = max(outcomes, key=lambda outcome: outcome.puts + outcome.deletes)
    return LoadFailed(
        f"the target does not take {count_text(rows, 'row')} in one transaction: {reason}",
        hint="set a smaller publish-bytes, or raise the server's limit, then run again; nothing is lost",
        table=str(largest.table),
    )
