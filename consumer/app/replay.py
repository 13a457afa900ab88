"""`replay`: applies the changes between two moments, to any target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from consumer.app.parts import READS_CHECKPOINT, checkpoint_of, manager_of, one_round, open_ports
from consumer.codec import protocol_of
from consumer.config.rules import StartRules
from consumer.config.settings import Settings
from consumer.config.values import consumer_name
from consumer.errors import BadConfig, CheckpointBehind
from consumer.model.combinations import COMBINATIONS, Feature
from consumer.model.events import Note, NoteKind, NowDoing
from consumer.model.files import Bounds, Listing
from consumer.model.hints import in_a_replay
from consumer.model.load import Dialect
from consumer.model.names import NAME_LIMIT
from consumer.model.progress import ProgressChange
from consumer.model.times import MAX_TSO, ms_to_tso, now, tso_to_ms
from consumer.plan.starting import check_moment
from consumer.ports import Loader, Observer, StorageReader
from consumer.results import RunResult

_SAMPLE = 16

WHOLE_MILLISECONDS = (
    "rows carry no commit-ts, only milliseconds: --from-ts and --to-ts stand for the ends of theirs, and a transaction"
    " of the checkpoint's own millisecond may be there in part"
)


def replay(
    settings: Settings, observer: Observer, after: str | None, end: str | None, loader: Loader | None = None
) -> RunResult:
    """Applies the statements and rows with `after` < commit-ts <= `end` (None: from the start; to the checkpoint).

    Its progress has a name made of --name and the range, so a second run resumes where the first stopped. Raises
    BadConfig for a range that cannot be determined from the files, CheckpointBehind for one that the changefeed has not
    reached.
    """
    started = now()
    first = settings.tso("--from-ts", after) if after is not None else 0
    last = settings.tso("--to-ts", end) if end is not None else None
    _check(settings, first, last)
    named = settings.model_copy(update={"name": _name(settings, first, last), "syncpoints": 0})
    options = named.round_options
    with open_ports(named, observer, loader) as ports:
        _check_dialect(options.files.dialect, bounded=after is not None or end is not None)
        observer.tell(NowDoing(READS_CHECKPOINT))
        checkpoint = checkpoint_of(settings, ports.reader)
        last = checkpoint if last is None else last
        if last > checkpoint:
            raise CheckpointBehind(
                f"--to-ts is {last}, but the changefeed is complete only up to {checkpoint}",
                hint="try again once it is past --to-ts, or leave --to-ts out to replay what is there",
            )
        check_moment("--from-ts", first, last)
        manager = manager_of(named, ports, options)
        observer.tell(NowDoing("looks for files"))
        listing = ports.reader.listing(last, manager.ledger.progress)
        if _only_milliseconds(ports.reader, listing):
            observer.tell(Note(NoteKind.COMMIT_TS, WHOLE_MILLISECONDS))
            first, last = _end_of_millisecond(first), min(_end_of_millisecond(last), checkpoint)
        start = ProgressChange(applied_ts=first, start_ts=first)
        manager.ledger.begin(lambda progress: start if progress.is_empty and first else None)
        settled = last < checkpoint != MAX_TSO
        listing = replace(listing, checkpoint=last, settled=settled, reached=checkpoint)
        return _of_a_replay(one_round(manager, listing, started), named.name)


def _of_a_replay(result: RunResult, name: str) -> RunResult:
    """Changes the hints so that commands use the replay's own name. No hint reloads a table, because that would not
    begin where the replay does."""
    for table in result.tables.values():
        table.hint, table.resync = in_a_replay(table.hint), False
    return result.model_copy(update={"name": name, "hint": result.hint and in_a_replay(result.hint)})


def _check(settings: Settings, first: int, last: int | None) -> None:
    if settings.start_ts != StartRules():
        raise COMBINATIONS[Feature.START, Feature.REPLAY].refusal()
    if last is not None and last <= first:
        raise BadConfig(f"--to-ts ({last}) is not after --from-ts ({first})")


def _name(settings: Settings, first: int, last: int | None) -> str:
    name = f"{settings.name}.{first}-{'checkpoint' if last is None else last}"
    try:
        return consumer_name(name)
    except ValueError:
        longest = NAME_LIMIT - len(name) + len(settings.name)
        raise BadConfig(
            f"--name {settings.name} is too long for a replay, whose progress is kept under {name}",
            hint=f"give a --name of at most {longest} characters",
        ) from None


def _check_dialect(dialect: Dialect, *, bounded: bool) -> None:
    if dialect.timeless and bounded:
        raise COMBINATIONS[Feature.REPLAY, Feature.NO_TIMES].of(option=protocol_of(dialect).commit_ts).refusal()


def _only_milliseconds(reader: StorageReader, listing: Listing) -> bool:
    """Returns whether rows have no commit-ts, by the newest files of some tables."""
    newest = [files[-1] for files in listing.files.values() if files]
    bounds: Mapping[str, object] = reader.bounds(newest[:: max(1, len(newest) // _SAMPLE)])
    return any(isinstance(file_bounds, Bounds) and not file_bounds.exact for file_bounds in bounds.values())


def _end_of_millisecond(tso: int) -> int:
    """Returns the last TSO of the millisecond of `tso`; 0, the start of the storage, stays."""
    return ms_to_tso(tso_to_ms(tso) + 1) - 1 if tso else 0
