"""What a person should read once of a storage and the progress on it."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.layout.paths import directory_of
from consumer.model.progress import Progress, State
from consumer.plan.assembly import Assembly
from consumer.plan.hazards import hazards
from consumer.plan.unread import rewritten_files

SHOWN = 3


def notes(assembly: Assembly, progress: Progress) -> Iterator[str]:
    """What a person should read once."""
    unknown = assembly.listing.unknown
    if unknown:
        shown = ", ".join(unknown[:SHOWN]) + (", ..." if len(unknown) > SHOWN else "")
        yield f"{len(unknown)} paths are of no form that TiCDC writes and were left alone: {shown}"
    yield from hazards(assembly.catalog, assembly.files)
    yield from _rewritten(assembly, progress)
    for folder in sorted(assembly.whole):
        yield f"{directory_of(folder)}: files that were read are written anew: all of its files are looked at"
    for name, place in sorted(progress.tables.items()):
        if place.state is State.EMPTYING:
            yield f"{name}: the table that the target has goes first: {place.reason}"
    if overdue := [file for file in assembly.timeline.overdue if file.name not in assembly.overdue]:
        shown = ", ".join(f"{file.name} {file.version}" for file in overdue[:SHOWN])
        more = ", ..." if len(overdue) > SHOWN else ""
        yield f"{len(overdue)} statements are older than the progress and were not executed: {shown}{more}"
    if 0 < progress.start_ts == progress.applied_ts < min((f.version for f in assembly.catalog.files), default=0):
        yield (
            f"nothing in the storage is as old as the start, {progress.start_ts}: make sure that the changefeed"
            " began at or before it"
        )
    if assembly.checkpoint < progress.applied_ts:
        yield (
            f"checkpoint-ts {assembly.checkpoint} is below what was applied already ({progress.applied_ts}):"
            " nothing to do until TiCDC is past it again"
        )


def _rewritten(assembly: Assembly, progress: Progress) -> Iterator[str]:
    files = [file for name, group in assembly.files.items() if assembly.wanted(name) for file in group]
    for file, size in rewritten_files(files, progress.folders):
        how = f"has {file.size} bytes as before" if file.size == size else f"had {size} bytes and has {file.size} now"
        yield f"{file.path} was written anew after it was read ({how}): rows in it that are new are applied"
