"""Compares the rows of the storage with those of the target, in one bucket. It uses Arrow and numpy, with no loop over
rows. This is executor code.

The rows that differ are returned for a repair.

For a table with a key there is a row for each key, with the columns

    kind   DELETE; UPDATE an existing row; INSERT a missing one; REWRITE: several rows have the key, and one must remain
    group  which of the task's `groups` of columns has the known values of a put
    c0..   the values as change tables have them; of a DELETE those of its key, as the target's rows were read

For a table with no key there is a row for each image: ``n`` copies must exist, ``held`` do; ``stored``: the values are
as change tables have them, else as the target's rows were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.identity import key_codes, row_codes
from consumer.codec.change_table import META, Flags, Ints, change_schema
from consumer.errors import CannotBeExact
from consumer.model.check import CheckTask, Counted, Difference
from consumer.model.columns import Family
from consumer.verify.era_rows import unknown_flags_name

_NONE = -1
DELETE, UPDATE, INSERT, REWRITE = range(1, 5)
PUTS = (UPDATE, INSERT, REWRITE)
Kinds = npt.NDArray[np.int8]


Compared = tuple[Counted, "pa.Table | None"]
"""The counts of what differs; and the rows to repair (see above) if the task is `mending`."""


def compare_keyed(task: CheckTask, eras: Mapping[int, pa.Table], held: pa.Table | None) -> Compared:
    """Compares a table with a key. `eras` are the folded changes of each era, `held` the target's rows; all values are
    in their normal form.

    For each key the change of the last era that has one decides. All copies of a key but one are extra rows.
    """
    stored, era, newest, held_codes, held_rows = _numbered(task, eras, held)
    put: Flags = stored.column("put").to_numpy() if stored is not None else np.empty(0, np.bool_)
    kept = np.array([task_era.kept for task_era in task.eras], np.bool_)
    count, is_stored, is_held = len(newest), newest != _NONE, held_rows != _NONE
    sure = is_stored & kept[era[newest]] if len(era) else np.zeros(count, np.bool_)
    is_given = (
        is_stored & np.array([task_era.given for task_era in task.eras], np.bool_)[era[newest]]
        if len(era)
        else is_stored
    )
    expected = is_stored & put[newest] if len(era) else is_stored
    missing = expected & ~is_held & sure
    deleted = is_stored & ~expected & is_held
    unexpected = ~is_stored & is_held
    repeated = np.ones(len(held_codes), np.bool_)
    repeated[held_rows[is_held]] = False
    extra = (deleted & (sure | task.complete)) | (unexpected if task.complete else np.zeros(count, np.bool_))
    both = np.flatnonzero(expected & is_held)
    values, unknown = _values(task, stored, held, era, newest[both], held_rows[both])
    differ = np.logical_or.reduce([*values.values(), np.zeros(len(both), np.bool_)])
    wrong = np.flatnonzero(differ)

    shown = [
        *_keys(task, "missing", stored, newest[np.flatnonzero(missing)]),
        *_keys(task, "extra", held, held_rows[np.flatnonzero(extra)]),
        *_keys(task, "extra", held, np.flatnonzero(repeated)),
        *_differing(task, stored, held, newest[both], held_rows[both], values, wrong),
    ]
    counted = Counted(
        expected=int(expected.sum()),
        found=len(held_codes),
        missing=int(missing.sum()),
        extra=int(extra.sum()) + int(repeated.sum()),
        differing=len(wrong),
        given=int(
            (is_given & (missing | extra)).sum() + is_given[both[wrong]].sum() + is_given[held_codes[repeated]].sum()
        ),
        unsure=int((expected & ~sure).sum()) + int((deleted & ~extra).sum()),
        unknown_rows=0 if task.complete else int(unexpected.sum()),
        unknown=unknown,
        shown=tuple(shown),
    )
    if not task.mending:
        return counted, None
    kinds = np.zeros(count, np.int8)
    kinds[missing], kinds[both[wrong]], kinds[extra] = INSERT, UPDATE, DELETE
    kinds[held_codes[repeated]] = np.where(expected[held_codes[repeated]], REWRITE, kinds[held_codes[repeated]])
    kinds[is_given] = 0
    return counted, _rows_to_mend(task, kinds, stored, era, newest, held, held_rows)


class _Numbered(NamedTuple):
    """The distinct keys of a bucket have numbers. `newest` is by key the row of `stored` that decides about it, whose
    era is in `era`; `there` is by key one of the target's rows; both are _NONE if there is none. `own` has the key of
    each of the target's rows."""

    stored: pa.Table | None
    era: Ints
    newest: Ints
    own: Ints
    there: Ints


def _numbered(task: CheckTask, eras: Mapping[int, pa.Table], held: pa.Table | None) -> _Numbered:
    numbers = sorted(eras)
    stored = pa.concat_tables([eras[number] for number in numbers]) if numbers else None
    era = np.repeat(numbers, [eras[number].num_rows for number in numbers]).astype(np.int64)
    codes, count = _codes(task.target.key, stored, held)
    newest = np.full(count, _NONE)
    newest[codes[: len(era)]] = np.arange(len(era))
    held_codes = codes[len(era) :]
    held_rows = np.full(count, _NONE)
    held_rows[held_codes[::-1]] = np.arange(len(held_codes))[::-1]
    return _Numbered(stored, era, newest, held_codes, held_rows)


def compare_multisets(task: CheckTask, eras: Mapping[int, pa.Table], held: pa.Table | None) -> Compared:
    """Compares a table with no key. `eras` have the net copies ``n`` of each row. Raises CannotBeExact if more copies
    of a row were deleted than inserted."""
    names = [f"c{position}" for position in task.compared]
    raw_names = [f"r{position}" for position in range(len(task.target.columns))] if task.mending else []
    parts = [_marked(rows.select(["n", *names, *raw_names]), stored=True) for rows in eras.values()]
    if held is not None:
        ones = pa.chunked_array([np.ones(held.num_rows, np.int64)])
        parts.append(_marked(held.select(names).add_column(0, "n", ones), stored=False))
    rows = pa.concat_tables(parts, promote_options="default")
    codes, count = row_codes([rows.column(name) for name in names])
    copies: Ints = rows.column("n").to_numpy()
    held_count = 0 if held is None else held.num_rows
    split = len(copies) - held_count
    stored, held_copies = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(stored, codes[:split], copies[:split])
    np.add.at(held_copies, codes[split:], copies[split:])
    if any(era.task.target.load.quarantine is not None for era in task.eras):
        stored = np.maximum(stored, 0)  # what was removed can be a row whose own line is quarantined
    if np.any(stored < 0):
        raise CannotBeExact("more copies of a row were removed than the storage says were there")
    first = np.full(count, _NONE)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    surplus = stored - held_copies
    counted = Counted(
        expected=int(stored.sum()),
        found=held_count,
        missing=int(surplus[surplus > 0].sum()),
        extra=int(-surplus[surplus < 0].sum()),
        unknown={task.target.names[n]: held_count for n in range(len(task.target.names)) if n not in task.compared},
        shown=tuple(_copies(task, rows, first, surplus)),
    )
    differing = np.flatnonzero(surplus)
    if not task.mending or len(names) < len(task.target.columns) or not len(differing):
        return counted, None
    return counted, _copies_to_mend(task, rows, first[differing], stored[differing], held_copies[differing])


def _marked(rows: pa.Table, stored: bool) -> pa.Table:
    return rows.append_column("stored", pa.repeat(pa.scalar(stored), rows.num_rows))


def _copies(task: CheckTask, rows: pa.Table, first: Ints, surplus: Ints) -> Iterator[Difference]:
    for code in np.flatnonzero(surplus)[: task.show]:
        kind = "missing" if surplus[code] > 0 else "extra"
        yield Difference(kind, _named(task, task.compared, rows, int(first[code])), (), abs(int(surplus[code])))


def _codes(key: Sequence[int], *tables: pa.Table | None) -> tuple[Ints, int]:
    names = [f"c{position}" for position in key]
    parts = [rows.select(names) for rows in tables if rows is not None and rows.num_rows]
    if not parts:
        return np.empty(0, np.int64), 0
    both = pa.concat_tables(parts)
    columns = [both.column(name) for name in names]
    # Somebody can have set a key column of the target to NULL, which no key of upstream has.
    return row_codes(columns) if any(column.null_count for column in columns) else key_codes(columns)


def _values(
    task: CheckTask, stored: pa.Table | None, held: pa.Table | None, era: Ints, newest: Ints, held_rows: Ints
) -> tuple[dict[int, Flags], dict[str, int]]:
    """Returns by column which of the pairs of rows differ there; and by column's name how many values the storage does
    not have."""
    differing: dict[int, Flags] = {}
    unknown: dict[str, int] = {}
    if stored is None or held is None or not len(newest):
        return differing, unknown
    converted = task.converted
    for position, name in enumerate(task.target.names):
        if position in task.target.key:
            continue
        is_known = np.array([task_era.known[position] for task_era in task.eras], np.bool_)[era[newest]]
        if position in converted:
            is_known &= ~_flags(stored, position, newest)
        if not is_known.all():
            unknown[name] = int((~is_known).sum())
        stored_values = stored.column(f"c{position}").take(pa.array(newest))
        held_values = held.column(f"c{position}").take(pa.array(held_rows))
        equal = pc.or_(
            pc.fill_null(pc.equal(stored_values, held_values), False),
            pc.and_(pc.is_null(stored_values), pc.is_null(held_values)),
        )
        differing[position] = ~equal.to_numpy() & is_known
    return differing, unknown


def _flags(stored: pa.Table, position: int, rows: Ints) -> Flags:
    """Returns which of these rows have an unknown value in a converted column."""
    flags: Flags = stored.column(unknown_flags_name(position)).take(pa.array(rows)).to_numpy()
    return flags


def _keys(task: CheckTask, kind: str, rows: pa.Table | None, row_numbers: Ints) -> Iterator[Difference]:
    for row in row_numbers[: task.show] if rows is not None else ():
        yield Difference(kind, _named(task, task.target.key, rows, int(row)))


def _differing(
    task: CheckTask,
    stored: pa.Table | None,
    held: pa.Table | None,
    newest: Ints,
    held_rows: Ints,
    values: Mapping[int, Flags],
    wrong: Ints,
) -> Iterator[Difference]:
    for pair in wrong[: task.show]:
        assert stored is not None
        assert held is not None
        stored_row, held_row = int(newest[pair]), int(held_rows[pair])
        columns = tuple(
            (task.target.names[n], _shown(task, stored, n, stored_row), _shown(task, held, n, held_row))
            for n, flags in values.items()
            if flags[pair]
        )
        yield Difference("differs", _named(task, task.target.key, held, held_row), columns)


def _named(task: CheckTask, positions: Sequence[int], rows: pa.Table, row: int) -> tuple[tuple[str, str | None], ...]:
    return tuple((task.target.names[position], _shown(task, rows, position, row)) for position in positions)


def _shown(task: CheckTask, rows: pa.Table, position: int, row: int) -> str | None:
    """Returns the value as its type is written: a DECIMAL with all digits of its fraction."""
    text, column = _text(rows, position, row), task.target.columns[position]
    if text is None or column.family is not Family.DECIMAL:
        return text
    digits = max(column.scale or 0, len(text.partition(".")[2]))
    return f"{Decimal(text):.{digits}f}"


def _text(rows: pa.Table, position: int, row: int) -> str | None:
    value = rows.column(f"c{position}")[row].as_py()
    return f"0x{value.hex()}" if isinstance(value, bytes) else value


def _rows_to_mend(
    task: CheckTask,
    kinds: Kinds,
    stored: pa.Table | None,
    era: Ints,
    newest: Ints,
    held: pa.Table | None,
    held_rows: Ints,
) -> pa.Table | None:
    """Returns the rows to repair. `kinds` has the kind by the number of a key, 0 for a key whose row is right. `newest`
    is its row in `stored`, whose era is in `era`, `there` one in `held`."""
    deletes = np.flatnonzero(kinds == DELETE)
    puts = np.flatnonzero(kinds > DELETE)
    groups = np.array([task.groups.index(task_era.known) for task_era in task.eras], np.int32)
    of_puts = groups[era[newest[puts]]] if len(puts) else np.empty(0, np.int32)
    # Several rows with one key have several values in columns of which the storage has none, and which are right cannot
    # be known.
    is_complete = np.array([all(is_known) and not task.target.extra_columns for is_known in task.groups], np.bool_)
    repairable: Flags = (kinds[puts] != REWRITE) | is_complete[of_puts] if len(puts) else np.empty(0, np.bool_)
    for position in task.converted if len(puts) and stored is not None else ():
        repairable &= ~_flags(stored, position, newest[puts])
    puts, of_puts = puts[repairable], of_puts[repairable]
    if not len(deletes) and not len(puts):
        return None
    columns = [
        pa.chunked_array(
            [*_taken(task, position, stored, "r", newest[puts]), *_key_values(task, position, held, held_rows[deletes])]
        )
        for position in range(len(task.target.columns))
    ]
    marks = [np.concatenate([kinds[puts], kinds[deletes]]), np.concatenate([of_puts, np.zeros(len(deletes), np.int32)])]
    return _with_marks(marks, ["kind", "group"], columns)


def _copies_to_mend(task: CheckTask, rows: pa.Table, first: Ints, stored: Ints, held: Ints) -> pa.Table:
    """Returns the images to repair. `first` is a row of `rows` for each image, one of the storage if there is one."""
    is_stored = rows.column("stored").take(pa.array(first))
    columns = []
    for position in range(len(task.target.columns)):
        kind, indexes = _kind(task, position), pa.array(first)
        values = rows.column(f"c{position}").take(indexes).cast(kind)
        if f"r{position}" in rows.column_names:  # there are rows of the storage
            values = pc.if_else(is_stored, rows.column(f"r{position}").take(indexes).cast(kind), values)
        columns.append(values)
    return _with_marks([stored, held, is_stored], ["n", "held", "stored"], columns)


def _key_values(task: CheckTask, position: int, held: pa.Table | None, row_numbers: Ints) -> list[pa.Array]:
    """Returns the values of a column of the key; of another column nulls."""
    if position in task.target.key:
        return _taken(task, position, held, "c", row_numbers)
    return [pa.nulls(len(row_numbers), _kind(task, position))]


def _taken(task: CheckTask, position: int, rows: pa.Table | None, prefix: str, row_numbers: Ints) -> list[pa.Array]:
    if rows is None or not len(row_numbers):
        return [pa.nulls(0, _kind(task, position))]
    taken = rows.column(f"{prefix}{position}").take(pa.array(row_numbers)).cast(_kind(task, position))
    return list(taken.chunks)


def _kind(task: CheckTask, position: int) -> pa.DataType:
    return change_schema(task.target).types[META + position]


def _with_marks(marks: Sequence[object], names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    return pa.table([*marks, *columns], names=[*names, *(f"c{position}" for position in range(len(columns)))])
