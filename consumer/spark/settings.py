"""How Spark is started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """`conf` are further ``spark.*`` settings, which win over the program's own. `max_connections` bounds the tasks
    that write at the same time, as each holds one connection to the target."""

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    max_connections: int = 16

    @property
    def local(self) -> bool:
        return self.master.startswith("local")
