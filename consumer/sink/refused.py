"""A row that a target refuses, told by what it is and not by its values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from consumer.errors import RowRefused, TableError
from consumer.fold.identity import identities
from consumer.model.load import LoadTarget


def refused_change(error: TableError, target: LoadTarget, change: pa.Table) -> RowRefused:
    """`error` as that of the one row of `change`."""
    row, put = int(identities(change, target.key)[0]), bool(are_puts(change)[0].as_py())
    return RowRefused(error.message, hint=error.hint, table=str(target.table), row=row, put=put)


def are_puts(changes: pa.Table) -> pa.ChunkedArray:
    """Which rows of a change table, or of the net changes of a table with no key, are to be there."""
    return changes.column("put") if "put" in changes.column_names else pc.greater(changes.column("n"), 0)
