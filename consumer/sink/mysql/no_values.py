"""Rows with what is no value of its type, which no statement can be made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.refused import first_refused
from consumer.errors import CorruptFile, RowRefused
from consumer.fold.identity import identities
from consumer.model.load import LoadTarget
from consumer.sink.mysql.values import by_key, key_literals, literals


@contextmanager
def rows_told(target: LoadTarget, changes: pa.Table) -> Iterator[None]:
    """Makes of a CorruptFile, where it is about values of `changes`, a RowRefused that tells the row."""
    try:
        yield
    except CorruptFile as error:
        refused = _refused(target, changes)
        if refused is None:
            raise
        raise refused from error


def _refused(target: LoadTarget, changes: pa.Table) -> RowRefused | None:
    """The error of the first of `changes` that has what is no value, None where all have values."""
    try:
        _convert(target, changes)
    except CorruptFile:
        wrong, found = first_refused(partial(_convert, target), changes)
        change = changes.slice(wrong, 1)
        row, put = int(identities(change, target.key)[0]), bool(_is_put(change)[0].as_py())
        return RowRefused(found.message, hint=found.hint, table=str(target.table), row=row, put=put)
    return None


def _convert(target: LoadTarget, changes: pa.Table) -> None:
    """Raises CorruptFile where `changes` have what is no value."""
    if target.key:
        by_key(target, changes)
    key_literals(target, changes, target.key or tuple(range(len(target.columns))))
    literals(target, changes.filter(_is_put(changes)))


def _is_put(changes: pa.Table) -> pa.ChunkedArray:
    return changes.column("put") if "put" in changes.column_names else pc.greater(changes.column("n"), 0)
