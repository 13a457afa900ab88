"""Every setting of the consumer. A field's description is its documentation: `doc.py` makes the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, PrivateAttr

from consumer.codec import PROTOCOLS
from consumer.config import values
from consumer.config.clocks import clock_of, resolved_zone
from consumer.config.fields import ProtocolSettings, field_of, setting, unproven_keys
from consumer.config.filters import (
    ColumnSelector,
    DdlRules,
    EventFilterRule,
    RowRule,
    selected_by,
    shaping_of,
    without_ignored,
)
from consumer.config.rules import (
    BadRowRule,
    ColumnRule,
    LakeTableRule,
    MaskRule,
    Rule,
    StartRules,
    TableModeRule,
    bad_row_action,
    first,
    named_tables,
    naming_by,
    read_bad_row_rules,
    read_start_rules,
    read_table_modes,
    tables_of,
)
from consumer.config.secrets import MASK, Uri, scrubber, secret_values
from consumer.config.table_filter import TableFilter, table_filter
from consumer.errors import BadConfig
from consumer.model.bad_rows import STOP, BadRowAction
from consumer.model.ddl_policy import PolicyOf
from consumer.model.layout import Layouts
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.naming import Naming, Route
from consumer.model.rules import Consistency, NamedTables, ShapingOf, Starts
from consumer.model.table_rules import Batches, TableRules
from consumer.model.texts import receiver_text
from consumer.model.times import zone_of
from consumer.plan.options import FileOptions, RoundOptions
from consumer.plan.retention import Retention
from consumer.spark.settings import SparkSettings
from consumer.target import TargetOptions

Switch = Annotated[bool, BeforeValidator(values.boolean)]
Count = Annotated[int, BeforeValidator(values.whole_number)]
_HIDDEN = ("spark_conf", "http_token", "notify")
"""Settings of which a part is never printed."""


if TYPE_CHECKING:
    _OfProtocols = BaseModel
else:
    _OfProtocols = ProtocolSettings


class Settings(_OfProtocols):
    """The checked settings of one run. They are frozen, and their repr has no secrets."""

    upstream_uri: Annotated[Uri, BeforeValidator(values.upstream)] = setting(
        ...,
        "The storage that TiCDC writes to, in the form of TiCDC's sink-uri, also with a `protocol` parameter. Several"
        " are given as `NAME=URI` each (docs/several.md).",
        metavar="URI",
        several=True,
        follows=True,
        part="storage",
    )
    downstream_uri: Annotated[Uri, BeforeValidator(values.downstream)] = setting(
        "duckdb:///replica.duckdb",
        "The target: `mysql://user:password@host:port/`, `duckdb:///file.duckdb`, `delta:///folder` or `iceberg:///folder`.",
        metavar="URI",
        follows=True,
        part="target",
    )
    protocol: Annotated[str, BeforeValidator(values.protocol)] = setting(
        ..., f"How the changefeed encodes rows: {' or '.join(f'`{p}`' for p in PROTOCOLS)}.", flag=False, file="[sink]"
    )
    name: Annotated[str, BeforeValidator(values.consumer_name)] = setting(
        "default",
        "The name of the progress in the target. Each upstream needs its own.",
        metavar="NAME",
        follows=True,
        part="target",
    )
    upstreams: tuple[Any, ...] = setting(
        (), "Several storages: `[[consumer.upstreams]]` with `name`, `uri` and own settings (docs/several.md).",
        flag=False,
    )  # fmt: skip
    targets: tuple[Any, ...] = setting(
        (), "Several targets: `[[consumer.targets]]` with `name`, `uri` and own settings (docs/several.md).", flag=False
    )
    together: Switch = setting(
        False,
        "Several upstreams: no table goes further than the lowest of their checkpoints (docs/several.md).",
        flag=False,
    )
    together_max_wait: Annotated[float, BeforeValidator(values.wait)] = setting(
        "0",
        "With `together`: an upstream whose checkpoint is further than this behind the first one is not waited for any"
        " more. `0`: each is waited for.",
        metavar="D",
        flag=False,
    )
    only: str | None = setting(
        None,
        "Of several upstreams and targets: only those with this name.",
        metavar="NAME",
        follows=True,
        part="process",
    )
    master: str = setting("local[*]", "The Spark master URL.", metavar="URL", follows=True, part="spark")
    spark_conf: Annotated[tuple[tuple[str, str], ...], BeforeValidator(values.pairs)] = setting(
        (),
        "A Spark property `K=V`. Can be given several times (in the environment, separated by `;`).",
        metavar="K=V",
        several=True,
        part="spark",
    )
    tables: Annotated[tuple[str, ...], BeforeValidator(values.rules)] = setting(
        (),
        "Table filter rules, as `shop.*` or `!shop.tmp_*`. The last match decides. `[filter] rules` in the file.",
        metavar="RULE..",
        several=True,
        follows=True,
        part="storage",
    )
    routes: Annotated[tuple[Route, ...], BeforeValidator(values.routes)] = setting(
        (),
        "What tables have another name in the target, as `shop.* -> replica.*`, or are merged into one, as"
        " `shard_*.t -> shop.t merge _source`. The first match decides. Can be given several times (docs/shaping.md).",
        metavar="FROM -> TO", several=True, follows=True, key="route", file_key="routes", part="names",
    )  # fmt: skip
    table_modes: Annotated[tuple[TableModeRule, ...], BeforeValidator(read_table_modes)] = setting(
        (),
        "What tables of the target keep: `mirror` upstream's rows, `append` each change, `soft-delete` deleted rows"
        " too, or `history` each version of a row."
        " `RULE = MODE`, as `shop.* = append`. The first match decides. Can be given several times (docs/shaping.md).",
        metavar="RULE = MODE", several=True, follows=True, key="table-mode", file_key="table-modes", part="names",
    )  # fmt: skip
    event_filters: Annotated[tuple[EventFilterRule, ...], tables_of("event-filters")] = setting(
        (),
        "Changes and statements to drop, with TiCDC's own keys: `[[consumer.event-filters]]` (docs/shaping.md).",
        flag=False,
    )
    rows: Annotated[tuple[RowRule, ...], tables_of("rows")] = setting(
        (),
        "Which rows tables of the target have: `[[consumer.rows]]` with `tables` and `where` (docs/shaping.md).",
        flag=False,
    )
    columns: Annotated[tuple[ColumnRule, ...], tables_of("columns")] = setting(
        (),
        "Which columns tables of the target have, and their names: `[[consumer.columns]]` with `tables` and `include`,"
        " `exclude`, `rename` (docs/shaping.md).",
        flag=False,
    )
    masks: Annotated[tuple[MaskRule, ...], tables_of("masks")] = setting(
        (),
        "What stands in place of the values of some columns: `[[consumer.masks]]` (docs/shaping.md).",
        flag=False,
    )
    lake_tables: Annotated[tuple[LakeTableRule, ...], tables_of("lake-tables")] = setting(
        (),
        "Partitions, clustering and properties of new tables of a lake: `[[consumer.lake-tables]]` (docs/lakes.md).",
        flag=False,
    )
    case_sensitive: Switch = setting(
        False, "Whether table rules are case-sensitive.", flag=False, file="", key="case-sensitive"
    )
    never_split: Annotated[tuple[str, ...], BeforeValidator(values.rules)] = setting(
        (),
        "Tables without a key that the changefeed never splits, although it has `enable-table-across-nodes`. Rules as"
        " in `--tables` (docs/limits.md).",
        flag=False,
    )
    file_index_width: Annotated[int, BeforeValidator(values.index_width)] = setting(
        20,
        "Digits of a data file's number, the changefeed's `[sink] file-index-digit`.",
        metavar="N",
        follows=True,
        part="storage",
    )
    date_separator: Annotated[str | None, BeforeValidator(values.date_separator)] = setting(
        None, "The changefeed's date level: `none`, `year`, `month` or `day`. If unset, it is found from the paths.",
        flag=False, file="[sink]",
    )  # fmt: skip
    terminator: Annotated[bytes, BeforeValidator(values.terminator)] = setting(
        b"\r\n", "What ends each line of a data file.", flag=False, file="[sink]"
    )
    unproven: Annotated[tuple[str, ...], BeforeValidator(unproven_keys)] = setting(
        (),
        "Keys of `[sink]` and `[sink.csv]` that `inspect` could not prove. They have no default and must be set.",
        flag=False,
    )
    output_raw_change_event: Switch = setting(
        False, "Whether TiCDC does not split updates of keys. Also a parameter of `--upstream-uri`.",
        flag=False, file="[sink.cloud-storage-config]",
    )  # fmt: skip
    column_selectors: Annotated[tuple[ColumnSelector, ...], tables_of("column-selectors", "sink")] = setting(
        (), "Which columns TiCDC writes: its own `[[sink.column-selectors]]`.", flag=False, file="[sink]"
    )
    flush_interval: Annotated[float, BeforeValidator(values.duration)] = setting(
        "10s",
        "How often `run` looks for new files, as a Go duration: `500ms`, `10s`, `1m30s`.",
        metavar="D",
        part="waiting",
    )
    max_wait: Annotated[float, BeforeValidator(values.wait)] = setting(
        "1m",
        "How long to retry if the target, the storage or a lock does not let a step through. Then the command exits"
        " with 4, and `run` starts a new round. `0`: no retries.",
        metavar="D",
        part="target",
    )
    tz: Annotated[str, BeforeValidator(values.zone_name)] = setting(
        "System",
        "The changefeed's time zone: `System` (this machine's), a name or an offset such as `+08:00`. The first run"
        " binds `--name` to it.",
        metavar="ZONE",
        follows=True,
        part="storage",
    )
    worker_count: Count = setting(
        16,
        "The maximum number of connections to the target that write rows at a time, and of those that execute"
        " statements. A few more hold the lease and read.",
        metavar="N",
        part="spark",
    )
    in_process_bytes: Annotated[int, BeforeValidator(values.little_size)] = setting(
        0,
        "Loads of at most so many bytes of change files, all that are ready together, run in the program's own process,"
        " without Spark's start, as `4MiB`; 64MiB at most (docs/speed.md). 0: every load runs in Spark.",
        metavar="SIZE",
        part="spark",
    )
    round_bytes: Annotated[int, BeforeValidator(values.size)] = setting(
        "4GiB",
        "The most bytes of change files that a table reads at a time: `256MiB`, or a plain number. In `run` at most"
        " 128MiB.",
        flag=False,
    )
    memory_limit: Annotated[int, BeforeValidator(values.size)] = setting(
        "8GiB",
        "The most bytes of change files that all tables together have begun to read and not yet written to the target."
        " A load that is larger, and cannot be divided, goes alone.",
        flag=False,
    )
    consistency: Annotated[Consistency, BeforeValidator(values.consistency)] = setting(
        Consistency.ROW,
        "What readers of the target see while rows are written: each `row` at once, the rows of a `table` from one of"
        " its watermarks to the next, or a `snapshot` of all tables (docs/consistency.md).",
        metavar="LEVEL",
        follows=True,
    )
    publish_bytes: Annotated[int, BeforeValidator(values.size)] = setting(
        "128MiB",
        "With `--consistency table` or `snapshot`: the most bytes of change files, about, whose rows one transaction of"
        " the target writes.",
        flag=False,
    )
    checkpoint_ts: Annotated[int | str | None, BeforeValidator(values.checkpoint)] = setting(
        None,
        "Only if there is no `metadata`: `max`, or the TSO to stop at.",
        metavar="max|TSO",
        follows=True,
        part="storage",
    )
    ddl: DdlRules = setting(
        "evolve", "What to do with the upstream's statements: `evolve`, `fail`, or a table with rules (docs/ddl.md).",
        flag=False,
    )  # fmt: skip
    start_ts: Annotated[StartRules, BeforeValidator(read_start_rules)] = setting(
        StartRules(),
        "For the first run: the target already holds the tables as they were at this moment (a Dumpling or BR export)."
        " `RULE=MOMENT` is for tables that are new to this `--name`, `RULE=now` for those that begin at the present"
        " checkpoint; the last match decides. Can be given several times (docs/moments.md).",
        metavar="[RULE=]TSO|TIME",
        several=True,
        part="start",
    )
    file_expiration_days: Annotated[int | None, BeforeValidator(values.days)] = setting(
        None,
        "After how many days TiCDC deletes date folders; 0: never. It says which unread folders may be deleted. If"
        " unset, a first run assumes that all before the storage's oldest are deleted (docs/storages.md).",
        flag=False, file="[sink.cloud-storage-config]",
    )  # fmt: skip
    on_bad_row: Annotated[tuple[BadRowRule, ...], BeforeValidator(read_bad_row_rules)] = setting(
        "stop",
        "What to do with a line that cannot be decoded, or a row that the target refuses: `stop` its table, or"
        " `quarantine` the row. `RULE=ACTION` is for some tables, as `shop.*=quarantine`; the last match decides."
        " Can be given several times (docs/bad-rows.md).",
        metavar="[RULE=]ACTION",
        several=True,
        follows=True,
        part="bad rows",
    )
    dead_letters: Annotated[Uri | None, BeforeValidator(values.dead_letters)] = setting(
        None,
        "Where quarantined rows are kept: a folder or bucket, in the form of `--upstream-uri`. `quarantine` needs it.",
        metavar="URI",
        follows=True,
        part="bad rows",
    )
    max_bad_rows: Count = setting(1000, "The most quarantined rows of a table. With more of them it stops.", flag=False)
    syncpoints: Annotated[int, BeforeValidator(values.none_or_more)] = setting(
        0,
        "How many moments to keep in `storage_consumer.syncpoint` at which all tables were complete; one is written at"
        " the end of a round (docs/syncpoints.md). 0: none.",
        flag=False,
    )
    accept_gap_in: Annotated[tuple[str, ...], BeforeValidator(values.rules)] = setting(
        (),
        "The tables that continue although files are missing between those that were read and those that exist."
        " `status` shows what they lack until a `resync`. Rules as in `--tables`.",
        metavar="RULE..",
        several=True,
    )
    accept_key_loss: Switch = setting(
        False, "Go on although CSV updates lack their old keys (`output-raw-change-event` without old values)."
    )
    accept_trigger: Switch = setting(False, "Write to target tables that have triggers.", flag=False)
    accept_timestamp_key: Switch = setting(
        False,
        "Apply tables with a TIMESTAMP in their key although the changefeed's clock shows one hour of the year twice.",
        flag=False,
    )
    date_order: Annotated[str, BeforeValidator(values.date_order)] = setting(
        "",
        "For rows without commit-ts: whether the order of date folders is that of their `date` or of their files'"
        " modification `time`, if the two differ.",
        flag=False,
    )
    log_level: Annotated[str, BeforeValidator(values.log_level)] = setting(
        "info", "`debug`, `info`, `warning` or `error`.", metavar="LEVEL", part="process"
    )
    log_format: Annotated[str, BeforeValidator(values.log_format)] = setting(
        "text", "`text` or `json`.", metavar="text|json", part="process"
    )
    log_file: str | None = setting(
        None,
        "Write the log to this file instead of stderr. It is opened again when logrotate has moved it; `run` takes no"
        " SIGHUP for an end then.",
        metavar="FILE",
        part="process",
    )
    http: Annotated[tuple[str, int] | None, BeforeValidator(values.address)] = setting(
        None,
        "Where `run` serves metrics, its state and a page about it, as `127.0.0.1:9464` (docs/monitoring.md). If other"
        " machines reach the address, `http-token` is needed.",
        metavar="HOST:PORT",
        part="waiting",
    )
    http_token: Annotated[str, BeforeValidator(values.token)] = setting(
        "",
        "What clients of `--http` must show, or where it is: `env:NAME` or `file:PATH`. `/healthz` and `/readyz` need"
        " none.",
        flag=False,
    )
    ready_lag: Annotated[float, BeforeValidator(values.duration)] = setting(
        "10m",
        "How far the slowest table may be behind while `/readyz` of `--http` says that all is well, and before"
        " `--notify` notifies of it.",
        flag=False,
    )
    metrics_file: str | None = setting(
        None,
        "Where a command that applies leaves its metrics at its end: a file, as node_exporter's textfile collector"
        " reads them, or the URL of a push gateway (docs/monitoring.md).",
        metavar="FILE|URL",
    )
    notify: Annotated[tuple[str, ...], BeforeValidator(values.commands)] = setting(
        (),
        "Who is notified of each change of state: a command, which gets JSON on stdin, or a URL, which gets it by POST"
        " (docs/monitoring.md). Can be given several times.",
        metavar="CMD|URL",
        several=True,
    )
    enable_profiling: Switch = setting(
        False, "Serve all threads' stacks at http://127.0.0.1:6060/debug/pprof/.", part="process"
    )
    verbose: Switch = setting(False, "Log debug messages and print the trace of an error.", part="process")
    json_output: Switch = setting(False, "End stdout with the result as one JSON object.", key="json", part="process")

    _given: Mapping[str, Any] = PrivateAttr(default_factory=dict)
    _group: tuple[str, Mapping[str, Uri]] = PrivateAttr(("", {}))

    @property
    def upstream_name(self) -> str:
        """The name of this upstream among those that it goes together with, "" for none."""
        return self._group[0]

    @property
    def peers(self) -> Mapping[str, Uri]:
        """By name, the other upstreams that this one goes together with."""
        name, uris = self._group
        return {peer: uri for peer, uri in uris.items() if peer != name}

    def in_group(self, name: str, uris: Mapping[str, Uri]) -> Settings:
        """Returns these settings for the upstream `name`, which goes together with all of `uris`."""
        copy = self.model_copy()
        copy._group = name, uris
        return copy

    def note_given(self, given: Mapping[str, Any]) -> None:
        """Records what was set, as the flags, the environment and the file have it."""
        self._given = given

    @property
    def given(self) -> Iterator[tuple[str, Any]]:
        """Yields the settings that were set, by field, as a file has them: switches, lists of texts and numbers; all
        others as they were written. They include what `scrub` removes."""
        for field, value in self.__repr_args__():
            written = self._given.get(field or "")
            if field and written is not None:
                texts = isinstance(value, tuple) and all(isinstance(entry, str) for entry in value)
                as_it_is = isinstance(value, bool) or texts or field in _HIDDEN or str(value) == str(written)
                yield field, value if as_it_is else written

    @property
    def scrub(self) -> Callable[[str], str]:
        """A function that removes these settings' secrets from a text."""
        return scrubber(
            self.upstream_uri,
            self.downstream_uri,
            self.dead_letters or "",
            *self.peers.values(),
            secrets=[*secret_values(self.spark_conf), *(rule.key.decode() for rule in self.masks), self.http_token],
        )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        conf = tuple(f"{key}={MASK if secret_values(((key, value),)) else value}" for key, value in self.spark_conf)
        notify = tuple(map(receiver_text, self.notify))
        shown = dict(zip(_HIDDEN, (conf, MASK if self.http_token else "", notify), strict=True))
        return [(name, shown.get(name or "", value)) for name, value in super().__repr_args__()]

    @property
    def table_filter(self) -> TableFilter:
        """The compiled form of `tables`."""
        return table_filter(self.tables, self.case_sensitive)

    @property
    def naming(self) -> Naming:
        """The compiled form of `routes`, `table_modes` and `columns`."""
        return naming_by(self.routes, self.table_modes, self.columns, self.case_sensitive)

    @property
    def named_tables(self) -> NamedTables:
        """The tables that are named without wildcards in settings where a mistyped name would change what the target
        has."""
        ruled: Mapping[str, Sequence[Rule]] = {
            "--table-mode": self.table_modes,
            "[[consumer.event-filters]]": self.event_filters,
            "[[consumer.rows]]": self.rows,
            "[[consumer.columns]]": self.columns,
            "[[consumer.masks]]": self.masks,
            "[[consumer.lake-tables]]": self.lake_tables,
            "[[consumer.ddl.rules]]": self.ddl.rules,
        }
        places = [("--tables", self.tables)]
        places += [(place, rule.tables) for place, rules in ruled.items() for rule in rules]
        named = (named_tables(place, rules) for place, rules in places)
        return NamedTables(tuple(chain.from_iterable(named)), self.case_sensitive)

    def never_splits(self, table: TableName) -> bool:
        """Returns whether `never_split` names `table`."""
        return bool(self.never_split) and table_filter(self.never_split, self.case_sensitive).matches(table)

    def accepts_gap(self, table: TableName) -> bool:
        """Returns whether missing files of `table` are accepted."""
        rules = self.accept_gap_in
        return bool(rules) and table_filter(rules, self.case_sensitive).matches(table)

    @property
    def quarantines(self) -> bool:
        """Whether rows of some table can be quarantined."""
        return any(rule.action == "quarantine" for rule in self.on_bad_row)

    def bad_row_action(self, table: TableName) -> BadRowAction:
        """Returns what `table` does at a bad row. It stops if columns are masked, because a dead letter has the
        line."""
        if first(self.masks, table, self.case_sensitive) is not None:
            return STOP
        return bad_row_action(self.on_bad_row, table, self.case_sensitive, self.max_bad_rows)

    @property
    def dialect(self) -> Dialect:
        """How the files are written. Raises BadConfig if this machine's zone has no name."""
        protocol = PROTOCOLS[self.protocol]
        values = {option.key: getattr(self, field_of(protocol, option)) for option in protocol.own_options}
        clock = clock_of(resolved_zone(self.tz))
        return Dialect(self.protocol, self.terminator, protocol.options(values), clock)

    @property
    def key_loss(self) -> BadConfig | None:
        """Why rows under old keys stay, or rows that exchange keys are lost; None if neither can happen."""
        raw = ("with output-raw-change-event=true", "output-raw-change-event=false")
        return PROTOCOLS[self.protocol].key_loss(self.dialect, *raw) if self.output_raw_change_event else None

    @property
    def start_tso(self) -> int:
        """The TSO of `start_ts` for all tables, 0 if it is not set. Raises BadConfig."""
        return 0 if self.start_ts.whole is None else self.tso("--start-ts", self.start_ts.whole)

    @property
    def starts(self) -> Starts:
        """The compiled form of `start_ts` for single tables. Raises BadConfig."""
        return self.start_ts.starts(partial(self.tso, "--start-ts"), self.case_sensitive)

    def tso(self, flag: str, moment: str) -> int:
        """Returns the TSO of a moment that `flag` gives; times are in the changefeed's zone. Raises BadConfig."""
        try:
            return values.tso_of(str(values.moment(moment)), self.tz)
        except ValueError as problem:
            raise BadConfig(f"{flag} is refused: {problem}") from None

    @property
    def ddl_policy(self) -> PolicyOf:
        """The compiled form of `ddl`, with the statements that `event_filters` ignore."""
        return without_ignored(self.ddl.policy_of(self.case_sensitive), self.event_filters, self.case_sensitive)

    @property
    def rules(self) -> TableRules:
        """The settings about tables."""
        return TableRules(
            self.table_filter.matches,
            self.naming,
            self.shaping_of,
            self.ddl_policy,
            self.bad_row_action,
            self.starts,
            self.accepts_gap,
            self.never_splits,
            self.named_tables,
            partial(selected_by, self.column_selectors, self.case_sensitive),
            self.tables,
            self.table_filter.asks_for,
            self.table_filter.hides,
        )

    @property
    def round_options(self) -> RoundOptions:
        """The settings that a round needs."""
        dialect = self.dialect
        files = FileOptions(
            dialect,
            Retention(self.file_expiration_days, zone_of(resolved_zone(self.tz))),
            PROTOCOLS[self.protocol].undecided(dialect, self.unproven),
            self.date_order,
            self.accept_key_loss,
            self.accept_timestamp_key,
        )
        batches = Batches(self.round_bytes, self.memory_limit, self.consistency, self.publish_bytes)
        late_after = self.ready_lag if self.notify else None
        return RoundOptions(files, self.rules, batches, self.max_wait, late_after, self.syncpoints, self.name)

    @property
    def target_options(self) -> TargetOptions:
        """The settings that any target needs."""
        staged = self.consistency is not Consistency.ROW
        zone = resolved_zone(self.tz)
        layouts = Layouts(
            [(partial(rule.fits, case_sensitive=self.case_sensitive), rule.layout) for rule in self.lake_tables]
        )
        return TargetOptions(
            self.name, zone, self.worker_count, self.accept_trigger, staged, self.max_wait, layouts=layouts
        )

    @property
    def spark(self) -> SparkSettings:
        """The settings that start Spark."""
        return SparkSettings(self.master, self.spark_conf, self.worker_count, self.in_process_bytes)

    @property
    def shaping_of(self) -> ShapingOf:
        """The compiled form of `event_filters`, `rows` and `masks`."""
        return shaping_of(self.event_filters, self.rows, self.masks, self.case_sensitive)


class InspectSettings(Settings):
    """The settings of `inspect`, which finds the protocol itself; one that is set is compared with it."""

    protocol: str = setting("", "How the changefeed encodes rows, where that is known.", flag=False, file="[sink]")


class TargetSettings(InspectSettings):
    """The settings of `forget`, which only reads the target."""

    upstream_uri: Annotated[Uri, BeforeValidator(Uri)] = setting(
        "", "The storage, which is not looked at.", metavar="URI"
    )
