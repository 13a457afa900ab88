"""Turns changes of upstream into the rows of a target that is no mirror: which changes remain, and what the added
columns hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.identity import first_of_equal, key_codes, last_of, row_codes
from consumer.changes.keyed import fold_keyed
from consumer.codec import protocol_of
from consumer.codec.change_table import UPDATE, Flags, Ints, change_schema
from consumer.model.load import LoadTask, ModeLoad
from consumer.model.table_modes import COMMIT_TS, DELETED_AT, OP, SOURCE, TABLE, VERSION, ModeKind, source_of
from consumer.model.times import LOGICAL_BITS, MAX_TSO

Values: TypeAlias = pa.Array | pa.ChunkedArray
_INSERT, _UPDATE, _DELETE, _OLD = range(4)
"""The kinds of changes; the last is the old row of an UPDATE."""


def fold(changes: pa.Table, task: LoadTask, final: bool) -> pa.Table:
    """Returns the changes of a table with a key that matter for its target; `final` as in `fold_keyed`. Folds can be
    folded again, in any grouping and order, up to the final one. Raises CannotBeExact."""
    return fold_by_columns(changes, task, task.source.key, final)


def fold_by_columns(changes: pa.Table, task: LoadTask, key: Sequence[int], final: bool = True) -> pa.Table:
    """Folds as `fold` does. The values of upstream's key are in the columns `key`. Raises CannotBeExact."""
    kind = None if task.mode_load is None else task.mode_load.mode.kind
    if kind in (ModeKind.APPEND, ModeKind.HISTORY):
        if not (final and changes.num_rows):
            return changes
        if kind is ModeKind.HISTORY:
            return _last_of_moments(changes, key)
        in_two_lines = not any(protocol_of(task.dialect).tells_updates(task.dialect))
        return _every_change(changes, key, in_two_lines)
    return fold_keyed(changes, key, final, task.parts, protocol_of(task.dialect).commit_ts)


def changes_to_write(changes: pa.Table, task: LoadTask) -> pa.Table:
    """Folds all changes of some keys of upstream to the changes of the target. Raises CannotBeExact."""
    return in_mode(fold(changes, task, final=True), task)


def in_mode(changes: pa.Table, task: LoadTask) -> pa.Table:
    """Returns finally folded `changes` as puts and deletes of the target."""
    mode_load = task.mode_load
    if mode_load is None:
        return changes
    if mode_load.mode.kind is ModeKind.HISTORY:
        return _versions(changes, task, mode_load)
    return _rows(changes, task, mode_load)


def mode_columns(changes: pa.Table, task: LoadTask) -> list[Values]:
    """Returns the values of the columns that the task's mode adds, for finally folded `changes`. The values of
    upstream's columns do not matter. For versions of rows there is `version_columns`."""
    return (
        [_VALUES[usual](changes, task, task.mode_load) for usual in task.mode_load.mode.usual] if task.mode_load else []
    )


def _every_change(changes: pa.Table, key: Sequence[int], in_two_lines: bool) -> pa.Table:
    """Returns one row for each change of upstream, however often it was written.

    In one transaction a key has at most one row that goes, and one that comes. The old row of an UPDATE remains only
    where it gave its key away. An UPDATE that moved its row to another key is a DELETE and an INSERT. `in_two_lines`:
    the missing old row shows such an UPDATE; else the decoder has already split it.
    """
    codes, count = key_codes([changes.column(f"c{position}") for position in key])
    moments, count = row_codes([pa.chunked_array([codes]), changes.column("ts")])
    kinds = _kinds(changes)
    slots = moments * 4 + kinds
    kept = np.zeros(changes.num_rows, np.bool_)
    kept[np.unique(slots, return_index=True)[1]] = True
    updated, deleted = _has(moments, count, kinds == _UPDATE), _has(moments, count, kinds == _DELETE)
    if in_two_lines:
        moved = (kinds == _UPDATE) & ~_has(moments, count, kinds == _OLD)[moments]
        updated &= ~_has(moments, count, moved)
        update = pa.array(changes.column(UPDATE).to_numpy() & ~moved)
        changes = changes.set_column(changes.column_names.index(UPDATE), UPDATE, update)
    kept &= ~((kinds == _OLD) & (updated | deleted)[moments])
    kept &= ~((kinds == _INSERT) & updated[moments])  # some releases write an UPDATE as an INSERT
    return changes if kept.all() else changes.filter(pa.array(kept))


def _last_of_moments(changes: pa.Table, key: Sequence[int]) -> pa.Table:
    """Returns what each transaction left of a key: the row that came, if one did."""
    codes, _ = key_codes([changes.column(f"c{position}") for position in key])
    moments, count = row_codes([pa.chunked_array([codes]), changes.column("ts")])
    order = np.argsort(changes.column("put").to_numpy(), kind="stable")
    kept = np.zeros(changes.num_rows, np.bool_)
    kept[last_of(moments[order], order, count)] = True
    return changes if kept.all() else changes.filter(pa.array(kept))


def _has(moments: Ints, count: int, which: Flags) -> Flags:
    """Returns for each moment whether one of the rows `which` is of it."""
    flags: Flags = np.zeros(count, np.bool_)
    flags[moments[which]] = True
    return flags


def _kinds(changes: pa.Table) -> Ints:
    put, update = (changes.column(name).to_numpy() for name in ("put", "update"))
    kinds: Ints = np.where(put, np.where(update, _UPDATE, _INSERT), np.where(update, _OLD, _DELETE))
    return kinds


def _rows(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Table:
    puts = np.ones(changes.num_rows, np.bool_) if mode_load.mode.keeps_ended else changes.column("put").to_numpy()
    return _written(changes, puts, mode_columns(changes, task), task, mode_load)


def _versions(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Table:
    """Returns a put for each row that came, valid up to the next change of its key, and a delete for the first change
    of each key, which ends the version that the target has."""
    if not changes.num_rows:
        return change_schema(task.target).empty_table()
    codes, _ = key_codes([changes.column(f"c{position}") for position in task.source.key])
    ts, put = (changes.column(name).to_numpy() for name in ("ts", "put"))
    until = next_changes(codes, ts, put)
    first = np.lexsort((ts, codes))
    first = first[first_of_equal(codes[first])]
    rows = np.concatenate([np.flatnonzero(put), first])
    puts = np.arange(len(rows)) < len(rows) - len(first)
    return _written(changes.take(pa.array(rows)), puts, version_columns(ts[rows], until[rows]), task, mode_load)


def version_columns(ts: Ints, until: Ints) -> list[pa.Array]:
    """Returns the values of the columns that are added to versions that began at `ts` and ended at `until`, which is
    MAX_TSO for the current ones."""
    current = until == MAX_TSO
    current_flags = pa.array(["0", "1"], pa.large_string()).take(pa.array(current.astype(np.int64)))
    return [
        commit_times(ts),
        commit_times(np.where(current, 0, until)),
        current_flags,
        pa.array(ts).cast(pa.large_string()),
    ]


def next_changes(codes: Ints, ts: Ints, put: Flags) -> Ints:
    """Returns the ts of the next change of each row's key, MAX_TSO if there is none. At one commit-ts a row that goes
    comes before the one that comes."""
    order = np.lexsort((put, ts, codes))
    later: Ints = np.full(len(ts), MAX_TSO)
    same = codes[order[1:]] == codes[order[:-1]]
    later[order[:-1][same]] = ts[order[1:]][same]
    return later


def _written(changes: pa.Table, puts: Flags, values: Sequence[Values], task: LoadTask, mode_load: ModeLoad) -> pa.Table:
    """Returns the rows of `changes` with the values of the added columns."""
    upstream = (changes.column(f"c{position}") for position in range(len(mode_load.source.columns)))
    all_columns = [*upstream, *values]
    meta = [changes.column(name) for name in ("ts", "series", "rank")]
    columns = [meta[0], pa.array(puts), *meta[1:], *(all_columns[place] for place in mode_load.places)]
    return pa.Table.from_arrays(columns, schema=change_schema(task.target))


def _op(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Array:
    return pa.array(["I", "U", "D", "D"], pa.large_string()).take(pa.array(_kinds(changes)))


def _commit_ts(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.ChunkedArray:
    return pc.cast(changes.column("ts"), pa.large_string())


def _table(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Array:
    return pa.repeat(pa.scalar(str(task.source.table), pa.large_string()), changes.num_rows)


def _source(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Array:
    return pa.repeat(pa.scalar(source_of(task.source.table), pa.large_string()), changes.num_rows)


def _version(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Array:
    """Returns the last version below each commit-ts. The name of a folder does not show it."""
    versions = np.array(mode_load.versions, np.int64)
    positions = np.searchsorted(versions, changes.column("ts").to_numpy(), side="left") - 1
    return pc.cast(pa.array(versions[np.maximum(positions, 0)]), pa.large_string())


def _deleted_at(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.ChunkedArray:
    return commit_times(np.where(changes.column("put").to_numpy(), 0, changes.column("ts").to_numpy()))


def commit_times(ts: Ints) -> pa.Array:
    """Returns the times of commit-ts, in UTC; of 0 it is NULL."""
    moments = pa.array((ts >> LOGICAL_BITS) * 1000, mask=ts == 0)
    return moments.cast(pa.timestamp("us")).cast(pa.large_string())


_VALUES: Mapping[str, Callable[[pa.Table, LoadTask, ModeLoad], pa.Array | pa.ChunkedArray]] = {
    OP: _op,
    COMMIT_TS: _commit_ts,
    TABLE: _table,
    VERSION: _version,
    DELETED_AT: _deleted_at,
    SOURCE: _source,
}
