"""`resync`: loads a table again parallel to the one that the target has, under a consumer name of its own. Once all of
its rows are loaded it replaces the other one, with which the replica continues until then."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

from consumer.app.parts import listing_of, loader_for, manager_of, one_round, open_ports, sink_of
from consumer.config.rules import StartRules
from consumer.config.settings import Settings
from consumer.errors import BadConfig, Code
from consumer.model.actions import Action
from consumer.model.ddl_policy import DdlPolicy
from consumer.model.events import Note, NoteKind, NowDoing
from consumer.model.files import Listing
from consumer.model.hints import resync_command
from consumer.model.names import TableName
from consumer.model.naming import Naming, naming_with_places
from consumer.model.progress import Progress, ProgressChange, State, is_resync_of, resync_name
from consumer.model.rules import NO_STARTS, NONE_NAMED, Consistency
from consumer.model.times import now
from consumer.pipeline.context import Ports, loss_notes
from consumer.pipeline.manager import ConsumerManager
from consumer.pipeline.opening import assembly_of
from consumer.pipeline.ownership import OwnershipGuard
from consumer.pipeline.resync import (
    birth_version,
    check_name,
    parallel_load_end,
    parallel_load_refusal,
    parallel_load_start,
    progress_after_replacement,
    start_over,
)
from consumer.pipeline.snapshot import listing_at
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions
from consumer.ports import Loader, Observer
from consumer.results import RunResult, TableResult

_DAMAGED = (Code.CORRUPT_FILE, Code.FILES_MISSING)


def resync(settings: Settings, observer: Observer, table: TableName, loader: Loader | None = None) -> RunResult:
    """Loads one table again from its CREATE TABLE on; the others advance as in `once`. If it is run again, it resumes
    where it stopped."""
    with loader_for(settings, loader) as spark:
        return _Resync(settings, observer, table, spark).done()


@dataclass(frozen=True, slots=True)
class _Opened:
    """The replica, of which this process is the one writer, and the `change` that begins its table again."""

    ports: Ports
    manager: ConsumerManager
    listing: Listing
    assembly: Assembly
    change: ProgressChange
    ownership: OwnershipGuard

    @property
    def progress(self) -> Progress:
        return self.manager.ledger.progress


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the table is loaded parallel to the other one: under which name, where, from which progress on, and up to
    which listing."""

    name: str
    naming: Naming
    begins: ProgressChange
    listing: Listing


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What was loaded under that name."""

    result: RunResult
    progress: Progress
    counts: tuple[int, int]


class _Resync:
    def __init__(self, settings: Settings, observer: Observer, table: TableName, spark: Loader) -> None:
        self._started = now()
        self._settings, self._observer, self._table, self._spark = settings, observer, table, spark

    def done(self) -> RunResult:
        with open_ports(self._settings, self._observer, self._spark) as ports:
            manager = self._manager(ports)
            if self._has_exchanged(manager):
                return one_round(manager, listing_of(self._settings, ports.reader), self._started, again=False)
            plan = self._plan(self._opened(manager, ports))
        self._forget_others(plan)
        loaded = None if plan is None else self._load(plan)
        if loaded is not None and not _is_complete(loaded.result, self._table):
            return self._unfinished(loaded.result)
        with open_ports(self._settings, self._observer, self._spark) as ports:
            opened = self._opened(self._manager(ports), ports)
            return self._replaced(opened, loaded)

    def _manager(self, ports: Ports) -> ConsumerManager:
        return manager_of(self._settings, ports, self._options(self._settings))

    def _options(self, settings: Settings) -> RoundOptions:
        """Returns the options, with missing files accepted only for this table."""
        options, table = settings.round_options, self._table
        rules = replace(options.rules, accept_gap=lambda name: name == table and options.rules.accept_gap(name))
        return replace(options, rules=rules)

    def _has_exchanged(self, manager: ConsumerManager) -> bool:
        """Returns whether an earlier run died while the table was replaced; then the replacement is finished now."""
        if manager.ledger.progress.table(self._table).state is not State.EXCHANGING:
            return False
        return self._table not in manager.ledger.finish_marked()

    def _opened(self, manager: ConsumerManager, ports: Ports) -> _Opened:
        self._observer.tell(NowDoing("looks for files"))
        listing, options = listing_of(self._settings, ports.reader), manager.options
        progress = manager.ledger.progress
        assembly = assembly_of(ports.reader, listing, progress, options)
        check_name(self._table, assembly)
        others = OwnershipGuard(
            ports.sink.of_others, assembly, lambda: progress, options.rules.naming, take=manager.ledger.take
        )
        if (owned := others.owned_by_others([self._table]).get(self._table)) is not None:
            raise owned
        change = start_over(self._table, assembly, progress, options, ports.reader, ports.sink)
        return _Opened(ports, manager, listing, assembly, change, others)

    def _plan(self, opened: _Opened) -> _Plan | None:
        """Returns the plan, None if the table is rebuilt in place, because there is none or it must be."""
        sink, assembly, birth = opened.ports.sink, opened.assembly, birth_version(opened.change, self._table)
        target = self._settings.naming.target(self._table)
        if sink.missing([target]):
            return None
        if why := parallel_load_refusal(self._table, birth, assembly, opened.progress):
            text = f"{self._table} is emptied before it is loaded again: {why}"
            self._observer.tell(Note(NoteKind.EMPTIED_TABLE, text, self._table))
            return None
        self._check_room(opened, birth)
        naming = naming_with_places(self._settings.naming, {self._table: sink.parallel_name(target)})
        return _Plan(
            resync_name(self._settings.name, self._table, birth),
            naming,
            parallel_load_start(self._table, birth, opened.progress.after(opened.change), assembly, naming),
            listing_at(opened.listing, parallel_load_end(self._table, birth, assembly)),
        )

    def _check_room(self, opened: _Opened, birth: int) -> None:
        files = (file for file in opened.assembly.files.get(self._table, ()) if file.folder.version >= birth)
        for line in opened.ports.sink.readiness((), sum(file.size for file in files)):
            if line.about == "disk" and line.verdict != "ok":
                text = (
                    f"{self._table} is loaded beside the table that the target has, and the disk may be too small for"
                    f" both: {line.text}. If it stops for that, make room; or drop the table in the target by hand:"
                    " then the same command loads it alone"
                )
                self._observer.tell(Note(NoteKind.EMPTIED_TABLE, text, self._table))

    def _forget_others(self, plan: _Plan | None) -> None:
        """Drops what was begun for an earlier table of the name, or has lost its table."""
        with closing(sink_of(self._settings, self._spark)) as sink:
            names = [name for name in sink.consumers() if is_resync_of(name, self._settings.name, self._table)]
            if plan is not None and plan.name in names and not sink.missing([plan.naming.target(self._table)]):
                names.remove(plan.name)
        for name in names:
            with closing(sink_of(self._settings.model_copy(update={"name": name}), self._spark)) as sink:
                sink.forget()

    def _load(self, plan: _Plan) -> _Loaded:
        plain = {"start_ts": StartRules(), "syncpoints": 0, "consistency": Consistency.ROW}
        settings = self._settings.model_copy(update={"name": plan.name, **plain})
        with open_ports(settings, self._observer, self._spark, letters_of=self._settings.name) as ports:
            manager = manager_of(settings, ports, self._beside(settings, plan))
            manager.ledger.begin(lambda progress: plan.begins if progress.is_empty else None)
            result = one_round(manager, plan.listing, self._started)
            counts = ports.sink.loaded().get(self._table, (0, 0))
            return _Loaded(result, manager.ledger.progress, counts)

    def _beside(self, settings: Settings, plan: _Plan) -> RoundOptions:
        """Returns the options of the replica, for this table only. What TRUNCATEs once moved to the trash is there
        already."""
        options = self._options(settings)
        folded_name, policy_of = self._table.folded, options.rules.policy_of

        def policy(action: Action, table: TableName, query: str = "") -> DdlPolicy:
            configured = policy_of(action, table, query)
            return DdlPolicy.EVOLVE if configured is DdlPolicy.RENAME else configured

        rules = replace(
            options.rules,
            wanted=lambda name: name.folded == folded_name,
            naming=plan.naming,
            policy_of=policy,
            starts=NO_STARTS,
            named=NONE_NAMED,
        )
        return replace(options, rules=rules)

    def _unfinished(self, result: RunResult) -> RunResult:
        """Returns the result of a load that is not complete: the table in the target is unchanged."""
        for name, table in result.tables.items():
            if table.state != "ok":
                damaged = table.code in _DAMAGED
                table.hint = (
                    "the table in the target was not touched, and stays as it was; fix what the reason names, and"
                    " resync again, which resumes where it was"
                    + (", or continue without the rows of files that are lost: " if damaged else ": ")
                    + resync_command(name, accepts=damaged)
                )
                table.resync = False
        return result

    def _replaced(self, opened: _Opened, loaded: _Loaded | None) -> RunResult:
        """Replaces the table by what was loaded, or empties it, and runs a round from there."""
        table, manager, change = self._table, opened.manager, opened.change
        if loaded is not None and birth_version(change, table) - 1 != loaded.progress.start_ts:
            raise BadConfig(f"{table} is another table by now than when this began", hint="resync again")
        if (owned := opened.ownership.take({table: None}).get(table)) is not None:
            raise owned
        if loaded is None:
            manager.ledger.empty(table, change)
        else:
            change = progress_after_replacement(table, change, loaded.progress, loaded.counts, opened.assembly)
            manager.ledger.exchange([table], change)
            manager.results[table] = loaded.result.tables.get(table) or TableResult()
        for note in loss_notes(table, change.losses.get(table, {}).values()):
            self._observer.tell(note)
        # If the progress was lost, it may be that it was emptied, or exchanged.
        return one_round(manager, opened.listing, self._started, again=False)


def _is_complete(result: RunResult, table: TableName) -> bool:
    """Returns whether the table has all of its rows, except quarantined ones."""
    table_result = result.tables.get(table)
    return not (result.error or result.unfinished) and (table_result is None or table_result.state == "ok")
