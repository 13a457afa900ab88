"""The rows of the storage beside those of the target, in one bucket. Arrow and numpy, no loop over rows.
Executor side.

The rows that differ come out for whoever makes them right.

Of a table with a key, a row for each key, with the columns

kind   DELETE; UPDATE a row that is there; INSERT one that is not; ANEW: several rows have the key, and one must be left
group  which of the task's `groups` of columns the values of a put are known in
c0..   the values as change tables have them; of a DELETE those of its key, as the target's rows were read

Of a table with no key, a row for each image: ``n`` copies must be there, ``held`` are; ``stored``: the values are as
change tables have them, else as the target's rows were read.
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
from consumer.verify.era_rows import unknown_in

_NONE = -1
DELETE, UPDATE, INSERT, ANEW = range(1, 5)
PUTS = (UPDATE, INSERT, ANEW)
Kinds = npt.NDArray[np.int8]


Compared = tuple[Counted, "pa.Table | None"]
"""What differs, counted; and of a task that is `mending` the rows to mend (see above)."""


def compare_keyed(task: CheckTask, eras: Mapping[int, pa.Table], held: pa.Table | None) -> Compared:
    """`eras` are the folded changes of each era, `held` the target's rows; all values in their normal form.

    The change of the last era that has one decides about a key. Each copy of a key but one is an extra row.
    """
    stored, era, newest, own, there = _numbered(task, eras, held)
    put: Flags = stored.column("put").to_numpy() if stored is not None else np.empty(0, np.bool_)
    kept = np.array([one.kept for one in task.eras], np.bool_)
    count, known, has = len(newest), newest != _NONE, there != _NONE
    sure = known & kept[era[newest]] if len(era) else np.zeros(count, np.bool_)
    given = known & np.array([one.given for one in task.eras], np.bool_)[era[newest]] if len(era) else known
    expected = known & put[newest] if len(era) else known
    missing = expected & ~has & sure
    gone = known & ~expected & has
    strange = ~known & has
    again = np.ones(len(own), np.bool_)
    again[there[has]] = False
    extra = (gone & (sure | task.whole)) | (strange if task.whole else np.zeros(count, np.bool_))
    both = np.flatnonzero(expected & has)
    values, unknown = _values(task, stored, held, era, newest[both], there[both])
    differ = np.logical_or.reduce([*values.values(), np.zeros(len(both), np.bool_)])
    wrong = np.flatnonzero(differ)

    shown = [
        *_keys(task, "missing", stored, newest[np.flatnonzero(missing)]),
        *_keys(task, "extra", held, there[np.flatnonzero(extra)]),
        *_keys(task, "extra", held, np.flatnonzero(again)),
        *_differing(task, stored, held, newest[both], there[both], values, wrong),
    ]
    counted = Counted(
        expected=int(expected.sum()),
        found=len(own),
        missing=int(missing.sum()),
        extra=int(extra.sum()) + int(again.sum()),
        differing=len(wrong),
        given=int((given & (missing | extra)).sum() + given[both[wrong]].sum() + given[own[again]].sum()),
        unsure=int((expected & ~sure).sum()) + int((gone & ~extra).sum()),
        unknown_rows=0 if task.whole else int(strange.sum()),
        unknown=unknown,
        shown=tuple(shown),
    )
    if not task.mending:
        return counted, None
    kinds = np.zeros(count, np.int8)
    kinds[missing], kinds[both[wrong]], kinds[extra] = INSERT, UPDATE, DELETE
    kinds[own[again]] = np.where(expected[own[again]], ANEW, kinds[own[again]])
    kinds[given] = 0
    return counted, _rows_to_mend(task, kinds, stored, era, newest, held, there)


class _Numbered(NamedTuple):
    """The different keys of a bucket have numbers: `newest` is the row in `stored`, which is of the era `era`, that
    decides about each, and `there` one in the target's rows, _NONE for none. `own` has the key of each of the target's
    rows."""

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
    own = codes[len(era) :]
    there = np.full(count, _NONE)
    there[own[::-1]] = np.arange(len(own))[::-1]
    return _Numbered(stored, era, newest, own, there)


def compare_multisets(task: CheckTask, eras: Mapping[int, pa.Table], held: pa.Table | None) -> Compared:
    """`eras` have the net copies ``n`` of each row. Raises CannotBeExact where more of a row went than came."""
    names = [f"c{position}" for position in task.compared]
    as_stored = [f"r{position}" for position in range(len(task.target.columns))] if task.mending else []
    parts = [_marked(rows.select(["n", *names, *as_stored]), stored=True) for rows in eras.values()]
    if held is not None:
        ones = pa.chunked_array([np.ones(held.num_rows, np.int64)])
        parts.append(_marked(held.select(names).add_column(0, "n", ones), stored=False))
    rows = pa.concat_tables(parts, promote_options="default")
    codes, count = row_codes([rows.column(name) for name in names])
    copies: Ints = rows.column("n").to_numpy()
    found = 0 if held is None else held.num_rows
    split = len(copies) - found
    stored, own = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(stored, codes[:split], copies[:split])
    np.add.at(own, codes[split:], copies[split:])
    if any(era.task.target.load.quarantine is not None for era in task.eras):
        stored = np.maximum(stored, 0)  # what was removed can be a row whose own line is quarantined
    if np.any(stored < 0):
        raise CannotBeExact("more copies of a row were removed than the storage says were there")
    first = np.full(count, _NONE)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    more = stored - own
    counted = Counted(
        expected=int(stored.sum()),
        found=found,
        missing=int(more[more > 0].sum()),
        extra=int(-more[more < 0].sum()),
        unknown={task.target.names[n]: found for n in range(len(task.target.names)) if n not in task.compared},
        shown=tuple(_copies(task, rows, first, more)),
    )
    differing = np.flatnonzero(more)
    if not task.mending or len(names) < len(task.target.columns) or not len(differing):
        return counted, None
    return counted, _copies_to_mend(task, rows, first[differing], stored[differing], own[differing])


def _marked(rows: pa.Table, stored: bool) -> pa.Table:
    return rows.append_column("stored", pa.repeat(pa.scalar(stored), rows.num_rows))


def _copies(task: CheckTask, rows: pa.Table, first: Ints, more: Ints) -> Iterator[Difference]:
    for code in np.flatnonzero(more)[: task.show]:
        kind = "missing" if more[code] > 0 else "extra"
        yield Difference(kind, _named(task, task.compared, rows, int(first[code])), (), abs(int(more[code])))


def _codes(key: Sequence[int], *tables: pa.Table | None) -> tuple[Ints, int]:
    names = [f"c{position}" for position in key]
    parts = [rows.select(names) for rows in tables if rows is not None and rows.num_rows]
    if not parts:
        return np.empty(0, np.int64), 0
    both = pa.concat_tables(parts)
    columns = [both.column(name) for name in names]
    # A hand can have made NULL of a key in the target, which is no key of upstream.
    return row_codes(columns) if any(column.null_count for column in columns) else key_codes(columns)


def _values(
    task: CheckTask, stored: pa.Table | None, held: pa.Table | None, era: Ints, newest: Ints, there: Ints
) -> tuple[dict[int, Flags], dict[str, int]]:
    """By column, which of the pairs of rows differ there; and how many values the storage does not have."""
    found: dict[int, Flags] = {}
    unknown: dict[str, int] = {}
    if stored is None or held is None or not len(newest):
        return found, unknown
    converted = task.converted
    for position, name in enumerate(task.target.names):
        if position in task.target.key:
            continue
        is_known = np.array([one.known[position] for one in task.eras], np.bool_)[era[newest]]
        if position in converted:
            is_known &= ~_flags(stored, position, newest)
        if not is_known.all():
            unknown[name] = int((~is_known).sum())
        ours = stored.column(f"c{position}").take(pa.array(newest))
        theirs = held.column(f"c{position}").take(pa.array(there))
        equal = pc.or_(pc.fill_null(pc.equal(ours, theirs), False), pc.and_(pc.is_null(ours), pc.is_null(theirs)))
        found[position] = ~equal.to_numpy() & is_known
    return found, unknown


def _flags(stored: pa.Table, position: int, rows: Ints) -> Flags:
    """Of which of these rows the value of a converted column is not known."""
    flags: Flags = stored.column(unknown_in(position)).take(pa.array(rows)).to_numpy()
    return flags


def _keys(task: CheckTask, kind: str, rows: pa.Table | None, at: Ints) -> Iterator[Difference]:
    for row in at[: task.show] if rows is not None else ():
        yield Difference(kind, _named(task, task.target.key, rows, int(row)))


def _differing(
    task: CheckTask,
    stored: pa.Table | None,
    held: pa.Table | None,
    newest: Ints,
    there: Ints,
    values: Mapping[int, Flags],
    wrong: Ints,
) -> Iterator[Difference]:
    for pair in wrong[: task.show]:
        assert stored is not None
        assert held is not None
        ours, theirs = int(newest[pair]), int(there[pair])
        columns = tuple(
            (task.target.names[n], _shown(task, stored, n, ours), _shown(task, held, n, theirs))
            for n, flags in values.items()
            if flags[pair]
        )
        yield Difference("differs", _named(task, task.target.key, held, theirs), columns)


def _named(task: CheckTask, positions: Sequence[int], rows: pa.Table, row: int) -> tuple[tuple[str, str | None], ...]:
    return tuple((task.target.names[position], _shown(task, rows, position, row)) for position in positions)


def _shown(task: CheckTask, rows: pa.Table, position: int, row: int) -> str | None:
    """As the type writes it: a DECIMAL with all digits of its fraction."""
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
    there: Ints,
) -> pa.Table | None:
    """`kinds` by the number of a key, 0 for one that is as it must be. `newest` is its row in `stored`, which is of the
    era `era`, `there` one in `held`."""
    gone = np.flatnonzero(kinds == DELETE)
    puts = np.flatnonzero(kinds > DELETE)
    groups = np.array([task.groups.index(one.known) for one in task.eras], np.int32)
    of_puts = groups[era[newest[puts]]] if len(puts) else np.empty(0, np.int32)
    # Several rows with one key have several values in columns of which the storage has none: nobody knows which are
    # right.
    whole = np.array([all(known) and not task.target.own for known in task.groups], np.bool_)
    mended: Flags = (kinds[puts] != ANEW) | whole[of_puts] if len(puts) else np.empty(0, np.bool_)
    for position in task.converted if len(puts) and stored is not None else ():
        mended &= ~_flags(stored, position, newest[puts])
    puts, of_puts = puts[mended], of_puts[mended]
    if not len(gone) and not len(puts):
        return None
    columns = [
        pa.chunked_array(
            [*_taken(task, position, stored, "r", newest[puts]), *_key_values(task, position, held, there[gone])]
        )
        for position in range(len(task.target.columns))
    ]
    marks = [np.concatenate([kinds[puts], kinds[gone]]), np.concatenate([of_puts, np.zeros(len(gone), np.int32)])]
    return _with_marks(marks, ["kind", "group"], columns)


def _copies_to_mend(task: CheckTask, rows: pa.Table, first: Ints, stored: Ints, held: Ints) -> pa.Table:
    """`first` is a row of `rows` for each image, one of the storage where there is one."""
    is_stored = rows.column("stored").take(pa.array(first))
    columns = []
    for position in range(len(task.target.columns)):
        kind, at = _kind(task, position), pa.array(first)
        values = rows.column(f"c{position}").take(at).cast(kind)
        if f"r{position}" in rows.column_names:  # there are rows of the storage
            values = pc.if_else(is_stored, rows.column(f"r{position}").take(at).cast(kind), values)
        columns.append(values)
    return _with_marks([stored, held, is_stored], ["n", "held", "stored"], columns)


def _key_values(task: CheckTask, position: int, held: pa.Table | None, at: Ints) -> list[pa.Array]:
    """The values of a column of the key, null of another column."""
    if position in task.target.key:
        return _taken(task, position, held, "c", at)
    return [pa.nulls(len(at), _kind(task, position))]


def _taken(task: CheckTask, position: int, rows: pa.Table | None, prefix: str, at: Ints) -> list[pa.Array]:
    if rows is None or not len(at):
        return [pa.nulls(0, _kind(task, position))]
    taken = rows.column(f"{prefix}{position}").take(pa.array(at)).cast(_kind(task, position))
    return list(taken.chunks)


def _kind(task: CheckTask, position: int) -> pa.DataType:
    return change_schema(task.target).types[META + position]


def _with_marks(marks: Sequence[object], names: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> pa.Table:
    return pa.table([*marks, *columns], names=[*names, *(f"c{position}" for position in range(len(columns)))])
