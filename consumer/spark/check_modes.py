"""The rows that a table that is no mirror must have, made of upstream's changes in one bucket, which has all changes of
its keys. Executor side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from consumer.changes.identity import key_codes
from consumer.changes.table_modes import added, next_changes, times, versions
from consumer.codec.change_table import META, Ints, change_schema
from consumer.model.check import CheckTask, Modes
from consumer.model.table_modes import ModeKind
from consumer.model.times import MAX_TSO
from consumer.target import Comparer

Added = Sequence["pa.Array | pa.ChunkedArray"]
"""The values of the columns that a mode adds, in its order, as change tables have them."""


def formed_eras(task: CheckTask, eras: Mapping[int, pa.Table], comparer: Comparer) -> Mapping[int, pa.Table]:
    """`eras` have the finally folded changes of each era, with the values of upstream's columns in their normal form;
    what comes has those that the mode adds too. In a mode that keeps rows that ended each row is a put."""
    modes = task.modes
    if modes is None or not eras:
        return eras
    values: dict[int, Added]
    match modes.kind:
        case ModeKind.HISTORY:
            eras, values = _versions(eras, modes)
        case ModeKind.SOFT_DELETE:
            values = {number: [times(_end_times(rows, modes))] for number, rows in eras.items()}
        case _:
            values = {number: added(rows, task.eras[number].task) for number, rows in eras.items()}
            if modes.ends:
                eras, values = _with_ends(eras, values, modes)
    return {number: _valued(task, rows, values[number], comparer) for number, rows in eras.items()}


def _versions(eras: Mapping[int, pa.Table], modes: Modes) -> tuple[dict[int, pa.Table], dict[int, Added]]:
    """The rows that came, each up to the next change of its key or to a statement that ended all rows."""
    found, values = dict[int, pa.Table](), dict[int, Added]()
    for number, rows, ts, until, ends in _followed(eras, modes):
        came = rows.column("put").to_numpy()
        found[number] = rows.filter(pa.array(came))
        values[number] = versions(ts[came], np.minimum(until, ends)[came])
    return found, values


def _end_times(rows: pa.Table, modes: Modes) -> Ints:
    """When each row ended: by its own change, or by the first statement behind it; 0 for never."""
    put, ts = rows.column("put").to_numpy(), rows.column("ts").to_numpy()
    ends = _first_end(ts, modes)
    return np.where(put, np.where(ends == MAX_TSO, 0, ends), ts)


def _with_ends(
    eras: Mapping[int, pa.Table], values: Mapping[int, Added], modes: Modes
) -> tuple[dict[int, pa.Table], dict[int, Added]]:
    """With a row that is gone for each one that was there when a statement ended all of them."""
    found, more = dict[int, pa.Table](), dict[int, Added]()
    statements = np.array([version for version, _ in modes.ends], np.int64)
    names = pa.array([name for _, name in modes.ends], pa.large_string())
    for number, rows, _, until, ends in _followed(eras, modes):
        ended = rows.column("put").to_numpy() & (ends < until)
        gone, at = rows.filter(pa.array(ended)), ends[ended]
        version = pa.array(at).cast(pa.large_string())
        table = names.take(pa.array(np.searchsorted(statements, at)))
        closing = [pa.repeat(pa.scalar("D", pa.large_string()), gone.num_rows), version, table, version]
        found[number] = pa.concat_tables([rows, gone])
        more[number] = [_together(*both) for both in zip(values[number], closing, strict=True)]
    return found, more


def _followed(eras: Mapping[int, pa.Table], modes: Modes) -> Iterator[tuple[int, pa.Table, Ints, Ints, Ints]]:
    """Each era's number and rows; of each row its commit-ts, that of the next change of its key, and the first
    statement behind it that ended all rows; MAX_TSO for none."""
    numbers, begin = sorted(eras), 0
    codes, _ = key_codes([_of_all(eras, numbers, f"c{position}") for position in modes.key])
    ts, put = (_of_all(eras, numbers, name).to_numpy() for name in ("ts", "put"))
    until, ends = next_changes(codes, ts, put), _first_end(ts, modes)
    for number in numbers:
        of_era = slice(begin, begin := begin + eras[number].num_rows)
        yield number, eras[number], ts[of_era], until[of_era], ends[of_era]


def _first_end(ts: Ints, modes: Modes) -> Ints:
    """The first statement that ended rows at or behind each commit-ts, MAX_TSO for none."""
    versions = np.array([version for version, _ in modes.ends] + [MAX_TSO], np.int64)
    return versions[np.searchsorted(versions, ts, side="left")]


def _valued(task: CheckTask, rows: pa.Table, values: Added, comparer: Comparer) -> pa.Table:
    modes, schema = task.modes, change_schema(task.target)
    assert modes is not None
    kinds = schema.types[META:]
    raw = [pa.nulls(rows.num_rows, kind) for kind in kinds]
    for position, at in modes.added.items():
        raw[position] = _together(values[at]).cast(kinds[position])
    normal = comparer.expected(pa.table(raw, names=schema.names[META:])) if modes.added else rows
    for position in modes.added:
        rows = _with(rows, f"c{position}", normal.column(f"c{position}"))
        if task.mending:
            rows = _with(rows, f"r{position}", pa.chunked_array([raw[position]]))
    if modes.kind in (ModeKind.CHOSEN, ModeKind.MERGE):
        return rows
    return _with(rows, "put", pa.chunked_array([np.ones(rows.num_rows, np.bool_)]))


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def _of_all(eras: Mapping[int, pa.Table], numbers: Sequence[int], name: str) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for number in numbers for chunk in eras[number].column(name).chunks])


def _together(*parts: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())
