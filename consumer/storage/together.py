"""A storage beside others with which it goes together: no further than the one whose checkpoint is the lowest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from consumer.errors import ConsumerError, from_dict
from consumer.model.files import Bounds, DataFile, Folder, IndexEntry, Listing, StoredFile
from consumer.model.progress import Progress
from consumer.model.texts import duration_text
from consumer.model.times import tso_to_ms, tso_to_time
from consumer.ports import RangeReader, StorageReader

LONG = 60.0
"""Seconds after which an upstream that holds up the others is worth a warning."""


@dataclass(frozen=True, slots=True)
class Place:
    """The checkpoint of an upstream when it was looked at last."""

    name: str
    checkpoint: int

    def behind(self, other: Place) -> float:
        """Seconds. TSOs of different clusters have only their milliseconds in common."""
        return (tso_to_ms(other.checkpoint) - tso_to_ms(self.checkpoint)) / 1000


class TogetherReader:
    """Implements ports.StorageReader. Its checkpoint is the lowest of its own and those of `peers`, by their names. A
    peer that is more than `max_wait` seconds behind the first of all is not waited for (0: each is).

    TSOs of different clusters are compared as numbers: by the time of their clusters' clocks, to the millisecond.
    """

    def __init__(
        self, name: str, own: StorageReader, peers: Mapping[str, StorageReader], max_wait: float = 0.0
    ) -> None:
        self.own, self._name, self._peers, self._max_wait = own, name, peers, max_wait
        self.identity = own.identity
        self._places: dict[str, Place] = {}

    def checkpoint(self) -> int:
        """Raises what its own storage raises; for a peer that was never seen, the same with its name."""
        own = Place(self._name, self.own.checkpoint())
        self._places[self._name] = own
        for name, reader in self._peers.items():
            self._look(name, reader)
        last = self._last()
        return own.checkpoint if last is None else min(own.checkpoint, last.checkpoint)

    def _look(self, name: str, reader: StorageReader) -> None:
        try:
            self._places[name] = Place(name, reader.checkpoint())
        except ConsumerError as error:
            if name not in self._places:
                raise _held(name, error) from error

    def _late(self) -> list[Place]:
        first = max(self._places.values(), key=lambda place: place.checkpoint, default=Place("", 0))
        return [p for p in self._places.values() if self._max_wait and p.behind(first) > self._max_wait]

    @property
    def holds(self) -> list[str]:
        """Which upstream holds up this one, and by how much, as of the last look; and `warnings`."""
        own, last = self._places.get(self._name), self._last()
        if own is None or last is None or own.checkpoint <= last.checkpoint:
            return self.warnings
        how = f"its checkpoint is {_time(last.checkpoint)}, {duration_text(last.behind(own))} behind that of {own.name}"
        return [f"{last.name} holds up the others (together): {how}", *self._left()]

    @property
    def warnings(self) -> list[str]:
        """Of the same words while it lasts: which upstreams are not waited for any more, and which one is waited for
        since long."""
        own, last = self._places.get(self._name), self._last()
        long = own is not None and last is not None and last.behind(own) > LONG
        told = [f"{last.name} holds up the others (together): it is more than {LONG:.0f} s behind"] if last else []
        return [*(told if long else []), *self._left()]

    def _last(self) -> Place | None:
        late = self._late()
        return min((p for p in self._places.values() if p not in late), key=lambda p: p.checkpoint, default=None)

    def _left(self) -> list[str]:
        return [
            f"{late.name} is more than together-max-wait ({self._max_wait:.0f} s) behind: the others go on without it"
            for late in self._late()
        ]

    def listing(self, checkpoint: int, progress: Progress | None = None, whole: Collection[Folder] = ()) -> Listing:
        """The changefeed itself may be past `checkpoint`, and says so."""
        found = self.own.listing(checkpoint, progress, whole)
        own = self._places.get(self._name)
        if own is None or own.checkpoint <= checkpoint:
            return found
        return replace(found, settled=True, reached=max(found.reached, own.checkpoint))

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
