"""A copy of the file for readers. They can always open it, and all its tables are complete at one moment.

The progress of each consumer of the file says whether they are (`Progress.incomplete`). The file is copied at the end
of a round that has changed rows or tables, and a rename puts the copy in place.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb

from consumer.codec import protocol_of
from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.load import LoadOutcome, Purpose
from consumer.model.process import put_in_place
from consumer.model.texts import count_text
from consumer.model.times import MAX_TSO
from consumer.sink import progress_sql
from consumer.sink.columnar.lock import NOT_ALLOWED, FileLock
from consumer.sink.columnar.progress import FileTables
from consumer.sink.duckdb.connection import NO_ROOM, Database, is_open_elsewhere
from consumer.sink.progress_layout import SCHEMA

log = logging.getLogger(__name__)

_CLONE = 0x40049409
"""FICLONE of Linux: the copy shares the blocks of the file, on file systems that support it."""
_NEWEST = f"SELECT count(*), max(finished) FROM {SCHEMA}.audit"
_WHOSE = f"SELECT name, upstream FROM {SCHEMA}.consumer"


@dataclass
class ReadingCopy:
    """The copy, at `to`, of the file at `path`. One consumer at a time makes it, in the folder `making`."""

    path: str
    to: str
    _said: str = field(default="", init=False)
    _lock: FileLock = field(init=False)

    def __post_init__(self) -> None:
        self._lock = FileLock(self.making, "copy")

    @property
    def making(self) -> str:
        """Returns a folder next to the copy, so that a rename can move the complete file from there."""
        return f"{self.to}.making"

    @property
    def _part(self) -> str:
        return os.path.join(self.making, "part")

    def take(self, database: Database) -> None:
        """Makes this consumer the one that makes the copy. Raises LeaseHeld while another consumer does, BadConfig for
        a file at `to` that is not one of the file's copies, and for a folder that cannot be written,
        TargetUnavailable."""
        self._lock.take()
        self._drop_part()
        with database.reader() as connection:
            own_consumers = set() if connection is None else set(connection.execute(_WHOSE).fetchall())
        theirs = self._ask(_WHOSE)
        if theirs and own_consumers.isdisjoint(theirs):
            name, upstream = min(theirs)
            raise BadConfig(
                f"{self.to} would be replaced by a copy, and is one of another replica:"
                f" of consumer {name!r} of {upstream}",
                hint="name another file in ?copy=.. of --downstream-uri, or move that one away",
            )

    def release(self) -> None:
        """Releases the lock. It may be called twice."""
        self._lock.release()

    def check(self, outcomes: Sequence[LoadOutcome]) -> None:
        """Raises BadConfig for rows of which it is unknown whether they belong to the copy's moment."""
        why, hint = "", "leave ?copy=.. out of --downstream-uri"
        for outcome in outcomes:
            if outcome.task.dialect.timeless:
                why = f"rows of {outcome.table} do not say when they were committed"
                dated = protocol_of(outcome.task.dialect).commit_ts
                hint = f"set {dated}, and have it write to a new prefix; or {hint}"
            elif outcome.task.window.end == MAX_TSO and outcome.task.target.load.purpose is not Purpose.MEND:
                why = "without `metadata` no moment is known at which they are complete"
        if why:
            raise BadConfig(f"{self.to} cannot have all tables at one moment: {why}", hint=hint)

    def renew(self, database: Database) -> None:
        """Copies the file, which `database` has at `path`, if that is due. Called after `take`. Raises
        TargetUnavailable, and BadConfig for a file at `to` that is no copy."""
        with database.reader() as connection:
            if connection is None:
                return
            newest, progress = connection.execute(_NEWEST).fetchall(), FileTables(connection)
            names = progress_sql.consumers(progress)
            incomplete = [part for name in names for part in progress_sql.read_progress(progress, name).incomplete()]
        if incomplete:
            self._say(incomplete)
        elif newest != self._ask(_NEWEST):
            database.settle()
            with database.reader():  # keeps others from writing
                self._copy()
            self._said = ""

    def _say(self, incomplete: Sequence[tuple[str, str]]) -> None:
        """Logs once why the copy is not renewed."""
        what, how = incomplete[0]
        others = len({other for other, _ in incomplete} - {what})
        more = f" ({count_text(others, 'other table', 'other tables')} too)" if others else ""
        text = f"{what} {how}{more}"
        if text != self._said:
            log.warning("%s stays as it was: all tables must be complete at one moment, and %s", self.to, text)
        self._said = text

    def _ask(self, query: str) -> list[tuple[object, ...]]:
        """Returns the copy's answer to a query, nothing if there is no copy or it cannot be opened. Raises BadConfig
        for another file."""
        if not os.path.exists(self.to):
            return []
        try:
            with duckdb.connect(self.to, read_only=True) as connection:
                rows: list[tuple[object, ...]] = connection.execute(query).fetchall()
                return rows
        except duckdb.Error as error:
            if is_open_elsewhere(error):
                return []
            raise BadConfig(
                f"{self.to} would be replaced by a copy, and is no copy of this program",
                hint="name another file in ?copy=.. of --downstream-uri, or move that one away",
            ) from error

    def _copy(self) -> None:
        try:
            with open(self.path, "rb") as source, open(self._part, "wb") as copy:
                with suppress(FileNotFoundError):
                    os.fchmod(copy.fileno(), stat.S_IMODE(os.stat(self.to).st_mode))
                try:
                    fcntl.ioctl(copy, _CLONE, source.fileno())
                except OSError:
                    shutil.copyfileobj(source, copy, 1 << 24)
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.to}.wal")  # somebody wrote to the old copy; the log is not of the new one
                put_in_place(copy, self.to)
        except OSError as error:
            self._drop_part()  # the replica itself may need the space
            if error.errno in NOT_ALLOWED:
                raise BadConfig(
                    f"the copy {self.to} cannot be written: {error.strerror}",
                    hint="let this user write to its folder, or name another file in ?copy=.. of --downstream-uri",
                ) from error
            room = error.errno in NO_ROOM
            raise TargetUnavailable(
                f"the copy {self.to} cannot be written: {error.strerror}",
                hint=f"{'make room on its disk, then run' if room else 'try'} again; nothing is lost",
            ) from error

    def _drop_part(self) -> None:
        with suppress(OSError):
            os.unlink(self._part)
