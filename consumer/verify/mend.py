"""Repairs rows of the target, so that they are what the storage shows at the table's watermark. Rows that differ are
kept on disk. They are then written by the loads' own writer, or as statements to a file for a person to run."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from consumer.codec.change_table import META, change_schema
from consumer.errors import BadConfig, CannotBeExact, ConsumerError, RowRefused
from consumer.model.bad_rows import BadRow, Quarantine, refused_row
from consumer.model.check import CheckTask
from consumer.model.load import Dialect, LoadOutcome, LoadTarget, LoadTask, Purpose, Receipt
from consumer.model.names import same_name, same_names
from consumer.model.patience import WRITE_SECONDS
from consumer.model.process import put_in_place
from consumer.model.progress import AuditRow, ProgressChange
from consumer.model.rules import hide_masked_values
from consumer.model.steps import Window
from consumer.model.texts import count_text
from consumer.model.times import MAX_TSO
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.spark import quarantine
from consumer.spark.failures import cannot_be_written
from consumer.target import Comparer, Sink, WriteSession
from consumer.verify.compare import DELETE, INSERT, PUTS, REWRITE, UPDATE

RUN_THEM = """-- Run them once, while no consumer of this name runs, with a client that stops at the first error (mysql
-- without --force, duckdb with -bail).
"""


class Spool:
    """Tables in a temporary file of this process. The file is created for the first table and removed on leaving."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, table: pa.Table) -> None:
        """Keeps `table`. Raises TargetUnavailable if the disk does not take it."""
        if not table.num_rows:
            return
        try:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  # closed on leaving
            with pa.ipc.new_stream(self._file, table.schema) as stream:
                stream.write_table(table)
        except OSError as error:
            raise cannot_be_written(error) from error

    def __iter__(self) -> Iterator[pa.Table]:
        """Yields the tables in the order in which they came, and reads one at a time."""
        if self._file is None:
            return
        end = self._file.tell()
        self._file.seek(0)
        while self._file.tell() < end:
            yield pa.ipc.open_stream(self._file).read_all()


class DifferingRows:
    """Rows that differ. `add` takes rows in the form of `consumer.verify.compare`. They are returned as changes of a
    target to write to, which can have other columns than the one that was read, and in another order."""

    def __init__(self, task: CheckTask, comparer: Comparer) -> None:
        self._task, self._comparer = task, comparer
        self._held = ExitStack()
        self._parts: dict[tuple[int, int], Spool] = {}
        self.new: Counter[int] = Counter()
        """By group, how many rows do not exist yet."""

    def __enter__(self) -> DifferingRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def add(self, rows: pa.Table) -> None:
        """Raises TargetUnavailable if the disk does not take them."""
        if not self._task.target.key:
            self._spool(0, 0).add(rows)
            return
        pairs = np.stack([rows.column("kind").to_numpy(), rows.column("group").to_numpy()])
        for kind, group in np.unique(pairs, axis=1).T:
            chosen = (pairs[0] == kind) & (pairs[1] == group)
            self._spool(int(kind), int(group)).add(rows.filter(pa.array(chosen)))
            self.new[int(group)] += int(chosen.sum()) if kind == INSERT else 0

    def removed(self, target: LoadTarget, rewritten: bool = False) -> Iterator[pa.Table]:
        """Yields the deletes as changes of `target`; with `anew` also those of keys that several rows have."""
        for rows in self._parts.get((DELETE, 0), ()):
            yield self._changes(self._comparer.changes(rows), target, put=False)
        for group in range(len(self._task.groups)) if rewritten else ():
            for rows in self._parts.get((REWRITE, group), ()):
                yield self._changes(rows, target, put=False)

    def written(self, group: int, target: LoadTarget, kinds: Sequence[int] = PUTS) -> Iterator[pa.Table]:
        """Yields the puts of one of the task's groups, and of these kinds, as changes of `target`. A row that would not
        have all of its values is left out."""
        can_insert = target.defaults or not target.extra_columns
        for kind in kinds if can_insert else {UPDATE}.intersection(kinds):
            for rows in self._parts.get((kind, group), ()):
                yield self._changes(rows, target, put=True)

    def copies(self, target: LoadTarget) -> Iterator[pa.Table]:
        """Yields the rows of a table with no key, with ``n`` and ``held``."""
        for rows in self._parts.get((0, 0), ()):
            stored = rows.column("stored")
            for part, is_stored in ((rows.filter(stored), True), (rows.filter(pc.invert(stored)), False)):
                if part.num_rows:
                    values = self._values(part if is_stored else self._comparer.changes(part), target)
                    names = ["n", "held", *(f"c{n}" for n in range(len(values)))]
                    yield pa.table([part.column("n"), part.column("held"), *values], names=names)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be repaired."""
        return not self._parts

    @property
    def groups(self) -> list[int]:
        """The task's groups that have puts."""
        return sorted({group for kind, group in self._parts if kind in PUTS})

    def _spool(self, kind: int, group: int) -> Spool:
        if (kind, group) not in self._parts:
            self._parts[kind, group] = self._held.enter_context(Spool())
        return self._parts[kind, group]

    def _changes(self, rows: pa.Table, target: LoadTarget, put: bool) -> pa.Table:
        return as_changes(rows, self._task.target, target, put)

    def _values(self, rows: pa.Table, target: LoadTarget) -> list[pa.ChunkedArray]:
        return _values(rows, self._task.target, target)


def as_changes(rows: pa.Table, source: LoadTarget, target: LoadTarget, put: bool) -> pa.Table:
    """Returns `rows`, with the columns of `source`, as changes of a target that can have other columns, and in another
    order."""
    schema = change_schema(target)
    pairs = zip((0, put, 0, 0), schema.types[:META], strict=True)
    marks = (pa.repeat(pa.scalar(value, kind), rows.num_rows) for value, kind in pairs)
    return pa.table([*marks, *_values(rows, source, target)], schema=schema)


def _values(rows: pa.Table, source: LoadTarget, target: LoadTarget) -> list[pa.ChunkedArray]:
    positions = {column.name: position for position, column in enumerate(source.columns)}
    kinds = change_schema(target).types[META:]
    pairs = zip(target.columns, kinds, strict=True)
    return [rows.column(f"c{positions[column.name]}").cast(kind) for column, kind in pairs]


class Repairer(Protocol):
    """Handles the rows of a table that differ. `targets` are what they are written to, by group of columns that are
    known; `watermark` is the table's applied-ts in the progress."""

    def mend(self, rows: DifferingRows, targets: Mapping[int, LoadTarget], watermark: int) -> list[BadRow] | None:
        """Returns the rows that the target refused, or None if the target was not changed. Raises TableError,
        Retryable, LeaseHeld, ProgressMoved."""


@dataclass(frozen=True)
class Repair:
    """Writes the rows, as the consumer of the target. A put does not change columns whose values are not known, and no
    other row than its own. After an error some of the rows may be right."""

    sink: Sink
    dialect: Dialect

    def mend(self, rows: DifferingRows, targets: Mapping[int, LoadTarget], watermark: int) -> list[BadRow] | None:
        writer = self.sink.writer()
        try:
            with writer.session(WRITE_SECONDS) as session:
                receipts = {group: _written(session, rows, group, target) for group, target in targets.items()}
        finally:
            self.sink.end(writer)
        window = Window(watermark, MAX_TSO)  # the table's watermark does not move
        outcomes = [
            LoadOutcome(LoadTask(group, target, window, (), self.dialect), (), tuple(receipts[group]))
            for group, target in targets.items()
        ]
        refused = [row for outcome in outcomes for row in outcome.quarantined.values()]
        while True:
            puts, deletes = sum(outcome.puts for outcome in outcomes), sum(outcome.deletes for outcome in outcomes)
            audit = AuditRow("repair", targets[0].table, watermark, watermark, puts=puts, deletes=deletes)
            try:
                self.sink.commit(outcomes, ProgressChange(audit=(audit,)))
                break
            except RowRefused as error:
                if targets[0].load.quarantine is None or not error.rows:
                    raise hide_masked_values(error, targets[0].load.shaping) from None
                keyed = bool(targets[0].key)
                refused += [refused_row(reason, row, put, keyed) for row, put, reason in error.rows]
                refused_ids = {row for row, _, _ in error.rows}
                outcomes = [replace(outcome, unpublished=outcome.unpublished | refused_ids) for outcome in outcomes]
        self.sink.rest()
        return refused


@dataclass(frozen=True)
class RepairFile:
    """Writes the statements to `file`, which will be called `name`. Each table is one transaction; the file has all its
    statements or none."""

    sink: Sink
    file: IO[bytes]
    name: str

    def mend(self, rows: DifferingRows, targets: Mapping[int, LoadTarget], watermark: int) -> list[BadRow] | None:
        start = self.file.tell()
        try:
            with file_errors(self.name):
                self._write(rows, targets, watermark)
        except BaseException:
            self.file.seek(start)
            self.file.truncate()
            raise
        return None

    def _write(self, rows: DifferingRows, targets: Mapping[int, LoadTarget], watermark: int) -> None:
        script = self.sink.script(targets[0])
        self.file.write(f"-- {' '.join(str(targets[0].table).split())} at {watermark}\n".encode())
        self.file.write(script.begin(self.sink.lease_generation()))
        for part in rows.removed(targets[0], rewritten=True):
            self.file.writelines(script.remove(targets[0], part))
        for group, target in targets.items():
            for exists, kinds in ((True, (UPDATE,)), (False, (INSERT, REWRITE))):
                for part in rows.written(group, target, kinds):
                    self.file.writelines(script.write(target, part, exists))
        for part in rows.copies(targets[0]):
            self.file.writelines(script.copies(targets[0], part))
        self.file.write(script.end())


@contextmanager
def new_file(name: str) -> Iterator[IO[bytes]]:
    """Opens a file that gets its name when it is complete. Raises BadConfig."""
    part_name = f"{name}.part"
    with file_errors(name):
        if os.path.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file = open(part_name, "wb")  # noqa: SIM115 - what is raised while it is open is not all of this file
    try:
        with file:
            yield file
            with file_errors(name):
                put_in_place(file, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part_name)


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Raises BadConfig if the file does not take what is written to it."""
    try:
        yield
    except OSError as error:
        raise BadConfig(f"{name} cannot be written: {error.strerror}", hint="name another file") from error


def write_targets(
    sink: Sink,
    version: TableVersionConsumer,
    task: CheckTask,
    groups: Sequence[int],
    quarantine: Quarantine | None,
) -> dict[int, LoadTarget]:
    """Returns by group what rows of these groups of the task are written to; deletes use group 0. Raises the errors
    that the target reports."""
    numbers = list(dict.fromkeys((0, *groups)))
    names = [column.name for column in task.target.columns]
    absent = [
        tuple(name for name, is_known in zip(names, task.groups[number], strict=True) if not is_known)
        for number in numbers
    ]
    request = version.request(task.target.load.absent, Purpose.MEND, quarantine)
    request_names = same_names(column.name for column in request.columns)
    other_columns = tuple(column for column in task.target.columns if same_name(column.name) not in request_names)
    full_request = replace(request, columns=(*request.columns, *other_columns))
    answers = sink.prepare(
        [replace(full_request, load=replace(full_request.load, absent=columns)) for columns in absent]
    )
    targets: dict[int, LoadTarget] = {}
    for number, answer in zip(numbers, answers, strict=True):
        if isinstance(answer, ConsumerError):
            raise answer
        if _key(answer) != _key(task.target):
            raise CannotBeExact("its rows are found by another key when they are written", table=str(answer.table))
        targets[number] = answer
    return targets


def default_notes(rows: DifferingRows, targets: Mapping[int, LoadTarget]) -> Iterator[str]:
    """Yields notes about missing rows of which the storage does not have all values."""
    for group, target in targets.items():
        if target.extra_columns and (count := rows.new[group]):
            new_rows, names = count_text(count, "row is", "rows are"), ", ".join(target.extra_columns)
            if target.defaults:
                yield f"{new_rows} new, with the target's defaults in {names}: the storage has no values of them"
            else:
                yield f"{new_rows} missing still: the storage has no values of {names}, and the target has no defaults"


def _key(target: LoadTarget) -> set[str]:
    return {target.columns[position].name for position in target.key}


def _written(session: WriteSession, rows: DifferingRows, group: int, target: LoadTarget) -> list[Receipt]:
    """Writes the rows of a group. The deletes are in group 0, before all puts."""
    if not target.key:
        return [receipt for part in rows.copies(target) for receipt in quarantine.write_copies(session, target, part)]
    parts: Iterable[pa.Table] = chain(() if group else rows.removed(target), rows.written(group, target))
    if target.in_one_call:
        all_parts = list(parts)
        parts = [pa.concat_tables(all_parts)] if all_parts else []
    return [receipt for part in parts for receipt in quarantine.write(session, target, part)]
