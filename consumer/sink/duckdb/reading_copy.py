"""A copy of the file for readers, who can always open it, and in which all tables are at one moment.

The file itself says whether they are: where each table of a consumer is at the global applied-ts, none has a place of
its own. It is copied at the end of a round that has changed rows or tables, and a rename puts the copy in its place.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb

from consumer.errors import BadConfig, TargetUnavailable
from consumer.model.names import TableName
from consumer.model.progress import State
from consumer.model.texts import count_text
from consumer.sink.columnar.lock import NOT_ALLOWED
from consumer.sink.duckdb.connection import NO_ROOM, Database, is_open_elsewhere
from consumer.sink.duckdb.progress.schema import SCHEMA

log = logging.getLogger(__name__)

_CLONE = 0x40049409
"""FICLONE of Linux: the copy shares the blocks of the file, on file systems that can."""
_OUTSIDE = f"('{State.DROPPED}', '{State.EXCLUDED}')"
_NEWEST = f"SELECT count(*), max(finished) FROM {SCHEMA}.audit"
_BEHIND = (
    f"SELECT database_name, table_name, state FROM {SCHEMA}.table_progress WHERE state NOT IN {_OUTSIDE} ORDER BY ALL"
)


@dataclass
class ReadingCopy:
    """Of the file at `path`, at `to`."""

    path: str
    to: str
    _said: str = field(default="", init=False)

    def renew(self, database: Database) -> None:
        """Copy the file that `database` has at `path`, where that is due. Called with the lease held. Raises
        TargetUnavailable, and BadConfig for a file at `to` that is no copy."""
        with database.reader() as connection:
            if connection is None:
                return
            behind, newest = connection.execute(_BEHIND).fetchall(), connection.execute(_NEWEST).fetchone()
        if behind:
            self._say(behind)
        elif newest != self._newest():
            database.settle()
            with database.reader():  # nobody writes meanwhile
                self._copy()
            self._said = ""

    def _say(self, behind: list[tuple[str, str, str]]) -> None:
        """Why not, once."""
        database, table, state = behind[0]
        more = count_text(len(behind) - 1, "other table", "other tables")
        text = f"{TableName(database, table)} is not ({state}){f', nor {more}' if behind[1:] else ''}"
        if text != self._said:
            log.warning("%s stays as it was: all tables must be at one moment, and %s", self.to, text)
        self._said = text

    def _newest(self) -> object:
        """As of which change the copy is, None where there is none that can be asked."""
        if not os.path.exists(self.to):
            return None
        try:
            with duckdb.connect(self.to, read_only=True) as connection:
                return connection.execute(_NEWEST).fetchone()
        except duckdb.Error as error:
            if is_open_elsewhere(error):
                return None
            raise BadConfig(
                f"{self.to} would be replaced by a copy, and is no copy of this program",
                hint="name another file in ?copy=.. of --downstream-uri, or move that one away",
            ) from error

    def _copy(self) -> None:
        part = f"{self.to}.part"
        try:
            with open(self.path, "rb") as source, open(part, "wb") as copy:
                try:
                    fcntl.ioctl(copy, _CLONE, source.fileno())
                except OSError:
                    shutil.copyfileobj(source, copy, 1 << 24)
                copy.flush()
                os.fsync(copy.fileno())
            os.replace(part, self.to)
            with suppress(FileNotFoundError):
                os.unlink(f"{self.to}.wal")  # of somebody who wrote to the copy: it is not of this file
            folder = os.open(os.path.dirname(self.to), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
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
