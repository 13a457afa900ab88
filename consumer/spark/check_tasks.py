"""What runs in a Spark task of `verify`: the rows that the storage tells of and those of the target meet in buckets by
the hash of their keys (`meeting`). Executor side: no pyspark, no driver code.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from consumer.codec.change_table import META, change_schema
from consumer.codec.shaped import fitting
from consumer.errors import ConsumerError
from consumer.fold.table_modes import folded, net_rows
from consumer.model.check import CheckTask, Counted, Era
from consumer.model.load import FileSlice, FileStat, LoadPart
from consumer.ports import Found, Moved, RangeReader, unheard
from consumer.spark.check_modes import formed_eras
from consumer.spark.compare import Compared, compare_keyed, compare_multisets
from consumer.spark.failures import first_error
from consumer.spark.folding import decode_files, decode_folded
from consumer.spark.meeting import HELD, Meeting, Part
from consumer.spark.tasks import FAILED, of_table
from consumer.target import Comparer

QUARANTINED = -3
"""Instead of a bucket: what is counted of quarantined lines in the files."""


def told_buckets(
    number: int,
    pieces: Sequence[FileSlice],
    meeting: Meeting,
    reader: RangeReader,
    moved: Moved = unheard,
) -> Iterator[Part]:
    """The changes in slices of one era, in buckets; of a table with no key in all slices of the era."""
    task, comparer = meeting.task, meeting.comparer
    era = task.eras[number]
    try:
        if task.target.key:
            stats, rows = decode_folded(pieces, era.task, reader)
        else:
            stats, rows = _net(era, reader)
        if era.task.target.load.quarantine is not None:
            yield QUARANTINED, pickle.dumps(_quarantined(stats, last=number == len(task.eras) - 1))
        now = _as_now(rows, era, task)
        told = comparer.expected(now)
        moved(LoadPart(sum(piece.length for piece in pieces) // 2, changes=rows.num_rows))
        meta = [name for name in rows.column_names if not _is_value(name)]
        for position, name in enumerate(meta):
            told = told.add_column(position, name, rows.column(name))
        for position in range(len(now.columns)) if task.mending else ():
            told = told.append_column(f"r{position}", now.column(position))
        yield from meeting.parts(told, number)
    except Exception as error:
        yield FAILED, pickle.dumps(of_table(error, task.target))


def held_buckets(numbers: Iterable[int], meeting: Meeting) -> Iterator[Part]:
    """The target's rows in some ranges, in buckets."""
    try:
        for number in numbers:
            for rows in meeting.comparer.held(number):
                yield from meeting.parts(rows, HELD)
    except Exception as error:
        yield FAILED, pickle.dumps(of_table(error, meeting.task.target))


def compare_bucket(bodies: Iterable[pa.Buffer], meeting: Meeting) -> Compared:
    """What differs in one bucket. Raises CannotBeExact."""
    task, eras = meeting.task, meeting.eras(bodies)
    held = eras.pop(HELD, None)
    if not task.target.key:
        return compare_multisets(task, eras, held)
    last = {n: folded(rows, task.eras[n].task, task.upstream_key) for n, rows in eras.items()}
    return compare_keyed(task, formed_eras(task, last, meeting.comparer), held)


def compare_parts(parts: Sequence[tuple[int, pa.Buffer]], meeting: Meeting) -> Compared | ConsumerError:
    """`compare_bucket` for all parts of one partition, which has one bucket."""
    failed = [pickle.loads(body) for bucket, body in parts if bucket == FAILED]
    quarantined = [pickle.loads(body) for bucket, body in parts if bucket == QUARANTINED]
    bodies = [body for bucket, body in parts if bucket != QUARANTINED]
    try:
        if (error := first_error(failed)) is not None:
            return error
        counted, rows = compare_bucket(bodies, meeting) if bodies else (Counted(), None)
        for more in quarantined:
            counted = counted.plus(more, meeting.task.show)
        return counted, rows
    except Exception as error:
        return of_table(error, meeting.task.target)


def compare_alone(
    task: CheckTask,
    comparer: Comparer,
    reader: RangeReader,
    buckets: int = 1,
    moved: Moved = unheard,
    found: Found = unheard,
) -> Counted:
    """All of a table in this process; `found` gets the rows to mend. Raises what its parts met."""
    meeting = Meeting(task, comparer, buckets)
    parts: dict[int, list[bytes]] = {}
    told = (told_buckets(n, era.task.slices, meeting, reader, moved) for n, era in enumerate(task.eras))
    for bucket, body in chain(*told, held_buckets(range(comparer.ranges), meeting)):
        if bucket == FAILED:
            raise pickle.loads(body)
        parts.setdefault(bucket, []).append(body)
    counted = Counted()
    for body in parts.pop(QUARANTINED, []):
        counted = counted.plus(pickle.loads(body), task.show)
    for bucket in sorted(parts):
        more, rows = compare_bucket(map(pa.py_buffer, parts.pop(bucket)), meeting)
        counted = counted.plus(more, task.show)
        if rows is not None:
            found(rows)
    return counted


def _quarantined(stats: Sequence[FileStat], last: bool) -> Counted:
    """`last`: the era ends at the table's watermark."""
    later = frozenset(stat.path for stat in stats if stat.next_ts) if last else frozenset()
    return Counted(quarantined=tuple(row for stat in stats for row in stat.quarantined), later=later)


def _net(era: Era, reader: RangeReader) -> tuple[list[FileStat], pa.Table]:
    """The net rows of a table with no key: column ``n``, then ``c0 .. cN``."""
    files, stats = decode_files(era.task, reader)
    if not files:
        values = change_schema(era.task.target).empty_table().select(range(META, META + len(era.task.target.columns)))
        return stats, values.add_column(0, "n", pa.array([], pa.int64()))
    net = net_rows(files, era.task)
    return stats, fitting(net, era.task.target, era.task.dialect.clock)


def _as_now(rows: pa.Table, era: Era, task: CheckTask) -> pa.Table:
    """The values of an era's rows under the columns that the target has now; null where they are not known."""
    schema = change_schema(task.target)
    columns: dict[str, pa.ChunkedArray] = {}
    for position, place in enumerate(era.places):
        kind = schema.field(META + position).type
        if position in era.added:
            columns[f"c{position}"] = pa.chunked_array([pa.repeat(pa.scalar(era.added[position], kind), rows.num_rows)])
        elif place >= 0 and era.known[position]:
            columns[f"c{position}"] = rows.column(f"c{place}")
        else:
            columns[f"c{position}"] = pa.chunked_array([pa.nulls(rows.num_rows, kind)])
    return pa.table(columns)


def _is_value(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()
