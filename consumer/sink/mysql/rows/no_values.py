"""Rows with an invalid value of a type, for which no statement can be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from consumer.codec.change_table import are_puts
from consumer.errors import CorruptFile, RowRefused
from consumer.model.load import LoadTarget
from consumer.sink.mysql.rows.values import by_key, key_literals, literals
from consumer.sink.refused import refused_changes


@contextmanager
def rows_told(target: LoadTarget, changes: pa.Table) -> Iterator[None]:
    """Turns a CorruptFile about values of `changes` into a RowRefused that identifies the row."""
    try:
        yield
    except CorruptFile as error:
        refused = _refused(target, changes)
        if refused is None:
            raise
        raise refused from error


def _refused(target: LoadTarget, changes: pa.Table) -> RowRefused | None:
    """The error of the first of `changes` with an invalid value, None if all are valid."""
    try:
        check_values(target, changes)
    except CorruptFile:
        return refused_changes(partial(check_values, target), changes, target, changes)
    return None


def check_values(target: LoadTarget, changes: pa.Table) -> None:
    """Raises CorruptFile if `changes` have an invalid value."""
    if target.key:
        by_key(target, changes)
    key_literals(target, changes, target.key or tuple(range(len(target.columns))))
    literals(target, changes.filter(are_puts(changes)))
