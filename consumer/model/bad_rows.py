"""Rows that are quarantined, so that their table can go on without them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from consumer.errors import RowsQuarantined, TooManyBadRows
from consumer.model.names import TableName
from consumer.model.times import MAX_TSO

ROW_DIGITS = 16
"""Of an id: they tell which row it is. Of a refused row of a table with no key the place of its line follows."""


@dataclass(frozen=True, slots=True)
class BadRowAction:
    """What a table does at a bad row: it stops, or up to `most` of its bad rows are quarantined."""

    most: int = 0

    @property
    def quarantines(self) -> bool:
        return self.most > 0


STOP = BadRowAction()


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What becomes of a table's bad rows: they are quarantined, and the table goes on."""

    most: int
    """So many of its rows may be bad."""
    uneven: bool = False
    """Some of its rows lack columns that others have; those are bad, else the load is planned again without the
    columns."""
    known: frozenset[str] | None = None
    """Only lines with these ids are quarantined; None: all."""
    kept: frozenset[str] | None = None
    """Of a table with no key, only rows with ids that begin so are recorded already, and nothing is written while there
    are others; None: that comes with the load."""

    def check_kept(self, rows: Collection[BadRow]) -> None:
        """Raises RowsQuarantined where some of the rows are to be recorded first."""
        if self.kept is not None and any(row.id[:ROW_DIGITS] not in self.kept for row in rows):
            raise RowsQuarantined("bad rows are recorded before the others are written", rows=tuple(rows))


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that cannot be decoded, or a row that the target refuses.

    `id` is the same wherever and whenever the row is met. `line` (from 1) and `offset` are its place in the file
    `path`; 0, -1 and "" where it is not known. `version` is the folder's. `commit_ts` is 0 where it is not known. `raw`
    is the line with its end, or `row` has the values by column (binary as bytes); what is recorded in the progress has
    neither. `letter` is the path of its file below `dead-letters`. `identity` of a refused row, by which its line is
    found: see `errors.RowRefused`.
    """

    id: str
    reason: str
    path: str = ""
    line: int = 0
    offset: int = -1
    version: int = 0
    commit_ts: int = 0
    letter: str = ""
    raw: bytes = b""
    row: tuple[tuple[str, str | bytes | None], ...] = ()
    identity: tuple[int, bool] | None = None

    @property
    def record(self) -> BadRow:
        """What the progress keeps of it."""
        return replace(self, raw=b"", row=(), identity=None)

    @property
    def place(self) -> str:
        """``path:line``, as far as it is known."""
        return f"{self.path}:{self.line}" if self.path and self.line else self.path


def refused_row(
    reason: str, identity: int, put: bool, keyed: bool, commit_ts: int = 0, row: tuple[tuple[str, Any], ...] = ()
) -> BadRow:
    """A row that the target refuses. Of a table with a key the id is the key's: of two changes the later one counts."""
    name = f"{identity:016x}" if keyed else f"{identity:016x}-{'put' if put else 'gone'}"
    return BadRow(name, reason, commit_ts=commit_ts, row=row, identity=(identity, put))


def first_of(rows: Collection[BadRow]) -> str:
    """The first of some rows, as a person is told of it."""
    row = min(rows, key=lambda row: (row.commit_ts or MAX_TSO, row.path, row.line))
    return f"{row.place}: {row.reason}" if row.path else row.reason


def too_many(most: int, last: BadRow) -> TooManyBadRows:
    """The error of a table that has more bad rows than may be quarantined; `last` is one of them."""
    return TooManyBadRows(
        f"more than {most} of its rows are bad, which is what max-bad-rows allows; this is one: {last.reason}",
        hint="mend what the reason names; or raise max-bad-rows in [consumer] of the file of --config, then run again",
        path=last.path,
        line=last.line or None,
    )


BadRows = dict[TableName, dict[str, BadRow]]
"""By table, those of it by their ids."""


T = TypeVar("T")


def moved(
    rows: Mapping[TableName, dict[str, T]], moves: Mapping[TableName, Collection[TableName]]
) -> dict[TableName, dict[str, T]]:
    """`rows`, or what else tables lack, once those of each table in `moves` are in these, or nowhere any more: all at
    once."""
    stay = {table: found for table, found in rows.items() if table not in moves}
    for old, places in moves.items():
        for new in places if old in rows else ():
            stay[new] = stay.get(new, {}) | rows[old]
    return stay
