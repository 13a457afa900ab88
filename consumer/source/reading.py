"""Reads slices of files into batches of rows, as one task does. It runs on executors and has no driver code."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.changes.conditions import compile_condition
from consumer.changes.folding import decode_files, decoded, decoder_for, each_change
from consumer.changes.identity import row_codes
from consumer.changes.table_modes import fold_by_columns, mode_columns
from consumer.codec.change_table import AT, OF, PUT, TS, UPDATE, Flags, Ints, change_schema
from consumer.codec.typed import typed_values
from consumer.errors import CannotBeExact, ConsumerError, from_dict
from consumer.model.check import Era, converted_positions
from consumer.model.columns import Column
from consumer.model.hints import about_table, read_anyway_hint
from consumer.model.load import FileStat, LoadTarget, LoadTask
from consumer.model.table_modes import OP, VERSION
from consumer.model.times import LOGICAL_BITS
from consumer.ports import RangeReader
from consumer.source.columns import BEFORE, FILE
from consumer.source.json_rows import json_rows
from consumer.source.shape import PLACES, SEQ_DIGITS, changes_schema, several_schema, values_schema
from consumer.spark.tasks import of_table
from consumer.verify.era_rows import in_current_columns, remaining_rows, unknown_columns

log = logging.getLogger(__name__)

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class Share:
    """What a task reads of a table: `eras` of its changes, or of its state all of them. `columns` are the columns that
    are given, by their positions in the target, `fields` the names of all that is given, in order. `bounds` are those
    of the files that other tasks may have to read, too, None for a state. `strict`: a day that no calendar has is an
    error, and not NULL. `together`: it goes with other tables, as one column.
    `before`: what each change found is given, too. `where`: only changes of which it is TRUE, before or after.
    `of_command` as of `ReadOptions`: the file and the line of each can be given, too."""

    target: LoadTarget
    eras: tuple[Era, ...]
    columns: tuple[int, ...]
    fields: tuple[str, ...]
    bounds: Mapping[str, tuple[int, int]] | None = None
    strict: bool = False
    together: bool = False
    before: bool = False
    where: str = ""
    of_command: bool = False


def batches(shares: Iterable[Share], reader: RangeReader) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `shares`, as batches with the columns that are asked for. Raises the files' errors, with
    hints."""
    for share in shares:
        with _as_told(share):
            table = _state(share, reader) if share.bounds is None else _changes(share, reader)
        yield from table.select(share.fields).to_batches(max_chunksize=_BATCH_ROWS)


@contextmanager
def _as_told(share: Share) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        shown = of_table(error, share.target.table, share.target.load.shaping)
        shown.hint = read_anyway_hint(about_table(shown.hint, share.target.table))
        raise (shown if share.of_command else with_hint_in_message(shown)) from error


def with_hint_in_message(error: ConsumerError) -> ConsumerError:
    """Returns the error with its hint in the message: Spark shows nothing else."""
    body = error.as_dict()
    if error.hint:
        body |= {"message": f"{error.message} ({error.hint})", "hint": ""}
    return from_dict(body)


@dataclass(frozen=True)
class Changes:
    """The changes of a share, each once: `rows` are they, `now` the values that they left, in the columns of the
    share's target. What each found is the row of `then` with the number in `found`, -1 where it found none, or the
    files do not tell it. `chosen` are those that the share's expression is TRUE of."""

    rows: pa.Table
    now: pa.Table
    then: pa.Table
    found: Ints
    chosen: Flags

    @property
    def came(self) -> Flags:
        """Returns which of the changes are of rows that were not there before."""
        return _came(self.rows)


def changes_of(share: Share, reader: RangeReader) -> Changes:
    """Returns the changes of a share that has `before`. Raises as `batches`."""
    with _as_told(share):
        every, _ = _every(share, reader)
        return _with_found(every, _each(every, share), share)


def _changes(share: Share, reader: RangeReader) -> pa.Table:
    every, stats = _every(share, reader)
    rows = _each(every, share)
    if not share.before:
        return _given(_now(rows, share), share, _head(rows, share))
    changes = _with_found(every, rows, share)
    rows, now, found = changes.rows, changes.now, changes.found
    if share.where:  # values of the others may be none of their types
        chosen = pa.array(changes.chosen)
        rows, now, found = rows.filter(chosen), now.filter(chosen), found[changes.chosen]
    given = _given(now, share, _head(rows, share))
    given = given.append_column(BEFORE, _struct(changes.then, found, share))
    if share.of_command and FILE in share.fields:
        for field, values in zip(PLACES, places(rows, share.eras[0].task, stats, reader), strict=True):
            given = given.append_column(field, values)
    return given


def _every(share: Share, reader: RangeReader) -> tuple[pa.Table, list[FileStat]]:
    """Returns all change rows of the files, and the statistics of each slice."""
    (era,) = share.eras
    return (_every_keyed if era.keys[0] else _every_keyless)(share, era, reader)


def _each(every: pa.Table, share: Share) -> pa.Table:
    """Returns each change once, however often it was written."""
    (era,) = share.eras
    rows = fold_by_columns(every, era.task, era.keys[0]) if era.keys[0] else every
    if rows.num_rows:
        _check_known(era, share)
    return rows


def _head(rows: pa.Table, share: Share) -> list[pa.Array | pa.ChunkedArray]:
    task = share.eras[0].task
    assert task.mode_load is not None
    meta = dict(zip(task.mode_load.mode.usual, mode_columns(rows, task), strict=True))
    moments = pa.array((rows.column(TS).to_numpy() >> LOGICAL_BITS) * 1000)
    return [meta[OP], rows.column(TS), moments.cast(pa.timestamp("us")), meta[VERSION], _sequence(rows)]


def _sequence(rows: pa.Table) -> pa.ChunkedArray:
    """Numbers the changes of a table in the order in which they hold: by commit-ts, within a transaction first the rows
    that went, then as the files have them. All changes of a commit-ts are in one share."""
    ts = rows.column(TS).to_numpy()
    order = np.lexsort((rows.column(PUT).to_numpy(), ts))
    ordered = ts[order]
    number = np.empty(len(ts), np.int64)
    number[order] = np.arange(len(ts)) - np.searchsorted(ordered, ordered)
    moments = pc.multiply(rows.column(TS).cast(pa.decimal128(19)), pa.scalar(10**SEQ_DIGITS, pa.decimal128(11)))
    return pc.add(moments, pa.array(number).cast(pa.decimal128(19)))


def _with_found(every: pa.Table, rows: pa.Table, share: Share) -> Changes:
    (era,), target = share.eras, share.target
    found = _before(every, rows, era.keys[0])
    now, then = _now(rows, share), _now(every, share)
    chosen = np.ones(rows.num_rows, np.bool_)
    if share.where:
        condition = compile_condition(share.where, target.columns, clock=era.task.dialect.clock)
        chosen = condition.holds(now) | (condition.holds(then)[found] & (found >= 0))
    return Changes(rows, now, then, found, chosen)


def _before(every: pa.Table, rows: pa.Table, key: Sequence[int]) -> Ints:
    """Returns, for each of the changes `rows`, the position in `every` of the old row that it replaced or removed, -1
    for none. In a table without a key both tables are the same: a change adds a row or removes one."""
    if not key:
        return np.where(rows.column(PUT).to_numpy(), -1, np.arange(rows.num_rows))
    gone = np.flatnonzero(~every.column(PUT).to_numpy())
    names = [*(f"c{at}" for at in key), TS]
    both = [pa.chunked_array([*rows.column(n).chunks, *every.column(n).take(pa.array(gone)).chunks]) for n in names]
    codes, count = row_codes(both)
    place = np.full(count, -1)
    place[codes[rows.num_rows :]] = gone
    return np.where(_came(rows), -1, place[codes[: rows.num_rows]])


def _came(rows: pa.Table) -> Flags:
    came: Flags = rows.column(PUT).to_numpy() & ~rows.column(UPDATE).to_numpy()
    return came


def _struct(values: pa.Table, at: Ints, share: Share) -> pa.ChunkedArray:
    none = pa.array(at < 0)
    columns = [share.target.columns[place] for place in share.columns]
    found = (values.column(f"c{place}").take(pa.array(at, mask=at < 0)) for place in share.columns)
    arrays = [_typed(column, of, share).combine_chunks() for column, of in zip(columns, found, strict=True)]
    fields = list(values_schema(columns))
    return pa.chunked_array([pa.StructArray.from_arrays(arrays, fields=fields, mask=none)])


def _every_keyed(share: Share, era: Era, reader: RangeReader) -> tuple[pa.Table, list[FileStat]]:
    task, stats = era.task, list[FileStat]()
    tables = [change_schema(task.source).empty_table(), *decoded(reader, task.slices, task, stats)]
    for stat in stats:
        _check_order(stat, share, era)
    return pa.concat_tables(tables), stats


def _every_keyless(share: Share, era: Era, reader: RangeReader) -> tuple[pa.Table, list[FileStat]]:
    """Returns each change of a table without a key once. An UPDATE is a delete and a put, as some releases write it."""
    task = replace(era.task, target=replace(era.task.target, events=False), mode_load=None)
    written, stats = decode_files(task, reader)
    own = [AT, OF] if task.target.befores else []
    rows = each_change([(series, place, changes.drop_columns(own)) for series, place, changes in written], task)
    if own and rows.num_rows:
        every = pa.concat_tables([changes for _, _, changes in written])
        rows = pa.table(
            [*rows.columns, *every.select(own).take(_copies(rows, every)).columns], [*rows.column_names, *own]
        )
    return rows.append_column(UPDATE, pa.array(np.zeros(rows.num_rows, np.bool_))), stats


def _copies(rows: pa.Table, every: pa.Table) -> pa.Array:
    """Returns, for each of `rows`, the position of an equal row in `every`, a different one for each copy."""
    both = [pa.chunked_array([*rows.column(n).chunks, *every.column(n).chunks]) for n in rows.column_names]
    codes, _ = row_codes(both)
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes))
    own = codes[: rows.num_rows]
    # Within equal ones `rows` come first, in their order, and then those of `every`.
    copies = np.bincount(own, minlength=int(codes.max()) + 1)[own]
    found: Ints = order[place[: rows.num_rows] + copies] - rows.num_rows
    return pa.array(found)


def places(rows: pa.Table, task: LoadTask, stats: Sequence[FileStat], reader: RangeReader) -> tuple[pa.Array, pa.Array]:
    """Returns the file and the line of each of `rows`. To count lines, a file is read up to the task's first slice of
    it."""
    of, at = rows.column(OF).to_numpy(), rows.column(AT).to_numpy()
    number = np.zeros(rows.num_rows, np.int64)
    for series in np.unique(of):
        own = np.array([n for n, piece in enumerate(task.slices) if piece.series == series])
        own = own[np.argsort([task.slices[n].position for n in own])]
        begins = [task.slices[n].position for n in own]
        number[of == series] = own[np.searchsorted(begins, at[of == series], side="right") - 1]
    lines = _first_lines(np.unique(number).tolist(), task, stats, reader)
    first = np.array([lines.get(n, 0) - piece.position for n, piece in enumerate(task.slices)])
    paths = pa.array([piece.path for piece in task.slices], pa.string())
    return paths.take(pa.array(number)), pa.array(at + first[number])


def _first_lines(
    numbers: Sequence[int], task: LoadTask, stats: Sequence[FileStat], reader: RangeReader
) -> dict[int, int]:
    """Returns the line at which each of these slices begins. It follows the lines of the slices before it."""
    found: dict[int, int] = {}
    ends: dict[tuple[str, int], int] = {}
    files = {task.slices[number].path for number in numbers}
    for number, (piece, stat) in enumerate(zip(task.slices, stats, strict=True)):
        if piece.path in files:
            begin = ends.get((piece.path, piece.offset)) or decoder_for(reader, piece, task).line_at(piece.offset)
            ends[piece.path, piece.offset + piece.length] = begin + stat.rows
            found[number] = begin
    return found


def _check_order(stat: FileStat, share: Share, era: Era) -> None:
    """Raises CannotBeExact for a file with rows outside of the time from its first to its last line: by these two,
    other tasks have left it out."""
    if not share.bounds or stat.path not in share.bounds:
        return
    first, last = share.bounds[stat.path]
    late = stat.next_ts and last <= era.task.window.end
    if late or stat.last_ts > last or 0 < stat.first_ts < first:
        raise CannotBeExact(
            f"it has rows outside of the time from its first line ({first}) to its last ({last}), so which tasks must"
            " read it is not known",
            hint="set partition-bytes to more than the table's files have",
            table=str(share.target.table),
            path=stat.path,
        )


def _now(rows: pa.Table, share: Share) -> pa.Table:
    """Returns changes of the share's era with the current columns. Raises CannotBeExact if a value is unknown although
    its column is known (`_each` has checked the columns)."""
    (era,) = share.eras
    values = in_current_columns(rows, era, share.target, era.conversions)
    if unknown := unknown_columns(values, era.conversions):
        _check_known(era, share, unknown)
    return values


def _check_known(era: Era, share: Share, unknown: Collection[int] = ()) -> None:
    """Raises CannotBeExact if values that are asked for are unknown in this era: all values of a column, or some
    values of one of the columns `unknown`."""
    lost = [at for at in share.columns if not era.known[at] or at in unknown]
    if lost:
        names = ", ".join(share.target.columns[at].name for at in lost)
        end, changes = era.task.window.end, share.bounds is not None
        ways = ["leave these columns out (option columns)"] if changes or share.target.key else []
        ways += [f"begin with from-ts {end}"] if changes else []
        raise CannotBeExact(
            f"a statement of version {end} or later changed {names}, and what older rows have there cannot be known"
            " from the files",
            hint=f"give --from-ts {end}" if share.of_command else " or ".join([*ways, f"end with to-ts {end}"]),
        )


def _state(share: Share, reader: RangeReader) -> pa.Table:
    rows = remaining_rows(
        share.eras, share.target, reader, True, partial(_check_era, share), converted_positions(share.eras)
    )
    for position, column in enumerate(share.target.columns):
        if not column.nullable and rows.column(f"c{position}").null_count:
            raise CannotBeExact(f"column {column.name} is NOT NULL, and an older row has NULL there")
    return _given(rows, share)


def _check_era(share: Share, era: Era, by_all_values: bool, unknown: Collection[int]) -> None:
    """Raises CannotBeExact if a statement took rows of the era away, or if values in the columns `unknown` are
    unknown. With `by_all_values` all columns together identify a row."""
    if not era.kept:
        raise CannotBeExact(
            f"a statement after version {era.task.window.end - 1} takes rows away by partitions, and the files do"
            " not tell which",
            hint="read the state before it (to-ts), or its changes (mode changes)",
        )
    if by_all_values:
        share = replace(share, columns=tuple(range(len(share.target.columns))))
    _check_known(era, share, unknown)


def _given(rows: pa.Table, share: Share, head: Sequence[pa.Array | pa.ChunkedArray] = ()) -> pa.Table:
    """Returns the columns that Spark gets: `head`, then the values of `rows` in their own types."""
    columns = [share.target.columns[at] for at in share.columns]
    values = [rows.column(f"c{at}") for at in share.columns]
    if share.together:
        schema = several_schema(changes=bool(head))
        table = pa.repeat(pa.scalar(str(share.target.table)), rows.num_rows)
        found = [table, *head, json_rows(columns, values)]
    else:
        schema = changes_schema(columns) if head else values_schema(columns)
        found = [*head, *(_typed(column, of, share) for column, of in zip(columns, values, strict=True))]
    return pa.table([column.cast(kind) for column, kind in zip(found, schema.types, strict=True)], schema=schema)


def _typed(column: Column, values: pa.ChunkedArray, share: Share) -> pa.ChunkedArray:
    try:
        found, lost = typed_values(column, values)
    except CannotBeExact as error:
        if share.of_command:
            error.hint = "ask for a part without it: --from-ts, --to-ts, --key"
        raise
    if lost:
        sentence = f"column {column.name} has {lost} values that are days of no calendar"
        if share.strict:
            raise CannotBeExact(sentence, hint="zero-dates = null makes them NULL")
        log.warning("%s: %s: they are NULL", share.target.table, sentence)
    return found
