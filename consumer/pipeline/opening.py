"""How a round opens: the assembly of its listing, and what is recorded before it begins."""

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
from consumer.plan.late import settle_moved
from consumer.plan.let_in import let_in
from consumer.plan.options import RoundOptions
from consumer.plan.routing import check_begun
from consumer.plan.starting import check_exchanged, starting
from consumer.plan.survey import check_decided, check_keys_told, check_protocol
from consumer.plan.unread import rewritten_files
from consumer.ports import RangeReader, StorageReader

_MOST_LISTINGS = 4
"""Under a writer that never rests each listing can show another gap."""


_AT_A_TIME, _PART_BYTES = 16, 4 << 20
"""Files that are looked at whole, and how much of each is held."""


def copied_files(
    reader: StorageReader, listing: Listing, progress: Progress, known: dict[DataFile, int]
) -> ProgressChange:
    """What to record of files that have another stamp than when they were read, and the same content: somebody has
    copied the storage. Only those are read for it whose checksum was recorded, and whose size is as it was. `known` are
    the checksums of files, and gets what is learnt of them."""
    listed = (file for files in listing.files.values() for file in files)
    asked = [(file, then) for file, then in rewritten_files(listed, progress.folders) if then.may_hold(file)]
    if not asked:
        return ProgressChange()
    new = [file for file, _ in asked if file not in known]
    with ThreadPoolExecutor(_AT_A_TIME, "look") as pool:
        found = zip(new, pool.map(partial(_checksum, reader.range_reader()), new), strict=True)
        known |= {file: checksum for file, checksum in found if checksum is not None}
    folders: dict[Folder, FolderProgress] = {}
    for file, then in asked:
        if known.get(file) == then.checksum:
            folders[file.folder] = folders.get(file.folder, progress.folders[file.folder]).copied(file)
    return ProgressChange(folders=folders)


def _checksum(reader: RangeReader, file: DataFile) -> int | None:
    """That of the file's content, None where it cannot be read: its table's load tells why."""
    checksum = 0
    try:
        for offset in range(0, file.size, _PART_BYTES):
            part = reader.read(file, offset, min(_PART_BYTES, file.size - offset))
            checksum = zlib.crc32(part, checksum)
    except (StorageChanged, StorageUnavailable):
        return None
    return checksum


def assembly_of(reader: StorageReader, listing: Listing, progress: Progress, options: RoundOptions) -> Assembly:
    """The assembly of `listing` and `progress`. If the listing shows rewritten files, or gaps that another listing may
    explain, the storage is listed again first, until the same gaps are there."""
    found, known = _looked_at_whole(reader, listing, progress, options), set[tuple[object, ...]]()
    for _ in range(_MOST_LISTINGS):
        gaps = found.new_gaps(progress, options.rules.accept_gap)
        if not gaps - known:
            break
        known |= gaps
        full = replace(reader.listing(listing.checkpoint), settled=listing.settled, reached=listing.reached)
        found = _looked_at_whole(reader, full, progress, options)
    return found


def _looked_at_whole(reader: StorageReader, listing: Listing, progress: Progress, options: RoundOptions) -> Assembly:
    """`listing`, or a later one that has all files of every folder with rewritten files: TiCDC may go on rewriting
    between two listings."""
    found, whole, shown = _checked(listing, progress, options), set[Folder](), set[Folder]()
    while True:
        doubts, left_out = found.doubts(progress), found.left_out(progress)
        names = reader.named(doubts.asked) if doubts.asked else {}
        numbers = {folder: named.number for folder, named in names.items()}
        anew = found.written_anew(doubts, numbers, progress, options.files.dialect.timeless, reader.bounds)
        if whole.issuperset(anew.whole) and left_out <= shown:
            return found.recording(anew, names)
        whole.update(anew.whole)
        shown |= {*anew.whole, *left_out}
        if listing.partial:
            again = reader.listing(listing.checkpoint, progress, shown)
            listing = replace(again, settled=listing.settled, reached=listing.reached)
        found = _checked(listing, progress, options, whole)


def _checked(listing: Listing, progress: Progress, options: RoundOptions, whole: Collection[Folder] = ()) -> Assembly:
    """The assembly, where the settings are right for it. Raises BadConfig."""
    files, rules = options.files, options.rules
    found = Assembly.of(listing, progress, rules.wanted, _policy_of(rules), files.retention, whole, rules.naming)
    check_protocol(files.dialect.protocol, found)
    check_decided(files.undecided, found)
    if not files.accept_key_loss:
        check_keys_told(files.dialect, found)
    check_begun(rules.naming, found, progress)
    shaping.check_shaping(rules.shaping_of, progress, found.catalog)
    return found


def begins_tables(assembly: Assembly, progress: Progress, rules: TableRules) -> ProgressChange | None:
    """What to record first, of tables that begin at a moment of their own. The assembly is made again after that.
    Raises BadConfig."""
    change = starting(assembly, progress, rules.starts, rules.shaping_of, _policy_of(rules))
    if change is None:
        return None
    check_exchanged(assembly, progress.after(change))
    return change.merged(*other_rules(assembly, progress, rules))


def opens_round(assembly: Assembly, progress: Progress, rules: TableRules) -> ProgressChange | None:
    """What to record before the round of `assembly` begins. The assembly is made again after that."""
    if progress.starts:
        check_exchanged(assembly, progress)
    let = let_in(assembly, progress, _policy_of(rules), rules.naming)
    changes = (settle_moved(assembly.files, progress), let, *other_rules(assembly, progress, rules))
    return ProgressChange().merged(*filter(None, changes)) if any(changes) else None


def other_rules(assembly: Assembly, progress: Progress, rules: TableRules) -> Iterator[ProgressChange]:
    """The rules of tables, where others are recorded."""
    tables = assembly.catalog.by_table
    if rules.naming.routes != progress.routes:
        yield ProgressChange(routes=rules.naming.routes)
    if (modes := table_modes.recorded(rules.naming, tables)) != progress.modes:
        yield ProgressChange(modes=modes)
    if (filters := shaping.recorded(rules.shaping_of, tables)) != progress.filters:
        yield ProgressChange(filters=filters)


def _policy_of(rules: TableRules) -> PolicyOf:
    return table_modes.keeping(rules.policy_of, rules.naming)
