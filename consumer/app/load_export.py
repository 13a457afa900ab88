"""`load-export`: loads the tables of an export of Dumpling, and records from which moment on the storage's changes
follow.

An export is a storage of its own, which is applied under a name of its own. While that name owns a table, no other name
may touch it. Complete tables begin at the export's moment under the settings' name; those that stopped stay the other
name's, which is forgotten once it owns none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from consumer.app.parts import (
    READS_CHECKPOINT,
    checkpoint_of,
    listing_at_checkpoint,
    loader_for,
    manager_of,
    one_round,
    open_ports,
    sink_of,
    start_change,
    unloaded_tables,
)
from consumer.config.clocks import clock_of
from consumer.config.export import ExportSettings, export_settings
from consumer.config.rules import StartRules
from consumer.config.settings import Settings
from consumer.config.values import consumer_name
from consumer.errors import BadConfig, CannotBeExact, CheckpointBehind, Code, NeedsPerson
from consumer.layout.export import shown_names
from consumer.layout.schema_file import root_of
from consumer.model.bad_rows import STOP
from consumer.model.events import NowDoing, TableStopped
from consumer.model.files import Folder, Listing, known_bounds
from consumer.model.hints import Hint, forget_command
from consumer.model.losses import Loss
from consumer.model.names import NAME_LIMIT, TableName
from consumer.model.naming import Naming, naming_from, naming_with_places
from consumer.model.progress import (
    AuditRow,
    DdlState,
    FolderProgress,
    Progress,
    ProgressChange,
    State,
    TableProgress,
    export_name,
)
from consumer.model.rules import Consistency
from consumer.model.steps import ddl_id
from consumer.model.table_rules import TableRules
from consumer.model.texts import count_text
from consumer.model.times import now, tso_to_text
from consumer.pipeline.context import Ports
from consumer.pipeline.manager import ConsumerManager
from consumer.pipeline.opening import assembly_of, changed_rules
from consumer.pipeline.resync import folders_up_to, restart_from_export
from consumer.plan import table_modes
from consumer.plan.assembly import Assembly
from consumer.plan.options import FileOptions, RoundOptions
from consumer.plan.routing import check_routes, written_names
from consumer.plan.starting import preloaded_tables_change
from consumer.ports import Loader, Observer
from consumer.results import LoadedExport, RunResult, TableResult
from consumer.storage.export import ExportReader
from consumer.target import Sink

Wanted = Callable[[TableName], bool]

_AGAIN = Hint("fix what the reason names, or leave the table out with --tables; then run load-export again")


def load_export(
    settings: Settings, observer: Observer, uri: str, some: Wanted | None = None, loader: Loader | None = None
) -> RunResult:
    """Loads the export at `uri` into tables that the target does not have, and lets these continue with the storage's
    changes. With `some` only these tables are loaded, of a replica that may be running; they are loaded parallel to its
    present ones.

    If it is run again, it resumes where it stopped. Raises BadConfig for an export that is not complete or not of this
    upstream, CheckpointBehind for one that is above the storage's checkpoint, CannotBeExact for one that is below its
    first row.
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
        self._ended: frozenset[TableName] = frozenset()
        """The tables that already continue with the storage's changes."""
        self._tables = [name for name in self._export.files.tables if self._wanted(name)]
        self._left_out_by_rules = len(self._export.files.tables) - len(self._tables)
        self._loaded: Sequence[TableName] = ()
        """The tables that this run has loaded, and that continue with the storage's changes now."""
        if not self._tables:
            which = "--table" if some is not None else "--tables"
            raise BadConfig(f"the export has no table that {which} selects", hint="names are case-sensitive")
        if merged := [name for name in self._tables if settings.naming.merges(name)]:
            raise BadConfig(
                f"a route merges {merged[0]} with others, and the changefeed does not show their CREATE TABLE, by which"
                " they are compared",
                hint="leave that route out, or the tables with --tables; merged tables come from a changefeed alone",
            )

    def _wanted(self, name: TableName) -> bool:
        """Returns whether the table is to be loaded. A database is, with its tables."""
        chosen = self._some is None or not name.table or self._some(name)
        return chosen and name not in self._ended and self._settings.table_filter.matches(name)

    def done(self, spark: Loader) -> RunResult:
        loading = self._loading
        with closing(sink_of(loading)) as sink:
            begun = sink.progress()
        places = self._begin(spark, begun)
        result = RunResult(checkpoint_ts=self._tso, seconds=now() - self._started)
        if self._tables:
            result = self._load(loading, spark, places)
        result = result.model_copy(update={"export": self._summary()})
        if result.exit_code or result.error:
            return result
        with closing(sink_of(loading)) as sink:
            is_known = loading.name in sink.consumers()
        if is_known:
            self._release(loading, spark, self._ended)
            with closing(sink_of(loading)) as sink:
                # --tables excludes tables permanently, --table selects those of one call.
                if self._some is None or not unloaded_tables(sink.progress()):
                    sink.forget()
        return result

    def _summary(self) -> LoadedExport:
        not_loaded = tuple(name for name in self._tables if name not in self._loaded)
        return LoadedExport(
            loaded=len(self._loaded),
            loaded_before=len(self._ended),
            not_loaded=not_loaded,
            left_out=self._left_out_by_rules,
        )

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

    def _begin(self, spark: Loader, begun: Progress) -> Mapping[TableName, TableName]:
        """Checks that the export joins the storage, and keeps its tables from the replica. `begun` is the progress of
        an earlier run. Tables that already continue from it are done. Returns where those tables are loaded that the
        replica has."""
        with open_ports(self._settings, self._observer, spark) as ports:
            manager, assembly = self._assembled(ports)
            progress = manager.ledger.progress
            if any(progress.table(name).state is State.EXCHANGING for name in self._tables):
                manager.ledger.finish_marked()
                progress = manager.ledger.progress
                assembly = assembly_of(ports.reader, assembly.listing, progress, manager.options)
            self._ended = self._continued(progress, begun, ports.sink)
            self._tables = [name for name in self._tables if name not in self._ended]
            if not self._tables:
                return {}
            self._check_moment(ports, assembly)
            if self._some is None and begun.is_empty:
                self._check_new(progress, assembly)
            if self._some is None and progress.is_empty:
                return {}
            self._given_up(self._tables, assembly, progress, manager.options, ports)
            places = self._beside(assembly, progress, begun, ports.sink)
            # They count as excluded: they belong to nobody, and no rows of them are read.
            unclaimed = [name for name in self._tables if name not in places and not _has(begun, name)]
            if unclaimed:
                manager.ledger.record(self._left_out(unclaimed))
        return places

    def _beside(
        self, assembly: Assembly, progress: Progress, begun: Progress, sink: Sink
    ) -> Mapping[TableName, TableName]:
        """Returns the tables that the replica has, each with its place until all of its rows are there. `begun` is the
        progress of an earlier run."""
        if self._some is None:
            return {}
        if begun.routes:
            return self._begun_beside(begun, sink)
        names = {*written_names(assembly, progress), *progress.starts}
        return {name: sink.parallel_name(self._settings.naming.target(name)) for name in self._tables if name in names}

    def _begun_beside(self, begun: Progress, sink: Sink) -> Mapping[TableName, TableName]:
        """Returns the tables that an earlier run has `begun` to load parallel to those of the replica, each with its
        place."""
        begun_naming = naming_from(begun.routes)
        places = {name: sink.parallel_name(self._settings.naming.target(name)) for name in self._tables}
        return {name: place for name, place in places.items() if begun_naming.target(name) == place}

    def _assembled(self, ports: Ports) -> tuple[ConsumerManager, Assembly]:
        self._observer.tell(NowDoing(READS_CHECKPOINT))
        checkpoint = checkpoint_of(self._settings, ports.reader)
        options = self._settings.round_options
        manager = manager_of(self._settings, ports, options)
        listing = listing_at_checkpoint(self._settings, ports.reader, checkpoint)
        return manager, assembly_of(ports.reader, listing, manager.ledger.progress, options)

    def _continued(self, progress: Progress, begun: Progress, sink: Sink) -> frozenset[TableName]:
        """Returns the tables that the replica already got from this export, by a run that has `begun` with it or did
        not end there: with --table an export can be loaded once more."""
        if self._some is not None and begun.is_empty:
            return frozenset()
        target, begins = self._settings.naming.target, progress.starts
        candidates = [n for n in self._tables if begins.get(n) == self._tso and progress.table(n).state is State.OK]
        places = self._begun_beside(begun, sink) if begun.routes else {}
        missing = sink.missing([*map(target, candidates), *places.values()])
        waits = {name for name, place in places.items() if place not in missing}
        return frozenset(name for name in candidates if target(name) not in missing and name not in waits)

    def _given_up(
        self,
        tables: Collection[TableName],
        assembly: Assembly,
        progress: Progress,
        options: RoundOptions,
        ports: Ports,
    ) -> ProgressChange:
        """Returns the change of the replica's progress by which `tables` count as excluded. Raises what
        `restart_from_export` raises."""
        in_storage = [name for name in tables if name in assembly.catalog.by_table]
        changes = [
            restart_from_export(name, self._tso, assembly, progress, options, ports.reader) for name in in_storage
        ]
        return ProgressChange().merged(*changes, self._left_out(tables))

    def _left_out(self, tables: Iterable[TableName]) -> ProgressChange:
        places = dict.fromkeys(tables, TableProgress(self._tso, State.EXCLUDED))
        return ProgressChange(tables=dict(places), rewind=True)

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
        """Returns why changes after the export may be missing, "" if none are."""
        first = _first(ports, assembly, self._tso)
        if first is not None and first <= self._tso:
            return ""
        what = "has no row and no statement yet" if first is None else f"begins at {_shown(first)}"
        return (
            f"the export is of {_shown(self._tso)}, and the storage {what}: the changes between the two may be missing"
        )

    def _load(self, loading: Settings, spark: Loader, places: Mapping[TableName, TableName]) -> RunResult:
        """Loads the tables. `places` has the places of those that the replica has. Complete tables continue."""
        options = self._options(loading, places)
        with open_ports(loading, self._observer, spark, self._export) as ports:
            manager = manager_of(loading, ports, options)
            self._observer.tell(NowDoing("looks at the export's files"))
            listing = self._export.listing(self._tso)
            self._begin_again(manager, listing, options.rules.naming)
            for name, refused in self._export.refused.items():
                manager.stopped[name] = refused
                manager.results.setdefault(name, TableResult()).becomes("stopped", refused)
                self._observer.tell(TableStopped(name, refused, parallel_load=name in places))
            result = _unfinished(one_round(manager, listing, self._started))
            if result.unfinished:
                return result
            progress, loaded = manager.ledger.progress, ports.sink.loaded()
            complete = self._complete_tables(listing, progress)
            for name, error in list(self._miscounted(complete, ports.sink, options.rules, loaded)):
                complete.remove(name)
                result.tables.setdefault(name, TableResult()).becomes("stopped", error)
                result = result.model_copy(update={"exit_code": result.exit_code or error.exit_code})
                self._observer.tell(TableStopped(name, error, parallel_load=name in places))
        if not complete:
            return result
        with open_ports(self._settings, self._observer, spark) as ports:
            self._continue_tables(
                ports, complete, loaded, {name: place for name, place in places.items() if name in complete}
            )
        self._loaded = complete
        self._release(loading, spark, complete)
        return result

    def _release(self, loading: Settings, spark: Loader, tables: Iterable[TableName]) -> None:
        """Releases `tables`, which continue with the storage's changes: the consumer that applies these can take
        them."""
        with open_ports(loading, self._observer, spark, self._export) as ports:
            manager_of(loading, ports, loading.round_options).ledger.record(self._left_out(tables))

    def _complete_tables(self, listing: Listing, progress: Progress) -> list[TableName]:
        """Returns the tables that have all of their rows. Those that one view shows count only together."""
        settled = {ddl for ddl, record in progress.ddls.items() if record.state in (DdlState.DONE, DdlState.SKIPPED)}
        made = {file.name for file in listing.schemas if ddl_id(file) in settled}
        shown = shown_names(text for name, text in self._export.views.items() if name not in made)
        read = [name for name in self._tables if name in made and self._is_complete(progress.table(name))]
        return [name for name in read if name.table.lower() not in shown]

    def _begin_again(self, manager: ConsumerManager, listing: Listing, naming: Naming) -> None:
        """Resets tables for another run. Tables that no run has created are to be created, even after an earlier run
        ended. A table whose CREATE TABLE has changed is dropped, and so are one that is excluded by now, and one that
        is not complete and has another table mode by now: nobody may take it for complete. Raises BadConfig before it
        drops anything."""
        ledger, tables = manager.ledger, {*self._tables}
        if ledger.progress.is_empty:
            return
        if self._some is None:
            tables = {*self._export.files.tables} - self._ended
        made, places = ledger.progress.ddls, ledger.progress.table
        listed = {ddl_id(file): file.name for file in listing.schemas if file.table}
        begun = {name for ddl in made if (name := TableName(ddl.database, ddl.table)) in tables}
        begun = {name for name in begun if places(name).state is not State.EXCLUDED}
        complete = {name for name in begun if self._is_complete(places(name))}
        refused = {TableName(d.database, d.table) for d, record in made.items() if record.state is DdlState.REFUSED}
        check_routes(naming, ledger.progress, begun - refused)
        table_modes.check_modes(naming, ledger.progress.modes, complete)
        otherwise = {name for name, _, _ in table_modes.changed_modes(naming, ledger.progress.modes, begun)}
        resets = {
            ddl: record
            for ddl, record in made.items()
            if (name := TableName(ddl.database, ddl.table)) in begun and (ddl not in listed or name in otherwise)
        }
        for ddl, record in resets.items():
            name = TableName(ddl.database, ddl.table)
            place = TableProgress(ddl.version - 1)
            folders = (folder for folder in ledger.progress.folders if folder.root == root_of(*name))
            change = ProgressChange(
                tables={name: place}, folders=dict.fromkeys(folders), forget_ddls=(ddl,), rewind=True
            )
            if record.state is DdlState.DONE:
                ledger.empty(name, change)
            elif record.state is DdlState.REFUSED:
                ledger.record(change)
        # A run that died between the mark and the DROP has left the mark, by which the round drops the table.
        unmarked = {name for name in listed.values() if ledger.progress.table(name).state is not State.EMPTYING}
        if new := {n: TableProgress(ddl.version - 1) for ddl, n in listed.items() if ddl not in made and n in unmarked}:
            ledger.record(ProgressChange(tables=dict(new), rewind=True))

    def _is_complete(self, place: TableProgress) -> bool:
        return place.state is State.OK and place.applied_ts == self._tso

    def _options(self, loading: Settings, places: Mapping[TableName, TableName]) -> RoundOptions:
        """Returns the options of the storage, except for how files are written. A bad row stops its table, because
        nothing would apply it later."""
        options = loading.round_options
        files = FileOptions(self._dialect, accept_timestamp_key=loading.accept_timestamp_key)
        naming = naming_with_places(options.rules.naming, places) if places else options.rules.naming
        rules = replace(options.rules, wanted=self._wanted, naming=naming, bad_row_action=lambda table: STOP)
        return replace(options, files=files, rules=rules)

    def _miscounted(
        self, tables: Iterable[TableName], sink: Sink, rules: TableRules, loaded: Mapping[TableName, tuple[int, int]]
    ) -> Iterator[tuple[TableName, CannotBeExact]]:
        """Yields the tables of which not every row that was read is in the target, apart from rows that rules drop."""
        targets = {name: rules.naming.target(name) for name in tables}
        rows_in_target = sink.count_rows(set(targets.values()))
        for name, target in targets.items():
            read, given_ = loaded.get(name, (0, 0))
            # A killed load of a table with no key has not recorded what it wrote, so `given_` may be less.
            held = rows_in_target.get(target, 0)
            unfiltered = rules.shaping_of(name) is None
            if held != read if unfiltered else not given_ <= held <= read:
                yield (
                    name,
                    CannotBeExact(
                        f"the export has {count_text(read, 'row')} of {name}; written: {given_:,}; in the target:"
                        f" {held:,}",
                        hint="see that no file is there twice, and that nobody else writes to the table; then run"
                        " the command below, and after it load the table with --table: "
                        + forget_command(self._loading.name),
                        table=str(name),
                    ),
                )

    def _continue_tables(
        self,
        ports: Ports,
        tables: Collection[TableName],
        loaded: Mapping[TableName, tuple[int, int]],
        places: Mapping[TableName, TableName],
    ) -> None:
        """Lets `tables` begin at the export's moment under the settings' own name, those at `places` under their final
        names. The other tables belong to nobody there, and no rows of them are read."""
        manager, assembly = self._assembled(ports)
        audit = tuple(AuditRow("load-export", name, 0, self._tso, *loaded.get(name, (0, 0))) for name in tables)
        ledger, rules = manager.ledger, manager.options.rules
        doubt = self._doubt(ports, assembly)
        loss = Loss(doubt, "", self._tso, assembly.checkpoint)
        losses = {name: {loss.id: loss} for name in tables} if doubt else {}
        rest = self._left_out(name for name in self._tables if name not in tables)
        if self._some is None and ledger.progress.is_empty:
            start = self._settings.model_copy(update={"start_ts": StartRules(whole=str(self._tso))})
            ledger.begin(partial(start_change, start, ports.reader))
            begin = ProgressChange(starts=dict.fromkeys(tables, self._tso), audit=audit, losses=losses)
            ledger.record(begin.merged(rest, *changed_rules(assembly, ledger.progress, rules)))
        else:
            policy_of = table_modes.policy_keeping_ended(rules.policy_of, rules.naming)
            given_up = self._given_up(tables, assembly, ledger.progress, manager.options, ports).merged(rest)
            progress = ledger.progress.after(given_up)
            assembly = assembly_of(ports.reader, assembly.listing, progress, manager.options)
            change = preloaded_tables_change(assembly, progress, dict.fromkeys(tables, self._tso), policy_of)
            passed: dict[Folder, FolderProgress] = {}
            for name in tables:
                passed |= folders_up_to(name, self._tso, assembly, progress, ports.reader)
            begin = replace(change, folders={**change.folders, **passed}, audit=audit, losses=losses)
            ledger.exchange(list(places), given_up.merged(begin, *changed_rules(assembly, progress, rules)))


def _has(progress: Progress, name: TableName) -> bool:
    """Returns whether a statement of the table has begun there."""
    return any((ddl.database, ddl.table) == name for ddl in progress.ddls)


def _at(assembly: Assembly, moment: int) -> Iterable[TableName]:
    """Returns the tables that upstream had then, as the storage shows; no views."""
    names = (name for name in assembly.catalog.by_table if name.table and assembly.wanted(name))
    tables = ((name, assembly.history.at(name, moment)) for name in names)
    return (name for name, table in tables if table is not None and not table.is_view)


def _first(ports: Ports, assembly: Assembly, moment: int) -> int | None:
    """Returns the least moment of a statement, or of a row with which some table's first file begins; any moment that
    is not above `moment` will do. Returns None if there is none."""
    statements = [file.version for file in assembly.catalog.files if file.query]
    if statements and min(statements) <= moment:
        return min(statements)
    files = [files[0] for files in assembly.listing.files.values() if files]
    rows = [bounds.first for bounds in known_bounds(ports.reader.bounds(files)).values()]
    return min([*statements, *rows], default=None)


def _shown(tso: int) -> str:
    return f"{tso} ({tso_to_text(tso)[:19]} UTC)"


def _unfinished(result: RunResult) -> RunResult:
    """Replaces hints with commands: these would be for the storage, of which the tables know nothing yet."""
    for table in result.tables.values():
        if table.state != "ok":
            table.resync = False
            if table.code != Code.OF_ANOTHER_CONSUMER and (table.hint.has_commands or not table.hint):
                table.hint = _AGAIN
    return result.model_copy(update={"hint": _AGAIN}) if result.exit_code == NeedsPerson.exit_code else result
