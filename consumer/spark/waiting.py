"""Change tables that wait on disk until they are to be written. Executor side."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import IO

import pyarrow as pa

from consumer.errors import TargetUnavailable
from consumer.model.process import new_folder


class Waiting:
    """Tables in a temporary file of this process, made for the first one and gone with it."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, table: pa.Table) -> None:
        """Keep `table`. Raises TargetUnavailable where the disk does not take it."""
        if not table.num_rows:
            return
        try:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  # closed on leaving
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
        except OSError as error:
            raise cannot_be_written(error) from error

    def __iter__(self) -> Iterator[pa.Table]:
        """The tables, in the order in which they came, read one at a time."""
        if self._file is None:
            return
        end = self._file.tell()
        self._file.seek(0)
        while self._file.tell() < end:
            yield pa.ipc.open_stream(self._file).read_all()


def own_room() -> tuple[str, int]:
    """A new folder of this process, and its lock, as `new_folder`. Raises TargetUnavailable."""
    try:
        return new_folder("spark")
    except OSError as error:
        raise cannot_be_written(error) from error


def cannot_be_written(error: OSError | str, folder: str | None = None) -> TargetUnavailable:
    """A folder for temporary files takes no more; without `folder` the one where all of them go, if there is one."""
    named = folder or tempfile.tempdir
    return TargetUnavailable(
        f"the folder for temporary files{f' {named}' if named else ''} cannot be written: {error}",
        hint="make room, or set TMPDIR to another folder, then run again",
    )
