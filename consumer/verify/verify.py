"""`verify` compares each table of the target with what the storage has of it, up to the table's own watermark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from consumer.errors import (
    CannotBeExact,
    CheckpointBehind,
    ConsumerError,
    DdlRefused,
    LeaseHeld,
    ProgressMoved,
    Retryable,
    RowsVary,
    TableError,
    TableMissing,
    WrongUpstream,
)
from consumer.layout.schema_file import is_view
from consumer.model.actions import CREATE_ACTIONS, RENAME_ACTIONS
from consumer.model.bad_rows import BadRow, Quarantine, first_row_text
from consumer.model.check import CheckTask, Counted, TableCheck
from consumer.model.columns import Column
from consumer.model.events import NowDoing, WorkEnded, WorkMoved, WorkStarted, WorkUnit
from consumer.model.files import Listing
from consumer.model.load import LoadPart, LoadTarget, Purpose
from consumer.model.names import TableName, same_name
from consumer.model.naming import Naming
from consumer.model.progress import Progress, State
from consumer.model.table_modes import SOURCE, TableMode, source_of
from consumer.model.texts import count_text
from consumer.model.times import MAX_TSO, now, time_text
from consumer.pipeline.context import Ports
from consumer.pipeline.missing_tables import missing_table_error
from consumer.pipeline.opening import copied_files
from consumer.pipeline.ownership import OwnershipGuard
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.plan.notes import went_back
from consumer.plan.options import RoundOptions
from consumer.plan.routing import check_begun
from consumer.plan.shaping import check_shaping
from consumer.target import Comparer, LoadRequest, Only, Sink
from consumer.verify.comparison import Comparison, sum_counts
from consumer.verify.eras import TableHistory
from consumer.verify.known import mode_column_positions, upstream_value_rules
from consumer.verify.mend import DifferingRows, Repairer, default_notes, write_targets

_MARKED = {
    State.EMPTYING: "the target's table is to be dropped first",
    State.EXCHANGING: "another table of the target is to take its place first",
}
_NOT_PROVEN = (
    "nothing proves that the storage has every change up to the moment as of which the target was given the table; load"
    " it again from an export (`load-export --table`)"
)
_NOT_COMPARED = (State.DROPPED, State.EXCLUDED, *_MARKED)


@dataclass(frozen=True)
class Verifier:
    """Compares tables. `chosen` selects them. `show` is the most differences to report of each, `at_a_time` the most
    ranges of the target's rows that are read at the same time. `mender` repairs rows that differ, and the table is then
    compared again."""

    ports: Ports
    options: RoundOptions
    chosen: Callable[[TableName], bool]
    show: int
    at_a_time: int
    mender: Repairer | None = None
    unproven_start: str = ""
    """Why the target need not have been equal to upstream where it begins, "" if it must have been."""

    def tables(self, listing: Listing, recorded: Progress) -> tuple[list[TableCheck], int]:
        """Returns the check of each table of the progress that exists, made one after the other, and how many tables
        the table rules exclude. Raises Retryable if something that all tables need is not available."""
        if recorded.upstream not in (None, self.ports.reader.identity):
            raise WrongUpstream(f"the progress belongs to {recorded.upstream}, not to {self.ports.reader.identity}")
        progress = recorded.after(copied_files(self.ports.reader, listing, recorded, {}))
        assembly = Assembly.of(listing, progress, self.options.rules.wanted, retention=self.options.files.retention)
        if text := went_back(assembly, progress):
            raise CheckpointBehind(text, hint="verify again once the changefeed is past it")
        check_begun(self.options.rules.naming, assembly, progress)
        check_shaping(self.options.rules.shaping_of, progress, assembly.catalog)
        foreign = self._foreign(assembly, progress)
        histories = self._histories(assembly, progress, foreign)
        checks = [self._checked(*pair) for pair in zip(histories, self._targets(histories), strict=True)]
        checks += self._unknown(assembly, progress, {check.table for check in checks}, foreign)
        if self.ports.sink.progress() != recorded:
            raise ProgressMoved(
                "the target's progress changed during the comparison", hint="end the consumer, then run verify again"
            )
        excluded_tables = {name for name, place in progress.tables.items() if place.state is State.EXCLUDED}
        checks = [replace(check, target_table=self.options.rules.naming.other_name(check.table)) for check in checks]
        return checks, sum(bool(name.table) for name in excluded_tables.union(assembly.exclusions(progress)))

    def _foreign(self, assembly: Assembly, progress: Progress) -> Mapping[TableName, DdlRefused]:
        guard = OwnershipGuard(self.ports.sink.of_others, assembly, lambda: progress, self.options.rules.naming)
        return guard.taken_by_others([name for name in {*assembly.tables, *progress.tables} if name.table])

    def _histories(self, assembly: Assembly, progress: Progress, foreign: Collection[TableName]) -> list[TableHistory]:
        incarnations = assembly.target_tables(progress)
        alive = [name for name in incarnations if progress.table(name).state is not State.DROPPED]
        unread = Assembly.of(
            assembly.listing, Progress(), self.options.rules.wanted, retention=self.options.files.retention
        )
        executed = assembly.executed(progress)
        followed = upstream_value_rules(self.options.files.retention.zone)
        histories = []
        for name, table in sorted(incarnations.items()):
            table_progress = progress.table(name)
            rowless = table.is_temporary or (bool(table.statements) and is_view(table.statements[-1].columns))
            end = (
                MAX_TSO if assembly.checkpoint == MAX_TSO else table_progress.applied_ts
            )  # without a checkpoint none moves
            described = any(file.version <= end for file in assembly.catalog.by_table.get(name, ()))
            if (
                table_progress.state in _NOT_COMPARED
                or not self._is_chosen(name)
                or rowless
                or not described
                or name in foreign
            ):
                continue
            common = (assembly, unread, progress, self.options, self.ports.reader, followed)
            histories.append(TableHistory(name, table, end, *common, alive, executed))
        return histories

    def _is_chosen(self, name: TableName) -> bool:
        return self.options.rules.wanted(name) and self.chosen(name)

    def _views(self, assembly: Assembly) -> Collection[TableName]:
        return {name for name, files in assembly.catalog.by_table.items() if is_view(files[-1].columns)}

    def _unknown(
        self,
        assembly: Assembly,
        progress: Progress,
        compared: Collection[TableName],
        foreign: Mapping[TableName, DdlRefused],
    ) -> Iterator[TableCheck]:
        """Yields checks of tables that cannot be compared. They are to be dropped in the target and made again; or the
        storage has rows of them, or the progress an entry, but nothing describes them; or they share their name in the
        target; or they belong to another consumer."""
        for name, table_progress in sorted(progress.tables.items()):
            if table_progress.state in _MARKED and self._is_chosen(name):
                message = f"{_MARKED[table_progress.state]}: {table_progress.reason}"
                hint = "run `once` first, which continues with it"
                yield TableCheck(
                    name, table_progress.applied_ts, error=TableMissing(message, hint=hint, table=str(name))
                )
        errors = dict(assembly.errors(progress, accept_gap=lambda _: True))
        waits = _waiting_for_a_name(assembly, progress)
        placed = {name for name in progress.tables if name.table}
        candidates = placed | (assembly.files.keys() & (errors.keys() | foreign.keys()))
        candidates = candidates.difference(compared, self._views(assembly))
        unknown_tables = (name for name in candidates if progress.table(name).state not in _NOT_COMPARED)
        for name in sorted(filter(self._is_chosen, unknown_tables)):
            error = foreign.get(name) or errors.get(name) or waits.get(name)
            error = error or CannotBeExact("no schema file describes the table up to its watermark", table=str(name))
            yield TableCheck(name, progress.table(name).applied_ts, error=error)

    def _checked(self, history: TableHistory, answer: LoadTarget | ConsumerError) -> TableCheck:
        started = now()
        self.ports.observer.tell(NowDoing(f"compares {history.name}"))
        try:
            check = self._compared(history, answer)
        except (LeaseHeld, ProgressMoved):
            raise
        except (TableError, Retryable) as error:
            error.hint = history.assembly.advised(error.hint, history.name, self.options.replay)
            check = TableCheck(history.name, history.end, error=error)
        return replace(check, seconds=now() - started)

    def _compared(self, history: TableHistory, answer: LoadTarget | ConsumerError) -> TableCheck:
        if history.end > history.assembly.checkpoint:
            raise CheckpointBehind(
                f"it is at {history.end}, above the checkpoint {history.assembly.checkpoint} of the storage",
                hint="try again once the changefeed is past it",
                table=str(history.name),
            )
        if isinstance(answer, ConsumerError):
            error = missing_table_error(
                history.name, answer, self.ports.sink, history.assembly, history.progress, self.options
            )
            return TableCheck(history.name, history.end, error=error, refused=True)
        if replaced_file := history.files.another:
            raise CannotBeExact(
                f"{replaced_file} is another file than was read, and nothing shows which of its rows were applied",
                hint="run `once` first, which reads it again",
                table=str(history.name),
            )
        if version := history.assembly.history.next_named(history.name, history.table, history.end):
            raise CannotBeExact(
                f"upstream gave its name to another table at {version}, which the target does not have, and its"
                " watermark is past that: which rows are of which table cannot be known",
                table=str(history.name),
            )
        incomplete = history.incomplete
        if not answer.key and incomplete:
            raise CannotBeExact(
                f"it has no key, and the storage does not have all its rows: {incomplete}", table=str(history.name)
            )
        passed_over = (self.unproven_start or history.proves_no_start) if history.is_given else ""
        if history.is_given and not passed_over:
            try:
                return self._run(history, answer, incomplete)
            except TableError as error:  # the error can be about changes that were never applied
                passed_over = error.message
        return self._run(replace(history, passed_over=passed_over), answer, incomplete)

    def _targets(
        self, histories: Sequence[TableHistory], absent: tuple[str, ...] = ()
    ) -> Sequence[LoadTarget | ConsumerError]:
        """Returns the target's answer about each of the tables, for which it is asked in one call. Their rows lack the
        columns `absent`."""
        requests = [self._request(history, absent) for history in histories]
        load_requests = [request for request in requests if isinstance(request, LoadRequest)]
        answers = iter(self.ports.sink.prepare(load_requests) if load_requests else ())
        pairs = (
            (next(answers), request_or_error) if isinstance(request_or_error, LoadRequest) else (request_or_error, None)
            for request_or_error in requests
        )
        return [self._whole(history, *pair) for history, pair in zip(histories, pairs, strict=True)]

    def _request(self, history: TableHistory, absent: tuple[str, ...]) -> LoadRequest | ConsumerError:
        try:
            return self._version(history).request(absent, Purpose.COMPARE)
        except TableError as error:
            return error

    def _whole(
        self, history: TableHistory, answer: LoadTarget | ConsumerError, request: LoadRequest | None
    ) -> LoadTarget | ConsumerError:
        """Returns `answer`; for a merged table with those columns of the other tables that it lacks."""
        mode = history.mode
        if request is None or isinstance(answer, ConsumerError) or mode is None or not mode.merges:
            return answer
        catalog = history.assembly.catalog
        other_columns = _columns_of_all(
            catalog, _merged_with(history.name, self.options.rules.naming, catalog.by_table)
        )
        # If the target has one of them in another type, they stay its own columns, which are not compared.
        added_columns = tuple(
            replace(other_columns[name], is_pk=False)
            for name in map(same_name, answer.extra_columns)
            if name in other_columns
        )
        new_answer = (
            self.ports.sink.prepare([replace(request, columns=(*request.columns, *added_columns))])[0]
            if added_columns
            else answer
        )
        return answer if isinstance(new_answer, ConsumerError) else new_answer

    def _comparer(self, history: TableHistory, target: LoadTarget) -> Comparer:
        mode = history.mode
        if mode is None or not mode.merges:
            return self.ports.sink.comparer(target)
        # Rows of tables that a policy kept when upstream dropped them do not concern the others.
        upstream_tables = {*history.target_tables, *history.progress.kept_tables}
        tables = _merged_with(history.name, self.options.rules.naming, upstream_tables)
        return self.ports.sink.comparer(target, _own_rows(self.ports.sink, mode, target, tables))

    def _version(self, history: TableHistory) -> TableVersionConsumer:
        load, catalog = history.request_load(), history.assembly.catalog
        return TableVersionConsumer(load, catalog, self.options.files.dialect, self.options.rules)

    def _task(
        self, history: TableHistory, target: LoadTarget, whole: bool, absent: Mapping[int, tuple[str, ...]]
    ) -> CheckTask:
        """Returns what is compared. `absent` are the columns, by era, that its rows were found to lack."""
        task = CheckTask(
            target, history.eras(target, absent), whole, self.show, self.mender is not None, history.modes(target)
        )
        if not target.key and (not task.compared or not all(era.kept for era in task.eras)):
            raise CannotBeExact(
                "it has no key, and statements changed its rows or its columns in a way that the storage does not show",
                table=str(history.name),
            )
        return task

    def _run(self, history: TableHistory, target: LoadTarget, incomplete: str) -> TableCheck:
        absent: dict[int, tuple[str, ...]] = {}
        while True:
            task = self._task(history, target, not incomplete, absent)
            comparer = self._comparer(history, task.target)
            try:
                with DifferingRows(task, comparer) as rows:
                    counted = self._counted(history, task, comparer, rows)
                    bad_rows = history.progress.bad_rows.get(history.name, {})
                    losses = history.progress.losses.get(history.name, {}).values()
                    losses_noted = (
                        *_quarantined(bad_rows),
                        *(f"accepted as lost: {loss.sentence()}" for loss in losses),
                        *_awaited(history.files.awaited),
                    )
                    notes = (*_notes(task, counted, incomplete, history), *losses_noted)
                    files = frozenset(piece.path for era in task.eras for piece in era.task.slices)
                    check = TableCheck(
                        history.name,
                        history.end,
                        counted,
                        notes,
                        files=files,
                        gone_ts=history.files.lost_until_ts,
                        quarantined=len(bad_rows),
                    )
                    return self._mended(history, task, rows, check)
            except RowsVary as error:
                if not _learn(absent, error, len(task.eras)):
                    raise
                if any(target.columns[position].name in error.absent for position in target.key):
                    (answer,) = self._targets([history], absent[0])
                    if isinstance(answer, ConsumerError):
                        raise answer from error
                    target = answer

    def _counted(self, history: TableHistory, task: CheckTask, comparer: Comparer, rows: DifferingRows) -> Counted:
        files = {piece.path for era in task.eras for piece in era.task.slices}
        work = WorkUnit((history.name,), len(files), task.bytes)
        self.ports.observer.tell(WorkStarted(work))
        try:
            reader, moved = self.ports.reader.range_reader(), partial(self._moved, work)
            comparison = Comparison(task, comparer, reader, self.at_a_time)
            return sum_counts(self.ports.loader.read(comparison, moved), task.show, rows.add)
        finally:
            self.ports.observer.tell(WorkEnded(work))

    def _mended(self, history: TableHistory, task: CheckTask, rows: DifferingRows, check: TableCheck) -> TableCheck:
        """Returns `found`, or the check of the repaired table."""
        if self.mender is None or not check.counted.differences:
            return check
        why = _NOT_PROVEN if check.counted.given else "the storage does not show which rows to leave"
        if reason := history.unmended or (why if rows.is_empty else ""):
            return _left(check, reason)
        try:
            version, quarantine = self._version(history), self._quarantined(history)
            targets = write_targets(self.ports.sink, version, task, rows.groups, quarantine)
            watermark = history.progress.table(history.name).applied_ts
            refused = self.mender.mend(rows, targets, watermark)
        except (LeaseHeld, ProgressMoved):
            raise
        except (TableError, Retryable) as error:
            return _left(check, error.sentence())
        if refused is not None:
            (answer,) = self._targets([history])
            second_check = replace(self, mender=None)._checked(history, answer)
            check = replace(second_check, repaired=check.counted, refused_rows=tuple(refused))
        return replace(check, notes=(*check.notes, *default_notes(rows, targets)))

    def _quarantined(self, history: TableHistory) -> Quarantine | None:
        """Returns the quarantine of rows that the target refuses: they stay quarantined, and the others are written."""
        most = self.options.rules.bad_row_action(history.name).most or len(
            history.progress.bad_rows.get(history.name, {})
        )
        return Quarantine(most) if most else None

    def _moved(self, work: WorkUnit, part: LoadPart) -> None:
        self.ports.observer.tell(WorkMoved(work, part))


def _learn(absent: dict[int, tuple[str, ...]], error: RowsVary, eras: int) -> bool:
    """Adds the columns that rows lack to `absent`, and returns whether there were new ones. The error does not show the
    era of these rows, so the columns are not compared in any era."""
    known_columns = absent.get(0, ())
    all_columns = tuple(dict.fromkeys((*known_columns, *error.absent)))
    if all_columns == known_columns:
        return False
    absent.update(dict.fromkeys(range(eras), all_columns))
    return True


def _left(check: TableCheck, why: str) -> TableCheck:
    """Returns `found`, whose rows were not repaired."""
    unmended = f"not made right: {why}"
    return replace(check, notes=(*check.notes, unmended), unmended=unmended)


def _waiting_for_a_name(assembly: Assembly, progress: Progress) -> Mapping[TableName, TableMissing]:
    """Returns the tables that get their name from a statement that has not run, each with an error about the first
    one."""
    executed = assembly.executed(progress)
    errors: dict[TableName, TableMissing] = {}
    for statement in assembly.timeline.pending:
        file, name = statement.file, statement.file.name
        if file.action in CREATE_ACTIONS | RENAME_ACTIONS and file.path not in executed:
            text = f"the target has no such table yet: its statement of version {file.version} waits: {file.query}"
            errors.setdefault(name, TableMissing(text, hint="run `once`, which continues with it", table=str(name)))
    return errors


def _quarantined(rows: Mapping[str, BadRow]) -> Iterator[str]:
    if rows:
        text = count_text(len(rows), "row is", "rows are")
        yield f"{text} quarantined (`retry` takes them in); the first: {first_row_text(rows.values())}"


def _awaited(file: str) -> Iterator[str]:
    if file:
        yield f"{file} is named by its index file, and is not there: it is lost, or TiCDC has not written it yet"


def _notes(task: CheckTask, counted: Counted, incomplete: str, history: TableHistory) -> Iterator[str]:
    """Yields what was not compared, and what does not prove which side is right."""
    if incomplete:
        after = history.not_looked_at
        what = f"changes up to {time_text(after)} were" if after else "rows without a change in the storage were"
        rows_left = f"({count_text(counted.unknown_rows, 'row')})"
        yield f"{what} not compared {rows_left}: {history.passed_over or incomplete}"
    if counted.given:
        start = time_text(history.statements.given)
        yield (
            f"{count_text(counted.given, 'row that differs was', 'rows that differ were')} changed last up to {start},"
            " as of which the target was given the table: it was given an older state, or the storage lacks later"
            " changes"
        )
    if counted.unsure:
        rows = count_text(counted.unsure, "row")
        yield f"whether {rows} must be there is not known: statements took or exchanged partitions"
    for name, count in counted.unknown.items():
        yield f"column {name} was not compared in {count_text(count, 'row')}: a statement set the values there"
    if task.target.extra_columns:
        yield f"columns that only the target has were not compared: {', '.join(task.target.extra_columns)}"


def _columns_of_all(catalog: Catalog, tables: Iterable[TableName]) -> Mapping[str, Column]:
    """Returns the columns that any of `tables` ever had, by lower-case name, in their last form."""
    files = sorted((f for name in tables for f in catalog.by_table.get(name, ())), key=lambda file: file.version)
    return {same_name(column.name): column for file in files for column in file.columns if not column.hidden}


def _merged_with(table: TableName, naming: Naming, upstream_tables: Iterable[TableName]) -> list[TableName]:
    """Returns those of `there`, the tables of upstream that the target has, which are in the same table of the
    target."""
    target_name = naming.target(table).folded
    return [name for name in upstream_tables if naming.merges(name) and naming.target(name).folded == target_name]


def _own_rows(sink: Sink, mode: TableMode, target: LoadTarget, tables: Iterable[TableName]) -> Only:
    """Selects the rows of the target that belong to its table, and those that belong to none of `tables`, which it is
    merged with."""
    source_index = mode.usual.index(SOURCE)
    position = next(
        position for position, index in mode_column_positions(mode, target).items() if index == source_index
    )
    other_sources = {source_of(name) for name in tables} - {source_of(target.table)}
    values = (value for value in sink.values(target, position) if value not in other_sources)
    return Only(position, tuple(sorted({source_of(target.table), *values})))
