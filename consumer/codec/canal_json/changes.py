"""Turns rows of canal-JSON into the rows of a change table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.canal_json.bounds import COMMIT_TS
from consumer.codec.canal_json.errors import RowLines
from consumer.codec.canal_json.rows import CanalRows
from consumer.codec.change_table import Flags, Ints, Origin, change_schema, value_schema
from consumer.codec.errors import FileCoordinates
from consumer.codec.rows import first_null, first_refused, required_columns
from consumer.codec.values import latin1_to_binary, to_utc
from consumer.errors import CorruptFile
from consumer.model.columns import Family, labels_of, mislabelled
from consumer.model.load import Layout, LoadTarget
from consumer.model.times import Clock


class ChangeBuilder:
    """Turns a block's rows into changes of one target."""

    def __init__(self, target: LoadTarget, place: FileCoordinates, clock: Clock, layout: Layout) -> None:
        self._target, self._place, self._clock = target, place, clock
        self._required = required_columns(target, layout)
        self._every = target.events or not target.key
        """Whether the old row is used completely, as the new one is."""
        self._schema = change_schema(target)

    def changes(self, rows: CanalRows, inside: Flags, origin: Origin, lines: RowLines) -> pa.Table:
        """Returns the changes of the rows `inside`, in file order.

        An UPDATE that changes the key, and every UPDATE of a table with no key, is a delete and then a put. Raises
        CorruptFile, SchemaDrift, CannotBeExact.
        """
        kept = np.flatnonzero(inside)
        if not kept.size:
            return self._schema.empty_table()
        if self._target.events and not np.all(rows.exact[kept]):
            raise self._place.event_without_ts(COMMIT_TS, lines.number(int(kept[np.argmin(rows.exact[kept])])))
        texts = rows.data[: len(self._target.columns)]
        columns = [self._values(n, _taken(text, kept), kept, lines) for n, text in enumerate(texts)]
        self._check_columns(columns, rows, kept, lines)
        self._check_labels(rows, kept, lines)
        if self._target.key:
            self._check_keys(columns, rows, kept, lines)
            at, old, moved = self._old_keys(columns, rows, inside, kept, lines)
        else:
            at, old = self._old_rows(columns, rows, kept, lines)
            moved = at[:0]
        not_null = self._required if self._every and at.size else {}
        if (null := first_null(old, not_null, np.full(len(at), True))) is not None:
            raise self._place.null(null[0], lines.number(int(kept[at[null[1]]])))
        meta = _meta(rows, kept, origin, at)
        if at.size:
            columns = _interleaved(columns, at, old)
        events = []
        if self._target.events:
            update = rows.update[kept]
            update[moved] = False  # TiCDC splits most of them into a DELETE and an INSERT, so these are treated alike
            events.append(pa.array(np.insert(update, at, update[at])))
        origins = origin.columns(np.insert(kept, at, kept[at])) if self._target.befores else []
        return pa.Table.from_arrays([*meta, *columns, *events, *origins], schema=self._schema)

    def images(self, rows: CanalRows, which: Flags, needed: Sequence[int], lines: RowLines) -> pa.Table:
        """Returns the rows `which` themselves; for DELETEs the deleted rows. Raises CorruptFile, and CannotBeExact if
        one of them does not have the columns at `needed`."""
        kept = np.flatnonzero(which)
        columns = [self._values(n, _taken(rows.data[n], kept), kept, lines) for n in range(len(self._target.columns))]
        for position in needed:
            untyped = _nulls(columns[position]) & _nulls(rows.types[position])[kept]
            name = self._target.columns[position].name
            for row in map(int, kept[np.flatnonzero(untyped)]):
                if name not in lines.row(row)["data"][0]:
                    raise self._place.not_told(name, lines.number(row))
        needed_not_null = {position: name for position, name in self._required.items() if position in needed}
        if (null := first_null(columns, needed_not_null, np.full(len(kept), True))) is not None:
            raise self._place.null(null[0], lines.number(int(kept[null[1]])))
        return pa.Table.from_arrays(columns, schema=value_schema(self._target))

    def old_images(self, rows: CanalRows, which: Flags, lines: RowLines) -> pa.Table:
        """Returns the rows before the UPDATEs `which`. Raises the errors of `images`."""
        kept = np.flatnonzero(which)
        columns = [self._values(n, _taken(rows.data[n], kept), kept, lines) for n in range(len(self._target.columns))]
        columns = self._olds(columns, np.arange(len(kept)), kept, lines)
        return pa.Table.from_arrays(columns, schema=value_schema(self._target))

    def _values(self, position: int, text: pa.LargeStringArray, origin: Ints, lines: RowLines) -> pa.Array:
        """Returns canonical values of a column. `origin` has the row of the block that each belongs to."""
        column = self._target.columns[position]
        convert: Callable[[pa.Array], pa.Array]
        match column.family:
            case Family.BINARY:
                convert = latin1_to_binary
            case Family.TIMESTAMP:
                convert = partial(to_utc, clock=self._clock)
            case _:
                return text
        try:
            return convert(text)
        except CorruptFile:
            wrong, error = first_refused(convert, text)
            message = f"column {column.name}: {error.message}"
            raise self._place.corrupt(message, lines.number(int(origin[wrong])), error.hint) from error

    def _check_columns(self, columns: Sequence[pa.Array], rows: CanalRows, kept: Ints, lines: RowLines) -> None:
        """Raises an error unless every row that must be complete has all columns of the target, and no barred column.

        A null means that a column is NULL or missing. The row's own list of types shows which, and the row itself if
        that list has no entry. For a column that is null in all rows one row is examined in any case.
        """
        is_complete = ~self._bare_deletes(columns, rows, kept) if self._every else ~rows.delete[kept]
        doubtful = np.zeros(len(kept), np.bool_)
        for column, types in zip(columns, rows.types, strict=False):
            null = is_complete & _nulls(column) if column.null_count else None
            if null is not None and null.any():
                untyped = null & _nulls(types)[kept]
                doubtful |= untyped
                if not untyped.any() and np.array_equal(null, is_complete):
                    doubtful[np.argmax(null)] = True
        self._look_for_absent(kept[np.flatnonzero(doubtful)], rows.delete, lines)
        if (first_null_found := first_null(columns, self._required, is_complete)) is not None:
            raise self._place.null(first_null_found[0], lines.number(int(kept[first_null_found[1]])))
        for position, name in enumerate(self._target.barred, len(columns)):
            is_carried = ~_nulls(rows.data[position]) | ~_nulls(rows.types[position])
            self._look_for_carried(name, kept[np.flatnonzero(is_complete & is_carried[kept])], lines)

    def _bare_deletes(self, columns: Sequence[pa.Array], rows: CanalRows, kept: Ints) -> Flags:
        """Returns which of the rows `kept` are DELETEs that have their key alone, if the target takes such rows. One
        without a column of the key is among them: its key is checked in any case."""
        lacks_key, deletes = np.zeros(len(kept), np.bool_), rows.delete[kept]
        if not (self._target.bare_deletes and self._target.key and deletes.any()):
            return lacks_key
        lacks_rest = ~lacks_key
        for position, types in enumerate(rows.types[: len(columns)]):
            is_absent = _nulls(columns[position]) & _nulls(types)[kept]
            if position in self._target.key:
                lacks_key |= is_absent
            else:
                lacks_rest &= is_absent
        bare: Flags = deletes & (lacks_key | lacks_rest)
        return bare

    def _check_labels(self, rows: CanalRows, kept: Ints, lines: RowLines) -> None:
        """Raises SchemaDrift unless the labels in the rows' types are the target's: the rows have the numbers of
        labels."""
        for column, types in zip(self._target.columns, rows.types, strict=False):
            for type_text in pc.unique(types).drop_null().to_pylist() if column.elements else ():
                if wrong := mislabelled(labels_of(type_text), column.elements):
                    has_type = pc.fill_null(pc.equal(types, type_text), False).to_numpy(zero_copy_only=False)[kept]
                    if has_type.any():
                        raise self._place.mislabelled(
                            column.name, wrong, type_text, lines.number(int(kept[np.argmax(has_type)]))
                        )

    def _look_for_absent(self, doubtful: Ints, deletes: Flags, lines: RowLines) -> None:
        for row in map(int, doubtful):
            carried = lines.row(row)["data"][0]
            lacking = [n for n, column in enumerate(self._target.columns) if column.name not in carried]
            if lacking:
                names = [self._target.columns[n].name for n in lacking]
                of_key = not self._target.key or any(n in self._target.key for n in lacking)
                if not of_key and deletes[row]:
                    raise self._place.delete_lacking(names, lines.number(row))
                raise (self._place.key_lacking if of_key else self._place.lacking)(names, lines.number(row))

    def _look_for_carried(self, name: str, doubtful: Ints, lines: RowLines) -> None:
        for row in map(int, doubtful):
            if name in lines.row(row)["data"][0]:
                raise self._place.carrying(name, lines.number(row))

    def _check_keys(self, columns: Sequence[pa.Array], rows: CanalRows, kept: Ints, lines: RowLines) -> None:
        for position in self._target.key:
            if columns[position].null_count:
                row = int(kept[_first(columns[position].is_null())])
                raise self._key_fault(position, bool(rows.delete[row]), row, lines)

    def _key_fault(self, position: int, delete: bool, row: int, lines: RowLines) -> Exception:
        name = self._target.columns[position].name
        carried = lines.row(row)["data"][0]
        if name in carried:
            return self._place.key_null(name, lines.number(row))
        if delete and name not in self._place.left_out:
            key = [self._target.columns[n].name for n in self._target.key]
            return self._place.key_missing(key, list(carried), lines.number(row))
        return self._place.key_lacking([name], lines.number(row))

    def _old_keys(
        self, columns: Sequence[pa.Array], rows: CanalRows, inside: Flags, kept: Ints, lines: RowLines
    ) -> tuple[Ints, list[pa.Array | None], Ints]:
        """Returns which of the rows `kept` have an old row of their own, and columns with these; and which moved to
        another key. Their other old values are only included if no commit-ts shows what came first."""
        wanted = np.flatnonzero((inside & rows.update)[rows.old_rows])
        if not wanted.size:
            return wanted, [], wanted
        origin = rows.old_rows[wanted]
        at = np.searchsorted(kept, origin)
        changed = np.zeros(len(at), np.bool_)
        keys: list[pa.Array] = []
        for position, text in zip(self._target.key, rows.old, strict=True):
            new = _taken(columns[position], at)
            # a key's columns are NOT NULL: one that is null in `old` was omitted, because it is unchanged
            old = pc.coalesce(self._values(position, _taken(text, wanted), origin, lines), new)
            changed |= pc.not_equal(old, new).to_numpy(zero_copy_only=False)
            keys.append(old)
        where = np.arange(len(at)) if self._target.befores else np.flatnonzero(changed)
        if self._target.events:
            return at[where], [*self._olds(columns, at[where], kept, lines)], at[changed]
        old_columns: list[pa.Array | None] = [None] * len(columns)
        timeless = ~rows.exact[kept[at[where]]]
        if np.any(timeless):
            olds = self._olds(columns, at[where], kept, lines)
            old_columns = [pc.if_else(pa.array(timeless), old, pa.nulls(1, old.type)[0]) for old in olds]
        for position, key in zip(self._target.key, keys, strict=True):
            old_columns[position] = _taken(key, where)
        return at[where], old_columns, at[changed]

    def _old_rows(
        self, columns: Sequence[pa.Array], rows: CanalRows, kept: Ints, lines: RowLines
    ) -> tuple[Ints, list[pa.Array | None]]:
        """Returns which of the rows `kept` are UPDATEs, and the old rows of these."""
        timeless = np.flatnonzero(~rows.exact[kept])
        if timeless.size:
            raise self._place.no_commit_ts(COMMIT_TS, lines.number(int(kept[timeless[0]])))
        at = np.flatnonzero(rows.update[kept])
        return at, [*self._olds(columns, at, kept, lines)]

    def _olds(self, columns: Sequence[pa.Array], at: Ints, kept: Ints, lines: RowLines) -> list[pa.Array]:
        """Returns the old rows of the rows `at` of `kept`, in all columns; `columns` has the new ones."""
        olds = [self._old_row(int(row), lines) for row in kept[at]]
        old_columns: list[pa.Array] = []
        for position, column in enumerate(self._target.columns):
            # absent means unchanged, null means that it was NULL: Arrow's reader returns null for both
            absent = pa.array([column.name not in old for old in olds], pa.bool_())
            text = pa.array([old.get(column.name) for old in olds], pa.large_string())
            values = self._values(position, text, kept[at], lines)
            old_columns.append(pc.if_else(absent, _taken(columns[position], at), values))
        return old_columns

    def _old_row(self, row: int, lines: RowLines) -> dict[str, str | None]:
        old: Any = lines.row(row).get("old")
        if not old:
            raise self._place.old_missing(lines.number(row))
        if not (isinstance(old, list) and len(old) == 1 and isinstance(old[0], dict)):
            raise self._place.corrupt("expected `old` to be an array of one object", lines.number(row))
        for name, value in old[0].items():
            if value is not None and not isinstance(value, str):
                message = f"expected the old value of column {name} to be a string or null"
                raise self._place.corrupt(message, lines.number(row))
        row_before: dict[str, str | None] = old[0]
        return row_before


def _meta(rows: CanalRows, kept: Ints, origin: Origin, at: Ints) -> list[pa.Array]:
    """Returns ts, put, series, rank; with a delete before each of the puts `at`. Ranks count from 1."""
    old = at + np.arange(len(at))
    kept = np.insert(kept, at, kept[at]) if at.size else kept
    put, rank = ~rows.delete[kept], origin.places[kept] + 1
    put[old], rank[old] = False, -rank[old]
    timeless = ~rows.exact[kept]
    return [
        pa.array(rows.ts[kept]),
        pa.array(put),
        pa.array((timeless * origin.series[kept]).astype(np.int32)),
        pa.array(timeless * rank),
    ]


def _interleaved(columns: Sequence[pa.Array], at: Ints, old: Sequence[pa.Array | None]) -> list[pa.Array]:
    """Returns `columns` with the old values before each of the rows `at`; None stands for nulls."""
    count = len(columns[0])
    order = np.insert(np.arange(count), at, count + np.arange(len(at)))
    both, or_null = pa.array(order), pa.array(order, mask=order >= count)
    return [
        column.take(or_null) if values is None else pa.concat_arrays([column, values]).take(both)
        for column, values in zip(columns, old, strict=True)
    ]


def _taken(values: pa.Array, rows: Ints) -> pa.Array:
    """Returns `rows`, which are sorted and distinct, of `values`. All of them are returned without a copy."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def _nulls(column: pa.Array) -> Flags:
    flags: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return flags


def _first(flags: pa.Array) -> int:
    return int(np.argmax(flags.fill_null(False).to_numpy(zero_copy_only=False)))
