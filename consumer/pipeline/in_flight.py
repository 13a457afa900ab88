"""What the loads that run take, over all tables: the one budget that is asked before a load begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consumer.model.load import LoadTask


class InFlight:
    """`connections` to the target, and `size` bytes of change files that were begun and are not in the target. A load
    that is larger than all of it goes alone."""

    def __init__(self, connections: int, size: int) -> None:
        self._connections, self._size = connections, size
        self._taken = self._bytes = 0

    def take(self, connections: int, size: int) -> bool:
        """Whether a load of that can begin now; then it has."""
        full = self._taken + connections > self._connections or self._bytes + size > self._size
        if self._taken and full:
            return False
        self._taken += connections
        self._bytes += size
        return True

    def give_back(self, connections: int, size: int) -> None:
        """It has ended."""
        self._taken -= connections
        self._bytes -= size

    def parted(self, tasks: Sequence[LoadTask]) -> Iterator[list[LoadTask]]:
        """Tables that one call of the loader would load, in as few parts of the budget as their order allows."""
        part: list[LoadTask] = []
        size = 0
        for task in tasks:
            if part and size + task.bytes > self._size:
                yield part
                part, size = [], 0
            part.append(task)
            size += task.bytes
        if part:
            yield part
