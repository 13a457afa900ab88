"""The DuckDB file, open while a round needs it; quoting; translation of DuckDB's errors to the consumer's."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb

from consumer.errors import BadConfig, ConsumerError, TargetUnavailable
from consumer.model.names import TableName
from consumer.sink.columnar.lock import NOT_ALLOWED
from consumer.sink.columnar.progress import TABLES
from consumer.sink.columnar.table import quote_name
from consumer.sink.duckdb.settings import OLDEST_STORAGE
from consumer.sink.progress_layout import SCHEMA, damaged

_NO_MEMORY = (duckdb.OutOfMemoryException, MemoryError)
_NOT_ALLOWED = tuple(os.strerror(number) for number in NOT_ALLOWED)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ROOM = tuple(os.strerror(number) for number in NO_ROOM)

_LACKS = re.compile(r"Catalog Error: Table with name (\w+) does not exist")

OPEN_SECONDS = 15.0
"""The seconds to wait for a file that is open in another process."""
_WRITTEN_TABLES = 1000
"""After rows were written to so many tables the file is closed: until then DuckDB keeps half a megabyte of memory for
each of them, which no checkpoint gives back."""

# A process that ends freezes its objects. DuckDB prints its remaining objects at its end, so these are unfrozen.
atexit.register(gc.unfreeze)


class Database:
    """Opens the file on first use. While it is open, DuckDB lets no other process open it, not even for reading."""

    def __init__(self, path: str, storage_version: str = OLDEST_STORAGE) -> None:
        """`storage_version` applies to a new file. An existing file keeps its own."""
        self._path, self._storage_version = path, storage_version
        self._connection: duckdb.DuckDBPyConnection | None = None
        self.forgotten = 0
        """Grows whenever what was read in the open file may have changed: it was closed, or a transaction failed."""
        self._kept: duckdb.DuckDBPyConnection | None = None
        self._written = 0

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yields a connection in one transaction, which is durable at the end of the context, and rolled back by any
        error. Raises TargetUnavailable, BadConfig."""
        connection = self._open()
        with self._errors_translated():
            connection.begin()
            try:
                yield connection
                connection.commit()
            except BaseException:
                self.forgotten += 1
                _roll_back(connection)
                raise

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection | None]:
        """Yields a connection for reading, None if there is no file yet. It does not create the file. Raises as
        `transaction`."""
        if self._connection is not None:
            with self._errors_translated():
                yield self._connection
        elif self._kept is not None:
            with self._errors_translated(), self._kept.cursor() as connection:
                yield connection
        elif not os.path.exists(self._path):
            yield None
        else:
            connection = self._connect(read_only=True)
            try:
                with self._errors_translated():
                    yield connection
            finally:
                connection.close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps the file open for reading while the context lasts, so that no other process writes. Readers meanwhile
        share the connection."""
        with self.reader() as connection:
            self._kept = connection
            try:
                yield
            finally:
                self._kept = None

    def remove(self) -> None:
        """Closes the file and removes it."""
        self.release()
        for path in (self._path, f"{self._path}.wal"):
            with suppress(OSError):
                os.unlink(path)

    @property
    def is_open(self) -> bool:
        """Returns whether the file is open for writing, and `reader` yields that connection."""
        return self._connection is not None

    def release(self) -> None:
        """Closes the file, so that others can open it. The next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self.forgotten += 1
        self._connection, self._written = None, 0

    def wrote_rows(self, tables: int) -> None:
        """Counts the tables to which a transaction has written rows. Closes the file after too many of them."""
        self._written += tables
        if self._written > _WRITTEN_TABLES:
            self.release()

    def settle(self) -> None:
        """Closes the file with all committed changes in it, and nothing in a separate log. Raises as `transaction`."""
        with self._errors_translated():
            self._open().execute("FORCE CHECKPOINT")
        self.release()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = self._connect(read_only=False)
        return self._connection

    def _connect(self, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Opens the file. Waits a while for another process to close it: most readers have it open for a moment
        only."""
        until = time.monotonic() + OPEN_SECONDS
        if not read_only and not os.path.exists(self._path):
            self._make()
        while True:
            try:
                return self._checked_file(duckdb.connect(self._path, read_only=read_only))
            except duckdb.Error as error:
                if not is_open_elsewhere(error) or time.monotonic() >= until:
                    raise self._translated(error) from error
            time.sleep(0.2)

    def _make(self) -> None:
        """Creates the file with its storage version, and closes it: a connection with unusual settings would keep
        others of this process from opening the file."""
        try:
            duckdb.connect(self._path, config={"storage_compatibility_version": self._storage_version}).close()
        except duckdb.InvalidInputException as error:
            raise BadConfig(
                f"DuckDB {duckdb.__version__} does not write the storage version {self._storage_version}",
                hint=f"leave ?storage-version= out, which is {OLDEST_STORAGE} then, or say latest",
            ) from error
        except duckdb.Error as error:
            raise self._translated(error) from error

    def _checked_file(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """Raises BadConfig if DuckDB opened a file of data (JSON, CSV, ..) as a view in memory: what is written there
        is lost."""
        if connection.execute("SELECT path FROM duckdb_databases() WHERE NOT internal").fetchone() == (None,):
            connection.close()
            raise self._no_duckdb_file("DuckDB reads it as data")
        return connection

    def _no_duckdb_file(self, text: str) -> BadConfig:
        return BadConfig(
            f"{self._path} is not a DuckDB file: {text}", hint="name one that this program made, or a new one"
        )

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        """Turns errors of the file or of this machine, not of a statement, into the consumer's errors."""
        try:
            yield
        except duckdb.FatalException as error:
            self.release()
            raise self._translated(error) from error
        except (duckdb.IOException, duckdb.TransactionException, *_NO_MEMORY) as error:
            raise self._translated(error) from error
        except duckdb.CatalogException as error:
            if (table := _LACKS.match(str(error))) and table[1] in TABLES:
                raise damaged(f"it lacks {SCHEMA}.{table[1]}") from error
            raise

    def _translated(self, error: duckdb.Error | MemoryError) -> ConsumerError:
        text = (str(error) or type(error).__name__).splitlines()[0]
        if is_open_elsewhere(error):
            return TargetUnavailable(
                f"{self._path} is open in another process: {text}", hint="close it there; nothing is lost"
            )
        if isinstance(error, duckdb.IOException) and ("not a valid DuckDB" in text or "Is a directory" in text):
            return self._no_duckdb_file(text)
        if isinstance(error, duckdb.CatalogException) and "in-memory" in text:
            return self._no_duckdb_file("DuckDB reads it as data")
        if any(said in text for said in _NOT_ALLOWED):
            hint = "let this user read and write it and its folder, or name another file (--downstream-uri)"
            return BadConfig(f"{self._path} cannot be used: {text}", hint=hint)
        room = any(said in text for said in _NO_ROOM)
        if "replaying WAL" in text and not room:
            return BadConfig(
                f"{self._path} cannot be opened with the log beside it, {self._path}.wal: {text}",
                hint="if the file was put there from a backup, move the log away; else bring back the file that the log"
                " belongs to",
            )
        hint = "make room on its disk, then run again" if room else "try again"
        return TargetUnavailable(f"{self._path} cannot be used: {text}", hint=f"{hint}; nothing is lost")


def lacks_memory(error: ConsumerError) -> bool:
    """Returns whether `error` says that the current step needs more memory than DuckDB may use."""
    return isinstance(error.__cause__, _NO_MEMORY)


def is_open_elsewhere(error: Exception) -> bool:
    """Returns whether DuckDB says that another process has the file open."""
    return "could not set lock" in str(error).lower()


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Rolls back. After an error in COMMIT, DuckDB has already ended the transaction: it cannot and need not be rolled
    back."""
    try:
        connection.rollback()
    except duckdb.Error:
        return


def qualified_name(connection: duckdb.DuckDBPyConnection, name: TableName) -> str:
    """Returns ``catalog.schema.table``: in three parts, because a database can have the name of the file."""
    return f"{schema_name(connection, name.database)}.{quote_name(name.table)}"


def schema_name(connection: duckdb.DuckDBPyConnection, database: str) -> str:
    """Returns ``catalog.schema``, the DuckDB schema of an upstream database."""
    return f"{quote_name(catalog(connection))}.{quote_name(database)}"


def catalog(connection: duckdb.DuckDBPyConnection) -> str:
    """Returns DuckDB's name for the file: its name without the suffix."""
    return str(connection.execute("SELECT current_database()").fetchall()[0][0])
