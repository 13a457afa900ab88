"""The rows that a table's eras leave. Each era is folded by its own handle key. Where a statement changed the key, the
existing rows continue under the next one. This is executor code.

Rows of eras are tables with the columns

    era     the number of the era whose change left the row
    n       how many copies of it exist: 1, or 0 for a key that was deleted; of a table with no key the net copies
    k1..    the columns of the keys that the table has had from that era on (``_key_name``)
    c0..    the values in the columns that the target has now, as change tables have them
    u1..    for some columns of the target: whether the row's value is not known (``unknown_flags_name``)
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
from consumer.codec.conversions import convert_known_values
from consumer.errors import CannotBeExact
from consumer.model.check import Era
from consumer.model.load import FileStat, LoadTarget
from consumer.ports import RangeReader

ERA, COPIES = "era", "n"
Check = Callable[[Era, bool, Collection[int]], None]
"""It is called with each era that has rows, with whether all values of its rows identify them, and with the columns of
the target in which some of them have values that are not known. It raises CannotBeExact if these values are needed."""


def unknown_flags_name(position: int) -> str:
    """Returns the name of the column of flags that show in which rows the values of a column are not known."""
    return f"u{position}"


def unknown_columns(rows: pa.Table, converted: Collection[int]) -> list[int]:
    """Returns those of the columns `converted` in which some of `rows` have values that are not known."""
    return [position for position in converted if pc.any(rows.column(unknown_flags_name(position))).as_py()]


def in_current_columns(rows: pa.Table, era: Era, target: LoadTarget, converted: Collection[int] = ()) -> pa.Table:
    """Returns the values of an era's rows in the columns that the target has now, null where they are not known. After
    these come the flags of the columns `converted`: in which rows their values are not known."""
    schema = change_schema(target)
    columns: dict[str, pa.ChunkedArray] = {}
    all_known: Flags = np.zeros(rows.num_rows, np.bool_)
    unknown = {unknown_flags_name(position): all_known for position in converted}
    for position, era_position in enumerate(era.places):
        kind = schema.field(META + position).type
        if position in era.added:
            columns[f"c{position}"] = pa.chunked_array([pa.repeat(pa.scalar(era.added[position], kind), rows.num_rows)])
        elif era_position >= 0 and era.known[position]:
            values = rows.column(f"c{era_position}")
            if conversions := era.conversions.get(position):
                values, unknown[unknown_flags_name(position)] = convert_known_values(conversions, values)
            columns[f"c{position}"] = values
        else:
            columns[f"c{position}"] = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
    return pa.table(columns | {name: pa.chunked_array([flags]) for name, flags in unknown.items()})


def remaining_rows(
    eras: Sequence[Era],
    target: LoadTarget,
    reader: RangeReader,
    is_complete: bool,
    check: Check,
    converted: Collection[int],
    stats: list[FileStat] | None = None,
) -> pa.Table:
    """Returns the rows that exist after the last of `eras`, which are in their order: ``era`` and the columns of
    `in_current_columns`, a row for each copy.

    `whole`: every row of the table is in the eras; else the table can have others, too. The statistics of the files
    that were read are added to `stats`. Raises CannotBeExact.
    """
    remaining: pa.Table | None = None
    for number, group in groupby(eras, key=lambda era: len(era.keys)):
        parts = [] if remaining is None else [remaining]
        eras_of_key = list(group)
        for era in eras_of_key:
            era_stats, rows = _rows(era, target, reader, converted)
            parts.append(rows)
            if stats is not None:
                stats += era_stats
        key = eras_of_key[0].keys[0]
        rows = pa.concat_tables(parts)
        rows = _last(rows, number, len(key)) if key else _net(rows, eras_of_key, is_complete, check, converted)
        remaining = rows.select([name for name in rows.column_names if not name.startswith(f"k{number}_")])
    assert remaining is not None
    for era, unknown in _with_rows(remaining, eras, converted):
        check(era, False, unknown)
    return remaining.drop_columns([COPIES])


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
    current = in_current_columns(rows, era, target, converted)
    *earlier, last = era.keys
    for n, position in enumerate(target.key if last else ()):
        columns[_key_name(1, n)] = current.column(f"c{position}")
    for keys_left, key in zip(range(len(era.keys), 1, -1), earlier, strict=True):
        for n, key_position in enumerate(key):
            columns[_key_name(keys_left, n)] = rows.column(f"c{key_position}")
    return stats, pa.table({**columns, **dict(zip(current.column_names, current.columns, strict=True))})


def _with_rows(
    rows: pa.Table, eras: Sequence[Era], converted: Collection[int]
) -> Iterator[tuple[Era, Collection[int]]]:
    """Yields those of `eras` that some of the rows come from, each with the columns `converted` in which a value of
    these rows is not known."""
    numbers = rows.column(ERA).to_numpy()
    eras_with_rows = set(np.unique(numbers).tolist())
    eras_with_unknown = {
        n: set(np.unique(numbers[rows.column(unknown_flags_name(n)).to_numpy()]).tolist()) for n in converted
    }
    for era in eras:
        if (number := era.task.number) in eras_with_rows:
            yield era, [position for position, era_numbers in eras_with_unknown.items() if number in era_numbers]


def _key_name(keys_left: int, number: int) -> str:
    """Returns the name of a column of the key that is the first of the last `left` keys."""
    return f"k{keys_left}_{number}"


def _last(rows: pa.Table, keys_left: int, width: int) -> pa.Table:
    """Returns the rows that the last changes of all keys leave. `rows` are in the order of their eras."""
    if not rows.num_rows:
        return rows
    codes, count = key_codes([rows.column(_key_name(keys_left, n)) for n in range(width)])
    last: Ints = np.zeros(count, np.int64)
    last[codes] = np.arange(rows.num_rows)
    last = np.sort(last)
    return rows.take(pa.array(last[rows.column(COPIES).to_numpy()[last] > 0]))


def _net(rows: pa.Table, eras: Sequence[Era], is_complete: bool, check: Check, converted: Collection[int]) -> pa.Table:
    """Returns as many copies of each row as all changes together leave."""
    if not rows.num_rows:
        return rows
    for era, unknown in _with_rows(rows, eras, converted):
        check(era, True, unknown)
    codes, count = row_codes([rows.column(name) for name in rows.column_names if name not in (ERA, COPIES)])
    copies = np.zeros(count, np.int64)
    np.add.at(copies, codes, rows.column(COPIES).to_numpy())
    if is_complete and np.any(copies < 0):
        raise CannotBeExact("more copies of a row were deleted than the storage has")
    if len(eras[0].keys) > 1 and np.any(copies > 1):
        raise CannotBeExact("several copies of a row are there, and a later statement gave the table a key")
    last: Ints = np.zeros(count, np.int64)
    last[codes] = np.arange(rows.num_rows)
    copied_rows = rows.take(pa.array(np.repeat(last, np.maximum(copies, 0))))
    return copied_rows.set_column(1, COPIES, pa.array(np.ones(copied_rows.num_rows, np.int64)))
