"""Quarantines rows that the target refuses, while the others are written. This is executor code: no pyspark, no driver
code."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.identity import identities
from consumer.codec.change_table import are_puts
from consumer.errors import RowRefused
from consumer.model.bad_rows import BadRow, refused_row, too_many_error
from consumer.model.load import LoadTarget, Receipt
from consumer.model.steps import Window
from consumer.target import WriteSession

_Write = Callable[[pa.Table], Receipt]


def write(session: WriteSession, target: LoadTarget, changes: pa.Table) -> list[Receipt]:
    """Calls `session.write` without the rows that the target refuses, if they may be quarantined."""
    return _timed(_Writing(target, partial(session.write, target), divisible=not target.in_one_call), changes)


def write_multiset(session: WriteSession, target: LoadTarget, changes: pa.Table, window: Window) -> list[Receipt]:
    """Calls `session.write_multiset` in the same way: all remaining rows are one transaction."""

    def once(rows: pa.Table) -> Receipt:
        return session.write_multiset(target, rows, window)

    return _timed(_Writing(target, once, divisible=False), changes)


def write_copies(session: WriteSession, target: LoadTarget, rows: pa.Table) -> list[Receipt]:
    """Calls `session.write_copies` in the same way."""
    return _Writing(target, partial(session.write_copies, target), divisible=False).write(rows)


def _timed(writing: _Writing, rows: pa.Table) -> list[Receipt]:
    began = time.monotonic()
    *others, last = writing.write(rows)
    return [*others, replace(last, seconds=time.monotonic() - began)]


class _Writing:
    """A write that can be repeated. `divisible`: some of the rows may be written before the others."""

    def __init__(self, target: LoadTarget, once: _Write, divisible: bool) -> None:
        self._target, self._once, self._divisible = target, once, divisible
        self._found: dict[str, BadRow] = {}

    def write(self, changes: pa.Table) -> list[Receipt]:
        if self._target.load.quarantine is None:
            return [self._once(changes)]
        receipts = self._written(changes) or [Receipt(puts=0, deletes=0)]
        return [*receipts[:-1], replace(receipts[-1], quarantined=tuple(self._found.values()))]

    def _written(self, changes: pa.Table) -> list[Receipt]:
        while changes.num_rows:
            try:
                return [self._once(changes)]
            except RowRefused as error:
                if not error.of_data:
                    raise
                refused = self._refused(changes, error)
                if not refused:
                    return self._halved(changes, error)
                self._quarantine(changes, refused)
                if self._target.load.quarantine is not None and not self._target.key:
                    self._target.load.quarantine.check_kept(self._found.values())
                left = ~np.isin(np.arange(changes.num_rows), list(refused))
                changes = changes.filter(pa.array(left))
        return []

    def _refused(self, changes: pa.Table, error: RowRefused) -> Mapping[int, str]:
        """Returns those of `changes` that the error names, each with the reason."""
        if not (named := {(row, put): reason for row, put, reason in error.rows}):
            return {}
        names, puts = identities(changes, self._target.key), are_puts(changes).to_numpy()
        some = np.flatnonzero(np.isin(names, np.array([row for row, _ in named], np.uint64))).tolist()
        return {n: reason for n in some if (reason := named.get((int(names[n]), bool(puts[n])), ""))}

    def _halved(self, changes: pa.Table, error: RowRefused) -> list[Receipt]:
        """Tries the halves, deletes before puts, if the target does not say which row it refuses."""
        if changes.num_rows == 1:
            self._quarantine(changes, {0: error.message})
            return []
        if not self._divisible:
            raise error
        puts = are_puts(changes)
        if 0 < pc.sum(puts).as_py() < changes.num_rows:
            halves = changes.filter(pc.invert(puts)), changes.filter(puts)
        else:
            middle = changes.num_rows // 2
            halves = changes.slice(0, middle), changes.slice(middle)
        return [receipt for half in halves for receipt in self._written(half)]

    def _quarantine(self, changes: pa.Table, refused: Mapping[int, str]) -> None:
        chosen = changes.take(list(refused))
        names, puts = identities(chosen, self._target.key), are_puts(chosen).to_pylist()
        for row, reason, name, put in zip(chosen.to_pylist(), refused.values(), names, puts, strict=True):
            positions = range(len(self._target.names)) if put or not self._target.key else self._target.key
            values = tuple((self._target.names[n], row[f"c{n}"]) for n in positions)
            ts = row["ts"] if row.get("rank", 1) == 0 else 0
            bad = refused_row(reason, int(name), put, bool(self._target.key), ts, values)
            self._found[bad.id] = bad
            if self._target.load.quarantine is not None and len(self._found) > self._target.load.quarantine.most:
                raise too_many_error(self._target.load.quarantine.most, bad)
