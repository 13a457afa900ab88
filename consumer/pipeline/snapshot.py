"""Checks and bounds rounds whose rows become visible in the target all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from consumer.codec import protocol_of
from consumer.errors import BadConfig, LoadFailed
from consumer.model.combinations import Feature, forbidden_combination
from consumer.model.files import Bounds, DataFile, Listing
from consumer.model.load import LoadOutcome
from consumer.model.names import TableName
from consumer.model.progress import Progress, State
from consumer.model.rules import Consistency
from consumer.model.steps import LoadRows
from consumer.model.times import MAX_TSO
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions
from consumer.plan.unread import UnreadFile, unread_files
from consumer.plan.windows import Stretch, common_moment, exceeds_size, next_moment, visible_versions
from consumer.ports import StorageReader


def check_times(options: RoundOptions, checkpoint: int) -> None:
    """Raises BadConfig if no moment is known at which a table is complete."""
    level, dialect = options.batches.consistency, options.files.dialect
    if level is Consistency.ROW:
        return
    given: dict[Feature, str | bool] = {
        Feature.CONSISTENCY: str(level),
        Feature.NO_TIMES: dialect.timeless,
        Feature.NO_CHECKPOINT: checkpoint == MAX_TSO,
    }
    if (misfit := forbidden_combination(given, protocol_of(dialect).commit_ts)) is not None:
        raise misfit.refusal()


def check_rows(options: RoundOptions, outcomes: list[LoadOutcome]) -> None:
    """Raises BadConfig for rows that have only milliseconds: a transaction may be cut in two."""
    if options.batches.consistency is Consistency.ROW:
        return
    for outcome in outcomes:
        if any(stat.coarse_ts for stat in outcome.files):
            raise BadConfig(
                f"--consistency {options.batches.consistency} needs to know when rows were committed, and rows of"
                f" {outcome.table} tell only the millisecond",
                hint=_without_times(options),
            )


def _without_times(options: RoundOptions) -> str:
    return f"use --consistency row, or a changefeed with {protocol_of(options.files.dialect).commit_ts}"


def publish_size_error(
    options: RoundOptions, load: LoadRows, bounds: Mapping[DataFile, Bounds], round_bytes: int
) -> LoadFailed | None:
    """Returns why a table's load is not published in one transaction; None if it is. `bounds` are those of its files,
    as far as they are known. If rows collide, its round may have grown to `round_bytes`."""
    window = load.window
    if options.batches.consistency is not Consistency.TABLE or window.end <= window.after:
        return None  # with an empty window files are only checked, and no row is written
    sizes = [
        Stretch.of(load.table, file, bounds[file]).bytes_in(window.after, window.end) if file in bounds else file.size
        for file in (planned.file for planned in load.files)
    ]
    if not exceeds_size(sizes, max(options.batches.publish_bytes, round_bytes)):
        return None
    return LoadFailed(
        f"the rows up to {window.end} can only be applied together, and have about {sum(sizes)} bytes of change files,"
        f" more than publish-bytes ({options.batches.publish_bytes})",
        hint=f"set publish-bytes to {sum(sizes)} or more, or use --consistency row, then run again",
        table=str(load.table),
    )


def target_size_error(error: LoadFailed) -> BadConfig:
    """Returns the error of a target that does not take the rows of one moment in one transaction."""
    return BadConfig(error.sentence(), hint=error.hint)


def listing_at(listing: Listing, end: int) -> Listing:
    """Returns `listing` as it is at an earlier checkpoint."""
    if end >= listing.checkpoint:
        return listing
    return replace(listing, checkpoint=end, settled=True, reached=max(listing.reached, listing.checkpoint))


def next_part_end(
    reader: StorageReader,
    assembly: Assembly,
    progress: Progress,
    options: RoundOptions,
    bounds_of: dict[DataFile, Bounds],
) -> int:
    """Returns where the part ends in which all tables go on from where they are. `bounds_of` holds the bounds of files,
    and new ones are added to it. Raises BadConfig if the rows of the next transaction exceed publish-bytes."""
    after, last, most = common_moment(progress), assembly.checkpoint, options.batches.publish_bytes
    if last <= after:
        return last
    unread = {
        name: unread_files(assembly.files.get(name, ()), progress.folders, relisted=assembly.relisted)
        for name in filter(assembly.wanted, assembly.tables)
    }
    # The files of stopped tables are not read, because these may be very many.
    stopped = [name for name in unread if progress.table(name).state is State.STOPPED]
    stopped = [name for name in stopped if unread.pop(name)]
    versions = visible_versions(assembly.timeline, after)
    if not versions and sum(entry.file.size for entries in unread.values() for entry in entries) <= most:
        return last
    # Once a stopped table resumes, its rows become visible with the others', and they can be anywhere.
    anywhere = [Stretch(name, 0, after + 1, last) for name in stopped]
    stretches = [*_stretches(reader, unread, after, last, bounds_of), *anywhere]
    advancing = [stretch for stretch in stretches if progress.table(stretch.table).state is not State.WAITS]
    # Files that a waiting table has to read may wait longer, so they count only if there is a moment with them.
    for rows in (stretches, advancing):
        end = next_moment(rows, versions, after, last, most)
        if end > after:
            return end
    sizes = Counter[TableName]()
    for stretch in advancing:
        sizes[stretch.table] += stretch.bytes_in(after, after + 1)
    (table, largest), *_ = sizes.most_common(1)
    raise BadConfig(
        f"{table}: the transaction {after + 1} has about {sizes.total()} bytes of change files ({largest} of this"
        f" table), more than publish-bytes ({most})",
        hint=f"set publish-bytes to {sizes.total()} or more, or use --consistency row, then run again",
        table=str(table),
    )


def _stretches(
    reader: StorageReader,
    unread: Mapping[TableName, Sequence[UnreadFile]],
    after: int,
    last: int,
    bounds_of: dict[DataFile, Bounds],
) -> Iterator[Stretch]:
    """Yields the stretches of the unread files. A file whose bounds are not known can have rows anywhere."""
    files = [entry.file for entries in unread.values() for entry in entries if entry.file not in bounds_of]
    new_bounds = reader.bounds(files)
    bounds_of.update((file, bounds) for file in files if isinstance(bounds := new_bounds.get(file.path), Bounds))
    anywhere = Bounds(after + 1, last, exact=True)
    for name, entries in unread.items():
        for entry in entries:
            bounds = bounds_of.get(entry.file, anywhere)
            yield Stretch.of(name, entry.file, bounds, entry.next_ts)
