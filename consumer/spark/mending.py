"""The rows of one bucket that differ, for whoever makes them right. Executor side.

Of a table with a key, a row for each key, with the columns

kind   DELETE; UPDATE a row that is there; INSERT one that is not; ANEW: several rows have the key, and one must be left
group  which of the task's `groups` of columns the values of a put are known in
c0..   the values as change tables have them; of a DELETE those of its key, as the target's rows were read

Of a table with no key, a row for each image: ``n`` copies must be there, ``held`` are; ``told``: the values are as
change tables have them, else as the target's rows were read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import META, Flags, Ints, change_schema
from consumer.model.check import CheckTask

DELETE, UPDATE, INSERT, ANEW = range(1, 5)
PUTS = (UPDATE, INSERT, ANEW)
Kinds = npt.NDArray[np.int8]


def rows_to_mend(
    task: CheckTask,
    kinds: Kinds,
    told: pa.Table | None,
    era: Ints,
    newest: Ints,
    held: pa.Table | None,
    there: Ints,
) -> pa.Table | None:
    """`kinds` by the number of a key, 0 for one that is as it must be. `newest` is its row in `told`, which is of the
    era `era`, `there` one in `held`."""
    gone = np.flatnonzero(kinds == DELETE)
    puts = np.flatnonzero(kinds > DELETE)
    groups = np.array([task.groups.index(one.known) for one in task.eras], np.int32)
    of_puts = groups[era[newest[puts]]] if len(puts) else np.empty(0, np.int32)
    # Several rows with one key have several values in columns that are not told: nobody knows which are right.
    whole = np.array([all(known) and not task.target.own for known in task.groups], np.bool_)
    mended: Flags = (kinds[puts] != ANEW) | whole[of_puts] if len(puts) else np.empty(0, np.bool_)
    puts, of_puts = puts[mended], of_puts[mended]
    if not len(gone) and not len(puts):
        return None
    columns = [
        pa.chunked_array([*_taken(task, position, told, "r", newest[puts]), *_key(task, position, held, there[gone])])
        for position in range(len(task.target.columns))
    ]
    marks = [np.concatenate([kinds[puts], kinds[gone]]), np.concatenate([of_puts, np.zeros(len(gone), np.int32)])]
    return _named(marks, ["kind", "group"], columns)


def copies_to_mend(task: CheckTask, rows: pa.Table, first: Ints, told: Ints, held: Ints) -> pa.Table:
    """`first` is a row of `rows` for each image, one that the storage tells of where there is one."""
    is_told = rows.column("told").take(pa.array(first))
    columns = []
    for position in range(len(task.target.columns)):
        kind, at = _kind(task, position), pa.array(first)
        values = rows.column(f"c{position}").take(at).cast(kind)
        if f"r{position}" in rows.column_names:  # there are rows that the storage tells of
            values = pc.if_else(is_told, rows.column(f"r{position}").take(at).cast(kind), values)
        columns.append(values)
    return _named([told, held, is_told], ["n", "held", "told"], columns)


def _key(task: CheckTask, position: int, held: pa.Table | None, at: Ints) -> list[pa.Array]:
    """The values of a column of the key, null of another column."""
    if position in task.target.key:
        return _taken(task, position, held, "c", at)
    return [pa.nulls(len(at), _kind(task, position))]


def _taken(task: CheckTask, position: int, rows: pa.Table | None, letter: str, at: Ints) -> list[pa.Array]:
    if rows is None or not len(at):
        return [pa.nulls(0, _kind(task, position))]
    taken = rows.column(f"{letter}{position}").take(pa.array(at)).cast(_kind(task, position))
    return list(taken.chunks)


def _kind(task: CheckTask, position: int) -> pa.DataType:
    return change_schema(task.target).types[META + position]


def _named(marks: Sequence[object], names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    return pa.table([*marks, *columns], names=[*names, *(f"c{position}" for position in range(len(columns)))])
