"""One table of `verify`: the rows that the storage says and those of the target meet in buckets by the hash of their
keys. Executor side: no pyspark, no driver code."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from consumer.changes.folding import decode_files, decode_folded, net_changes
from consumer.changes.identity import identities
from consumer.changes.keyed import cut
from consumer.changes.table_modes import folded
from consumer.codec.change_table import META, change_schema
from consumer.errors import ConsumerError
from consumer.model.check import CheckTask, Counted, Era
from consumer.model.load import FileStat, LoadPart
from consumer.ports import Found, Moved, RangeReader, unheard
from consumer.spark.buckets import FAILED, RESULT, SHUFFLED, Exchange, Part
from consumer.spark.check_modes import formed_eras
from consumer.spark.compare import Compared, compare_keyed, compare_multisets
from consumer.spark.failures import first_error
from consumer.spark.sizes import Group
from consumer.spark.tasks import of_table
from consumer.target import Comparer

HELD = -1
"""Instead of the number of an era: rows of the target."""
_ERA = b"era"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One table's `verify`, as `consumer.spark.buckets.Halves`. The first sources read ranges of the target's rows: one
    of `readers` after the other. The others decode `groups`: an era, and slices of it.

    A part of a bucket is a table whose schema says of which era its rows are. A result is a pickled `Compared`, or a
    ConsumerError.
    """

    task: CheckTask
    comparer: Comparer
    reader: RangeReader
    groups: Sequence[tuple[int, Group]]
    readers: int = 1
    buckets: int = 1
    moved: Moved = unheard
    exchange: Exchange = SHUFFLED

    @property
    def sources(self) -> int:
        return self.readers + len(self.groups)

    def parts(self, source: int) -> Iterator[Part]:
        try:
            if source >= self.readers:
                yield from self._expected(*self.groups[source - self.readers])
                return
            for number in range(source, self.comparer.ranges, self.readers):
                for rows in self.comparer.held(number):
                    yield from self._buckets(rows, HELD)
        except Exception as error:
            yield Part(FAILED, pickle.dumps(of_table(error, self.task.target)))

    def results(self, rows: Iterator[tuple[int, pa.Buffer]], buckets: int) -> Iterator[bytes]:
        for bucket, group in groupby(rows, key=lambda row: row[0]):
            if bucket < 0:
                yield from (bytes(body) for _, body in group)
                if bucket == FAILED:
                    return
                continue
            try:
                yield pickle.dumps(self._compared([body for _, body in group]))
            except Exception as error:
                yield pickle.dumps(of_table(error, self.task.target))

    def _expected(self, number: int, pieces: Group) -> Iterator[Part]:
        """The changes in slices of one era, in buckets; of a table with no key in all slices of the era."""
        task, era = self.task, self.task.eras[number]
        if task.target.key:
            stats, rows = decode_folded(pieces, era.task, self.reader)
        else:
            files, stats = decode_files(era.task, self.reader)
            rows = net_changes(files, era.task)
        if era.task.target.load.quarantine is not None:
            yield Part(RESULT, pickle.dumps((_quarantined(stats, last=number == len(task.eras) - 1), None)))
        now = _as_now(rows, era, task)
        expected = self.comparer.expected(now)
        self.moved(LoadPart(sum(piece.length for piece in pieces) // 2, changes=rows.num_rows))
        meta = [name for name in rows.column_names if not _is_value(name)]
        for position, name in enumerate(meta):
            expected = expected.add_column(position, name, rows.column(name))
        for position in range(len(now.columns)) if task.mending else ():
            expected = expected.append_column(f"r{position}", now.column(position))
        yield from self._buckets(expected, number)

    def _buckets(self, rows: pa.Table, era: int) -> Iterator[Part]:
        """`rows` by the hash of upstream's key, of a table with no key of all values that are compared."""
        if not rows.num_rows:
            return
        task, marked = self.task, rows.replace_schema_metadata({_ERA: str(era).encode()})
        values = rows if task.target.key else rows.select([f"c{position}" for position in task.compared])
        bucket = identities(values, task.upstream_key) % np.uint64(self.buckets) if self.buckets > 1 else None
        parts = [(0, marked)] if bucket is None else cut(marked, bucket.astype(np.int64), self.buckets)
        for number, part in parts:
            yield Part(number, self.exchange.put(part), part.nbytes)

    def _compared(self, bodies: Sequence[pa.Buffer]) -> Compared:
        """What differs in one bucket. Raises CannotBeExact."""
        found: dict[int, list[pa.Table]] = {}
        for body in bodies:
            rows = self.exchange.get(body)
            found.setdefault(int(rows.schema.metadata[_ERA]), []).append(rows.replace_schema_metadata(None))
        task, eras = self.task, {number: pa.concat_tables(parts) for number, parts in found.items()}
        held = eras.pop(HELD, None)
        if not task.target.key:
            return compare_multisets(task, eras, held)
        last = {n: folded(rows, task.eras[n].task, task.upstream_key) for n, rows in eras.items()}
        return compare_keyed(task, formed_eras(task, last, self.comparer), held)


def counted(results: Iterable[bytes], task: CheckTask, found: Found) -> Counted:
    """What all buckets found together; `found` gets their rows to mend. Raises what one of them met."""
    sum_of_all, errors = Counted(), []
    for result in map(pickle.loads, results):
        if isinstance(result, ConsumerError):
            errors.append(result)
            continue
        sum_of_all = sum_of_all.plus(result[0], task.show)
        if result[1] is not None and not errors:
            found(result[1])
    if (met := first_error(errors)) is not None:
        raise met
    return sum_of_all


def _quarantined(stats: Sequence[FileStat], last: bool) -> Counted:
    """`last`: the era ends at the table's watermark."""
    later = frozenset(stat.path for stat in stats if stat.next_ts) if last else frozenset()
    return Counted(quarantined=tuple(row for stat in stats for row in stat.quarantined), later=later)


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
