"""A storage that goes together with others: its checkpoint is never above the lowest of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from consumer.errors import ConsumerError, from_dict
from consumer.model.files import Bounds, DataFile, Folder, IndexEntry, Listing, StoredFile
from consumer.model.progress import Progress
from consumer.model.texts import duration_text
from consumer.model.times import tso_to_ms, tso_to_time
from consumer.ports import RangeReader, StorageReader

WARN_AFTER = 60.0
"""Seconds after which there is a warning about an upstream that holds up the others."""


@dataclass(frozen=True, slots=True)
class UpstreamPosition:
    """The checkpoint of an upstream when it was read last."""

    name: str
    checkpoint: int

    def seconds_behind(self, other: UpstreamPosition) -> float:
        """Returns the lag in seconds. TSOs of different clusters have only their milliseconds in common."""
        return (tso_to_ms(other.checkpoint) - tso_to_ms(self.checkpoint)) / 1000


class TogetherReader:
    """Implements ports.StorageReader. Its checkpoint is the lowest of its own and those of `peers`, by their names. A
    peer that is more than `max_wait` seconds behind the first of all is not waited for (0: each is).

    TSOs of different clusters are compared as numbers, so by the time of their clusters' clocks, to the millisecond.
    """

    def __init__(
        self, name: str, own: StorageReader, peers: Mapping[str, StorageReader], max_wait: float = 0.0
    ) -> None:
        self.own, self._name, self._peers, self._max_wait = own, name, peers, max_wait
        self.identity = own.identity
        self._places: dict[str, UpstreamPosition] = {}

    def checkpoint(self) -> int:
        """Raises the errors of its own storage; for a peer that was never read, the peer's error with its name."""
        ours = UpstreamPosition(self._name, self.own.checkpoint())
        self._places[self._name] = ours
        for name, reader in self._peers.items():
            self._look(name, reader)
        lowest = self._last()
        return ours.checkpoint if lowest is None else min(ours.checkpoint, lowest.checkpoint)

    def _look(self, name: str, reader: StorageReader) -> None:
        try:
            self._places[name] = UpstreamPosition(name, reader.checkpoint())
        except ConsumerError as error:
            if name not in self._places:
                raise _held(name, error) from error

    def _late(self) -> list[UpstreamPosition]:
        first = max(self._places.values(), key=lambda position: position.checkpoint, default=UpstreamPosition("", 0))
        return [p for p in self._places.values() if self._max_wait and p.seconds_behind(first) > self._max_wait]

    @property
    def holds(self) -> list[str]:
        """Reports which upstream holds up this one, and by how much, as of the last reading; and `warnings`."""
        ours, lowest = self._places.get(self._name), self._last()
        if ours is None or lowest is None or ours.checkpoint <= lowest.checkpoint:
            return self.warnings
        how = (
            f"its checkpoint is {_time(lowest.checkpoint)}, {duration_text(lowest.seconds_behind(ours))} behind that of"
            f" {ours.name}"
        )
        return [f"{lowest.name} holds up the others (together): {how}", *self._left()]

    @property
    def warnings(self) -> list[str]:
        """Texts that stay the same while their reason lasts: which upstreams are no longer waited for, and which one
        has been waited for long."""
        ours, lowest = self._places.get(self._name), self._last()
        long = ours is not None and lowest is not None and lowest.seconds_behind(ours) > WARN_AFTER
        texts = (
            [f"{lowest.name} holds up the others (together): it is more than {WARN_AFTER:.0f} s behind"]
            if lowest
            else []
        )
        return [*(texts if long else []), *self._left()]

    def _last(self) -> UpstreamPosition | None:
        late = self._late()
        return min((p for p in self._places.values() if p not in late), key=lambda p: p.checkpoint, default=None)

    def _left(self) -> list[str]:
        return [
            f"{late.name} is more than together-max-wait ({self._max_wait:.0f} s) behind: the others continue without"
            " it"
            for late in self._late()
        ]

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        """The changefeed itself may be past `checkpoint`; then the listing says so."""
        own_listing = self.own.listing(checkpoint, progress, whole)
        ours = self._places.get(self._name)
        if ours is None or ours.checkpoint <= checkpoint:
            return own_listing
        return replace(own_listing, settled=True, reached=max(own_listing.reached, ours.checkpoint))

    def named(self, indexes: Mapping[Folder, StoredFile]) -> Mapping[Folder, IndexEntry]:
        return self.own.named(indexes)

    def bounds(self, files: Collection[DataFile]) -> Mapping[str, Bounds | ConsumerError]:
        return self.own.bounds(files)

    def first_ts(self, file: DataFile) -> int | None:
        return self.own.first_ts(file)

    def range_reader(self) -> RangeReader:
        return self.own.range_reader()


def _held(name: str, error: ConsumerError) -> ConsumerError:
    body = error.as_dict()
    return from_dict({**body, "message": f"{name} holds up the others (together): {error.message}"})


def _time(tso: int) -> str:
    return f"{tso_to_time(tso):%Y-%m-%dT%H:%M:%S}Z"
