"""`check`: reports everything that can be known before a row is moved. It uses the results of `inspect`, `plan` and
`status`, asks the target what it lacks, and examines this machine."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict

from consumer.app.commands import plan
from consumer.app.inspect import inspect
from consumer.app.parts import sink_of
from consumer.app.status import status
from consumer.codec import PROTOCOLS
from consumer.config.clocks import resolved_zone
from consumer.config.rules import StartRules
from consumer.config.settings import Settings
from consumer.errors import Code, ConsumerError, NeedsPerson
from consumer.layout.paths import date_level
from consumer.model.events import NowDoing
from consumer.model.names import TableName
from consumer.model.readiness import Readiness, room
from consumer.model.texts import count_text, duration_text, size_text, some_of
from consumer.model.times import time_text, tso_to_ms
from consumer.ports import Observer
from consumer.results import CheckedLine, CheckResult, Detected, InspectResult, PlanResult, StatusResult
from consumer.spark.archive import own_java
from consumer.spark.release import check_release, release_in
from consumer.spark.session import lacking_java

_STANDS = 3600
"""The seconds after which an old checkpoint is reported."""
_SOON = 2
"""The days before TiCDC deletes unread files from which on that is reported."""
_OLDEST_JAVA = 17


def check(settings: Settings, observer: Observer) -> CheckResult:
    """Returns what a first or a next run would meet. Changes nothing, starts no Spark."""
    lines = list(dict.fromkeys(_lines(settings, observer)))
    failed = next((line for line in lines if line.verdict == "fail"), None)
    result = CheckResult(lines=tuple(CheckedLine(**asdict(line)) for line in lines))
    return result if failed is None else result.ended_by(NeedsPerson(failed.text, hint=failed.fix, code=failed.code))


def _lines(settings: Settings, observer: Observer) -> Iterator[Readiness]:
    inspected: list[InspectResult] = []
    yield from _tried("storage", lambda: _storage(inspect(settings, observer), inspected))
    storage = inspected[0] if inspected and inspected[0].tables else None
    if storage is not None:
        yield from _changefeed(settings, storage.changefeed, storage.command.partition(" && ")[0])
        yield from _tables(storage)
    yield from _tried("time zone", lambda: _zone(settings))
    wanted = () if storage is None else storage.tables
    size = sum(table.bytes for table in wanted)
    observer.tell(NowDoing("asks the target"))
    target = list(_tried("target", lambda: _target(settings, [table.table for table in wanted], size)))
    yield from target
    reached = all(line.verdict != "fail" for line in target)
    if storage is not None and reached:
        asked: list[StatusResult] = []
        before = list(_tried("progress", lambda: _progress(settings, storage, status(settings, observer), asked)))
        yield from before
        begins = bool(asked) and asked[0].target_upstream is None and settings.start_ts == StartRules()
        yield from _tried("tables", lambda: _older(settings, storage, begins))
        reported = {*storage.findings, *(line.text for line in before)}
        if all(line.verdict != "fail" for line in before):
            yield from _tried("plan", lambda: _plan(plan(settings, observer, look_again=True), reported, begins))
    yield from _tried("java", _java)
    yield from _tried("spark", lambda: _spark(settings))
    yield room(tempfile.gettempdir(), size)


def _tried(about: str, look: Callable[[], Iterable[Readiness]]) -> Iterator[Readiness]:
    """Yields what `look` finds; the error that ends it is a finding too."""
    try:
        yield from look()
    except ConsumerError as error:
        yield Readiness(about, "fail", error.sentence(), error.hint, error.code)


def _storage(inspected: InspectResult, results: list[InspectResult]) -> Iterator[Readiness]:
    results.append(inspected)
    if inspected.checkpoint_ts is not None:
        age = (time.time() * 1000 - tso_to_ms(inspected.checkpoint_ts)) / 1000
        text = f"checkpoint {time_text(inspected.checkpoint_ts)}, {duration_text(max(age, 0))} old"
        if age > _STANDS:
            yield Readiness("storage", "warn", text, "look whether the changefeed runs: tiup cdc cli changefeed list")
        else:
            yield Readiness("storage", "ok", text)
    if not inspected.tables:
        hint, code = "check --upstream-uri and --tables", None
        if inspected.checkpoint_ts is None:
            hint, code = "", Code.CHECKPOINT_MISSING
        yield Readiness("storage", "fail", "; ".join(inspected.findings), hint, code)
        return
    files, size = sum(t.files for t in inspected.tables), sum(t.bytes for t in inspected.tables)
    yield Readiness(
        "storage",
        "ok",
        f"{inspected.upstream} can be listed and read: {count_text(len(inspected.tables), 'table')},"
        f" {count_text(files, 'data file')}, {size_text(size)}",
    )
    for finding in inspected.findings:
        if finding in (inspected.mismatch, inspected.older):
            continue  # `_changefeed` reports it with all others, `_older` next to what the target has
        yield Readiness("storage", "warn", finding, "docs/storages.md and docs/limits.md say what comes of it")


def _changefeed(settings: Settings, detected: Detected, writes_file: str) -> Iterator[Readiness]:
    """Compares the options of the settings with those that the files show. `writes_file` is the command that writes the
    changefeed's file."""
    if detected.dialect is None:
        yield Readiness("changefeed", "warn", "there are no rows yet that would show its options")
        return
    shown, configured = detected.dialect, settings.dialect
    pairs: list[tuple[str, object, object]] = [("protocol", configured.protocol, shown.protocol)]
    if configured.protocol == shown.protocol:
        pairs.append(("terminator", configured.terminator, shown.terminator))
        names = [option.key for option in PROTOCOLS[shown.protocol].own_options]
        pairs += [(name, _of(configured.options, name), _of(shown.options, name)) for name in names]
    if settings.date_separator is not None:
        pairs.append(("date-separator", settings.date_separator, detected.date_separator))
    if detected.file_index_digit is not None:
        pairs.append(("file-index-digit", settings.file_index_width, detected.file_index_digit))
    differ = [pair for pair in pairs if pair[1] != pair[2] and pair[0] not in detected.unproven]
    for name, ours, theirs in differ:
        text = f"{name} is {ours!r} in the settings, and the files show {theirs!r}"
        fix = f"write the changefeed's file, and give it with --config changefeed.toml:\n{writes_file}"
        yield Readiness("changefeed", "fail", text, fix)
    if not differ:
        text = f"{shown.protocol}; the settings are those that {count_text(detected.sampled, 'file')} show"
        yield Readiness("changefeed", "ok", text)
    if detected.with_commit_ts is False:
        key = PROTOCOLS[shown.protocol].commit_ts_key
        text = "rows do not say when they were committed: several guarantees need that (docs/csv.md)"
        yield Readiness("changefeed", "warn", text, f"set {key} = true in the changefeed, with a new prefix")


def _of(options: object, name: str) -> object:
    return getattr(options, name.replace("-", "_"), None)


def _tables(storage: InspectResult) -> Iterator[Readiness]:
    keyless = [str(table.table) for table in storage.tables if table.exists and not table.keyed]
    if keyless:
        yield Readiness(
            "tables",
            "warn",
            f"{count_text(len(keyless), 'table')} without a primary key: {some_of(keyless)}; each is exact, or stops"
            " with a reason",
            "see docs/limits.md; CSV needs output-old-value = true for them",
        )
    else:
        yield Readiness("tables", "ok", "every table has a primary key")


def _zone(settings: Settings) -> Iterator[Readiness]:
    zone = resolved_zone(settings.tz)
    if settings.tz == "System":
        text = f"--tz is not given: the changefeed's time zone is taken to be this machine's, {zone}"
        yield Readiness("time zone", "warn", text, f"give the changefeed's time zone, for example --tz {zone}")
    else:
        yield Readiness("time zone", "ok", f"the changefeed's is {zone}")


def _target(settings: Settings, tables: Sequence[TableName], size: int) -> Iterator[Readiness]:
    databases = {settings.naming.target(name).database for name in tables}
    with closing(sink_of(settings)) as sink:
        yield from sink.readiness(databases, size)


def _progress(
    settings: Settings, storage: InspectResult, result: StatusResult, asked: list[StatusResult]
) -> Iterator[Readiness]:
    asked.append(result)
    if result.target_upstream is None:
        yield Readiness("progress", "ok", f"nothing is applied yet under the name {settings.name!r}")
    elif result.target_upstream == storage.upstream:
        yield Readiness("progress", "ok", f"applied up to {time_text(result.applied_ts)}")
    if result.error:
        yield Readiness("progress", "fail", result.error, result.hint or "", result.code)
    for note in result.notes:
        yield Readiness("progress", "warn", note)
    yield from _retention(settings, storage, result)


def _older(settings: Settings, storage: InspectResult, begins: bool) -> Iterator[Readiness]:
    """Reports tables that the storage alone cannot fill. `begins`: nothing is applied yet, and no --start-ts is
    given."""
    older = [table.table for table in storage.tables if table.older]
    if not older:
        return
    with closing(sink_of(settings)) as sink:
        missing = sink.missing(settings.naming.targets(older))
    if lacking := [str(name) for name in older if settings.naming.target(name) in missing]:
        count = count_text(len(lacking), "table is", "tables are")
        yield Readiness(
            "tables",
            "warn",
            f"{count} older than the changefeed, and not in the target: {some_of(lacking)}",
            "load them from an export, before `once`: storage-consumer load-export DIR (docs/load-export.md)",
        )
    elif begins:
        yield Readiness("tables", "warn", storage.older)


def _retention(settings: Settings, storage: InspectResult, result: StatusResult) -> Iterator[Readiness]:
    """Reports how near TiCDC's clean-up is to unread files."""
    unread = result.unread
    fix = "run before that, or set file-expiration-days higher in the changefeed"
    if unread is not None and unread.days_left is not None:
        text = f"{count_text(unread.days_left, 'day')} until TiCDC deletes unread files of {unread.oldest_date}"
        if unread.days_left <= 0:
            yield Readiness("retention", "fail", f"TiCDC may have deleted unread files of {unread.oldest_date}", fix)
        else:
            yield Readiness("retention", "warn" if unread.days_left <= _SOON else "ok", text, fix)
    elif settings.file_expiration_days is None and storage.changefeed.date_separator == "day":
        dates = sorted(t.first_date for t in storage.tables if t.first_date and date_level(t.first_date) == "day")
        oldest = f"; the oldest folder is of {dates[0]}" if dates else ""
        text = f"file-expiration-days is not known{oldest}"
        yield Readiness("retention", "warn", text, "give the changefeed's own file with --config (docs/storages.md)")
    else:
        yield Readiness("retention", "ok", "no unread file is near TiCDC's clean-up")


def _plan(result: PlanResult, reported: set[str], begins: bool) -> Iterator[Readiness]:
    for row in result.stopped:
        if begins and row.state == "missing":
            continue  # an export can have it, as `_older` says
        yield Readiness("plan", "fail", f"{row.table} would stop: {row.error}", row.hint, row.code)
    stopped = {row.table for row in result.stopped}
    for step in result.steps:
        if step.target is not None and step.target.error and step.table not in stopped:
            text = f"the target would refuse a statement of {step.table} ({step.to_ts}): {step.target.error}"
            yield Readiness("plan", "fail", text, "docs/ddl.md has the ways past a statement", Code.DDL_REFUSED)
    for note in result.notes:
        if note not in reported:
            yield Readiness("plan", "warn", note)
    yield from _collations(result)
    loads = [step for step in result.steps if step.kind == "load"]
    statements = sum(step.kind == "ddl" for step in result.steps)
    size = size_text(sum(step.bytes for step in loads))
    text = f"{count_text(statements, 'statement')} and {count_text(len(loads), 'load')} of {size} to come"
    yield Readiness("plan", "ok", text)


def _collations(result: PlanResult) -> Iterator[Readiness]:
    """Reports which collations in statements the target does not have. The plan checks keys of existing tables."""
    replaced: dict[str, list[str]] = {}
    for step in result.steps:
        for note in step.target.collations if step.target is not None else ():
            replaced.setdefault(note, []).append(str(step.table))
    for note, tables in replaced.items():
        text = f"{note} ({some_of(sorted(set(tables)))})"
        yield Readiness(
            "collations", "warn", text, "keys stay apart as upstream; texts may sort otherwise (docs/ddl.md)"
        )
    if not replaced:
        yield Readiness("collations", "ok", "the target has those of all statements to come, or compares bytes")


def _java() -> Iterator[Readiness]:
    java, fix = own_java(), "install Java 17, or name its folder in JAVA_HOME"
    if java is None:
        yield Readiness("java", "fail", lacking_java() or "", fix)
        return
    output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    version = output.partition('version "')[2].partition('"')[0]
    number = int(version.split(".")[0]) if version.split(".")[0].isdecimal() else 0
    if number < _OLDEST_JAVA:
        text = f"{java} is of version {version or 'unknown'}, and Spark needs {_OLDEST_JAVA} or newer"
        yield Readiness("java", "fail", text, fix)
    else:
        yield Readiness("java", "ok", f"{version} ({java})")


def _spark(settings: Settings) -> Iterator[Readiness]:
    import pyspark

    from consumer.spark.internals import spark_home

    home = spark_home()
    check_release(release_in(home), home)
    if settings.spark.local:
        yield Readiness("spark", "ok", f"{pyspark.__version__}, on this machine ({settings.master})")
    else:
        text = f"{pyspark.__version__}; whether {settings.master} answers is seen at the first load"
        yield Readiness("spark", "ok", text)
