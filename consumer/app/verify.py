"""`verify`: is the target equal to the storage?"""

from __future__ import annotations

from collections.abc import Collection

from consumer.app.parts import READS_CHECKPOINT, listing_of, open_parts, other_upstream
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.check import VerifyResult
from consumer.model.events import NowDoing
from consumer.model.names import TableName
from consumer.model.timekeeper import now
from consumer.ports import Loader, Observer
from consumer.verify.verify import Verifier


def verify(
    settings: Settings,
    observer: Observer,
    tables: Collection[TableName] = (),
    show: int = 10,
    ranges_at_a_time: int = 2,
    loader: Loader | None = None,
) -> VerifyResult:
    """Compare the target's tables (`tables` alone, if there are any) with the storage, each up to its own watermark.

    Changes nothing. Raises BadConfig for a target that has nothing of this name, LeaseHeld while its consumer runs.
    """
    started = now()
    with open_parts(settings, loader) as parts:
        if parts.sink.progress().is_empty:
            raise BadConfig(
                f"nothing was applied under the name {settings.name!r} yet: there is nothing to compare",
                hint="run `once` first, or give the --name that was used",
            )
        observer.tell(NowDoing("asks the target for its progress"))
        with parts.sink.still() as progress:
            for note in other_upstream(settings, parts.reader, progress):
                raise BadConfig(note, hint="give the --name, --tz and --upstream-uri of the run that filled the target")
            observer.tell(NowDoing(READS_CHECKPOINT))
            listing = listing_of(settings, parts.reader)
            verifier = Verifier(
                parts.reader,
                parts.sink,
                parts.loader,
                observer,
                parts.options,
                lambda name: not tables or name in tables,
                show,
                ranges_at_a_time,
            )
            found = verifier.tables(listing, progress)
        unknown = [name for name in tables if name not in {table.table for table in found}]
        if unknown:
            raise BadConfig(f"the target has no table {unknown[0]} of the consumer {settings.name!r}")
        return VerifyResult(tuple(found), now() - started, parts.loader.start_seconds)
