"""`verify`: is the target equal to the storage?"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from consumer.app.parts import READS_CHECKPOINT, listing_of, open_ports, other_upstream
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.check import Repairing, VerifyResult
from consumer.model.events import NowDoing
from consumer.model.names import TableName
from consumer.model.process import put_in_place
from consumer.model.progress import Progress
from consumer.model.times import now
from consumer.pipeline.context import Ports
from consumer.pipeline.waiting import patiently
from consumer.plan.options import RoundOptions
from consumer.ports import Loader, Observer
from consumer.target import Sink

if TYPE_CHECKING:
    from consumer.verify.mend import Mender

_HEAD = b"""-- These statements make the rows of the target what they must be. Run them once, while no consumer
-- of this name runs, with a client that stops at the first error (mysql without --force, duckdb with -bail).
"""


def verify(
    settings: Settings,
    observer: Observer,
    tables: Collection[TableName] = (),
    show: int = 10,
    ranges_at_a_time: int = 2,
    loader: Loader | None = None,
    repairing: Repairing = Repairing(),  # noqa: B008
) -> VerifyResult:
    """Compare the target's tables (`tables` alone, if there are any) with the storage, each up to its own watermark.

    Changes nothing, unless it is `repairing`. Raises BadConfig for a target that has nothing of this name and for a
    file that cannot be written, LeaseHeld while its consumer runs.
    """
    from consumer.verify.verify import Verifier  # brings Arrow, which a round with nothing to load must not wait for

    started = now()
    options = settings.round_options
    with open_ports(settings, observer, loader) as opened:
        ports = replace(opened, reader=opened.reader.own)
        _check_name(settings, ports)
        observer.tell(NowDoing("asks the target for its progress"))
        with _taken(settings, ports, repairing) as progress, _mender(ports.sink, options, repairing) as mender:
            observer.tell(NowDoing(READS_CHECKPOINT))
            listing = listing_of(settings, ports.reader)
            verifier = Verifier(
                ports,
                options,
                lambda name: not tables or name in tables,
                show,
                ranges_at_a_time,
                mender,
            )
            found, left_out = verifier.tables(listing, progress)
        unknown = [name for name in tables if name not in {table.table for table in found}]
        if unknown:
            raise BadConfig(f"the target has no table {unknown[0]} of the consumer {settings.name!r}")
        return VerifyResult(tuple(found), now() - started, ports.spark_seconds, left_out)


def _check_name(settings: Settings, ports: Ports) -> None:
    """Raises BadConfig where there is nothing to compare, or another upstream's."""
    progress = ports.sink.progress()
    if progress.is_empty:
        raise BadConfig(
            f"nothing was applied under the name {settings.name!r} yet: there is nothing to compare",
            hint="run `once` first, or give the --name that was used",
        )
    for note in other_upstream(settings, ports.reader, progress):
        raise BadConfig(note, hint="give the --name, --tz and --upstream-uri of the run that filled the target")


@contextmanager
def _taken(settings: Settings, ports: Ports, repairing: Repairing) -> Iterator[Progress]:
    """The progress, while no consumer of this name changes the target; who writes to it becomes its consumer."""
    if not repairing.write:
        with ports.sink.still() as progress:
            yield progress
        return
    acquire = partial(ports.sink.acquire, ports.reader.identity)
    progress = patiently("reach the target", acquire, ports.observer, settings.max_wait)
    ports.sink.rest()
    yield progress


@contextmanager
def _mender(sink: Sink, options: RoundOptions, repairing: Repairing) -> Iterator[Mender | None]:
    """The file of statements gets its name when it is complete."""
    from consumer.verify.mend import Repair, RepairFile, writing

    if not repairing.sql:
        yield Repair(sink, options.files.dialect) if repairing.write else None
        return
    begun = f"{repairing.sql}.part"
    with writing(repairing.sql):
        if os.path.isdir(repairing.sql):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file = open(begun, "wb")  # noqa: SIM115 - what is raised while it is open is not all of this file
    try:
        with file:
            file.write(_HEAD)
            yield RepairFile(sink, file, repairing.sql)
            with writing(repairing.sql):
                put_in_place(file, repairing.sql)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(begun)
