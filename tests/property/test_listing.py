"""What the progress lets a listing leave out makes no difference to a round, whatever the storage went through."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from consumer.errors import ConsumerError
from consumer.model.files import Folder, Listing
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.progress import DdlRecord, DdlState, FolderProgress, Progress, State, TableProgress
from consumer.model.steps import ddl_id
from consumer.model.table_rules import Batches, TableRules
from consumer.pipeline.opening import assembly_of
from consumer.plan.assembly import Assembly
from consumer.plan.options import FileOptions, RoundOptions
from consumer.plan.unread import UnreadFile, folder_after, unread_files
from consumer.storage.reader import ChangefeedReader
from consumer.storage.settings import StorageSettings
from tests.support.examples import examples
from tests.support.storage_history import StorageHistory

SETTINGS = StorageSettings.from_uri("file:///storage?protocol=canal-json")


OPTIONS = RoundOptions(FileOptions(Dialect()), TableRules(lambda name: True), Batches(1 << 30))


def look(reader: ChangefeedReader, listing: Listing, progress: Progress) -> dict[str, object]:
    """All that a round takes from a listing."""
    assembly = assembly_of(reader, listing, progress, OPTIONS)
    faults: list[tuple[TableName, ConsumerError]] = list(assembly.errors(progress, accept_gap=lambda _: False))
    return {
        "schemas": listing.schemas,
        "tables": assembly.tables,
        "statements": replace(assembly.timeline, history=None),
        "shapes": {file.path: assembly.history.shape(file) for file in listing.schemas},
        "unread": {name: unread for name in assembly.files if (unread := unread_of(assembly, name, progress))},
        "faults": [(name, error.sentence()) for name, error in faults],
        "forgotten": assembly.forgotten_names(progress),
        "exclusions": assembly.exclusions(progress),
        "repeated": Assembly.of(listing, progress, lambda name: False).exclusions(progress),
    }


def unread_of(assembly: Assembly, name: TableName, progress: Progress) -> list[UnreadFile]:
    return unread_files(assembly.files.get(name, ()), progress.folders)


def after(
    history: StorageHistory, assembly: Assembly, progress: Progress, stopped: set[TableName]
) -> dict[Folder, FolderProgress]:
    """The folders once every table that is not stopped was brought to the checkpoint."""
    found = dict(progress.folders)
    for name, files in assembly.files.items():
        if name in stopped or name not in assembly.timeline.live:
            continue
        read = {}
        for entry in unread_of(assembly, name, progress):
            rows = history.written[entry.file.path]
            if rows.first <= assembly.checkpoint:
                read[entry.file.path] = assembly.checkpoint + 1 if rows.last > assembly.checkpoint else 0
        for folder, group in groupby(files, key=lambda file: file.folder):
            listed = list(group)
            if any(file.path in read for file in listed):
                found[folder] = folder_after(found.get(folder, FolderProgress()), listed, read)
    return found


@examples(100)
@given(seed=st.integers(0, 2**32))
def test_a_round_is_the_same_as_with_a_full_listing(seed: int) -> None:
    rnd = random.Random(seed)
    history = StorageHistory(rnd)
    reader = ChangefeedReader(SETTINGS, history.date)
    reader._files = history  # type: ignore[assignment]
    progress = Progress(upstream=SETTINGS.identity)
    stopped: set[TableName] = set()
    for _ in range(10):
        history.grow()
        checkpoint = max(history.tso - (rnd.choice((0, 1000, 3_600_000, 90_000_000)) << 18), progress.applied_ts)
        full, listing = reader.listing(checkpoint), reader.listing(checkpoint, progress)
        assert look(reader, listing, progress) == look(reader, full, progress)
        assemblies = [assembly_of(reader, each, progress, OPTIONS) for each in (full, listing)]
        names = sorted(assemblies[0].files)
        stopped = {name for name in names if rnd.random() < (0.7 if name in stopped else 0.2)}
        folders = [after(history, assembly, progress, stopped) for assembly in assemblies]
        assert folders[0] == folders[1]
        # What one of them forgets is known to be gone.
        for assembly in assemblies:
            for folder in assembly.forgotten_folders(progress):
                assert folder not in {file.folder for files in full.files.values() for file in files}
                folders[0].pop(folder, None)
        tables = {n: replace(progress.table(n), state=State.STOPPED) for n in stopped}
        done = {ddl_id(file): DdlRecord(ddl_id(file), DdlState.DONE) for file in full.schemas if file.query}
        progress = replace(progress, applied_ts=checkpoint, tables=tables, folders=folders[0], ddls=done)


def test_the_listing_does_leave_things_out() -> None:
    """Otherwise the test above would say nothing."""
    rnd = random.Random(3)
    left_out = 0
    for _ in range(20):
        history = StorageHistory(rnd)
        reader = ChangefeedReader(SETTINGS, history.date)
        reader._files = history  # type: ignore[assignment]
        progress = Progress(upstream=SETTINGS.identity)
        for _ in range(10):
            history.grow()
            full, listing = reader.listing(history.tso), reader.listing(history.tso, progress)
            left_out += sum(map(len, full.files.values())) - sum(map(len, listing.files.values()))
            folders = after(history, assembly_of(reader, full, progress, OPTIONS), progress, set())
            progress = replace(progress, applied_ts=history.tso, folders=folders)
    assert left_out > 1000
    assert progress.table(TableName("d", "t1")) == TableProgress(history.tso)
