"""Rows that wait in files until the driver writes them, all of a round in one transaction. Executors write the files,
each as an Arrow file of the very rows that a session was given."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

from consumer.errors import StagedRowsGone
from consumer.model.names import TableName
from consumer.sink.staging import save

_HINT = "use --master local[*], or name a folder that all workers share: staging=.. in --downstream-uri"
_KIND = b"kind"


class Kind(StrEnum):
    """What the rows of a file ask for, as the calls of a WriteSession do: puts and deletes by key, net changes of a
    table with no key, or how many copies of a row there must be."""

    CHANGES = "changes"
    NET = "net"
    COPIES = "copies"


def wait(folder: str, table: TableName, kind: Kind, rows: pa.Table) -> str:
    """Stage `rows` of `table` in the folder of a load; the path of their file. Raises as `staging.save`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema.with_metadata({_KIND: kind.encode()})) as file:
        file.write_table(rows)
    return save(folder, table, sink.getvalue(), ".arrow", _HINT)


def waiting(path: str) -> tuple[Kind, pa.Table]:
    """The rows of a file. They are read where they lie: their pages are the system's to drop. Raises
    StagedRowsGone."""
    try:
        with pa.memory_map(path) as file:
            rows = pa.ipc.open_file(file).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise StagedRowsGone(
            f"staged rows are gone or damaged: {error}",
            hint="run again: nothing was published, and the rows are staged again",
        ) from error
    return Kind(rows.schema.metadata[_KIND].decode()), rows.replace_schema_metadata(None)
