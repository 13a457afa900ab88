"""Tables that have to wait for the target or the storage. Each is retried after a pause, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from consumer.errors import ConsumerError, Retryable, TargetBusy, TargetUnavailable
from consumer.model.names import TableName
from consumer.model.patience import pause
from consumer.model.times import now

_SHORTEST_PAUSE = 0.5


def of_target(error: BaseException | None) -> bool:
    """Whether the target is what the step had to wait for."""
    return isinstance(error, TargetBusy | TargetUnavailable)


@dataclass(slots=True)
class _Deferral:
    names: tuple[TableName, ...]
    error: Retryable
    since: float
    again: Callable[[], None]
    tries: int = 0
    due: float | None = None
    """When it is retried; None: not in this round, or right now."""


class Deferred:
    """`seconds`: how long a table is retried in one round, from its first failure on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._found: dict[TableName, _Deferral] = {}

    def add(self, names: Sequence[TableName], error: Retryable, again: Callable[[], None]) -> float | None:
        """The current step of `names` has failed and is retried by `again`. Returns for how many seconds, None if the
        next round retries it."""
        moment = now()
        deferral = self._found.setdefault(names[0], _Deferral(tuple(names), error, moment, again))
        deferral.names, deferral.error, deferral.again = tuple(names), error, again
        deferral.tries += 1
        left = deferral.since + self._seconds - moment
        deferral.due = moment + max(_SHORTEST_PAUSE, pause(deferral.tries)) if error.may_pass and left > 0 else None
        return None if deferral.due is None else left

    def settled(self, names: Sequence[TableName]) -> None:
        """The step of the tables succeeded, or they stop for another reason."""
        for name in names:
            self._found.pop(name, None)

    def blocked(self, name: TableName) -> float:
        """For how long the step that was added last under `name` has waited for the target, 0 if it does not."""
        found = self._found.get(name)
        return now() - found.since if found and of_target(found.error) else 0.0

    def try_due(self) -> None:
        """Retry the tables whose pause is over."""
        moment = now()
        for deferral in self._found.values():
            if deferral.due is not None and deferral.due <= moment:
                deferral.due = None
                deferral.again()

    def is_due(self, name: TableName) -> bool:
        """Whether the table that was added last under `name` is tried again in this round."""
        return self._found[name].due is not None

    def next_due(self) -> float | None:
        """Seconds until the next is due, None where there is none."""
        times = [deferral.due for deferral in self._found.values() if deferral.due is not None]
        return max(0.0, min(times) - now()) if times else None

    def first(self) -> Retryable | None:
        """The error of a table that still waits."""
        return next((deferral.error for deferral in self._found.values()), None)

    def reasons(self) -> dict[TableName, str]:
        """By table, what it still waits for."""
        return {name: _reason(deferral.error) for deferral in self._found.values() for name in deferral.names}


def _reason(error: ConsumerError) -> str:
    return f"{error.sentence()}: it is tried again by the next run"
