"""Plans what a round would do if every load succeeds and every statement runs that the target does not refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from consumer.ddl.changes import statement_changes
from consumer.errors import CannotBeExact, ConsumerError, TableMissing
from consumer.model.actions import REMOVING_ACTIONS, Action
from consumer.model.ddl_policy import DdlPolicy
from consumer.model.events import Note
from consumer.model.files import Bounds, Listing, known_bounds
from consumer.model.hints import about_table, statement_refused
from consumer.model.load import LoadTarget
from consumer.model.names import TableName
from consumer.model.progress import DdlId, DdlState, Progress, State, TableProgress
from consumer.model.rules import Consistency, hide_masked_values
from consumer.model.steps import ApplyDdl, LoadRows, TargetDdl, Window, ddl_id
from consumer.pipeline.decoding import decoding_error, rows_were_read
from consumer.pipeline.files import bounds_of_ended, orphaned_names
from consumer.pipeline.ledger import spared_tables_change
from consumer.pipeline.missing_tables import dropped_table_errors, find_unbegun_tables, missing_table_error
from consumer.pipeline.opening import assembly_of, copied_files, round_opening_change, table_starts_change
from consumer.pipeline.ownership import OwnershipGuard
from consumer.pipeline.resync import reloadable_tables
from consumer.pipeline.session_refusal import session_refusal
from consumer.pipeline.statements import refusal_before_target
from consumer.pipeline.table_consumer import TableConsumer
from consumer.pipeline.version_consumer import TableVersionConsumer
from consumer.plan.assembly import Assembly
from consumer.plan.combining import cannot_begin
from consumer.plan.ddl_step import ddl_step
from consumer.plan.notes import notes
from consumer.plan.options import RoundOptions
from consumer.plan.starting import idle_notes, start_notes
from consumer.plan.statement import Statement
from consumer.plan.survey import check_selected
from consumer.plan.unread import UnreadFile
from consumer.ports import StorageReader
from consumer.results import PlannedStep, PlanResult, TableResult, TableStatus
from consumer.target import LoadRequest, Sink

_MOST_BYTES = 64 << 20
"""The bytes of files that are decoded to check a stopped table again."""
_Planned = tuple[PlannedStep, ApplyDdl | None]
"""A step, with the request to the target if it is a statement that would be executed."""


def preview_round(
    reader: StorageReader,
    sink: Sink,
    listing: Listing,
    progress: Progress,
    options: RoundOptions,
    look_again: bool = False,
) -> PlanResult:
    """Returns the steps that bring the target from `progress` to the listing's checkpoint, in the order they would run.

    With `look_again` tables that stopped earlier are checked. Only those are reported that would stop now, as far as
    that is known without the target's answer to their rows; a note names the others.

    If the lowest row of a file above a window is not known, the next window is assumed to read the file too.
    """
    progress = progress.after(copied_files(reader, listing, progress, {}))
    assembly = assembly_of(reader, listing, progress, options)
    check_selected(assembly, progress, options.rules)
    begun: list[Note] = []
    for opening in (table_starts_change, round_opening_change):
        if (change := opening(assembly, progress, options.rules)) is not None:
            begun += start_notes(change)
            progress = progress.after(change)
            assembly = assembly_of(reader, listing, progress, options)
    if (stays := spared_tables_change(sink.of_others().after_taking, progress, options.rules.naming)) is not None:
        progress = progress.after(stays)
    refused: dict[DdlId, TargetDdl] = {}
    bounds: dict[str, Bounds] = {}
    while True:
        planned_round = _Preview(reader, sink, assembly, progress, options, bounds, refused)
        planned = list(planned_round.steps())
        asked = [ddl for _, ddl in planned if ddl is not None]
        targets = dict(zip((ddl.id for ddl in asked), sink.preview_ddls(asked), strict=True))
        runs = [ddl for step, ddl in planned if ddl is not None and step.kind == "ddl"]
        if not (more := _refused(runs, targets, progress)):
            break
        refused |= more  # the steps after them wait, or change: all is planned again
    for name, error in dropped_table_errors(sink, planned_round.assembly, progress, options).items():
        planned_round.errors.setdefault(name, error)
    resumable = planned_round.resumable() if look_again else ()
    other, mode = options.rules.naming.other_name, options.rules.naming.mode
    steps = []
    for p, ddl in planned:
        target = p.target if ddl is None else targets[ddl.id]
        if p.kind == "barrier" and ddl is not None and target is not None and target.error:
            target = None  # the target's answer is about a state that is not reached yet
        naming_fields = {"target_table": other(p.table), "mode": str(mode(p.table) or "")}
        steps.append(p.model_copy(update={"target": target, **naming_fields}))
    return PlanResult(
        checkpoint_ts=planned_round.assembly.checkpoint,
        steps=tuple(steps),
        notes=(
            *_in_parts(options),
            *_rules(planned, options),
            *(note.text for note in begun),
            *(note.text for note in notes(planned_round.assembly, progress, options.rules.naming, options.rules.named)),
            *(note.text for note in idle_notes(planned_round.assembly, progress, options.rules.starts)),
            *(_goes_on(name, progress) for name in resumable),
        ),
        stopped=tuple(row for row in _stopped(planned_round, sink, options) if row.table not in resumable),
    )


def _refused(
    steps: Sequence[ApplyDdl], targets: Mapping[DdlId, TargetDdl], progress: Progress
) -> dict[DdlId, TargetDdl]:
    """Returns those of `steps` that the target would refuse, except those after another refused one. What an earlier
    run had begun may exist already; a run checks that itself."""
    refused: dict[DdlId, TargetDdl] = {}
    touched: set[TableName] = set()
    for step in steps:
        record = progress.ddls.get(step.id)
        begun = record is not None and record.state is DdlState.INTENT
        is_later = not touched.isdisjoint(step.touches)
        fails = bool(targets[step.id].error) and not step.table_before.is_view
        if fails and not begun and not is_later:
            refused[step.id] = targets[step.id]
        if step.id in refused or is_later:
            touched.update(step.touches)
    return refused


def _stopped(planned_round: _Preview, sink: Sink, options: RoundOptions) -> Iterator[TableStatus]:
    progress, errors = planned_round.progress, planned_round.errors
    names = sorted({*errors, *(name for name, place in progress.tables.items() if place.state is State.STOPPED)})
    rebuildable, other = (
        reloadable_tables(sink, names, planned_round.assembly, progress, options),
        options.rules.naming.other_name,
    )
    for name in names:
        place, error = progress.table(name), errors.get(name)
        stopped = place if error is None else TableProgress.stopped(place.applied_ts, error)
        version = 0 if error is None else error.version or 0
        yield TableStatus(
            table=name,
            watermark=place.applied_ts,
            state="missing" if isinstance(error, TableMissing) else "stopped",
            code=stopped.code,
            error=stopped.reason,
            hint=planned_round.assembly.advised(stopped.hint, name, options.replay),
            version=version,
            resync=name in rebuildable,
            target_table=other(name),
        )


def _goes_on(name: TableName, progress: Progress) -> str:
    return (
        f"{name} stopped earlier, and nothing that can be known before its rows are written stops it now; it was:"
        f" {progress.table(name).reason}"
    )


def _in_parts(options: RoundOptions) -> Iterator[str]:
    if options.batches.consistency is Consistency.SNAPSHOT:
        yield (
            "with --consistency snapshot a load is done in parts: all tables are brought to the moment in front of each"
            " statement that readers see, and where their rows have publish-bytes"
        )


def _rules(planned: Sequence[_Planned], options: RoundOptions) -> Iterator[str]:
    """Yields what the filters do to the tables that are loaded."""
    for name in dict.fromkeys(step.table for step, _ in planned if step.kind == "load"):
        if (rules := options.rules.shaping_of(name)) is not None:
            yield f"{name}: {'; '.join(rules.texts)}"


def _removes(statement: Statement) -> bool:
    """Returns whether the statement removes rows or values."""
    several = statement.action is Action.MULTI_SCHEMA_CHANGE and statement_changes(statement.file).columns.dropped
    return bool(several) or statement.action in REMOVING_ACTIONS


class _Preview:
    """A round in which every load succeeds and every statement is executed, except those in `refused` by the target.
    `bounds` are those of the files that were read so far."""

    def __init__(
        self,
        reader: StorageReader,
        sink: Sink,
        assembly: Assembly,
        progress: Progress,
        options: RoundOptions,
        bounds: dict[str, Bounds],
        refused: Mapping[DdlId, TargetDdl],
    ) -> None:
        self.assembly = assembly
        self.errors: dict[TableName, ConsumerError] = {}
        self._reader, self._sink, self._dialect, self._options = reader, sink, options.files.dialect, options
        self.progress, self._accept_gap = progress, options.rules.accept_gap
        self.ownership = OwnershipGuard(
            sink.of_others, assembly, lambda: progress, options.rules.naming, sink.tables_in
        )
        self._changed: set[TableName] = set()
        self._bounds, self._refused = bounds, refused
        states = {
            name: TableConsumer(name, assembly, progress, options, TableResult()).state for name in assembly.tables
        }
        self._round = assembly.round(states, options.files, options.batches)
        self._round.learned(bounds)

    def steps(self) -> Iterator[_Planned]:
        for name, error in cannot_begin(self.assembly, self.progress, self._options):
            self._stop(name, error)
        not_begun_tables = find_unbegun_tables(self._sink, self.assembly, self.progress, self._options)
        for name in not_begun_tables.absent:
            self._round.mark_missing(name)
        for name, error in not_begun_tables.filled.items():
            if name not in self.errors:
                self._stop(name, error)
        while True:
            before = self._round.changes
            yield from self._statements()
            yield from self._loads()
            if self._round.changes == before:
                break
        for name, error in self._of_nobody():
            self._stop(name, error)
        for statement, waits_for in self._round.waiting():
            if ddl_id(statement.file) not in self._refused:
                step = _ddl("barrier", statement).model_copy(update={"waits_for": waits_for})
                refused = refusal_before_target(statement, self._options.rules)
                yield step, self._asked(statement) if refused is None else None

    def resumable(self) -> list[TableName]:
        """Returns the tables that stopped earlier and for which nothing is found that would stop them now. Their files
        are decoded, up to a limit of bytes."""
        names = [n for n, p in self.progress.tables.items() if p.state is State.STOPPED and n not in self.errors]
        for name in names:
            error = None if self._options.rules.bad_row_action(name).quarantines else self._damage(name)
            if error is not None:
                self.errors[name] = hide_masked_values(error.about(str(name)), self._options.rules.shaping_of(name))
        return [name for name in names if name not in self.errors]

    def _damage(self, name: TableName) -> ConsumerError | None:
        window = Window(self.progress.table(name).applied_ts, self.assembly.checkpoint)
        state = TableConsumer(name, self.assembly, self.progress, self._options, TableResult()).state
        entries, size = list[UnreadFile](), 0
        for entry in state.unread:
            if size < _MOST_BYTES and (self._reader.first_ts(entry.file) or 0) <= window.end:
                entries.append(entry)
                size += entry.file.size
        return decoding_error(name, window, entries, self.assembly, self._options, self._reader)

    def _of_nobody(self) -> Iterator[tuple[TableName, ConsumerError]]:
        """Yields the names with rows that belong to no table."""
        ended = orphaned_names(self.assembly, self._round, self.progress)
        bounds = bounds_of_ended(self._reader, ended, self._options, self.assembly.checkpoint, self.progress)
        were_read = partial(rows_were_read, self._reader, self.assembly, self._options)
        for name, rows in self.assembly.orphan_rows(ended, bounds, self.progress, were_read).items():
            if rows.due and not self._accept_gap(name):
                yield name, next(iter(rows.due.values()))

    def _statements(self) -> Iterator[_Planned]:
        while ready := self._round.ready_statements():
            self.ownership.take_tables_of(ready)
            for statement in ready:
                error = (
                    refusal_before_target(statement, self._options.rules)
                    or self.ownership.refusal(statement)
                    or session_refusal(statement, self.assembly, self._sink, self._options.rules.hides)
                )
                if error is None and (answer := self._refused.get(ddl_id(statement.file))) is not None:
                    error = statement_refused(statement.file, answer.error)
                    step = _ddl("barrier", statement)
                    yield step.model_copy(update={"target": answer, "waits_for": error.message}), None
                if error is not None and not statement.may_fail:
                    self._round.refused(statement, error)
                    for name in statement.touches:
                        self._stop(name, error)
                    continue
                ddl = self._asked(statement) if error is None else None
                for name in self._round.touched_tables(statement) if statement.heals else ():
                    self.errors.pop(name, None)
                self._round.applied(statement)
                self.ownership.release_dropped(statement)
                self._changed.update({statement.file.name, *statement.touches, *statement.drops})
                done = _ddl("ddl", statement)
                if error is not None:  # a view, which is excluded then
                    done = done.model_copy(update={"target": TargetDdl(error=error.message)})
                yield done, ddl
                gap = self.assembly.gap_after(statement, self.progress)
                if gap is not None and statement.begins is not None and not self._accept_gap(statement.begins):
                    self._stop(statement.begins, gap)

    def _asked(self, statement: Statement) -> ApplyDdl | None:
        """Returns the request to the target for `statement`, None if there is none. For a table that a run drops first
        there is none: the target would answer for the table that it has now."""
        emptied = any(self.progress.table(name).state is State.EMPTYING for name in statement.touches)
        if emptied or not statement.executed or self.ownership.other_owner_of_database(statement):
            return None
        renames = self._round.overtaken_renames(statement)
        return ddl_step(
            statement,
            called=renames[0].old_name if renames else None,
            complete=not renames and not self._round.incomplete(statement),
        )

    def _loads(self) -> Iterator[_Planned]:
        bounds = self._reader.bounds(self._round.wants_bounds())
        self._bounds.update(known_bounds(bounds))
        self._round.learned(self._bounds)
        for name, state in self._round.tables.items() if bounds else ():
            failed = [f for e in state.unread if isinstance(f := bounds.get(e.file.path), ConsumerError)]
            if failed and not self._options.rules.bad_row_action(name).quarantines:
                shaping = self._options.rules.shaping_of(name)
                self._stop(name, hide_masked_values(failed[0].about(str(name)), shaping))
        loads = self._round.ready_loads()
        self._look_at_targets(loads)
        for load in loads:
            if self._round.tables[load.table].error is None:
                self._round.loaded(load, dict(self._next_ts_of(load)))
                yield _load(load), None

    def _look_at_targets(self, loads: Sequence[LoadRows]) -> None:
        """Stops the tables that cannot take their rows, as far as no earlier step would change them."""
        for name, owned in self.ownership.taken_by_others([load.table for load in loads]).items():
            self._stop(name, owned)
        requests: list[tuple[TableVersionConsumer, LoadRequest]] = []
        for load in (load for load in loads if load.table not in self.errors):
            version = TableVersionConsumer(
                load,
                self.assembly.catalog,
                self._dialect,
                self._options.rules,
            )
            try:
                version.check_schemas()
                if load.table not in self._changed:
                    requests.append((version, version.request()))
            except ConsumerError as error:
                self._stop(load.table, error)
        self._changed.update(load.table for load in loads)
        answers = self._sink.prepare([request for _, request in requests]) if requests else ()
        for (version, request), answer in zip(requests, answers, strict=True):
            name = request.table
            if isinstance(answer, LoadTarget):
                try:
                    version.check_rules(version.source(answer))
                except CannotBeExact as error:
                    self._stop(name, error)
            else:
                self._stop(
                    name, missing_table_error(name, answer, self._sink, self.assembly, self.progress, self._options)
                )

    def _next_ts_of(self, load: LoadRows) -> Iterator[tuple[str, int]]:
        for planned in load.files:
            bounds = self._bounds.get(planned.file.path)
            later = bounds is not None and bounds.last > load.window.end
            yield planned.file.path, load.window.end + 1 if later else 0

    def _stop(self, name: TableName, error: ConsumerError) -> None:
        error.hint = about_table(error.hint, name)
        self._round.stopped(name, error)
        self.errors.setdefault(name, error)


def _ddl(kind: Literal["ddl", "barrier"], statement: Statement) -> PlannedStep:
    file = statement.file
    return PlannedStep(
        kind=kind, table=file.name, from_ts=file.version, to_ts=file.version,
        statement=file.query, touches=statement.touches, policy=str(statement.policy),
        destructive=statement.policy is DdlPolicy.EVOLVE and _removes(statement),
    )  # fmt: skip


def _load(load: LoadRows) -> PlannedStep:
    window = load.window
    return PlannedStep(
        kind="load", table=load.table, from_ts=window.after, to_ts=window.end, files=len(load.files), bytes=load.bytes
    )
