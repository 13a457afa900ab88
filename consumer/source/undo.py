"""A range of a table's changes taken back: one statement for each row, from the state that the range left it in to the
one that it was found in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO

import numpy as np
import pyarrow as pa

from consumer.app.parts import open_ports, upstream_refusal
from consumer.changes.identity import first_of_equal, row_codes
from consumer.codec.change_table import PUT, TS, Flags, Ints, value_schema
from consumer.codec.typed import typed_values
from consumer.config.settings import Settings
from consumer.errors import BadConfig, CannotBeExact, CheckpointBehind, ConsumerError, TableError
from consumer.model.check import Era
from consumer.model.columns import Column
from consumer.model.load import LoadTarget, Purpose
from consumer.model.names import TableName, same_name, same_names
from consumer.model.progress import DdlState, Progress
from consumer.model.steps import LoadRows, Window
from consumer.model.times import time_text
from consumer.model.types.conversions import Conversion, Way
from consumer.pipeline.context import Ports
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.options import RoundOptions
from consumer.ports import Observer
from consumer.results import UndoResult
from consumer.source.output import shares
from consumer.source.planning import Plan, TablePlan
from consumer.source.reading import Changes, changes_of
from consumer.source.story import plan_changes
from consumer.source.unshown import files_that_move_rows
from consumer.target import Script
from consumer.verify.mend import RUN_THEM, as_changes

_REASONS = (
    "it was changed again after the range",
    "a later statement changed the table's columns, key or rows",
    "the files do not have its old values",
    "it had another value of a unique key that is younger, and a row that was not changed since may have that value",
    "another row, which stays or comes back, has a unique value that it had",
    "a row that is taken back too has a unique value that it had, and the target has columns of its own",
)
_CHOSEN, _THERE, _FINAL = "chosen", "there", "final"


def undo(
    settings: Settings, observer: Observer, table: TableName, first: int, last: int | None, where: str, file: IO[bytes]
) -> UndoResult:
    """Write to `file` the statements that take back what was committed to a table after `first` and up to `last` (None:
    all that the target has), for rows of which a change fits the expression `where`. Changes nothing. Raises BadConfig,
    LeaseHeld while a consumer of the name runs, and what the table cannot be taken back for."""
    options = settings.round_options
    with open_ports(settings, observer) as ports, ports.sink.still() as progress:
        _check_progress(settings, ports, progress)
        plan = _planned(settings, table, where, first)
        source = plan.tables[0].target
        _check_table(options, source)
        place = progress.table(source.table).applied_ts
        if plan.end < place:
            raise CheckpointBehind(
                f"the storage's checkpoint, {time_text(plan.end)}, is below what was applied already,"
                f" {time_text(place)}: which rows were changed again after the range is not known",
                hint="take it back once TiCDC is past that again",
                table=str(source.table),
            )
        last = place if last is None else last
        if last <= first:
            raise BadConfig(f"--to-ts ({time_text(last)}) is not after --from-ts ({time_text(first)})")
        if last > place:
            raise CheckpointBehind(
                f"the target has the changes of the table up to {time_text(place)} only",
                hint="run `once` first, or give an earlier --to-ts",
                table=str(source.table),
            )
        history = plan.catalog.history
        moving = files_that_move_rows(history, history.alive[source.table], plan.end)
        taken = sorted(file.version for file in moving)
        _check_statements(source, taken, first, last)
        _check_beginning(plan, progress, first)
        _check_spelling(plan, first, last)
        target = _write_target(options, plan, place, ports)
        script = ports.sink.script(target)
        rows = _Rows.of(
            plan, last, max(taken, default=0), one_by_one=bool(target.extra_columns) and not script.exchanges
        )
        file.writelines(_head(rows, source, first, last))
        file.writelines(_statements(rows, source, target, script, ports.sink.lease_generation()))
        left_out = {reason: some.num_rows for some, reason in rows.left_out}
        return UndoResult(table=source.table, from_ts=first, to_ts=last, rows=rows.count, left_out=left_out)


def _planned(settings: Settings, table: TableName, where: str, first: int) -> Plan:
    """All changes from `first` on. Raises GapFound also where a loss is accepted: later changes can be in it."""
    hint = "restore the missing file: without it, nothing shows which rows were changed again after the range"
    whole = settings.model_copy(update={"accept_gap_in": ()})
    return plan_changes(whole, str(table), (), where, first, gap_hint=hint)


def _check_progress(settings: Settings, ports: Ports, progress: Progress) -> None:
    if progress.is_empty:
        raise BadConfig(
            f"nothing was applied under the name {settings.name!r} yet: there is nothing to take back",
            hint="give the --name that was used",
        )
    if (error := upstream_refusal(settings, ports.reader.own, progress)) is not None:
        raise error
    if any(record.state is DdlState.INTENT for record in progress.ddls.values()):
        raise CannotBeExact(
            "a statement has begun, and whether it has run is not recorded", hint="run `once` first, which finds out"
        )


def _check_table(options: RoundOptions, source: LoadTarget) -> None:
    """Raises CannotBeExact where the target's rows are not those that the files have."""
    mode, shaping = options.rules.naming.mode(source.table), options.rules.shaping_of(source.table)
    if mode is not None:
        why = f"the target does not have its rows as upstream has them: {mode}"
    elif shaping is not None:  # planning has refused filters
        masked = [column.name for column in source.columns if shaping.mask_of(column.name) is not None]
        why = f"its columns {', '.join(masked)} are masked, and what they had must not be written"
    elif not source.key:
        why = "it has no key, so which of its rows a change was of cannot be known"
    else:
        return
    raise CannotBeExact(
        why, hint="`changes` prints what was done to the table; take it back by hand", table=str(source.table)
    )


def _uniques(plan: Plan) -> list[list[int]]:
    """The positions of the columns of each unique key that the statements tell."""
    (table,) = plan.tables
    places = {same_name(column.name): at for at, column in enumerate(table.target.columns)}
    files = plan.catalog.history.alive[table.target.table].files
    told = plan.catalog.shape([file for file in files if file.version <= plan.end][-1]).known_unique_columns
    return [sorted(places[name] for name in columns) for columns in told if columns <= places.keys()]


def _younger_uniques(plan: Plan, uniques: Sequence[list[int]]) -> list[list[int]]:
    """Returns those of the unique keys that the table did not have when the plan begins. Rows not changed since then
    can have any value in them."""
    (table,) = plan.tables
    files = [file for file in plan.catalog.history.alive[table.target.table].files if file.version <= plan.asked.first]
    if not files:  # no row is older than the table
        return []
    era, unique_then = table.eras[0], plan.catalog.shape(files[-1]).known_unique_columns
    columns = era.task.source.columns

    def name_then(at: int) -> str:
        return same_name(columns[era.places[at]].name) if era.places[at] >= 0 else ""

    return [places for places in uniques if {name_then(at) for at in places} not in unique_then]


def _check_statements(source: LoadTarget, versions: Sequence[int], first: int, last: int) -> None:
    """Raises CannotBeExact where one of them is in the range."""
    inside = [version for version in versions if first < version <= last]
    if inside:
        raise CannotBeExact(
            f"the statement of version {inside[-1]} took rows away, or brought some, and no change shows which",
            hint=f"give --from-ts {inside[-1]} to take back what was committed after it; the rows before it are in a"
            " backup of the target, or in an export of upstream",
            table=str(source.table),
        )


def _check_beginning(plan: Plan, progress: Progress, first: int) -> None:
    """Raises CannotBeExact where the storage need not have every change after `first`: of a table without a CREATE
    TABLE there it has those since the target was given the table."""
    name = plan.tables[0].target.table
    own = plan.catalog.history.alive[name]
    begins = progress.start_of(name) or own.files[0].version
    if own.birth is None and first < begins:
        raise CannotBeExact(
            f"it is older than the storage's changes, which are known to be all only after {time_text(begins)}",
            hint=f"give --from-ts {begins}; rows of an earlier moment are in a backup of the target",
            table=str(name),
        )


def _check_spelling(plan: Plan, first: int, last: int) -> None:
    """Raises CannotBeExact where a statement in the range changed how values of a key are written: it is not known then
    which changes before and behind it are of one row."""
    (table,) = plan.tables
    keys = {*table.target.key, *(at for places in _uniques(plan) for at in places)}
    for era in reversed(table.eras):
        pairs = [(at, era.places[at]) for at in sorted(keys) if era.places[at] >= 0]
        other = [at for at, then in pairs if _is_respelled(era.task.source.columns[then], table.target.columns[at])]
        if other and first < era.task.window.end < last:
            names, version = ", ".join(table.target.columns[at].name for at in other), era.task.window.end
            raise CannotBeExact(
                f"the statement of version {version} changed the type of {names}, by which rows are told apart",
                hint=f"give --from-ts {version} to take back what was committed after it",
                table=str(table.target.table),
            )


def _is_respelled(old: Column, new: Column) -> bool:
    """Whether the files have values of `old` otherwise than those of `new` that mean the same. Numbers of labels are
    those of now."""
    return Conversion(old, replace(new, nullable=True)).way is not Way.KEPT and not (old.labelled and new.labelled)


def _write_target(options: RoundOptions, plan: Plan, place: int, ports: Ports) -> LoadTarget:
    """What the statements are for. Raises what the target says."""
    source = plan.tables[0].target
    load = LoadRows(source.table, Window(place, place + 1), ())
    version = TableVersionConsumer(load, plan.catalog, options.files.dialect, options.rules)
    answer = ports.sink.prepare([version.request((), Purpose.MEND)])[0]
    if isinstance(answer, ConsumerError):
        raise answer
    key = {source.columns[at].name for at in source.key}
    lost = same_names(column.name for column in answer.columns) - same_names(column.name for column in source.columns)
    if lost or key != {answer.columns[at].name for at in answer.key}:
        raise CannotBeExact(
            "the target's table has other columns, or another key, than the storage has at its end",
            hint="run `once` first",
            table=str(source.table),
        )
    return answer


@dataclass(frozen=True)
class _Rows:
    """The rows that the range touched, one each, with the values that they had before it: those that are `gone` since,
    those that have `changed`, and those that are `new`, of which only the key has values. The rows `left_out` are not
    taken back, for these reasons."""

    gone: pa.Table
    changed: pa.Table
    new: pa.Table
    left_out: tuple[tuple[pa.Table, str], ...]

    @property
    def count(self) -> int:
        return int(self.gone.num_rows + self.changed.num_rows + self.new.num_rows)

    @classmethod
    def of(cls, plan: Plan, last: int, taken: int, one_by_one: bool) -> _Rows:
        """Of all changes behind the plan's beginning, of which those after `last` are not of the range. `taken`: the
        version of the last statement that took rows away, 0 for none. `one_by_one`: rows that have changed keep their
        places, and none can have a unique value that another one still has."""
        (table,) = plan.tables
        uniques = _uniques(plan)
        schema, key = _schema(table.target, uniques), [f"c{at}" for at in table.target.key]
        left = [TS, PUT, *key, *_held(uniques)]
        inside, later = [schema.empty_table()], [schema.empty_table().select(left)]
        same = _alike(table.eras)
        for share in shares(plan):
            rows = _found(changes_of(share, plan.reader), table, share.eras[0].task.number >= same, taken)
            of_range = rows.column(TS).to_numpy() <= last
            inside.append(rows.filter(pa.array(of_range)).select(schema.names).cast(schema))
            later.append(rows.filter(pa.array(~of_range)).select(left).cast(later[0].schema))
        younger = _younger_uniques(plan, uniques)
        net = cls._net(pa.concat_tables(inside), pa.concat_tables(later), key, uniques, younger, one_by_one)
        for at, column in enumerate(table.target.columns):
            values = pa.chunked_array([*net.gone.column(f"c{at}").chunks, *net.changed.column(f"c{at}").chunks])
            _check_values(column, values, table.target.table)
        return net

    @classmethod
    def _net(
        cls,
        rows: pa.Table,
        later: pa.Table,
        key: Sequence[str],
        uniques: Sequence[Sequence[int]],
        younger: Sequence[Sequence[int]],
        one_by_one: bool,
    ) -> _Rows:
        both = pa.concat_tables([rows.select(later.column_names), later])
        codes, count = row_codes(both.select(key).columns)
        own, again = codes[: rows.num_rows], codes[rows.num_rows :]
        put, chosen, there, final = (rows.column(n).to_numpy() for n in (PUT, _CHOSEN, _THERE, _FINAL))
        first, last = _ends(rows, own)
        every = own[first]
        wanted, before, after = _has(own[chosen], count)[every], there[first] > 0, put[last]
        now = both.take(pa.array(_ends(both, codes)[1]))  # in the order of the codes
        untold = [_has(again, count)[every], _has(own[~final], count)[every], there[first] < 0]
        untold.append(before & _had_others(rows.take(pa.array(first)), now.take(pa.array(every)), younger))
        why = np.select(untold, range(len(untold)), default=-1)
        while True:  # a row that is left out keeps its values, which another one may have had
            back, undone = np.flatnonzero(wanted & (why < 0) & before), _has(every[wanted & (why < 0)], count)
            stay = now.filter(pa.array(now.column(PUT).to_numpy() & ~undone))
            held = back[_meets(rows.take(pa.array(first[back])), stay, uniques)]
            moved = back[after[back]] if one_by_one else back[:0]
            waits = moved[_waits(rows.take(pa.array(first[moved])), now.take(pa.array(every[moved])), uniques)]
            if not held.size and not waits.size:
                break
            why[waits] = len(untold) + 1
            why[held] = len(untold)

        def taken(which: Flags) -> pa.Table:
            return rows.take(pa.array(first[wanted & which]))

        right = why < 0
        parts = (right & before & ~after, right & before & after, right & ~before & after)
        left_out = ((taken(why == number), reason) for number, reason in enumerate(_REASONS))
        gone, changed, new = map(taken, parts)
        return cls(gone, changed, new, tuple((some, reason) for some, reason in left_out if some.num_rows))


def _check_values(column: Column, values: pa.ChunkedArray, table: TableName) -> None:
    """Raises CannotBeExact where a row had a value that is none of the column: such rows were quarantined."""
    try:
        typed_values(column, values)
    except TableError as error:
        raise CannotBeExact(
            f"a row that is to be taken back had what is no value: {error.message}",
            hint="give a --where that leaves the row out: `changes --format jsonl` prints all rows of the range",
            table=str(table),
        ) from error


def _alike(eras: Sequence[Era]) -> int:
    """The number of the first era since which each has the columns and the key of the last: what cuts these changed a
    name, or partitions."""
    last, number = eras[-1].task, eras[-1].task.number
    for era in reversed(eras):
        if era.task.source.columns != last.source.columns or era.keys != eras[-1].keys:
            break
        number = era.task.number
    return number


def _found(changes: Changes, table: TablePlan, alike: bool, taken: int) -> pa.Table:
    """Changes as `_schema` has them. `alike`: their era has the columns of now."""
    told, found = changes.came | (changes.found >= 0), pa.array(changes.found, mask=changes.found < 0)
    values = {name: changes.then.column(name).take(found) for name in changes.then.column_names}
    values |= {name: changes.now.column(name) for name in (f"c{at}" for at in table.target.key)}
    values |= {f"n{at}": changes.now.column(f"c{at}") for at in range(len(table.target.columns))}
    ts = changes.rows.column(TS)
    final = (ts.to_numpy() > taken) & alike
    return pa.table(
        {
            TS: ts,
            PUT: changes.rows.column(PUT),
            _CHOSEN: changes.chosen,
            _THERE: np.where(changes.came, 0, np.where(told, 1, -1)),
            _FINAL: final,
            **values,
        }
    )


def _held(uniques: Sequence[Sequence[int]]) -> list[str]:
    return [f"n{at}" for at in sorted({at for places in uniques for at in places})]


def _schema(target: LoadTarget, uniques: Sequence[Sequence[int]]) -> pa.Schema:
    """Of changes: whether the expression chose them, whether their row was there before (-1: that is not told), whether
    no statement came later; the values that the row had, of its key those that it has; and what it has then in unique
    keys."""
    meta = [(TS, pa.int64()), (PUT, pa.bool_()), (_CHOSEN, pa.bool_()), (_THERE, pa.int64()), (_FINAL, pa.bool_())]
    values = value_schema(target)
    held = (values.field(f"c{name[1:]}").with_name(name) for name in _held(uniques))
    return pa.schema([*(pa.field(*pair) for pair in meta), *values, *held])


def _ends(changes: pa.Table, codes: Ints) -> tuple[Ints, Ints]:
    """For each code the places of its first and of its last change, in the order of the codes."""
    # At one commit-ts a row goes before one comes.
    order = np.lexsort((changes.column(PUT).to_numpy(), changes.column(TS).to_numpy(), codes))
    return order[first_of_equal(codes[order])], order[::-1][first_of_equal(codes[order[::-1]])][::-1]


def _meets(rows: pa.Table, stay: pa.Table, uniques: Sequence[Sequence[int]]) -> Flags:
    """Returns which of `rows` had a unique value that one of the rows that `stay` has."""
    found = np.zeros(rows.num_rows, np.bool_)
    for whole, mine, theirs, count in _unique_codes(rows, stay, uniques):
        found |= whole & _has(theirs, count)[mine]
    return found


def _had_others(rows: pa.Table, now: pa.Table, uniques: Sequence[Sequence[int]]) -> Flags:
    """Returns which of `rows` had a unique value that they do not have `now`: the row of `now` at the same place."""
    found, gone = np.zeros(rows.num_rows, np.bool_), ~now.column(PUT).to_numpy()
    for whole, mine, theirs, _ in _unique_codes(rows, now, uniques):
        found |= whole & ((mine != theirs) | gone)
    return found


def _waits(rows: pa.Table, now: pa.Table, uniques: Sequence[Sequence[int]]) -> Flags:
    """Which of `rows` had a unique value that another of them has `now`."""
    found = np.zeros(rows.num_rows, np.bool_)
    for whole, mine, theirs, count in _unique_codes(rows, now, uniques):
        found |= whole & (mine != theirs) & _has(theirs, count)[mine]
    return found


def _unique_codes(
    rows: pa.Table, others: pa.Table, uniques: Sequence[Sequence[int]]
) -> Iterator[tuple[Flags, Ints, Ints, int]]:
    """For each unique key: whether what each of `rows` had in it is whole, numbers of these values, numbers of those
    that `others` have, and how many numbers there are."""
    for places in uniques:
        own = [rows.column(f"c{at}") for at in places]
        pairs = ((mine, others.column(f"n{at}")) for mine, at in zip(own, places, strict=True))
        codes, count = row_codes([pa.chunked_array([*mine.chunks, *theirs.chunks]) for mine, theirs in pairs])
        whole = np.logical_and.reduce([column.is_valid().to_numpy() for column in own])
        yield whole, codes[: rows.num_rows], codes[rows.num_rows :], count


def _has(codes: Ints, count: int) -> Flags:
    found: Flags = np.zeros(count, np.bool_)
    found[codes] = True
    return found


def _head(rows: _Rows, source: LoadTarget, first: int, last: int) -> Iterator[bytes]:
    table = " ".join(str(source.table).split())
    span = f"after {time_text(first)} and up to {time_text(last)}"
    yield f"-- These statements take back what was committed to {table} {span}.\n{RUN_THEM}".encode()
    yield f"-- Rows that are taken back: {rows.count}\n".encode()
    for some, reason in rows.left_out:
        keys = some.select([f"c{at}" for at in source.key])
        for row in keys.rename_columns([source.columns[at].name for at in source.key]).to_pylist():
            yield f"-- left out, as {reason}: {json.dumps(row, default=bytes.hex)}\n".encode()


def _statements(
    rows: _Rows, source: LoadTarget, target: LoadTarget, script: Script, generation: str
) -> Iterator[bytes]:
    """Rows go before others come, so no two of them meet in a unique key. Where the target has columns of its own, rows
    that have changed are updated: else their values there would be lost."""
    if not rows.count:
        return

    def changes(put: bool, *some: pa.Table) -> pa.Table:
        return as_changes(pa.concat_tables(some), source, target, put)

    yield script.begin(generation)
    if target.extra_columns:
        yield from script.remove(target, changes(False, rows.new))
        yield from script.write(target, changes(True, rows.changed), True)
        yield from script.write(target, changes(True, rows.gone), False)
    else:
        yield from script.remove(target, changes(False, rows.new, rows.changed))
        yield from script.write(target, changes(True, rows.changed, rows.gone), False)
    yield script.end()
