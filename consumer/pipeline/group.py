"""Consumers of one target whose rows readers see at once: they agree on each moment, and are committed together.

Each runs its rounds on a thread of its own. It waits for the others in two places: before a part of a round, where the
last one to come says between which moments all of them go next; and where its rows are loaded and nothing else is left
to do, where the last one commits the rows of all of them in one transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from consumer.errors import ConsumerError, Held
from consumer.model.progress import ProgressChange
from consumer.pipeline.together import Prospect, end_of_parts
from consumer.target import CommitTogether, NotOne, Share

_LOOK_EVERY = 0.2


class State(Enum):
    AWAY = auto()
    """Between its rounds: the others wait for it."""
    AGREES = auto()
    RUNS = auto()
    COMMITS = auto()
    DONE = auto()
    """Its part went through."""
    ENDED = auto()
    """It does not come back for now: the others cannot go on."""


@dataclass(frozen=True, slots=True)
class Part:
    """Between which moments one of them goes next; the same moment twice: it has nothing to do. `last`: all of them are
    then where this round can end."""

    after: int
    end: int
    last: bool = False


@dataclass(slots=True)
class _Place:
    state: State = State.AWAY
    prospect: Prospect | None = None
    part: Part | ConsumerError | None = None
    end: int = 0
    share: Share | None = None
    recorded: ProgressChange | ConsumerError | None = None
    why: ConsumerError | None = None


@dataclass
class Group:
    """`names` are its members. `stop`: nobody waits for others any more."""

    names: Sequence[str]
    commit_together: CommitTogether
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._places = {name: _Place() for name in self.names}
        self._changed = threading.Condition()
        self._broken: Held | None = None
        """Why nothing of the part at hand is committed any more."""

    def agree(self, name: str, prospect: Prospect) -> Part:
        """Which part of its round `name` runs next, once all others are there. Raises Held where one of them has
        ended."""
        with self._changed:
            place = self._places[name]
            place.state, place.prospect, place.part = State.AGREES, prospect, None
            if all(one.state is State.AGREES for one in self._places.values()):
                self._decide()
            while place.part is None:
                self._check()
                self._changed.wait(_LOOK_EVERY)
            if isinstance(place.part, ConsumerError):
                raise place.part
            return place.part

    def commit(self, name: str, last: int, share: Share) -> ProgressChange:
        """Commit rows up to the moment `last` with those of all others that have come to it. Raises what is the matter
        with `share`, and Held where another one has ended or failed."""
        with self._changed:
            place = self._places[name]
            place.state, place.end, place.share, place.recorded = State.COMMITS, last, share, None
            self._changed.notify_all()
            while place.recorded is None:
                if self._broken is not None:
                    raise self._broken
                if any(one.state is State.RUNS for one in self._places.values()):
                    self._check_stop()
                    self._changed.wait(_LOOK_EVERY)
                else:
                    self._commit()
            if isinstance(place.recorded, ConsumerError):
                raise place.recorded
            return place.recorded

    def over(self, name: str) -> None:
        """The part of `name` went through."""
        self._to(name, State.DONE)

    def left(self, name: str, error: ConsumerError | None = None) -> None:
        """The round of `name` is over, for now; by an `error`: nobody commits what goes together with it."""
        self._to(name, State.AWAY, error)

    def ended(self, name: str, error: ConsumerError | None) -> None:
        """`name` has no further round."""
        self._to(name, State.ENDED, error)

    def _to(self, name: str, state: State, error: ConsumerError | None = None) -> None:
        with self._changed:
            place = self._places[name]
            if place.state in (State.RUNS, State.COMMITS) and state is not State.DONE and self._broken is None:
                self._broken = held_by(name, error)
            self._places[name] = _Place(state, why=error)
            self._changed.notify_all()

    def _check(self) -> None:
        for name, place in self._places.items():
            if place.state is State.ENDED:
                raise held_by(name, place.why)
        self._check_stop()

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise Held("the command was told to end while it waited for other upstreams (together)")

    def _decide(self) -> None:
        """Who is behind the others comes to where they are first, by itself."""
        self._broken = None
        prospects = {name: place.prospect for name, place in self._places.items()}
        try:
            parts: Mapping[str, Part | ConsumerError] = parts_of({n: p for n, p in prospects.items() if p is not None})
        except ConsumerError as error:
            parts = dict.fromkeys(prospects, error)
        for name, part in parts.items():
            self._places[name].state, self._places[name].part = State.RUNS, part
        self._changed.notify_all()

    def _commit(self) -> None:
        """Of those that wait, all that have come to the lowest moment. The lock is held meanwhile: nobody else has
        anything to do."""
        waiting = [place for place in self._places.values() if place.state is State.COMMITS]
        lowest = min(place.end for place in waiting)
        now = [place for place in waiting if place.end == lowest]
        try:
            recorded = self.commit_together([place.share for place in now if place.share is not None])
            for place, change in zip(now, recorded, strict=True):
                place.state, place.recorded = State.RUNS, change
        except NotOne as wrong:  # who handles it comes again; the others wait for that
            now[wrong.number].state, now[wrong.number].recorded = State.RUNS, wrong.error
        except ConsumerError as error:
            for place in now:
                place.state, place.recorded = State.RUNS, error
        self._changed.notify_all()


def parts_of(prospects: Mapping[str, Prospect]) -> dict[str, Part]:
    """What each does next. Who is behind comes to where the first one is, alone; then all go together."""
    last = min(prospect.end for prospect in prospects.values())
    first = max(prospect.after for prospect in prospects.values())
    goal = min(first, last)
    if any(one.after < goal for one in prospects.values()):
        return {
            name: Part(one.after, end_of_parts([one], one.after, goal) if one.after < goal else one.after)
            for name, one in prospects.items()
        }
    if first >= last:
        return {name: Part(one.after, max(one.after, last), last=True) for name, one in prospects.items()}
    end = end_of_parts([*prospects.values()], first, last)
    return dict.fromkeys(prospects, Part(first, end, last=end >= last))


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer's side of its group."""

    group: Group
    name: str

    def agree(self, prospect: Prospect) -> Part:
        return self.group.agree(self.name, prospect)

    def commit(self, last: int, share: Share) -> ProgressChange:
        return self.group.commit(self.name, last, share)

    def over(self) -> None:
        self.group.over(self.name)

    def left(self, error: ConsumerError | None = None) -> None:
        self.group.left(self.name, error)

    def ended(self, error: ConsumerError | None) -> None:
        self.group.ended(self.name, error)


def held_by(name: str, error: ConsumerError | None) -> Held:
    """The error of those that cannot go on without `name`."""
    if isinstance(error, Held):
        return error
    why = "it has ended" if error is None else error.sentence()
    return Held(f"{name} holds up the others (together): {why}")
