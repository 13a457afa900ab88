"""How rows get from the first half of a large load, or of a large table's `verify`, to the second. Executor side too.

Spark's shuffle carries them on any cluster, and copies each byte several times on its way through the JVM. Where all
tasks run on the driver's machine the rows wait in files, and only the names of these go through the shuffle.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from consumer.spark.waiting import cannot_be_written, own_room


class Exchange(Protocol):
    """Goes to the tasks with the load."""

    def put(self, rows: pa.Table) -> bytes:
        """What goes through Spark for `rows`. Raises TargetUnavailable where the disk does not take them."""

    def get(self, body: pa.Buffer) -> pa.Table:
        """The rows again, in any task."""


_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
"""Cheaper than what the JVM's copies of the same bytes cost, and the network carries less."""


class Shuffled:
    """Spark carries the rows, as an Arrow IPC stream."""

    def put(self, rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
            stream.write_table(rows)
        body: bytes = sink.getvalue().to_pybytes()
        return body

    def get(self, body: pa.Buffer) -> pa.Table:
        return pa.ipc.open_stream(body).read_all()


SHUFFLED = Shuffled()


@dataclass(frozen=True, slots=True)
class InFiles:
    """The rows wait in files of `folder`, in the same form. Each process has one file: there can be very many parts."""

    folder: str

    def put(self, rows: pa.Table) -> bytes:
        path = os.path.join(self.folder, f"rows-{os.getpid()}")
        try:
            with pa.OSFile(path, "ab") as file:
                begin = file.tell()
                with pa.ipc.new_stream(file, rows.schema) as stream:
                    stream.write_table(rows)
        except OSError as error:
            raise cannot_be_written(error, self.folder) from error
        return b"%d " % begin + os.fsencode(path)

    def get(self, body: pa.Buffer) -> pa.Table:
        """They are read where they lie: their pages are the system's to drop."""
        begin, _, path = body.to_pybytes().partition(b" ")
        with pa.memory_map(os.fsdecode(path)) as file:
            file.seek(int(begin))
            return pa.ipc.open_stream(file).read_all()


@contextmanager
def in_files() -> Iterator[Exchange]:
    """In a new folder for temporary files, which goes with the load; where the process is killed, with the next start
    of Spark."""
    folder, lock = own_room()
    try:
        yield InFiles(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
