"""What one task of a read does: slices of files -> rows in batches. Executor side: no driver code."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from consumer.changes.conditions import compiled
from consumer.changes.folding import decode_files, decode_folded, decoded, each_change, net_changes
from consumer.changes.identity import row_codes
from consumer.changes.keyed import fold_keyed
from consumer.changes.table_modes import added, folded
from consumer.codec.change_table import META, PUT, TS, UPDATE, Ints, change_schema
from consumer.codec.typed import typed_values
from consumer.errors import CannotBeExact, ConsumerError, from_dict
from consumer.model.check import Era
from consumer.model.columns import Column
from consumer.model.load import FileStat, LoadTarget
from consumer.model.table_modes import OP, VERSION
from consumer.model.times import LOGICAL_BITS
from consumer.ports import RangeReader
from consumer.source.json_rows import json_rows
from consumer.source.shape import BEFORE, changes_schema, several_schema, values_schema
from consumer.spark.tasks import of_table
from consumer.verify.comparison import as_now

log = logging.getLogger(__name__)

_BATCH_ROWS = 16_384
_ERA = "era"


@dataclass(frozen=True)
class Share:
    """What a task reads of a table: `eras` of its changes, or of its state all of them. `columns` are the columns that
    are given, by their positions in the target, `fields` the names of all that is given, in order. `bounds` are those
    of the files that other tasks may have to read, too, None for a state. `strict`: a day that no calendar has is an
    error, and not NULL. `together`: it goes with other tables, as one column.
    `before`: what each change found is given, too. `where`: only changes of which it is TRUE, before or after."""

    target: LoadTarget
    eras: tuple[Era, ...]
    columns: tuple[int, ...]
    fields: tuple[str, ...]
    bounds: Mapping[str, tuple[int, int]] | None = None
    strict: bool = False
    together: bool = False
    before: bool = False
    where: str = ""


def batches(shares: Iterable[Share], reader: RangeReader) -> Iterator[pa.RecordBatch]:
    """Raises what the files are refused for, with its hint."""
    for share in shares:
        try:
            table = _state(share, reader) if share.bounds is None else _changes(share, share.eras[0], reader)
        except Exception as error:
            raise told(of_table(error, share.target.table, share.target.load.shaping)) from error
        yield from table.select(share.fields).to_batches(max_chunksize=_BATCH_ROWS)


def told(error: ConsumerError) -> ConsumerError:
    """The error as Spark shows it, which knows nothing of hints."""
    body = error.as_dict()
    if error.hint:
        body |= {"message": f"{error.message} ({error.hint})", "hint": ""}
    return from_dict(body)


def _changes(share: Share, era: Era, reader: RangeReader) -> pa.Table:
    task, target = era.task, share.target
    every = (_every_keyed if target.key else _every_keyless)(share, era, reader)
    rows = folded(every, task, task.source.key) if target.key else every
    if rows.num_rows:
        _check_known([era], share)
    assert task.mode_load is not None
    meta = dict(zip(task.mode_load.mode.usual, added(rows, task), strict=True))
    moments = pa.array((rows.column(TS).to_numpy() >> LOGICAL_BITS) * 1000)
    head = [meta[OP], rows.column(TS), moments.cast(pa.timestamp("us")), meta[VERSION]]
    now = as_now(rows, era, target)
    given = _given(now, share, head)
    if not share.before:
        return given
    found, then = _before(every, rows, task.source.key), as_now(every, era, target)
    given = given.append_column(BEFORE, _struct(then, found, share))
    if not share.where:
        return given
    condition = compiled(share.where, target.columns, clock=task.dialect.clock)
    held = condition.holds(then)[found] & (found >= 0)
    return given.filter(pa.array(condition.holds(now) | held))


def _before(every: pa.Table, rows: pa.Table, key: Sequence[int]) -> Ints:
    """For each of the changes `rows` which of `every` row that is gone it found, -1 for none."""
    gone = np.flatnonzero(~every.column(PUT).to_numpy())
    names = [*(f"c{at}" for at in key), TS]
    both = [pa.chunked_array([*rows.column(n).chunks, *every.column(n).take(pa.array(gone)).chunks]) for n in names]
    codes, count = row_codes(both)
    place = np.full(count, -1)
    place[codes[rows.num_rows :]] = gone
    came = rows.column(PUT).to_numpy() & ~rows.column(UPDATE).to_numpy()
    return np.where(came, -1, place[codes[: rows.num_rows]])


def _struct(values: pa.Table, at: Ints, share: Share) -> pa.ChunkedArray:
    none = pa.array(at < 0)
    columns = [share.target.columns[place] for place in share.columns]
    found = (values.column(f"c{place}").take(pa.array(at, mask=at < 0)) for place in share.columns)
    arrays = [_typed(column, of, share).combine_chunks() for column, of in zip(columns, found, strict=True)]
    fields = list(values_schema(columns))
    return pa.chunked_array([pa.StructArray.from_arrays(arrays, fields=fields, mask=none)])


def _every_keyed(share: Share, era: Era, reader: RangeReader) -> pa.Table:
    task, stats = era.task, list[FileStat]()
    tables = [change_schema(task.source).empty_table(), *decoded(reader, task.slices, task, stats)]
    for stat in stats:
        _check_order(stat, share, era)
    return pa.concat_tables(tables)


def _every_keyless(share: Share, era: Era, reader: RangeReader) -> pa.Table:
    """Each once. An UPDATE is a delete and then a put: some releases write it so."""
    task = replace(era.task, target=replace(era.task.target, events=False, befores=False), mode_load=None)
    files, _ = decode_files(task, reader)
    rows = each_change(files, task)
    return rows.append_column(UPDATE, pa.array(np.zeros(rows.num_rows, np.bool_)))


def _check_order(stat: FileStat, share: Share, era: Era) -> None:
    """A file that has rows outside of the time from its first to its last line was left out of other tasks."""
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


def _check_known(eras: Sequence[Era], share: Share) -> None:
    """Raises CannotBeExact for rows of which columns that are given are not known."""
    for era in eras:
        lost = [share.target.columns[at].name for at in share.columns if not era.known[at]]
        if lost:
            raise CannotBeExact(
                f"a statement of version {era.task.window.end} or later changed {', '.join(lost)}, and what older rows"
                " have there cannot be told from the files",
                hint=f"leave these columns out (option columns), begin with from-ts {era.task.window.end}, or end with"
                f" to-ts {era.task.window.end}",
            )


def _state(share: Share, reader: RangeReader) -> pa.Table:
    rows = (_keyed if share.target.key else _keyless)(share, reader)
    return _given(rows, share)


def _keyed(share: Share, reader: RangeReader) -> pa.Table:
    """The rows that the last changes of all keys leave: those of a later era decide."""
    target, parts = share.target, list[pa.Table]()
    for number, era in enumerate(share.eras):
        _, rows = decode_folded(era.task.slices, era.task, reader, final=True)
        same = pa.array(np.full(rows.num_rows, number, np.int64))
        none = np.zeros(rows.num_rows, np.int64)
        meta = [same, rows.column(PUT), pa.array(none.astype(np.int32)), pa.array(none)]
        found = pa.table([*meta, *as_now(rows, era, target).columns], schema=change_schema(target))
        parts.append(found.append_column(_ERA, same))
    last = fold_keyed(pa.concat_tables(parts), target.key, final=True)
    rows = last.filter(last.column(PUT))
    _check_there(np.unique(rows.column(_ERA).to_numpy()).tolist(), share)
    for column, values in zip(target.columns, rows.columns[META:], strict=False):
        if not column.nullable and values.null_count:
            raise CannotBeExact(f"column {column.name} is NOT NULL, and an older row has NULL there")
    return rows


def _keyless(share: Share, reader: RangeReader) -> pa.Table:
    """As many copies of each row as all eras together leave."""
    parts = list[pa.Table]()
    with_rows = list[int]()
    for number, era in enumerate(share.eras):
        files, _ = decode_files(era.task, reader)
        net = net_changes(files, era.task)
        if net.num_rows:
            with_rows.append(number)
        parts.append(as_now(net, era, share.target).add_column(0, "n", net.column("n")))
    _check_there(with_rows, share, every=True)
    rows = pa.concat_tables(parts)
    if not rows.num_rows:
        return rows
    codes, count = row_codes(rows.columns[1:])
    copies = np.zeros(count, np.int64)
    np.add.at(copies, codes, rows.column("n").to_numpy())
    if np.any(copies < 0):
        raise CannotBeExact("more copies of a row were deleted than the storage has")
    _, first = np.unique(codes, return_index=True)
    return rows.take(pa.array(np.repeat(first, copies)))


def _check_there(numbers: Collection[int], share: Share, every: bool = False) -> None:
    """Raises CannotBeExact where rows of these eras are not as the files have them. Of a table with no key `every`
    column tells rows apart."""
    eras = [share.eras[number] for number in numbers]
    for era in eras:
        if not era.kept:
            raise CannotBeExact(
                f"a statement behind version {era.task.window.end - 1} takes rows away by partitions, and the files do"
                " not tell which",
                hint="read the state before it (to-ts), or its changes (mode changes)",
            )
    if every:
        share = replace(share, columns=tuple(range(len(share.target.columns))))
    _check_known(eras, share)


def _given(rows: pa.Table, share: Share, head: Sequence[pa.Array | pa.ChunkedArray] = ()) -> pa.Table:
    """`head` are the columns in front of the rows' values."""
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
    found, lost = typed_values(column, values)
    if lost:
        sentence = f"column {column.name} has {lost} values that are days of no calendar"
        if share.strict:
            raise CannotBeExact(sentence, hint="zero-dates = null makes them NULL")
        log.warning("%s: %s: they are NULL", share.target.table, sentence)
    return found
