"""Statements for a person to run, as lines of JSON; and that person."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from consumer.model.load import LoadTarget
from consumer.target import ArrowTable
from tests.simulate.machine import Failure

CLEARS, SETS, ADDS = "remove", "update", "insert"
Row = dict[str, str | None]


class LinesOfJson:
    """The `Script` of a simulated target."""

    exchanges: ClassVar[bool] = True

    def begin(self, generation: str) -> bytes:
        return b""

    def write(self, target: LoadTarget, rows: ArrowTable, there: bool) -> Iterator[bytes]:
        return _lines(SETS if there else ADDS, target, rows)

    def remove(self, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
        return _lines(CLEARS, target, rows)

    def copies(self, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
        raise NotImplementedError("rows of a table without a key are made right by nobody here")

    def end(self) -> bytes:
        return b""


def run(lines: Sequence[str], rows: Iterable[Row]) -> list[Row]:
    """What they make of `rows` of a table. Raises Failure where a statement does not find them as it is meant for."""
    if not lines:
        return list(rows)
    key = key_of(lines)
    found = {tuple(map(row.get, key)): row for row in rows}
    for line in lines:
        what, _, values = json.loads(line)
        at = tuple(map(values.get, key))
        if (at in found) == (what == ADDS):
            raise Failure(f"a row is {'there' if what == ADDS else 'not there'} for {line}")
        old = found.pop(at, {})
        if what != CLEARS:
            found[at] = old | values
    return list(found.values())


def key_of(lines: Sequence[str]) -> tuple[str, ...]:
    """The columns by which they find rows."""
    return tuple(json.loads(lines[0])[1]) if lines else ()


def _lines(what: str, target: LoadTarget, rows: ArrowTable) -> Iterator[bytes]:
    key = [target.names[place] for place in target.key]
    for row in rows.to_pylist():
        values = {name: row[f"c{place}"] for place, name in enumerate(target.names)}
        yield f"{json.dumps([what, key, values])}\n".encode()
