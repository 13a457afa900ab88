"""Makes notes about a storage and the progress on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from consumer.layout.paths import directory_of
from consumer.model.events import Note, NoteKind
from consumer.model.files import DataFile, SchemaFile
from consumer.model.names import TableName
from consumer.model.naming import SAME, Naming
from consumer.model.progress import Progress, State
from consumer.model.rules import NONE_NAMED, NamedTables
from consumer.model.texts import count_text, some_of
from consumer.model.times import time_text
from consumer.plan.assembly import Assembly
from consumer.plan.catalog import Catalog
from consumer.plan.survey import is_new_architecture, shares_partitions
from consumer.plan.unread import rewritten_files

SHOWN = 3
_Files = Mapping[TableName, Sequence[DataFile]]
_TWO_FEEDS = "check whether two changefeeds, or a re-created one, write to this prefix"


def notes(
    assembly: Assembly, progress: Progress, naming: Naming = SAME, named: NamedTables = NONE_NAMED
) -> Iterator[Note]:
    """Yields notes about what differs from the storage of one changefeed, and what does not fit the progress."""
    unknown = assembly.listing.unknown
    if unknown:
        shown = some_of(unknown, SHOWN)
        text = (
            f"{count_text(len(unknown), 'path is', 'paths are')} of no form that TiCDC writes, and left alone: {shown}"
        )
        yield Note(NoteKind.UNKNOWN_PATHS, text, count=len(unknown))
    tables = [name for name in assembly.catalog.by_table if name.table]
    if tables and not any(map(assembly.wanted, tables)):
        of_all = count_text(len(tables), "table")
        text = f"the table rules (--tables) include none of the storage's {of_all}: nothing is applied"
        yield Note(NoteKind.TABLE_RULES, text, count=len(tables))
    naming.targets(assembly.catalog.by_table)
    for route in sorted(naming.unused) if tables else ():
        text = f"the route '{route}' matches no table of the storage, or only tables that an earlier route has taken"
        yield Note(NoteKind.TABLE_RULES, text)
    for rule in named.missing((*tables, *progress.tables)) if tables else ():
        text = f"{rule.setting} names {rule.rule}, and the storage has no such table yet: is it written right?"
        yield Note(NoteKind.TABLE_RULES, text)
    yield from storage_notes(assembly.catalog, assembly.files)
    yield from _rewritten(assembly, progress)
    yield from _statements(assembly, progress)
    if progress.is_new and 0 < progress.start_ts < min((f.version for f in assembly.catalog.files), default=0):
        text = (
            f"nothing in the storage is as old as the start, {progress.start_ts}: make sure that the changefeed"
            " began at or before it"
        )
        yield Note(NoteKind.START, text)
    if not assembly.checkpoint:
        text = "`metadata` has checkpoint-ts 0: of nothing in the storage is it known that it is complete"
        yield Note(NoteKind.CHECKPOINT, f"{text}, so nothing is applied; look whether the changefeed runs")
    if text := went_back(assembly, progress):
        yield Note(NoteKind.CHECKPOINT, text)


def went_back(assembly: Assembly, progress: Progress) -> str:
    """Returns a text that the storage's checkpoint is below what was applied already; "" if it is not."""
    checkpoint, applied = assembly.checkpoint, progress.applied_ts
    if max(checkpoint, assembly.listing.reached) >= applied:
        return ""
    return (
        f"the storage's checkpoint went back: {time_text(checkpoint)} (checkpoint-ts {checkpoint}) is below what was"
        f" applied already, {time_text(applied)} ({applied}); nothing is applied until TiCDC is past that again."
        " Find out who wrote `metadata`: a changefeed that was made again, or another one, may have this prefix"
    )


def storage_notes(catalog: Catalog, files: _Files) -> Iterator[Note]:
    """Yields notes about signs that a storage does not hold what one changefeed should have written. `files` are in
    file order."""
    yield from _two_protocols(files)
    yield from _two_schemas(catalog)
    is_new = is_new_architecture(catalog)
    for name, group in sorted(files.items()):
        if not is_new and shares_partitions(catalog.by_table.get(name, ()), group):
            text = (
                f"{name} is partitioned, and its paths have no partition level: if TiCDC's classic architecture wrote"
                " them, partitions have overwritten one another's files and rows are missing;"
                " enable-partition-separator = true prevents it"
            )
            yield Note(NoteKind.OVERWRITTEN_PARTITIONS, text, name)


def _two_protocols(files: _Files) -> Iterator[Note]:
    kinds = {file.path.rpartition(".")[2]: file.path for group in files.values() for file in group}
    if len(kinds) > 1:
        shown = ", ".join(kinds[kind] for kind in sorted(kinds))
        yield Note(NoteKind.TWO_CHANGEFEEDS, f"there are files of two protocols, as {shown}: {_TWO_FEEDS}")


def _two_schemas(catalog: Catalog) -> Iterator[Note]:
    """Yields notes about versions of a table with several schema files: TiCDC writes one for each version."""
    versions: defaultdict[tuple[str, int], list[SchemaFile]] = defaultdict(list)
    for file in catalog.files:
        versions[file.root, file.version].append(file)
    twice = [group for group in versions.values() if len({file.checksum for file in group}) > 1]
    for first, other, *_ in twice[:SHOWN]:
        text = f"{first.name} has schema files of one version that differ, {first.path} and {other.path}: {_TWO_FEEDS}"
        yield Note(NoteKind.TWO_CHANGEFEEDS, text, first.name)


def _rewritten(assembly: Assembly, progress: Progress) -> Iterator[Note]:
    files = [file for name, group in assembly.files.items() if assembly.wanted(name) for file in group]
    for file, then in rewritten_files(files, progress.folders):
        same = file.size == then.size
        how = f"has {file.size} bytes as before" if same else f"had {then.size} bytes and has {file.size} now"
        text = f"{file.path} was rewritten after it was read ({how}): rows that are new in it are applied"
        yield Note(NoteKind.REWRITTEN_FILE, text)
    for folder in sorted(assembly.relisted):
        text = f"{directory_of(folder)}: files were rewritten after they were read: all files of the folder are checked"
        yield Note(NoteKind.REWRITTEN_FILE, text)


def _statements(assembly: Assembly, progress: Progress) -> Iterator[Note]:
    for name, place in sorted(progress.tables.items()):
        if place.state is State.EMPTYING:
            yield Note(NoteKind.EMPTIED_TABLE, f"{name}: the target's table is dropped first: {place.reason}", name)
        if place.state is State.EXCHANGING:
            yield Note(NoteKind.EMPTIED_TABLE, f"{name}: another table takes its place first: {place.reason}", name)
    if overdue := [file for file in assembly.timeline.overdue if file.name not in assembly.overdue]:
        shown = some_of([f"{file.name} {file.version}" for file in overdue], SHOWN)
        what = count_text(len(overdue), "statement is", "statements are")
        text = f"{what} older than the progress, and not executed: {shown}"
        yield Note(NoteKind.STATEMENT, text, count=len(overdue))
