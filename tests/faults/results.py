"""What trials came to: kept in a file, a line of JSON for each, and printed as tables."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """Of the table `title`: what was done to whom, and where."""

    title: str
    point: str
    kind: str


@dataclass(frozen=True)
class Result:
    """`number` counts the cell's trials, from 0; `first` and `runs` as of an Outcome."""

    cell: Cell
    number: int
    first: int
    runs: tuple[int, ...]
    differences: tuple[str, ...]
    seconds: float


class Results:
    """Those that `path` holds already count too. None: they are kept nowhere. For several threads."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._writing = path, threading.Lock()
        self._found: dict[tuple[Cell, int], Result] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                self._add(_parsed(line))

    def keep(self, result: Result) -> None:
        with self._writing:
            self._add(result)
            if self._path is not None:
                with self._path.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")

    def has(self, cell: Cell, number: int) -> bool:
        return (cell, number) in self._found

    def whole(self, cells: Sequence[Cell]) -> int:
        """How often each of them was played."""
        number = 0
        while all((cell, number) in self._found for cell in cells):
            number += 1
        return number

    def wrong(self) -> list[Result]:
        return [result for result in self._found.values() if result.differences]

    def table(self, cells: Sequence[Cell]) -> str:
        """Of one title, as far as all its cells have had the same number of trials, in Markdown: how many ended right,
        and behind them the exit codes of the commands that met the fault."""
        kinds = list(dict.fromkeys(cell.kind for cell in cells))
        lines = [f"| point | {' | '.join(kinds)} |", "| --- |" + " --- |" * len(kinds)]
        for point in dict.fromkeys(cell.point for cell in cells):
            row = [Cell(cells[0].title, point, kind) for kind in kinds]
            lines.append(f"| {point} | {' | '.join(self._text(cell, self.whole(cells)) for cell in row)} |")
        return "\n".join(lines)

    def _text(self, cell: Cell, whole: int) -> str:
        found = [self._found[cell, number] for number in range(whole) if (cell, number) in self._found]
        right = sum(not result.differences for result in found)
        codes = Counter(result.first for result in found)
        ends = ", ".join(str(code) if len(codes) == 1 else f"{code}: {n}" for code, n in sorted(codes.items()))
        return f"{right}{'' if right == len(found) else f' of {len(found)}'} ({ends})" if found else ""

    def _add(self, result: Result) -> None:
        self._found[result.cell, result.number] = result


def _parsed(line: str) -> Result:
    members = json.loads(line)
    cell = Cell(**members.pop("cell"))
    members["runs"], members["differences"] = tuple(members["runs"]), tuple(members["differences"])
    return Result(cell, **members)
