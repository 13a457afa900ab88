"""One table of `verify`: the rows that the storage shows and those of the target meet in buckets by the hash of their
keys. Here the rows of a table that is no mirror are made from upstream's changes. This is executor code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consumer.changes.folding import decode_files, decode_folded, net_changes
from consumer.changes.identity import identities, key_codes
from consumer.changes.keyed import cut_by_bucket
from consumer.changes.table_modes import commit_times, fold_by_columns, mode_columns, next_changes, version_columns
from consumer.codec.change_table import META, Ints, change_schema
from consumer.errors import CannotBeExact
from consumer.model.check import CheckTask, Counted, Era, Modes
from consumer.model.load import FileSlice, FileStat, LoadPart, LoadTarget, LoadTask
from consumer.model.names import TableName
from consumer.model.table_modes import ModeKind
from consumer.model.times import MAX_TSO
from consumer.ports import Moved, RangeReader
from consumer.target import Comparer
from consumer.verify.compare import Compared, compare_keyed, compare_multisets
from consumer.verify.era_rows import ERA, in_current_columns, remaining_rows, unknown_columns, unknown_flags_name

HELD = -1
"""Stands for the target's rows in place of the number of an era."""
_ERA = b"era"

Group = Sequence[FileSlice]
Piece = range | tuple[int, Group] | None
Added = Sequence["pa.Array | pa.ChunkedArray"]
"""The values of the columns that a mode adds, in its order, as change tables have them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The `verify` of one table, as `ports.Work`. A piece is one of three: some of the ranges of the target's rows, of
    which `at_a_time` are read at the same time; an era with some of its slices; or None: all eras with earlier keys,
    which are read together. The schema of a table of rows has the era that they come from."""

    task: CheckTask
    comparer: Comparer
    reader: RangeReader
    at_a_time: int

    @property
    def table(self) -> TableName:
        return self.task.target.table

    @property
    def tasks(self) -> Sequence[LoadTask]:
        return [era.task for era in self.task.eras]

    @property
    def ranges(self) -> int:
        return self.comparer.ranges

    @property
    def is_large(self) -> bool:
        return self.task.mending

    def pieces(self, groups: Callable[[LoadTask], Sequence[Group]]) -> list[Piece]:
        """Returns the pieces. The slices of an era of a table with no key are read together."""
        readers = max(1, min(self.at_a_time, self.ranges))
        held_ranges = [range(number, self.ranges, readers) for number in range(readers)]
        keyed, earlier = bool(self.task.target.key), len(self.task.under_earlier_keys)
        eras = ((n, groups(task) if keyed else [task.slices]) for n, task in enumerate(self.tasks) if n >= earlier)
        return [
            *held_ranges,
            *([None] if earlier else ()),
            *((number, group) for number, of_era in eras for group in of_era),
        ]

    def rows(self, piece: Piece, buckets: int, moved: Moved) -> Iterator[tuple[int | None, pa.Table | Compared]]:
        if isinstance(piece, range):
            for number in piece:
                for rows in self.comparer.held(number):
                    yield from self._cut(rows, HELD, buckets)
        elif piece is None:
            yield from self._left_to_the_key_of_now(buckets, moved)
        else:
            yield from self._expected(*piece, buckets, moved)

    def made(self, rows: Sequence[pa.Table]) -> Compared:
        """Returns what differs in one bucket. Raises CannotBeExact."""
        parts_by_era: dict[int, list[pa.Table]] = {}
        for part in rows:
            parts_by_era.setdefault(int(part.schema.metadata[_ERA]), []).append(part.replace_schema_metadata(None))
        task, eras = self.task, {number: pa.concat_tables(parts) for number, parts in parts_by_era.items()}
        held = eras.pop(HELD, None)
        if not task.target.key:
            return compare_multisets(task, eras, held)
        folded = {n: fold_by_columns(rows, task.eras[n].task, task.upstream_key) for n, rows in eras.items()}
        return compare_keyed(task, _mode_eras(task, folded, self.comparer), held)

    def _expected(
        self, number: int, pieces: Group, buckets: int, moved: Moved
    ) -> Iterator[tuple[int | None, pa.Table | Compared]]:
        """Yields the changes in slices of one era by bucket; for a table with no key those in all slices of the era."""
        task, era = self.task, self.task.eras[number]
        if task.target.key:
            stats, rows = decode_folded(pieces, era.task, self.reader)
        else:
            files, stats = decode_files(era.task, self.reader)
            rows = net_changes(files, era.task)
        if era.task.target.load.quarantine is not None:
            yield None, (_quarantined(stats, last=number == len(task.eras) - 1), None)
        moved(LoadPart(sum(piece.length for piece in pieces) // 2, changes=rows.num_rows))
        meta = rows.select([name for name in rows.column_names if not _is_value(name)])
        current = in_current_columns(rows, era, task.target, task.converted)
        yield from self._cut(self._normal(meta, current), number, buckets)

    def _left_to_the_key_of_now(self, buckets: int, moved: Moved) -> Iterator[tuple[int | None, pa.Table | Compared]]:
        """Yields the rows that existed when the table got its current key, each as a put of the era that left it."""
        task, eras, stats = self.task, self.task.under_earlier_keys, list[FileStat]()
        remaining = remaining_rows(eras, task.target, self.reader, task.complete, _check_known, task.converted, stats)
        moved(LoadPart(sum(era.task.bytes for era in eras) // 2, changes=remaining.num_rows))
        if any(era.task.target.load.quarantine is not None for era in eras):
            yield None, (_quarantined(stats, last=False), None)
        number = remaining.column(ERA).to_numpy()
        for era in eras:
            era_remaining = remaining.filter(pa.array(number == era.task.number)).drop_columns([ERA])
            ones = pa.array(np.ones(era_remaining.num_rows, np.int64))
            meta = pa.table({"n": ones}) if not task.target.key else _puts(era_remaining.num_rows, era, task.target)
            yield from self._cut(self._normal(meta, era_remaining), era.task.number, buckets)

    def _normal(self, meta: pa.Table, current: pa.Table) -> pa.Table:
        """Returns rows of `in_current_columns` with their values in the target's normal form, after the columns of
        `meta`; for a repair also with the values to write. Raises CannotBeExact."""
        _check_told(current, self.task)
        task, values = self.task, [f"c{position}" for position in range(len(self.task.target.columns))]
        expected = self.comparer.expected(current.select(values))
        for position, name in enumerate(meta.column_names):
            expected = expected.add_column(position, name, meta.column(name))
        for position, name in enumerate(values if task.mending else ()):
            expected = expected.append_column(f"r{position}", current.column(name))
        for name in map(unknown_flags_name, task.converted):
            expected = expected.append_column(name, current.column(name))
        return expected

    def _cut(self, rows: pa.Table, era: int, buckets: int) -> Iterator[tuple[int, pa.Table]]:
        """Yields `rows` by the hash of upstream's key; those of a table with no key by the hash of all compared
        values."""
        if not rows.num_rows:
            return
        task, marked = self.task, rows.replace_schema_metadata({_ERA: str(era).encode()})
        if buckets == 1:
            yield 0, marked
            return
        values = rows if task.target.key else rows.select([f"c{position}" for position in task.compared])
        bucket = identities(values, task.upstream_key) % np.uint64(buckets)
        yield from cut_by_bucket(marked, bucket.astype(np.int64), buckets)


def sum_counts(results: Iterable[Compared], show: int, add_rows: Callable[[pa.Table], None]) -> Counted:
    """Returns the sum of what all buckets report. `found` is called with their rows to repair."""
    total = Counted()
    for of_bucket, rows in results:
        total = total.plus(of_bucket, show)
        if rows is not None:
            add_rows(rows)
    return total


def _quarantined(stats: Sequence[FileStat], last: bool) -> Counted:
    """Returns the quarantined lines as counts. `last`: the era ends at the table's watermark."""
    later = frozenset(stat.path for stat in stats if stat.next_ts) if last else frozenset()
    return Counted(quarantined=tuple(row for stat in stats for row in stat.quarantined), later=later)


def _check_told(current: pa.Table, task: CheckTask) -> None:
    """Raises CannotBeExact if a value that distinguishes rows is not known."""
    needed = set(unknown_columns(current, task.converted)) & set(task.upstream_key or task.compared)
    if needed:
        names = ", ".join(task.target.names[position] for position in sorted(needed))
        raise CannotBeExact(
            f"what upstream made of some older values of {names} is not known, and without them its rows are not told"
            " apart",
            hint="see which of its statements was skipped, and reload the table from an export with `load-export`",
        )


def _check_known(era: Era, by_all_values: bool, unknown: Collection[int]) -> None:
    """Raises CannotBeExact if rows are distinguished by values that are not known."""
    if by_all_values and (unknown or not (era.kept and all(era.known))):
        raise CannotBeExact(
            "it had no key before a statement gave it one, and others changed its rows or columns in a way that the"
            " storage does not show"
        )


def _puts(count: int, era: Era, target: LoadTarget) -> pa.Table:
    """Returns the columns before the values, of `count` puts at the end of the era."""
    schema = change_schema(target)
    values = (era.task.window.end, True, 0, 0)
    columns = [pa.repeat(pa.scalar(value, kind), count) for value, kind in zip(values, schema.types, strict=False)]
    return pa.table(columns, schema=pa.schema(list(schema)[:META]))


def _is_value(name: str) -> bool:
    return name[0] == "c" and name[1:].isdigit()


def _mode_eras(task: CheckTask, eras: Mapping[int, pa.Table], comparer: Comparer) -> Mapping[int, pa.Table]:
    """Returns `eras`, the finally folded changes of each era with the values of upstream's columns in their normal
    form, with the values that the mode adds. In a mode that keeps ended rows each row is a put."""
    modes = task.modes
    if modes is None or not eras:
        return eras
    values: dict[int, Added]
    match modes.kind:
        case ModeKind.HISTORY:
            eras, values = _versions(eras, modes)
        case ModeKind.SOFT_DELETE:
            values = {number: [commit_times(_end_times(rows, modes))] for number, rows in eras.items()}
        case _:
            values = {number: mode_columns(rows, task.eras[number].task) for number, rows in eras.items()}
            if modes.ends:
                eras, values = _with_ends(eras, values, modes)
    return {number: _valued(task, rows, values[number], comparer) for number, rows in eras.items()}


def _versions(eras: Mapping[int, pa.Table], modes: Modes) -> tuple[dict[int, pa.Table], dict[int, Added]]:
    """Returns the rows that came, each valid up to the next change of its key or to a statement that ended all rows."""
    new_eras, values = dict[int, pa.Table](), dict[int, Added]()
    for number, rows, ts, until, ends in _followed(eras, modes):
        is_put = rows.column("put").to_numpy()
        new_eras[number] = rows.filter(pa.array(is_put))
        values[number] = version_columns(ts[is_put], np.minimum(until, ends)[is_put])
    return new_eras, values


def _end_times(rows: pa.Table, modes: Modes) -> Ints:
    """Returns when each row ended: by its own change, or by the first statement after it; 0 for never."""
    put, ts = rows.column("put").to_numpy(), rows.column("ts").to_numpy()
    ends = _first_end(ts, modes)
    return np.where(put, np.where(ends == MAX_TSO, 0, ends), ts)


def _with_ends(
    eras: Mapping[int, pa.Table], values: Mapping[int, Added], modes: Modes
) -> tuple[dict[int, pa.Table], dict[int, Added]]:
    """Adds a deleted row for each row that existed when a statement ended all of them."""
    new_eras, new_values = dict[int, pa.Table](), dict[int, Added]()
    statements = np.array([version for version, _ in modes.ends], np.int64)
    names = pa.array([name for _, name in modes.ends], pa.large_string())
    for number, rows, _, until, ends in _followed(eras, modes):
        ended = rows.column("put").to_numpy() & (ends < until)
        ended_rows, ended_ts = rows.filter(pa.array(ended)), ends[ended]
        version = pa.array(ended_ts).cast(pa.large_string())
        table = names.take(pa.array(np.searchsorted(statements, ended_ts)))
        closing = [pa.repeat(pa.scalar("D", pa.large_string()), ended_rows.num_rows), version, table, version]
        new_eras[number] = pa.concat_tables([rows, ended_rows])
        new_values[number] = [_together(*both) for both in zip(values[number], closing, strict=True)]
    return new_eras, new_values


def _followed(eras: Mapping[int, pa.Table], modes: Modes) -> Iterator[tuple[int, pa.Table, Ints, Ints, Ints]]:
    """Yields each era's number and rows, with three numbers for each row: its commit-ts, that of the next change of its
    key, and that of the first statement after it that ended all rows; MAX_TSO if there is none."""
    numbers, begin = sorted(eras), 0
    codes, _ = key_codes([_of_all(eras, numbers, f"c{position}") for position in modes.key])
    ts, put = (_of_all(eras, numbers, name).to_numpy() for name in ("ts", "put"))
    until, ends = next_changes(codes, ts, put), _first_end(ts, modes)
    for number in numbers:
        of_era = slice(begin, begin := begin + eras[number].num_rows)
        yield number, eras[number], ts[of_era], until[of_era], ends[of_era]


def _first_end(ts: Ints, modes: Modes) -> Ints:
    """Returns the first statement that ended rows at or after each commit-ts, MAX_TSO if there is none."""
    versions = np.array([version for version, _ in modes.ends] + [MAX_TSO], np.int64)
    return versions[np.searchsorted(versions, ts, side="left")]


def _valued(task: CheckTask, rows: pa.Table, values: Added, comparer: Comparer) -> pa.Table:
    modes, schema = task.modes, change_schema(task.target)
    assert modes is not None
    kinds = schema.types[META:]
    raw = [pa.nulls(rows.num_rows, kind) for kind in kinds]
    for position, index in modes.added.items():
        raw[position] = _together(values[index]).cast(kinds[position])
    normal = comparer.expected(pa.table(raw, names=schema.names[META:])) if modes.added else rows
    for position in modes.added:
        rows = _with(rows, f"c{position}", normal.column(f"c{position}"))
        if task.mending:
            rows = _with(rows, f"r{position}", pa.chunked_array([raw[position]]))
    if modes.kind in (ModeKind.CHOSEN, ModeKind.MERGE):
        return rows
    return _with(rows, "put", pa.chunked_array([np.ones(rows.num_rows, np.bool_)]))


def _with(rows: pa.Table, name: str, values: pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def _of_all(eras: Mapping[int, pa.Table], numbers: Sequence[int], name: str) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for number in numbers for chunk in eras[number].column(name).chunks])


def _together(*parts: pa.Array | pa.ChunkedArray) -> pa.Array:
    chunks = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())
