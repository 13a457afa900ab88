"""The rows that a table's eras leave. Each era is folded by its own handle key; where a statement moved the key, the
rows that were there go on under the next one. Executor side.

Rows of eras come as tables with the columns

era     the number of the era whose change left the row
n       how many copies of it are there: 1, or 0 for a key that was deleted; of a table with no key the net copies
k1..    the columns of the keys that the table has had from that era on (``_key_name``)
c0..    the values in the columns that the target has now, as change tables have them
u1..    of some columns of the target: whether the row's value there is not known (``unknown_in``)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.folding import decode_files, decode_folded, net_changes
from consumer.changes.identity import key_codes, row_codes
from consumer.codec.change_table import META, PUT, Flags, Ints, change_schema
from consumer.codec.conversions import converted_where_known
from consumer.errors import CannotBeExact
from consumer.model.check import Era
from consumer.model.load import FileStat, LoadTarget
from consumer.ports import RangeReader

ERA, COPIES = "era", "n"
Check = Callable[[Era, bool, Collection[int]], None]
"""Is told each era that has rows, whether they are told apart by all their values, and the columns of the target in
which some of them have values that are not known: raises CannotBeExact where these are needed."""


def unknown_in(position: int) -> str:
    """The name of what says, beside the values of a column, of which rows they are not known."""
    return f"u{position}"


def unknown_columns(rows: pa.Table, converted: Collection[int]) -> list[int]:
    """In which of the columns `converted` some of `rows` have values that are not known."""
    return [position for position in converted if pc.any(rows.column(unknown_in(position))).as_py()]


def as_now(rows: pa.Table, era: Era, target: LoadTarget, converted: Collection[int] = ()) -> pa.Table:
    """The values of an era's rows under the columns that the target has now; null where they are not known. Behind them
    of which rows those of the columns `converted` are not known."""
    schema = change_schema(target)
    columns: dict[str, pa.ChunkedArray] = {}
    none: Flags = np.zeros(rows.num_rows, np.bool_)
    unknown = {unknown_in(position): none for position in converted}
    for position, place in enumerate(era.places):
        kind = schema.field(META + position).type
        if position in era.added:
            columns[f"c{position}"] = pa.chunked_array([pa.repeat(pa.scalar(era.added[position], kind), rows.num_rows)])
        elif place >= 0 and era.known[position]:
            values = rows.column(f"c{place}")
            if made := era.conversions.get(position):
                values, unknown[unknown_in(position)] = converted_where_known(made, values)
            columns[f"c{position}"] = values
        else:
            columns[f"c{position}"] = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
    return pa.table(columns | {name: pa.chunked_array([flags]) for name, flags in unknown.items()})


def rows_left(
    eras: Sequence[Era],
    target: LoadTarget,
    reader: RangeReader,
    whole: bool,
    check: Check,
    converted: Collection[int],
    stats: list[FileStat] | None = None,
) -> pa.Table:
    """The rows that are there behind the last of `eras`, which are in their order: ``era`` and the columns of `as_now`,
    a row for each copy. `whole`: every row of the table is in the eras; else the table can have others, too. What
    reading the files found goes to `stats`. Raises CannotBeExact."""
    held: pa.Table | None = None
    for number, group in groupby(eras, key=lambda era: len(era.keys)):
        parts = [] if held is None else [held]
        of_key = list(group)
        for era in of_key:
            found, rows = _rows(era, target, reader, converted)
            parts.append(rows)
            if stats is not None:
                stats += found
        key = of_key[0].keys[0]
        rows = pa.concat_tables(parts)
        rows = _last(rows, number, len(key)) if key else _net(rows, of_key, whole, check, converted)
        held = rows.select([name for name in rows.column_names if not name.startswith(f"k{number}_")])
    assert held is not None
    for era, unknown in _with_rows(held, eras, converted):
        check(era, False, unknown)
    return held.drop_columns([COPIES])


def _rows(
    era: Era, target: LoadTarget, reader: RangeReader, converted: Collection[int]
) -> tuple[Sequence[FileStat], pa.Table]:
    task = era.task
    if era.keys[0]:
        stats, rows = decode_folded(task.slices, task, reader, final=True)
        copies = rows.column(PUT).to_numpy().astype(np.int64)
    else:
        files, stats = decode_files(task, reader)
        rows = net_changes(files, task)
        copies = rows.column(COPIES).to_numpy()
    columns = {ERA: pa.array(np.full(rows.num_rows, task.number, np.int64)), COPIES: pa.array(copies)}
    now = as_now(rows, era, target, converted)
    *earlier, last = era.keys
    for n, position in enumerate(target.key if last else ()):
        columns[_key_name(1, n)] = now.column(f"c{position}")
    for left, key in zip(range(len(era.keys), 1, -1), earlier, strict=True):
        for n, at in enumerate(key):
            columns[_key_name(left, n)] = rows.column(f"c{at}")
    return stats, pa.table({**columns, **dict(zip(now.column_names, now.columns, strict=True))})


def _with_rows(
    rows: pa.Table, eras: Sequence[Era], converted: Collection[int]
) -> Iterator[tuple[Era, Collection[int]]]:
    """Those of `eras` that some of the rows are of, with the columns `converted` in which one's value is not known."""
    numbers = rows.column(ERA).to_numpy()
    there = set(np.unique(numbers).tolist())
    lost = {n: set(np.unique(numbers[rows.column(unknown_in(n)).to_numpy()]).tolist()) for n in converted}
    for era in eras:
        if (number := era.task.number) in there:
            yield era, [position for position, of in lost.items() if number in of]


def _key_name(left: int, number: int) -> str:
    """Of the key that is one of the last `left` keys."""
    return f"k{left}_{number}"


def _last(rows: pa.Table, left: int, width: int) -> pa.Table:
    """The rows that the last changes of all keys leave. `rows` are in the order of their eras."""
    if not rows.num_rows:
        return rows
    codes, count = key_codes([rows.column(_key_name(left, n)) for n in range(width)])
    last: Ints = np.zeros(count, np.int64)
    last[codes] = np.arange(rows.num_rows)
    last = np.sort(last)
    return rows.take(pa.array(last[rows.column(COPIES).to_numpy()[last] > 0]))


def _net(rows: pa.Table, eras: Sequence[Era], whole: bool, check: Check, converted: Collection[int]) -> pa.Table:
    """As many copies of each row as all changes together leave."""
    if not rows.num_rows:
        return rows
    for era, unknown in _with_rows(rows, eras, converted):
        check(era, True, unknown)
    codes, count = row_codes([rows.column(name) for name in rows.column_names if name not in (ERA, COPIES)])
    copies = np.zeros(count, np.int64)
    np.add.at(copies, codes, rows.column(COPIES).to_numpy())
    if whole and np.any(copies < 0):
        raise CannotBeExact("more copies of a row were deleted than the storage has")
    if len(eras[0].keys) > 1 and np.any(copies > 1):
        raise CannotBeExact("several copies of a row are there, and a later statement gave the table a key")
    last: Ints = np.zeros(count, np.int64)
    last[codes] = np.arange(rows.num_rows)
    found = rows.take(pa.array(np.repeat(last, np.maximum(copies, 0))))
    return found.set_column(1, COPIES, pa.array(np.ones(found.num_rows, np.int64)))
