"""`load-export`: the tables of an export of Dumpling, and from which moment on the storage's changes follow.

An export is a storage of its own, which is applied under a name of its own. While that has the tables, no other name
may touch them; in the end they begin at the export's moment under the settings' name, and the other name is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial

from consumer.app.parts import (
    READS_CHECKPOINT,
    checkpoint_of,
    listed,
    loader_for,
    manager_of,
    one_round,
    open_ports,
    sink_of,
    start_of,
)
from consumer.config.clocks import clock_of
from consumer.config.export import ExportSettings, export_settings
from consumer.config.rules import StartRules
from consumer.config.settings import Settings
from consumer.config.values import consumer_name
from consumer.errors import BadConfig, CannotBeExact, CheckpointBehind, Code, NeedsPerson, TableMissing
from consumer.model.bad_rows import STOP
from consumer.model.events import NowDoing
from consumer.model.files import Bounds, Folder
from consumer.model.hints import Hint, forget_command
from consumer.model.losses import Loss
from consumer.model.names import NAME_LIMIT, TableName
from consumer.model.naming import beside, naming_from
from consumer.model.progress import (
    AuditRow,
    FolderProgress,
    Progress,
    ProgressChange,
    State,
    TableProgress,
    export_name,
)
from consumer.model.rules import Consistency
from consumer.model.table_rules import TableRules
from consumer.model.texts import count_text
from consumer.model.times import now, tso_to_text
from consumer.pipeline.context import Ports
from consumer.pipeline.manager import ConsumerManager
from consumer.pipeline.opening import assembly_of, other_rules
from consumer.pipeline.resync import give_up, passed_files
from consumer.plan import table_modes
from consumer.plan.assembly import Assembly
from consumer.plan.options import FilesKnown, RoundOptions
from consumer.plan.routing import written
from consumer.plan.starting import given
from consumer.ports import Loader, Observer
from consumer.results import RunResult
from consumer.storage.export import ExportReader
from consumer.target import Sink

Wanted = Callable[[TableName], bool]

_AGAIN = Hint("fix what the reason names, or leave the table out with --tables; then run load-export again")


def load_export(
    settings: Settings, observer: Observer, uri: str, some: Wanted | None = None, loader: Loader | None = None
) -> RunResult:
    """Load the export at `uri` into tables that the target does not have, and let them go on with the storage's
    changes. `some`: only these tables, of a replica that may be running; they are loaded beside those that it has.

    Run again, it goes on where it was. Raises BadConfig for an export that is not complete or not of this upstream,
    CheckpointBehind for one that is above the storage's checkpoint, CannotBeExact for one that is below its first row.
    """
    work = _Work(settings, observer, export_settings(uri), some)
    with loader_for(settings, loader) as spark:
        return work.done(spark)


class _Work:
    def __init__(self, settings: Settings, observer: Observer, export: ExportSettings, some: Wanted | None) -> None:
        self._started = now()
        if some is None and settings.start_ts != StartRules():
            raise BadConfig(
                "--start-ts is given, and the tables of an export begin at its own moment", hint="leave --start-ts out"
            )
        plain = {"start_ts": StartRules(), "syncpoints": 0}
        self._settings, self._observer, self._some = settings.model_copy(update=plain), observer, some
        self._export = ExportReader(export.storage, export.form, self._wanted)
        observer.tell(NowDoing("reads the export's `metadata`"))
        own_clock = settings if export.zone is None else settings.model_copy(update={"tz": export.zone})
        self._tso = own_clock.tso("Pos in the export's `metadata`", self._export.moment())
        self._export.of_moment(self._tso)
        self._dialect = self._export.dialect(
            replace(settings.dialect, clock=clock_of(own_clock.target_options.time_zone))
        )
        self._tables = [name for name in self._export.files.tables if self._wanted(name)]
        if not self._tables:
            which = "--table" if some is not None else "--tables"
            raise BadConfig(f"the export has no table that {which} selects", hint="names are case-sensitive")

    def _wanted(self, name: TableName) -> bool:
        """A database is, with its tables."""
        return self._settings.table_filter.matches(name) and (self._some is None or not name.table or self._some(name))

    def done(self, spark: Loader) -> RunResult:
        loading = self._loading
        with closing(sink_of(loading)) as sink:
            begun = sink.progress()
        ended, own = self._begin(spark, begun)
        if not ended:
            result = self._load(loading, spark, own)
            if result.exit_code or result.error:
                return _unfinished(result)
        else:
            result = RunResult(checkpoint_ts=self._tso, seconds=now() - self._started)
        with closing(sink_of(loading)) as sink:
            if loading.name in sink.consumers():
                sink.forget()
        return result

    @property
    def _loading(self) -> Settings:
        """The settings under which the export is applied."""
        name = export_name(self._settings.name, self._tso)
        try:
            consumer_name(name)
        except ValueError:
            longest = NAME_LIMIT - len(name) + len(self._settings.name)
            raise BadConfig(
                f"--name {self._settings.name} is too long: the export is loaded under {name}",
                hint=f"give a --name of at most {longest} characters",
            ) from None
        return self._settings.model_copy(update={"name": name, "consistency": Consistency.ROW})

    def _begin(self, spark: Loader, begun: Progress) -> tuple[bool, Mapping[TableName, TableName]]:
        """Look whether the export joins the storage, and keep its tables from the replica, which has `begun` with them.
        Returns whether they go on from it already, and where those are loaded that the replica has."""
        with open_ports(self._settings, self._observer, spark) as ports:
            manager, assembly = self._assembled(ports)
            progress = manager.ledger.progress
            if any(progress.table(name).state is State.EXCHANGING for name in self._tables):
                with suppress(TableMissing):  # what was loaded is gone, and is loaded again
                    manager.ledger.finish_marked()
                progress = manager.ledger.progress
                assembly = assembly_of(ports.reader, assembly.listing, progress, manager.options)
            if self._goes_on(progress, ports.sink) and (self._some is None or not begun.is_empty):
                return True, {}
            self._check_moment(ports, assembly)
            if self._some is None and begun.is_empty:
                self._check_new(progress, assembly)
            if self._some is None and progress.is_empty:
                return False, {}
            self._given_up(assembly, progress, manager.options, ports)
            own = self._beside(assembly, progress, begun, ports.sink)
            # As if they were left out: they are nobody's, and no rows of them are read.
            left = [name for name in self._tables if name not in own and not _has(begun, name)]
            places = dict.fromkeys(left, TableProgress(self._tso, State.EXCLUDED))
            if places:
                manager.ledger.record(ProgressChange(tables=dict(places), rewind=True))
        return False, own

    def _beside(
        self, assembly: Assembly, progress: Progress, begun: Progress, sink: Sink
    ) -> Mapping[TableName, TableName]:
        """The tables that the replica has, each with its place until all of its rows are there: as an earlier run has
        `begun` with them."""
        if self._some is None:
            return {}
        places = {name: sink.beside(self._settings.naming.target(name)) for name in self._tables}
        if begun.routes:
            there = naming_from(begun.routes)
            return {name: place for name, place in places.items() if there.target(name) == place}
        own = {*written(assembly, progress), *progress.starts}
        return {name: place for name, place in places.items() if name in own}

    def _assembled(self, ports: Ports) -> tuple[ConsumerManager, Assembly]:
        self._observer.tell(NowDoing(READS_CHECKPOINT))
        checkpoint = checkpoint_of(self._settings, ports.reader)
        options = self._settings.round_options
        manager = manager_of(self._settings, ports, options)
        listing = listed(self._settings, ports.reader, checkpoint)
        return manager, assembly_of(ports.reader, listing, manager.ledger.progress, options)

    def _goes_on(self, progress: Progress, sink: Sink) -> bool:
        """Whether the tables were given to the replica from this export."""
        starts = all(progress.start_of(name) == self._tso for name in self._tables)
        places = all(progress.table(name).state is State.OK for name in self._tables)
        return starts and places and not sink.missing(self._settings.naming.targets(self._tables))

    def _given_up(self, assembly: Assembly, progress: Progress, options: RoundOptions, ports: Ports) -> ProgressChange:
        """The replica's progress without its tables, as if they were left out. Raises what `give_up` raises."""
        known = [name for name in self._tables if name in assembly.catalog.by_table]
        changes = [give_up(name, self._tso, assembly, progress, options, ports.reader) for name in known]
        places = dict.fromkeys(self._tables, TableProgress(self._tso, State.EXCLUDED))
        return ProgressChange().merged(*changes, ProgressChange(tables=dict(places), rewind=True))

    def _check_new(self, progress: Progress, assembly: Assembly) -> None:
        if not progress.is_empty:
            raise BadConfig(
                f"the target already has progress under the name {self._settings.name!r}",
                hint="give --table, with a table or a rule as 'shop.*', to load these again; or another --name and an"
                " empty target",
            )
        lacking = sorted(name for name in _at(assembly, self._tso) if name not in self._tables)
        if lacking:
            more = f", and {count_text(len(lacking) - 1, 'table')} more" if len(lacking) > 1 else ""
            raise BadConfig(
                f"the export does not have {lacking[0]}{more}, which upstream had at its moment",
                hint="export it too, or leave it out with --tables here and in all later runs",
            )

    def _check_moment(self, ports: Ports, assembly: Assembly) -> None:
        tso, checkpoint = self._tso, assembly.checkpoint
        if tso > checkpoint:
            raise CheckpointBehind(
                f"the export is of {_shown(tso)}, and the changefeed is complete only up to {_shown(checkpoint)}",
                hint="try again once the changefeed is past the export's moment",
            )
        if (doubt := self._doubt(ports, assembly)) and not all(map(self._settings.accepts_gap, self._tables)):
            raise CannotBeExact(
                doubt,
                hint="if the changefeed was created before the export, nothing was written upstream in between: give"
                " --accept-gap-in '*.*'; else export again, now that the changefeed is running",
            )

    def _doubt(self, ports: Ports, assembly: Assembly) -> str:
        """Why changes behind the export may be missing, "" where none are."""
        first = _first(ports, assembly, self._tso)
        if first is not None and first <= self._tso:
            return ""
        what = "has no row and no statement yet" if first is None else f"begins at {_shown(first)}"
        return (
            f"the export is of {_shown(self._tso)}, and the storage {what}: the changes between the two may be missing"
        )

    def _load(self, loading: Settings, spark: Loader, own: Mapping[TableName, TableName]) -> RunResult:
        """`own` are the places of tables that the replica has."""
        options = self._options(loading, own)
        with open_ports(loading, self._observer, spark, self._export) as ports:
            manager = manager_of(loading, ports, options)
            self._observer.tell(NowDoing("looks at the export's files"))
            result = one_round(manager, self._export.listing(self._tso), self._started)
            if result.exit_code or result.error:
                return result
            loaded = ports.sink.loaded()
            self._check_counts(ports.sink, options.rules, loaded)
        with open_ports(self._settings, self._observer, spark) as ports:
            self._let_go_on(ports, loaded, own)
        return result

    def _options(self, loading: Settings, own: Mapping[TableName, TableName]) -> RoundOptions:
        """As for the storage, but for how files are written. A bad row stops its table: nothing takes it in later."""
        options = loading.round_options
        files = FilesKnown(self._dialect, accept_timestamp_key=loading.accept_timestamp_key)
        naming = beside(options.rules.naming, own) if own else options.rules.naming
        rules = replace(options.rules, wanted=self._wanted, naming=naming, bad_row_action=lambda table: STOP)
        return replace(options, files=files, rules=rules)

    def _check_counts(self, sink: Sink, rules: TableRules, loaded: Mapping[TableName, tuple[int, int]]) -> None:
        """Each row that was read is in the target, but for those that rules leave out."""
        targets = {name: rules.naming.target(name) for name in self._tables}
        there = sink.count_rows(set(targets.values()))
        for name, target in targets.items():
            read, given_ = loaded.get(name, (0, 0))
            # What a killed load of a table with no key has written is not among the rows given: it was not recorded.
            held = given_ if rules.naming.merges(name) else there.get(target, 0)
            whole = rules.shaping_of(name) is None
            if held != read if whole else not given_ <= held <= read:
                raise CannotBeExact(
                    f"the export has {read:,} rows of {name}, of which {given_:,} were written, and the target has"
                    f" {there.get(target, 0):,}",
                    hint="see that no file is there twice, and that nobody else writes to the table; then drop the"
                    " export's tables in the target, and begin again behind: " + forget_command(self._loading.name),
                    table=str(name),
                )

    def _let_go_on(
        self, ports: Ports, loaded: Mapping[TableName, tuple[int, int]], places: Mapping[TableName, TableName]
    ) -> None:
        """Under the settings' own name the tables begin at the export's moment, those at `places` under their names."""
        manager, assembly = self._assembled(ports)
        audit = tuple(AuditRow("load-export", name, 0, self._tso, *loaded.get(name, (0, 0))) for name in self._tables)
        ledger, rules = manager.ledger, manager.options.rules
        doubt = self._doubt(ports, assembly)
        loss = Loss(doubt, "", self._tso, assembly.checkpoint)
        losses = {name: {loss.id: loss} for name in self._tables} if doubt else {}
        if self._some is None and ledger.progress.is_empty:
            start = self._settings.model_copy(update={"start_ts": StartRules(whole=str(self._tso))})
            ledger.begin(partial(start_of, start, ports.reader))
            own = ProgressChange(starts=dict.fromkeys(self._tables, self._tso), audit=audit, losses=losses)
            ledger.record(own.merged(*other_rules(assembly, ledger.progress, rules)))
        else:
            policy_of = table_modes.keeping(rules.policy_of, rules.naming)
            gone = self._given_up(assembly, ledger.progress, manager.options, ports)
            progress = ledger.progress.after(gone)
            assembly = assembly_of(ports.reader, assembly.listing, progress, manager.options)
            change = given(assembly, progress, dict.fromkeys(self._tables, self._tso), policy_of)
            passed: dict[Folder, FolderProgress] = {}
            for name in self._tables:
                passed |= passed_files(name, self._tso, assembly, progress, ports.reader)
            own = replace(change, folders={**change.folders, **passed}, audit=audit, losses=losses)
            ledger.exchange(list(places), gone.merged(own, *other_rules(assembly, progress, rules)))


def _has(progress: Progress, name: TableName) -> bool:
    """Whether a statement of the table has begun there."""
    return any((ddl.database, ddl.table) == name for ddl in progress.ddls)


def _at(assembly: Assembly, moment: int) -> Iterable[TableName]:
    """The tables that upstream had then, as the storage tells; no views."""
    names = (name for name in assembly.catalog.by_table if name.table and assembly.wanted(name))
    found = ((name, assembly.history.at(name, moment)) for name in names)
    return (name for name, table in found if table is not None and not table.is_view)


def _first(ports: Ports, assembly: Assembly, moment: int) -> int | None:
    """The least moment of a statement, or of a row that some table's first file begins with; any one that is not above
    `moment` will do. None where there is none."""
    statements = [file.version for file in assembly.catalog.files if file.query]
    if statements and min(statements) <= moment:
        return min(statements)
    files = [files[0] for files in assembly.listing.files.values() if files]
    rows = [found.first for found in ports.reader.bounds(files).values() if isinstance(found, Bounds)]
    return min([*statements, *rows], default=None)


def _shown(tso: int) -> str:
    return f"{tso} ({tso_to_text(tso)[:19]} UTC)"


def _unfinished(result: RunResult) -> RunResult:
    """Commands in its hints would be for the storage, of which the tables know nothing yet."""
    for table in result.tables.values():
        if table.state != "ok":
            table.resync = False
            table.hint = table.hint if table.code == Code.OF_ANOTHER_CONSUMER else _AGAIN
    return result.model_copy(update={"hint": _AGAIN}) if result.exit_code == NeedsPerson.exit_code else result
