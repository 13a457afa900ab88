"""The parts of a campaign, a table each: a target, and how the program works on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.faults import kinds, spark_kinds
from tests.faults.chain import Chain, Outcome
from tests.faults.points import OF_TASKS, Point, points_of
from tests.faults.results import Cell
from tests.faults.spark_chain import SparkChain
from tests.faults.targets import FileTarget, LakeTarget, ServerTarget, Target
from tests.servers import SqlServer
from tests.support.lakes import FORMATS

NAMES = {
    "mysql": "MariaDB",
    "mysql9": "MySQL 9.7",
    "tidb": "TiDB",
    "duckdb": "DuckDB",
    "delta": "Delta",
    "iceberg": "Iceberg",
}
Act = Callable[[Any], None]
"""What a kind of fault does to a chain whose program stands at a point."""


class AnyChain(Protocol):
    @property
    def folder(self) -> Path: ...

    def play(self, point: Point, number: int, act: Act) -> Outcome: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Part(ABC):
    """`target` is one of NAMES. Only points and kinds whose names have `point` and `kind` in them."""

    target: str
    point: str
    kind: str
    consistency: str

    @property
    def title(self) -> str:
        return NAMES[self.target] + ("" if self.consistency == "row" else f", --consistency {self.consistency}")

    @property
    @abstractmethod
    def longest(self) -> int:
        """Trials of a chain, at most: what there is to list grows with them."""

    def points(self) -> list[Point]:
        return [point for point in self._points() if self.point in point.name]

    def kinds(self) -> Mapping[str, Act]:
        return {name: act for name, act in self._kinds().items() if self.kind in name}

    def cells(self) -> list[Cell]:
        return [Cell(self.title, point.name, kind) for point in self.points() for kind in self.kinds()]

    @abstractmethod
    def chain(self, folder: Path, server: SqlServer | None, seed: int) -> AnyChain:
        """On an emptied target."""

    @abstractmethod
    def _points(self) -> Sequence[Point]: ...

    @abstractmethod
    def _kinds(self) -> Mapping[str, Act]: ...

    def _empty(self, folder: Path, server: SqlServer | None) -> Target:
        flags = ("--consistency", self.consistency)
        if self.target in FORMATS:
            return LakeTarget(self.target, folder, *flags)
        return FileTarget(folder, *flags) if server is None else ServerTarget(server, *flags)


@dataclass(frozen=True)
class DriverPart(Part):
    """The driver, whose process loads rows too."""

    @property
    def longest(self) -> int:
        return 25

    def _kinds(self) -> Mapping[str, Act]:
        known = {"duckdb": kinds.OF_A_FILE, "tidb": kinds.OF_A_TIDB, **dict.fromkeys(FORMATS, kinds.OF_A_LAKE)}
        return {name: kinds.KINDS[name] for name in known.get(self.target, kinds.OF_A_SERVER)}

    def chain(self, folder: Path, server: SqlServer | None, seed: int) -> AnyChain:
        return Chain(folder, self._empty(folder, server), seed)

    def _points(self) -> Sequence[Point]:
        return points_of(self.target, self.consistency)


@dataclass(frozen=True)
class SparkPart(Part):
    """The processes of a Spark cluster."""

    @property
    def title(self) -> str:
        return super().title.replace(NAMES[self.target], f"{NAMES[self.target]} on a Spark cluster")

    @property
    def longest(self) -> int:
        return 200

    def _kinds(self) -> Mapping[str, Act]:
        of_a_file = self.target in ("duckdb", *FORMATS)
        return {name: spark_kinds.KINDS[name] for name in (spark_kinds.OF_A_FILE if of_a_file else spark_kinds.KINDS)}

    def chain(self, folder: Path, server: SqlServer | None, seed: int) -> AnyChain:
        return SparkChain(folder, self._empty(folder, server), seed)

    def _points(self) -> Sequence[Point]:
        return OF_TASKS
