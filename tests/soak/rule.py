"""When a measure is flat: the last third of the program's longest life against the second third."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.soak.watch import Sample


@dataclass(frozen=True)
class Limit:
    """How much greater the median of the last third may be than that of the second: by `part` of it, by `slack`, and by
    `each` for every object that came to the storage between them, as what is known of the storage grows with it."""

    part: float
    slack: float
    each: float = 0.0

    @property
    def text(self) -> str:
        parts = {f"{self.part:.0%}": self.part, f"{self.slack:g}": self.slack, f"{self.each:g} an object": self.each}
        return " + ".join(text for text, value in parts.items() if value)


LIMITS = {
    "driver MiB": Limit(0.03, 4, each=0.008),
    "driver handles": Limit(0, 4),
    "driver threads": Limit(0, 4),
    "zombies": Limit(0, 1),
    "JVM MiB": Limit(0.05, 16),
    "JVM handles": Limit(0.02, 8),
    "JVM threads": Limit(0.02, 64),
    "workers": Limit(0, 2),
    "workers MiB": Limit(0.05, 16),
    "worker handles": Limit(0.05, 8),
    "connections": Limit(0, 4),
    "temporary files": Limit(0, 4),
    "progress rows": Limit(0, 10, each=1),
    "audit rows": Limit(0, 10, each=1),
    "lag s": Limit(0.2, 2),
}
"""By measure. What is not here is shown and not judged."""
MIDDLE, LAST = 1, 2


@dataclass(frozen=True)
class Verdict:
    """Medians of the second and the last third, and what the last may be. None where nothing was measured."""

    measure: str
    middle: float | None
    last: float | None
    allowed: float | None

    @property
    def flat(self) -> bool:
        return self.last is None or self.allowed is None or self.last <= self.allowed


def thirds(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The samples of the last life, by thirds of its time."""
    own = [sample for sample in samples if sample.life == samples[-1].life]
    begin, end = own[0].seconds, own[-1].seconds
    parts: list[list[Sample]] = [[], [], []]
    for sample in own:
        parts[min(2, int(3 * (sample.seconds - begin) / max(end - begin, 1e-9)))].append(sample)
    return parts


def judge(samples: Sequence[Sample]) -> list[Verdict]:
    """Each measure that any sample has."""
    parts = thirds(samples)
    came = (_median(parts[LAST], "objects") or 0) - (_median(parts[MIDDLE], "objects") or 0)
    measures = [name for name in LIMITS if any(name in sample.values for sample in samples)]
    return [_verdict(name, _median(parts[MIDDLE], name), _median(parts[LAST], name), came) for name in measures]


def _verdict(measure: str, middle: float | None, last: float | None, came: float) -> Verdict:
    if middle is None or last is None:
        return Verdict(measure, middle, last, None)
    limit = LIMITS[measure]
    return Verdict(measure, middle, last, middle * (1 + limit.part) + limit.slack + limit.each * came)


def _median(samples: Sequence[Sample], measure: str) -> float | None:
    found = [sample.values[measure] for sample in samples if measure in sample.values]
    return statistics.median(found) if found else None
