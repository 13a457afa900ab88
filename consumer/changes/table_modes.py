"""Changes of upstream -> rows of a target that is no mirror: which of them remain, and what the added columns say."""

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
"""What a change is; the last is the old row of an UPDATE."""


def fold(changes: pa.Table, task: LoadTask, final: bool) -> pa.Table:
    """The changes of a table with a key that matter for its target; `final` as in `fold_keyed`. Folds can be folded
    again, in any grouping and order, up to the final one. Raises CannotBeExact."""
    return folded(changes, task, task.source.key, final)


def folded(changes: pa.Table, task: LoadTask, key: Sequence[int], final: bool = True) -> pa.Table:
    """`fold` of rows with the values of upstream's key in the columns `key`. Raises CannotBeExact."""
    kind = None if task.mode_load is None else task.mode_load.mode.kind
    if kind in (ModeKind.APPEND, ModeKind.HISTORY):
        if not (final and changes.num_rows):
            return changes
        if kind is ModeKind.HISTORY:
            return _last_of_moments(changes, key)
        in_two_lines = not any(protocol_of(task.dialect).tells_updates(task.dialect))
        return _every_change(changes, key, in_two_lines)
    return fold_keyed(changes, key, final, task.parts, protocol_of(task.dialect).commit_ts)


def to_write(changes: pa.Table, task: LoadTask) -> pa.Table:
    """The changes of the target that all changes of some keys of upstream come to. Raises CannotBeExact."""
    return in_mode(fold(changes, task, final=True), task)


def in_mode(changes: pa.Table, task: LoadTask) -> pa.Table:
    """Finally folded `changes` as puts and deletes of the target."""
    mode_load = task.mode_load
    if mode_load is None:
        return changes
    if mode_load.mode.kind is ModeKind.HISTORY:
        return _versions(changes, task, mode_load)
    return _rows(changes, task, mode_load)


def added(changes: pa.Table, task: LoadTask) -> list[Values]:
    """The values of the columns that the task's mode adds, for finally folded `changes`, of which the values of
    upstream's columns do not matter. Versions of rows have `versions`."""
    return (
        [_VALUES[usual](changes, task, task.mode_load) for usual in task.mode_load.mode.usual] if task.mode_load else []
    )


def _every_change(changes: pa.Table, key: Sequence[int], in_two_lines: bool) -> pa.Table:
    """One row for each change of upstream, however often it was written. Of one key a transaction has at most one row
    that is gone, and one that comes. The old row of an UPDATE remains only where it gave its key away. An UPDATE that
    moved its row to another key is a DELETE and an INSERT: `in_two_lines`, the missing old row shows it, else the
    decoder has seen it."""
    codes, count = key_codes([changes.column(f"c{position}") for position in key])
    moments, count = row_codes([pa.chunked_array([codes]), changes.column("ts")])
    kinds = _kinds(changes)
    slots = moments * 4 + kinds
    kept = np.zeros(changes.num_rows, np.bool_)
    kept[np.unique(slots, return_index=True)[1]] = True
    updated, gone = _has(moments, count, kinds == _UPDATE), _has(moments, count, kinds == _DELETE)
    if in_two_lines:
        moved = (kinds == _UPDATE) & ~_has(moments, count, kinds == _OLD)[moments]
        updated &= ~_has(moments, count, moved)
        update = pa.array(changes.column(UPDATE).to_numpy() & ~moved)
        changes = changes.set_column(changes.column_names.index(UPDATE), UPDATE, update)
    kept &= ~((kinds == _OLD) & (updated | gone)[moments])
    kept &= ~((kinds == _INSERT) & updated[moments])  # some releases write an UPDATE as an INSERT
    return changes if kept.all() else changes.filter(pa.array(kept))


def _last_of_moments(changes: pa.Table, key: Sequence[int]) -> pa.Table:
    """What each transaction left of a key: the row that came, if one did."""
    codes, _ = key_codes([changes.column(f"c{position}") for position in key])
    moments, count = row_codes([pa.chunked_array([codes]), changes.column("ts")])
    order = np.argsort(changes.column("put").to_numpy(), kind="stable")
    kept = np.zeros(changes.num_rows, np.bool_)
    kept[last_of(moments[order], order, count)] = True
    return changes if kept.all() else changes.filter(pa.array(kept))


def _has(moments: Ints, count: int, which: Flags) -> Flags:
    """Of each moment whether one of the rows `which` is of it."""
    found: Flags = np.zeros(count, np.bool_)
    found[moments[which]] = True
    return found


def _kinds(changes: pa.Table) -> Ints:
    put, update = (changes.column(name).to_numpy() for name in ("put", "update"))
    kinds: Ints = np.where(put, np.where(update, _UPDATE, _INSERT), np.where(update, _OLD, _DELETE))
    return kinds


def _rows(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Table:
    puts = np.ones(changes.num_rows, np.bool_) if mode_load.mode.keeps_ended else changes.column("put").to_numpy()
    return _written(changes, puts, added(changes, task), task, mode_load)


def _versions(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.Table:
    """A put for each row that came, up to the next change of its key; and a delete for the first change of each key,
    which ends the version that is there."""
    if not changes.num_rows:
        return change_schema(task.target).empty_table()
    codes, _ = key_codes([changes.column(f"c{position}") for position in task.source.key])
    ts, put = (changes.column(name).to_numpy() for name in ("ts", "put"))
    until = next_changes(codes, ts, put)
    first = np.lexsort((ts, codes))
    first = first[first_of_equal(codes[first])]
    at = np.concatenate([np.flatnonzero(put), first])
    puts = np.arange(len(at)) < len(at) - len(first)
    return _written(changes.take(pa.array(at)), puts, versions(ts[at], until[at]), task, mode_load)


def versions(ts: Ints, until: Ints) -> list[pa.Array]:
    """The values of the columns that are added to versions that began at `ts` and ended at `until`, MAX_TSO for the
    current ones."""
    current = until == MAX_TSO
    told = pa.array(["0", "1"], pa.large_string()).take(pa.array(current.astype(np.int64)))
    return [times(ts), times(np.where(current, 0, until)), told, pa.array(ts).cast(pa.large_string())]


def next_changes(codes: Ints, ts: Ints, put: Flags) -> Ints:
    """When the next change of each row's key was, MAX_TSO for none. At one commit-ts a row that goes is before the one
    that comes."""
    order = np.lexsort((put, ts, codes))
    later: Ints = np.full(len(ts), MAX_TSO)
    same = codes[order[1:]] == codes[order[:-1]]
    later[order[:-1][same]] = ts[order[1:]][same]
    return later


def _written(changes: pa.Table, puts: Flags, values: Sequence[Values], task: LoadTask, mode_load: ModeLoad) -> pa.Table:
    """The rows of `changes` with the values of the columns that are added."""
    upstream = (changes.column(f"c{position}") for position in range(len(mode_load.source.columns)))
    everything = [*upstream, *values]
    meta = [changes.column(name) for name in ("ts", "series", "rank")]
    columns = [meta[0], pa.array(puts), *meta[1:], *(everything[place] for place in mode_load.places)]
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
    """The last version below each commit-ts: what a folder is named does not say it."""
    versions = np.array(mode_load.versions, np.int64)
    at = np.searchsorted(versions, changes.column("ts").to_numpy(), side="left") - 1
    return pc.cast(pa.array(versions[np.maximum(at, 0)]), pa.large_string())


def _deleted_at(changes: pa.Table, task: LoadTask, mode_load: ModeLoad) -> pa.ChunkedArray:
    return times(np.where(changes.column("put").to_numpy(), 0, changes.column("ts").to_numpy()))


def times(ts: Ints) -> pa.Array:
    """The times of commit-ts, in UTC; of 0 NULL."""
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
