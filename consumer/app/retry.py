"""`retry`: applies quarantined rows again, in their right place in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from consumer.app.parts import READS_CHECKPOINT, acquire_progress, listing_of, open_ports
from consumer.config.settings import Settings
from consumer.errors import BadConfig, StorageUnavailable
from consumer.model.bad_rows import ROW_DIGITS, BadRow, first_row_text
from consumer.model.check import TableCheck
from consumer.model.events import NowDoing
from consumer.model.files import Bounds, Folder, Listing
from consumer.model.hints import Hint
from consumer.model.names import TableName
from consumer.model.progress import FolderProgress, Progress, ProgressChange
from consumer.model.texts import count_text, some_of
from consumer.model.times import now
from consumer.pipeline.context import Ports
from consumer.plan.options import RoundOptions
from consumer.ports import Loader, Observer
from consumer.results import RetryResult, TableRetry

_SHOWN = 3


def retry(
    settings: Settings, observer: Observer, wanted: Callable[[TableName], bool], loader: Loader | None = None
) -> RetryResult:
    """Repairs the `wanted` tables that lack rows to what the storage shows at their watermarks, and no longer counts
    the rows that are there then. Raises LeaseHeld while the consumer runs, BadConfig if only other tables lack rows."""
    started = now()
    options = settings.round_options
    with open_ports(settings, observer, loader) as opened:
        ports = replace(opened, reader=opened.reader.own)
        progress = acquire_progress(ports, settings.max_wait)
        ports.sink.rest()
        tables = [name for name in progress.quarantined_rows if wanted(name)]
        if progress.quarantined_rows and not tables:
            raise BadConfig(
                "--table names no table with quarantined rows; there are some of"
                f" {some_of(sorted(progress.quarantined_rows), _SHOWN)}",
                hint="tables have upstream's names in --table, also where a route gives them others",
            )
        if ports.dead_letters is None:
            _check_letters(row for name in tables for row in progress.bad_rows[name].values())
        results: dict[TableName, _Settled] = {}
        if tables:
            observer.tell(NowDoing(READS_CHECKPOINT))
            listing = listing_of(settings, ports.reader)
            checks = _repaired_tables(ports, options, progress, tables, listing)
            results = {name: _settled(checks.get(name), progress.bad_rows[name]) for name in sorted(tables)}
            _record(ports, results, progress, listing)
        rows = tuple(_result(name, settled, progress) for name, settled in results.items())
        return RetryResult(tables=rows, seconds=now() - started, spark_seconds=ports.spark_seconds)


def _check_letters(rows: Iterable[BadRow]) -> None:
    """Raises BadConfig if nothing would record in the rows' dead letters that they are applied."""
    if letter := next((row.letter for row in rows if row.letter), ""):
        raise BadConfig(
            f"the quarantined rows have files in `dead-letters`, as {letter}, in which `retry` notes what it has taken"
            " in, and no --dead-letters says where that folder is",
            hint="give --dead-letters, as the run had it that quarantined them",
        )


@dataclass(frozen=True, slots=True)
class _Settled:
    """The rows of one table that are in the target now, those that are not, and why nothing is known of some."""

    done: Mapping[str, BadRow]
    remaining: Mapping[str, BadRow]
    why: str = ""
    hint: str = ""


def _repaired_tables(
    ports: Ports, options: RoundOptions, progress: Progress, tables: list[TableName], listing: Listing
) -> dict[TableName, TableCheck]:
    from consumer.verify.mend import Repair  # brings Arrow
    from consumer.verify.verify import Verifier

    verifier = Verifier(
        ports,
        options,
        chosen=lambda name: name in tables,
        show=0,
        at_a_time=2,
        mender=Repair(ports.sink, options.files.dialect),
    )
    checks, _ = verifier.tables(listing, progress)
    return {check.table: check for check in checks}


def _settled(check: TableCheck | None, rows: Mapping[str, BadRow]) -> _Settled:
    """Returns the result for a table. A row is in the target if its file was read to its end, it is no longer bad, and
    the table is equal except for rows that are still refused."""
    if check is None or check.error is not None:
        why = check.error if check is not None else None
        sentence = "the storage shows nothing of the table" if why is None else why.sentence()
        return _Settled({}, rows, sentence, "" if why is None else why.hint)
    # For a table with no key the id of a dead letter has the row's place after its digits.
    known_digits, refused = {key[:ROW_DIGITS] for key in rows}, {row.id[:ROW_DIGITS]: row for row in check.refused_rows}
    bad = {row.id for row in check.counted.quarantined}
    doubt = _doubt(check, len(refused))
    lost = {row.path for row in rows.values() if row.path} - check.files
    unread = lost | check.counted.later
    older = {key for key, row in rows.items() if check.gone_ts and row.commit_ts <= check.gone_ts}
    still = {key for key, row in rows.items() if key in bad or key[:ROW_DIGITS] in refused or row.path in unread}
    still |= older
    done = {} if doubt else {key: row for key, row in rows.items() if key not in still}
    remaining = {key: row for key, row in rows.items() if key not in done}
    remaining |= {row.id: row for name, row in refused.items() if name not in known_digits}
    if older and not doubt:  # files of such rows are not read
        doubt = f"files were written again or are gone, so the storage may not have all changes up to {check.gone_ts}"
    if not doubt and lost:
        doubt = (
            f"{min(lost)} was not read: it is gone from the storage, is another file than `once` has read (run `once`"
            " first), or has no row of the table up to its watermark"
        )
    if later := {row.path for row in rows.values()} & check.counted.later:
        doubt = doubt or f"{min(later)} has rows above the table's watermark: run `once` first"
    return _Settled(done, remaining, doubt)


def _doubt(check: TableCheck, refused: int) -> str:
    """Returns why the table may not be as the storage shows, "" for no reason."""
    if check.counted.differences > refused:
        return check.unmended or count_text(check.counted.differences, "row still differs", "rows still differ")
    if check.counted.unsure or check.counted.unknown:
        return "statements changed columns or partitions in a way that the storage does not show"
    return ""


def _record(ports: Ports, results: Mapping[TableName, _Settled], progress: Progress, listing: Listing) -> None:
    """Records the results. Dead letters of rows that were refused in another way are written first, those of rows that
    are in the target are marked last: the progress decides."""
    new: dict[TableName, dict[str, BadRow]] = {}
    for name, settled in results.items():
        rows = [row for key, row in settled.remaining.items() if key not in progress.bad_rows[name]]
        if rows and ports.dead_letters is not None:
            rows = [replace(row, letter=ports.dead_letters.path(name, row)) for row in rows]
            ports.dead_letters.put(name, rows)
        new[name] = {row.id: row for row in rows}
    done = {name: list(settled.done) for name, settled in results.items() if settled.done}
    change = ProgressChange(
        quarantined={name: rows for name, rows in new.items() if rows},
        taken_in=done,
        folders=_read_again(ports, results, progress, listing),
    )
    if change != ProgressChange():
        ports.sink.record(change)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for name in done:
        if ports.dead_letters is not None:
            ports.dead_letters.taken_in(list(results[name].done.values()), moment)


def _read_again(
    ports: Ports, results: Mapping[TableName, _Settled], progress: Progress, listing: Listing
) -> dict[Folder, FolderProgress]:
    """Returns the folders of lines that are repaired: only now their rows' times are known. Raises
    StorageUnavailable."""
    paths = {
        row.path: progress.table(name).applied_ts for name, settled in results.items() for row in settled.done.values()
    }
    files = [file for of_root in listing.files.values() for file in of_root if file.path in paths]
    bounds = ports.reader.bounds([file for file in files if file.folder in progress.folders])
    folders: dict[Folder, FolderProgress] = {}
    for file in files:
        file_bounds = bounds.get(file.path)
        if isinstance(file_bounds, StorageUnavailable):
            raise file_bounds
        if isinstance(file_bounds, Bounds):
            place = folders.get(file.folder) or progress.folders[file.folder]
            last = min(file_bounds.last, paths[file.path])
            folders[file.folder] = place.with_rows((file_bounds.first, last), paths[file.path])
    return folders


def _result(name: TableName, settled: _Settled, progress: Progress) -> TableRetry:
    first = first_row_text(settled.remaining.values()) if settled.remaining else ""
    return TableRetry(
        table=name,
        watermark=progress.table(name).applied_ts,
        taken_in=len(settled.done),
        quarantined=len(settled.remaining),
        bad_row=first,
        error=settled.why,
        hint=Hint.of(settled.hint),
    )
