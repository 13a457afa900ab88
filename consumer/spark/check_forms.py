"""The rows that a table that is no mirror must have, made of upstream's changes in one bucket, which has all changes of
its keys. Executor side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from consumer.codec.batches import META, Flags, Ints, change_schema
from consumer.fold.forms import added, times
from consumer.fold.identity import key_codes
from consumer.model.check import CheckTask, Forms
from consumer.model.forms import FormKind
from consumer.model.names import MAX_TSO
from consumer.target import Comparer

Added = Sequence["pa.Array | pa.ChunkedArray"]
"""The values of the columns that a form adds, in its order, as change tables have them."""


def formed_eras(task: CheckTask, eras: Mapping[int, pa.Table], comparer: Comparer) -> Mapping[int, pa.Table]:
    """`eras` have the finally folded changes of each era, with the values of upstream's columns in their normal form;
    what comes has those that the form adds too. In a form that keeps rows that ended each row is a put."""
    forms = task.forms
    if forms is None or not eras:
        return eras
    values: dict[int, Added] = {number: added(rows, task.eras[number].task) for number, rows in eras.items()}
    if forms.ends and forms.kind is FormKind.SOFT_DELETE:
        values = {number: [times(_end_times(rows, forms))] for number, rows in eras.items()}
    if forms.ends and forms.kind is FormKind.APPEND:
        eras, values = _with_ends(eras, values, forms)
    keeps = forms.kind in (FormKind.APPEND, FormKind.SOFT_DELETE)
    return {number: _valued(task, rows, values[number], comparer, keeps) for number, rows in eras.items()}


def _end_times(rows: pa.Table, forms: Forms) -> Ints:
    """When each row ended: by its own change, or by the first statement behind it; 0 for never."""
    put, ts = rows.column("put").to_numpy(), rows.column("ts").to_numpy()
    ends = _first_end(ts, forms)
    return np.where(put, np.where(ends == MAX_TSO, 0, ends), ts)


def _with_ends(
    eras: Mapping[int, pa.Table], values: Mapping[int, Added], forms: Forms
) -> tuple[dict[int, pa.Table], dict[int, Added]]:
    """With a row that is gone for each one that was there when a statement ended all of them."""
    numbers = sorted(eras)
    codes, _ = key_codes([_of_all(eras, numbers, f"c{position}") for position in forms.key])
    ts, put = (_of_all(eras, numbers, name).to_numpy() for name in ("ts", "put"))
    ends = _first_end(ts, forms)
    ended = put & (ends < next_changes(codes, ts, put))
    found, more, begin = dict[int, pa.Table](), dict[int, Added](), 0
    names = dict(forms.ends)
    for number in numbers:
        rows = eras[number]
        of_era = slice(begin, begin := begin + rows.num_rows)
        gone, at = rows.filter(pa.array(ended[of_era])), ends[of_era][ended[of_era]]
        versions = pa.array(at).cast(pa.large_string())
        tables = pa.array([names[version] for version in at.tolist()], pa.large_string())
        closing = [pa.repeat(pa.scalar("D", pa.large_string()), gone.num_rows), versions, tables, versions]
        found[number] = pa.concat_tables([rows, gone])
        more[number] = [_together(*both) for both in zip(values[number], closing, strict=True)]
    return found, more


def next_changes(codes: Ints, ts: Ints, put: Flags) -> Ints:
    """When the next change of each row's key was, MAX_TSO for none. At one commit-ts a row that goes is before the one
    that comes."""
    order = np.lexsort((put, ts, codes))
    later = np.full(len(ts), MAX_TSO)
    same = codes[order[1:]] == codes[order[:-1]]
    later[order[:-1][same]] = ts[order[1:]][same]
    return later


def _first_end(ts: Ints, forms: Forms) -> Ints:
    """The first statement that ended rows at or behind each commit-ts, MAX_TSO for none."""
    versions = np.array([version for version, _ in forms.ends] + [MAX_TSO], np.int64)
    return versions[np.searchsorted(versions, ts, side="left")]


def _valued(task: CheckTask, rows: pa.Table, values: Added, comparer: Comparer, keeps: bool) -> pa.Table:
    forms, schema = task.forms, change_schema(task.target)
    assert forms is not None
    kinds = schema.types[META:]
    raw = [pa.nulls(rows.num_rows, kind) for kind in kinds]
    for position, at in forms.added.items():
        raw[position] = _together(values[at]).cast(kinds[position])
    normal = comparer.expected(pa.table(raw, names=schema.names[META:])) if forms.added else rows
    for position in forms.added:
        rows = _with(rows, f"c{position}", normal.column(f"c{position}"))
        if task.mending:
            rows = _with(rows, f"r{position}", pa.chunked_array([raw[position]]))
    return _with(rows, "put", pa.chunked_array([np.ones(rows.num_rows, np.bool_)])) if keeps else rows


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def _of_all(eras: Mapping[int, pa.Table], numbers: Sequence[int], name: str) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for number in numbers for chunk in eras[number].column(name).chunks])


def _together(*parts: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())
