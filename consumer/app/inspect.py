"""`inspect`: shows what is in a storage, and how to start. It needs no target, and no setting except the storage."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from consumer.codec import PROTOCOLS, protocol_of, protocols_of_file
from consumer.codec.protocol import Sniffed
from consumer.config.changefeed import changefeed_toml
from consumer.config.secrets import redact
from consumer.config.settings import Settings
from consumer.errors import CheckpointMissing, ConsumerError, CorruptFile, StorageUnavailable
from consumer.layout.paths import IndexPath, render
from consumer.layout.pointers import parse_index_file
from consumer.model.events import NowDoing
from consumer.model.files import Bounds, DataFile, Folder, SchemaFile
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.texts import some_of
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.plan.notes import notes
from consumer.plan.retention import Retention
from consumer.plan.survey import sample, survey_options, survey_tables
from consumer.ports import Observer
from consumer.results import Detected, InspectedTable, InspectResult
from consumer.storage import open_files
from consumer.storage.files import Files
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings

_PROTOCOL = re.compile(r"(?<=[?&])protocol=[^&]*&?")
_TOML = "changefeed.toml"
_MOMENT = "MOMENT-OF-THE-EXPORT"
"""Stands for what only the operator knows. The present checkpoint would drop what was committed since the export."""
_INDEXES = 200
_SHOWN = 5
_SAMPLES = 24
"""The number of files whose rows are read."""
_HEADS = (64 << 10, 4 << 20)
"""How many bytes of a file are read to determine its dialect: more if a row is longer."""


def inspect(settings: Settings, observer: Observer, time_range: bool = False) -> InspectResult:
    """Returns what the storage shows: from one listing, the schema files, the first part of some data files, some index
    files; with `time_range` also from both ends of every data file."""
    storage = StorageSettings.from_uri(settings.upstream_uri)
    reader, files = ChangefeedReader(storage, settings.date_separator), open_files(storage)
    observer.tell(NowDoing("looks for a changefeed"))
    checkpoint, missing = _checkpoint(reader)
    if checkpoint is None and (above := reader.elsewhere()):
        return _not_here(reader, f"there is no changefeed's storage here, but above it: did you mean {above}?")
    observer.tell(NowDoing("looks for files"))
    listing = reader.listing(MAX_TSO if checkpoint is None else checkpoint)
    wanted = settings.table_filter.matches
    assembly = Assembly.of(listing, Progress(), wanted, retention=Retention(settings.file_expiration_days))
    if checkpoint is None and (below := _below(files, assembly)):
        guesses = " or ".join(f"{reader.identity.rstrip('/')}/{prefix}" for prefix in below)
        return _not_here(reader, f"there is no changefeed's storage here, but below it: did you mean {guesses}?")
    data = [file for name, group in assembly.files.items() if wanted(name) for file in group]
    options = survey_options(assembly.catalog, data)
    if settings.date_separator is None and options.date_separator == "year":
        return inspect(settings.model_copy(update={"date_separator": "year"}), observer, time_range)
    shown = [
        file
        for name, group in assembly.files.items()
        if wanted(name) and not _has_masks(settings, name)
        for file in group
    ]
    detected, of_rows = _with_rows(files, options, shown, assembly.catalog)
    if len(shown) < len(data):
        of_rows.append("rows of tables with masks are not looked at: where others do not prove an option, set it")
    tables = survey_tables(assembly)
    if time_range and detected.dialect is not None:
        tables = _with_times(
            ChangefeedReader(storage, settings.date_separator, dialect=detected.dialect), assembly, tables
        )
    mismatch, older = _mismatch(settings, detected), _older(assembly)
    notes = (*missing, *_years(options), *of_rows, mismatch, *_findings(assembly, files, data, older))
    if not (assembly.catalog.files or data or missing):
        notes = (_EMPTY, *notes)
    return InspectResult(
        upstream=reader.identity,
        checkpoint_ts=checkpoint,
        tables=tables,
        databases=tuple(sorted({file.database for file in assembly.catalog.files})),
        changefeed=detected,
        findings=tuple(filter(None, notes)),
        older=older,
        mismatch=mismatch,
        toml=changefeed_toml(detected),
        command=_command(settings, detected, bool(_older_tables(assembly))) if tables else "",
    )


def _has_masks(settings: Settings, name: TableName) -> bool:
    """Returns whether the table has masks: what its rows show is not printed."""
    shaping = settings.shaping_of(name)
    return shaping is not None and bool(shaping.masks)


def _not_here(reader: ChangefeedReader, finding: str) -> InspectResult:
    return InspectResult(upstream=reader.identity, checkpoint_ts=None, findings=(finding,))


def _below(files: Files, assembly: Assembly) -> list[str]:
    """Returns the prefixes at which `metadata` is, if it is not here. If the configured prefix is too short, its rest
    looks like a part of each database's name."""
    prefixes = sorted({name.database.rpartition("/")[0] for name in assembly.files if "/" in name.database})
    prefixes_with_metadata = (prefix for prefix in prefixes if files.read_if_there(f"{prefix}/metadata", 1) is not None)
    return list(itertools.islice(prefixes_with_metadata, _SHOWN))


def _checkpoint(reader: ChangefeedReader) -> tuple[int | None, list[str]]:
    try:
        return reader.checkpoint(), []
    except CheckpointMissing as error:
        return None, [f"{error.sentence()}: {error.hint}"]
    except StorageUnavailable as error:
        if not error.path:
            raise
        return None, [error.sentence()]  # it exists, and is not what a changefeed writes


def _with_rows(
    files: Files, detected: Detected, data: Sequence[DataFile], catalog: Catalog
) -> tuple[Detected, list[str]]:
    """Returns `detected` with what the rows of some files show, and notes of what does not fit together or is not
    proven."""
    chosen = list(sample(data, catalog, _SAMPLES))
    with ThreadPoolExecutor(8, thread_name_prefix="inspect") as pool:
        sniffed_files = list(pool.map(lambda pair: _sniff(files, catalog, *pair), chosen))
    recognised = [sniffed for sniffed in sniffed_files if sniffed is not None]
    notes = [
        f"{file.path} is not of a form that TiCDC writes: no row of {schema.name} was found in it"
        for (file, schema), sniffed in zip(chosen, sniffed_files, strict=True)
        if sniffed is None
    ]
    if not recognised:
        return detected.model_copy(update={"sampled": len(chosen)}), notes
    kinds = Counter(sniffed.marks for sniffed in recognised).most_common()
    alike = [sniffed for sniffed in recognised if sniffed.marks == kinds[0][0]]
    shown = protocol_of(alike[0].dialect).agreed(alike)
    if len(kinds) > 1 or not shown.consistent:
        notes.append("files differ in protocol or options: the changefeed was changed, or two of them write here")
    notes += _unproven_keys(shown.unproven)
    fields = {"dialect": shown.dialect, "with_commit_ts": shown.commit_ts, "sampled": len(chosen)}
    return detected.model_copy(update={**fields, "unproven": (*detected.unproven, *shown.unproven)}), notes


def _unproven_keys(keys: Sequence[str]) -> Iterator[str]:
    if keys:
        yield f"the files do not prove {', '.join(keys)}: set it in the TOML as in the changefeed"


def _sniff(files: Files, catalog: Catalog, file: DataFile, schema: SchemaFile) -> Sniffed | None:
    protocols = protocols_of_file(file.path)
    for size in _HEADS if protocols else ():
        content = files.read(file, 0, min(size, file.size))
        is_complete = len(content) == file.size
        shown = (protocol.sniff(content, is_complete, schema, catalog.declared) for protocol in protocols)
        sniffed = next(filter(None, shown), None)
        if sniffed is not None or is_complete:
            return sniffed
    return None


def _with_times(
    reader: ChangefeedReader, assembly: Assembly, tables: Sequence[InspectedTable]
) -> tuple[InspectedTable, ...]:
    bounds = reader.bounds([file for table in tables for file in assembly.files.get(table.table, ())])
    return tuple(_with_range(table, assembly.files.get(table.table, ()), bounds) for table in tables)


def _with_range(
    table: InspectedTable, files: Sequence[DataFile], bounds: Mapping[str, Bounds | ConsumerError]
) -> InspectedTable:
    bounds_of_files = [file_bounds for file in files if isinstance(file_bounds := bounds.get(file.path), Bounds)]
    if not bounds_of_files:
        return table
    ends = {
        "first_ts": min(file_bounds.first for file_bounds in bounds_of_files),
        "last_ts": max(file_bounds.last for file_bounds in bounds_of_files),
    }
    return table.model_copy(update=ends)


def _years(options: Detected) -> Iterator[str]:
    if "date-separator" in options.unproven:
        yield (
            "the files do not prove whether folders such as 2024 are partitions or the years of date-separator: set"
            " it in the TOML as in the changefeed"
        )


_EMPTY = "there is nothing that TiCDC writes: check the bucket and the prefix"


def _mismatch(settings: Settings, detected: Detected) -> str:
    dialect = detected.dialect
    if not settings.protocol or dialect is None or settings.protocol == dialect.protocol:
        return ""
    return f"the settings say protocol {settings.protocol}, and the files are {dialect.protocol}"


def _findings(assembly: Assembly, files: Files, data: Sequence[DataFile], older: str) -> Iterator[str]:
    yield from (note.text for note in notes(assembly, Progress()))
    yield from (error.sentence() for _, error in sorted(assembly.broken.items()))
    schemaless = (file for file in data if assembly.catalog.schema(file.folder) is None)
    folders = sorted({file.path.rpartition("/")[0] for file in schemaless})
    yield from (f"{folder} has rows, and no schema file" for folder in folders)
    yield older
    yield from (gap.sentence() for gap in assembly.gaps())
    yield from _indexes(files, data)


def _older_tables(assembly: Assembly) -> list[str]:
    alive = assembly.history.alive.items()
    return sorted(str(name) for name, table in alive if table.birth is None and assembly.wanted(name))


def _older(assembly: Assembly) -> str:
    older = _older_tables(assembly)
    if not older:
        return ""
    return (
        f"tables that are older than the changefeed, and that no statement in the storage makes ({len(older)}):"
        f" {some_of(older, _SHOWN)}; the target must hold them before: load an export with `load-export`, and leave"
        f" --start-ts out of the command; or load one by hand, and put its moment in place of {_MOMENT}"
    )


def _indexes(files: Files, data: Sequence[DataFile]) -> Iterator[str]:
    """Yields notes about index files that do not name the newest data file of their folder, of the newest folders."""
    newest: dict[Folder, int] = {}
    for file in data:
        newest[file.folder] = max(file.index, newest.get(file.folder, 0))
    chosen = sorted(newest, key=lambda folder: (folder.version, folder.date))[-_INDEXES:]
    paths = [IndexPath(folder) for folder in chosen]
    with ThreadPoolExecutor(8, thread_name_prefix="inspect") as pool:
        contents = list(pool.map(lambda path: files.read_if_there(render(path), 4096), paths))
    for path, content in zip(paths, contents, strict=True):
        if content is not None:
            yield from _index(path, content, newest[path.folder])


def _index(path: IndexPath, content: bytes, newest: int) -> Iterator[str]:
    try:
        named = parse_index_file(path, content).index
    except CorruptFile as error:
        yield error.sentence()
        return
    if named > newest:
        yield (
            f"{render(path)} names number {named}, and the newest data file is {newest}: the file is still being"
            " written, or is lost"
        )
    elif named < newest:
        yield (
            f"{render(path)} names number {named}, and there is a data file {newest}: TiCDC could not write the index,"
            " or two changefeeds write to this prefix"
        )


def _command(settings: Settings, detected: Detected, older: bool) -> str:
    """Returns the command that writes the file of the settings, and begins. `older` means that the target must have
    tables before, as of a moment that only the operator knows; `once` refuses the command until that is put in. Returns
    "" if the configured protocol is unknown, and no row shows another."""
    uri = redact(settings.upstream_uri)
    if detected.dialect is not None:
        uri = _PROTOCOL.sub("", uri).rstrip("?&")
        uri += f"{'&' if '?' in uri else '?'}protocol={detected.dialect.protocol}"
    elif settings.protocol and settings.protocol not in PROTOCOLS:
        return ""
    zone = "UTC" if settings.tz == "System" else settings.tz
    more = ["--tables", *settings.tables] if settings.tables else []
    inspect_words = ["storage-consumer", "inspect", "--upstream-uri", uri, *more, "--toml"]
    words = ["storage-consumer", "once", "--upstream-uri", uri, "--config", _TOML]
    words += ["--downstream-uri", redact(settings.downstream_uri), "--tz", zone, *more]
    words += ["--start-ts", _MOMENT] if older else []
    return f"{shlex.join(inspect_words)} > {_TOML} && {shlex.join(words)}"
