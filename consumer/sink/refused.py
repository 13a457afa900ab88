"""The error for a row that a target refuses. It identifies the row by a hash of its key, not by its values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pyarrow as pa

from consumer.changes.identity import identities
from consumer.codec.change_table import are_puts
from consumer.codec.rows import Values, every_refused, first_refused
from consumer.errors import RowRefused, TableError
from consumer.model.load import LoadTarget


def refused_changes(
    convert: Callable[[Values], object], values: Values, target: LoadTarget, changes: pa.Table
) -> RowRefused:
    """Returns the error for the first of `changes` whose values `convert` refuses. If such rows may be quarantined, the
    error also lists all other refused rows. `values` has one entry for each change."""
    if target.load.quarantine is None:
        wrong, error = first_refused(convert, values)
        return refused_change(error, target, changes.slice(wrong, 1))
    errors = [
        refused_change(error, target, changes.slice(wrong, 1))
        for wrong, error in islice(every_refused(convert, values), target.load.quarantine.most + 1)
    ]
    errors[0].more = tuple(row for error in errors[1:] for row in error.rows)
    return errors[0]


def refused_change(error: TableError, target: LoadTarget, change: pa.Table) -> RowRefused:
    """Returns `error` as the error of one row, the only one of `change`."""
    row, put = int(identities(change, target.key)[0]), bool(are_puts(change)[0].as_py())
    return RowRefused(error.message, hint=error.hint, table=str(target.table), row=row, put=put)
