"""`verify`: checks whether the target is equal to the storage."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from consumer.app.parts import READS_CHECKPOINT, listing_of, open_ports, upstream_refusal
from consumer.config.settings import Settings
from consumer.errors import BadConfig
from consumer.model.check import Repairing, VerifyResult
from consumer.model.events import NowDoing
from consumer.model.names import TableName
from consumer.model.progress import Progress, is_replay
from consumer.model.times import now
from consumer.pipeline.context import Ports
from consumer.pipeline.waiting import with_observed_retries
from consumer.plan.options import RoundOptions
from consumer.ports import Loader, Observer
from consumer.target import Sink

if TYPE_CHECKING:
    from consumer.verify.mend import Repairer


def verify(
    settings: Settings,
    observer: Observer,
    tables: Collection[TableName] = (),
    show: int = 10,
    ranges_at_a_time: int = 2,
    loader: Loader | None = None,
    repairing: Repairing = Repairing(),  # noqa: B008
) -> VerifyResult:
    """Compares the target's tables (only `tables`, if there are any) with the storage, each up to its own watermark.

    Changes nothing, unless it is `repairing`. Raises BadConfig for a target that has nothing of this name and for a
    file that cannot be written, LeaseHeld while its consumer runs.
    """
    from consumer.verify.verify import Verifier  # brings Arrow, for which a round with nothing to load must not wait

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
                "a replay does not say what the target held before" if is_replay(settings.name) else "",
            )
            checks, excluded = verifier.tables(listing, progress)
        unknown = [name for name in tables if name not in {table.table for table in checks}]
        if unknown:
            raise BadConfig(f"the target has no table {unknown[0]} of the consumer {settings.name!r}")
        return VerifyResult(tuple(checks), now() - started, ports.spark_seconds, excluded)


def _check_name(settings: Settings, ports: Ports) -> None:
    """Raises BadConfig if there is nothing to compare, WrongUpstream if the progress belongs to another upstream."""
    progress = ports.sink.progress()
    if progress.is_empty:
        raise BadConfig(
            f"nothing was applied under the name {settings.name!r} yet: there is nothing to compare",
            hint="run `once` first, or give the --name that was used",
        )
    if (error := upstream_refusal(settings, ports.reader, progress)) is not None:
        raise error


@contextmanager
def _taken(settings: Settings, ports: Ports, repairing: Repairing) -> Iterator[Progress]:
    """Yields the progress while no consumer of this name changes the target. If rows are to be written, this process
    becomes its consumer."""
    if not repairing.write:
        with ports.sink.still() as progress:
            yield progress
        return
    acquire = partial(ports.sink.acquire, ports.reader.identity)
    progress = with_observed_retries("reach the target", acquire, ports.observer, settings.max_wait)
    ports.sink.rest()
    yield progress


@contextmanager
def _mender(sink: Sink, options: RoundOptions, repairing: Repairing) -> Iterator[Repairer | None]:
    from consumer.verify.mend import RUN_THEM, Repair, RepairFile, new_file

    if not repairing.sql:
        yield Repair(sink, options.files.dialect) if repairing.write else None
        return
    with new_file(repairing.sql) as file:
        file.write(f"-- These statements make the rows of the target what they must be.\n{RUN_THEM}".encode())
        yield RepairFile(sink, file, repairing.sql)
