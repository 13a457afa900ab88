"""The DuckDB file, open while a round needs it; quoting; DuckDB's errors as the consumer's."""

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
from consumer.sink.columnar.table import quote
from consumer.sink.duckdb.settings import OLDEST_STORAGE
from consumer.sink.progress_layout import SCHEMA, damaged

_NO_MEMORY = (duckdb.OutOfMemoryException, MemoryError)
_NOT_ALLOWED = tuple(os.strerror(number) for number in NOT_ALLOWED)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ROOM = tuple(os.strerror(number) for number in NO_ROOM)

_LACKS = re.compile(r"Catalog Error: Table with name (\w+) does not exist")

OPEN_SECONDS = 15.0
"""How long a file that is open in another process is waited for."""

# A process that ends freezes what is there. At its end DuckDB prints what of its own is left: that is looked at again.
atexit.register(gc.unfreeze)


class Database:
    """Opens the file on first use. While it is open, DuckDB lets no other process open it, not even to read."""

    def __init__(self, path: str, storage_version: str = OLDEST_STORAGE) -> None:
        """`storage_version` is that of a file that is made; one that is there keeps its own."""
        self._path, self._storage_version = path, storage_version
        self._connection: duckdb.DuckDBPyConnection | None = None
        self.forgotten = 0
        """Grows whenever what was read in the open file may be otherwise: it was closed, or a transaction failed."""
        self._kept: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """One transaction, durable on leaving, rolled back by any error. Raises TargetUnavailable, BadConfig."""
        connection = self._open()
        with self._told():
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
        """A connection for reading; None where there is no file yet, which is not created. Raises as `transaction`."""
        if self._connection is not None:
            with self._told():
                yield self._connection
        elif self._kept is not None:
            with self._told(), self._kept.cursor() as connection:
                yield connection
        elif not os.path.exists(self._path):
            yield None
        else:
            connection = self._connect(read_only=True)
            try:
                with self._told():
                    yield connection
            finally:
                connection.close()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """The file stays open for reading, so that no other process writes; who reads meanwhile need not open it."""
        with self.reader() as connection:
            self._kept = connection
            try:
                yield
            finally:
                self._kept = None

    def remove(self) -> None:
        """Close the file and remove it."""
        self.release()
        for path in (self._path, f"{self._path}.wal"):
            with suppress(OSError):
                os.unlink(path)

    @property
    def is_open(self) -> bool:
        """Whether it is open for writing, and `reader` gives that connection."""
        return self._connection is not None

    def release(self) -> None:
        """Close the file, so that others can open it. The next use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self.forgotten += 1
        self._connection = None

    def settle(self) -> None:
        """Close the file with all that was committed in it, and nothing in a log beside it. Raises as `transaction`."""
        with self._told():
            self._open().execute("FORCE CHECKPOINT")
        self.release()

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            self._connection = self._connect(read_only=False)
        return self._connection

    def _connect(self, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Waits a while for another process to close the file: readers mostly have it for a moment."""
        until = time.monotonic() + OPEN_SECONDS
        if not read_only and not os.path.exists(self._path):
            self._make()
        while True:
            try:
                return self._of_the_file(duckdb.connect(self._path, read_only=read_only))
            except duckdb.Error as error:
                if not is_open_elsewhere(error) or time.monotonic() >= until:
                    raise self._translated(error) from error
            time.sleep(0.2)

    def _make(self) -> None:
        """Make the file, in its storage version. It is closed again: who has it open with another setting than the
        usual ones keeps others of this process from it."""
        try:
            duckdb.connect(self._path, config={"storage_compatibility_version": self._storage_version}).close()
        except duckdb.InvalidInputException as error:
            raise BadConfig(
                f"DuckDB {duckdb.__version__} does not write the storage version {self._storage_version}",
                hint=f"leave ?storage-version= out, which is {OLDEST_STORAGE} then, or say latest",
            ) from error
        except duckdb.Error as error:
            raise self._translated(error) from error

    def _of_the_file(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
        """DuckDB opens a file of data (JSON, CSV, ..) as a view in memory. What is written there is lost."""
        if connection.execute("SELECT path FROM duckdb_databases() WHERE NOT internal").fetchone() == (None,):
            connection.close()
            raise self._another_file("DuckDB reads it as data")
        return connection

    def _another_file(self, text: str) -> BadConfig:
        return BadConfig(
            f"{self._path} is not a DuckDB file: {text}", hint="name one that this program made, or a new one"
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the file or of this machine, not of a statement, as the consumer's errors."""
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
            return self._another_file(text)
        if isinstance(error, duckdb.CatalogException) and "in-memory" in text:
            return self._another_file("DuckDB reads it as data")
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
    """Whether `error` says that DuckDB may not take as much memory as the step in hand needs."""
    return isinstance(error.__cause__, _NO_MEMORY)


def is_open_elsewhere(error: Exception) -> bool:
    """Whether DuckDB says that another process has the file open."""
    return "could not set lock" in str(error).lower()


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """A transaction that DuckDB has ended by itself (an error in COMMIT) cannot be rolled back, nor need it."""
    try:
        connection.rollback()
    except duckdb.Error:
        return


def qualified(connection: duckdb.DuckDBPyConnection, name: TableName) -> str:
    """``catalog.schema.table``: in three parts, as a database can be named like the file."""
    return f"{schema(connection, name.database)}.{quote(name.table)}"


def schema(connection: duckdb.DuckDBPyConnection, database: str) -> str:
    """``catalog.schema``, the DuckDB schema of an upstream database."""
    return f"{quote(catalog(connection))}.{quote(database)}"


def catalog(connection: duckdb.DuckDBPyConnection) -> str:
    """What DuckDB calls the file: its name without the suffix."""
    return str(connection.execute("SELECT current_database()").fetchall()[0][0])
