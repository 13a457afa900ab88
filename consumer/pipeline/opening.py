"""Opens a round: builds the assembly of its listing, and returns what is recorded before the round begins."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from consumer.errors import StorageChanged, StorageUnavailable
from consumer.model.ddl_policy import PolicyOf
from consumer.model.files import DataFile, Folder, Listing
from consumer.model.progress import FolderProgress, Progress, ProgressChange
from consumer.model.table_rules import TableRules
from consumer.plan import shaping, table_modes
from consumer.plan.assembly import Assembly
from consumer.plan.inclusion import include_tables
from consumer.plan.late import settle_moved
from consumer.plan.options import RoundOptions
from consumer.plan.routing import check_begun
from consumer.plan.starting import check_exchanged, starting_change
from consumer.plan.survey import check_decided, check_old_keys, check_protocol
from consumer.plan.unread import rewritten_files
from consumer.ports import RangeReader, StorageReader

_MOST_LISTINGS = 4
"""The most listings in a row. With a writer that never pauses each listing can show another gap."""


_AT_A_TIME, _PART_BYTES = 16, 4 << 20
"""How many files are read at a time, and how many bytes of each are held."""


def copied_files(
    reader: StorageReader, listing: Listing, progress: Progress, checksums: dict[DataFile, int]
) -> ProgressChange:
    """Returns what to record of files that have another stamp than when they were read, and the same content: somebody
    has copied the storage. Only files whose checksum was recorded, and whose size is unchanged, are read for this.
    `checksums` holds the checksums of files, and new ones are added to it."""
    listed = (file for files in listing.files.values() for file in files)
    asked = [(file, record) for file, record in rewritten_files(listed, progress.folders) if record.may_hold(file)]
    if not asked:
        return ProgressChange()
    unread = [file for file, _ in asked if file not in checksums]
    with ThreadPoolExecutor(_AT_A_TIME, "look") as pool:
        new_checksums = zip(unread, pool.map(partial(_checksum, reader.range_reader()), unread), strict=True)
        checksums |= {file: checksum for file, checksum in new_checksums if checksum is not None}
    folders: dict[Folder, FolderProgress] = {}
    for file, record in asked:
        if checksums.get(file) == record.checksum:
            folders[file.folder] = folders.get(file.folder, progress.folders[file.folder]).copied(file)
    return ProgressChange(folders=folders)


def _checksum(reader: RangeReader, file: DataFile) -> int | None:
    """Returns the checksum of the file's content, None if it cannot be read: the load of its table reports why."""
    checksum = 0
    try:
        for offset in range(0, file.size, _PART_BYTES):
            part = reader.read(file, offset, min(_PART_BYTES, file.size - offset))
            checksum = zlib.crc32(part, checksum)
    except (StorageChanged, StorageUnavailable):
        return None
    return checksum


def assembly_of(reader: StorageReader, listing: Listing, progress: Progress, options: RoundOptions) -> Assembly:
    """Returns the assembly of `listing` and `progress`. If the listing shows rewritten files, or gaps that another
    listing may explain, the storage is listed again, until a listing shows no new gaps."""
    assembly, known_gaps = _looked_at_whole(reader, listing, progress, options), set[tuple[object, ...]]()
    for _ in range(_MOST_LISTINGS):
        gaps = assembly.new_gaps(progress, options.rules.accept_gap)
        if not gaps - known_gaps:
            break
        known_gaps |= gaps
        full = replace(reader.listing(listing.checkpoint), settled=listing.settled, reached=listing.reached)
        assembly = _looked_at_whole(reader, full, progress, options)
    return assembly


def _looked_at_whole(reader: StorageReader, listing: Listing, progress: Progress, options: RoundOptions) -> Assembly:
    """Returns the assembly of `listing`, or of a later one that has all files of every folder with rewritten files:
    TiCDC may go on rewriting between two listings."""
    assembly, complete, listed_folders = _checked(listing, progress, options), set[Folder](), set[Folder]()
    while True:
        doubts, left_out = assembly.doubtful_folders(progress), assembly.unlisted_folders(progress)
        names = reader.named(doubts.asked) if doubts.asked else {}
        numbers = {folder: named.number for folder, named in names.items()}
        rewritten = assembly.find_rewritten(doubts, numbers, progress, options.files.dialect.timeless, reader.bounds)
        if complete.issuperset(rewritten.relisted) and left_out <= listed_folders:
            return assembly.recording(rewritten, names)
        complete.update(rewritten.relisted)
        listed_folders |= {*rewritten.relisted, *left_out}
        if listing.partial:
            again = reader.listing(listing.checkpoint, progress, listed_folders)
            listing = replace(again, settled=listing.settled, reached=listing.reached)
        assembly = _checked(listing, progress, options, complete)


def _checked(
    listing: Listing, progress: Progress, options: RoundOptions, complete: Collection[Folder] = ()
) -> Assembly:
    """Returns the assembly if the settings are right for it. Raises BadConfig otherwise."""
    files, rules = options.files, options.rules
    assembly = Assembly.of(listing, progress, rules.wanted, _policy_of(rules), files.retention, complete, rules.naming)
    check_protocol(files.dialect.protocol, assembly)
    check_decided(files.undecided, assembly)
    if not files.accept_key_loss:
        check_old_keys(files.dialect, assembly)
    check_begun(rules.naming, assembly, progress)
    shaping.check_shaping(rules.shaping_of, progress, assembly.catalog)
    return assembly


def table_starts_change(assembly: Assembly, progress: Progress, rules: TableRules) -> ProgressChange | None:
    """Returns what to record first of tables that begin at a moment of their own. The assembly is built again after
    that. Raises BadConfig."""
    change = starting_change(assembly, progress, rules.starts, rules.shaping_of, _policy_of(rules))
    if change is None:
        return None
    check_exchanged(assembly, progress.after(change))
    return change.merged(*changed_rules(assembly, progress, rules))


def round_opening_change(assembly: Assembly, progress: Progress, rules: TableRules) -> ProgressChange | None:
    """Returns what to record before the round of `assembly` begins. The assembly is built again after that."""
    if progress.starts:
        check_exchanged(assembly, progress)
    included = include_tables(assembly, progress, _policy_of(rules), rules.naming)
    changes = (settle_moved(assembly.files, progress), included, *changed_rules(assembly, progress, rules))
    return ProgressChange().merged(*filter(None, changes)) if any(changes) else None


def changed_rules(assembly: Assembly, progress: Progress, rules: TableRules) -> Iterator[ProgressChange]:
    """Yields the current rules of tables, if other ones are recorded."""
    tables = assembly.catalog.by_table
    if rules.naming.routes != progress.routes:
        yield ProgressChange(routes=rules.naming.routes)
    if (modes := table_modes.modes_record(rules.naming, tables)) != progress.modes:
        yield ProgressChange(modes=modes)
    if (filters := shaping.filters_record(rules.shaping_of, tables)) != progress.filters:
        yield ProgressChange(filters=filters)


def _policy_of(rules: TableRules) -> PolicyOf:
    return table_modes.policy_keeping_ended(rules.policy_of, rules.naming)
