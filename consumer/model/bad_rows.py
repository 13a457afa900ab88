"""Rows that are quarantined, so that their table can continue without them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from consumer.errors import RowsQuarantined, TooManyBadRows
from consumer.model.names import TableName
from consumer.model.times import MAX_TSO

ROW_DIGITS = 16
"""The digits of an id that identify the row. For a refused row of a table with no key the place of its line follows."""


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
    """Tells that a table's bad rows are quarantined, and how."""

    most: int
    """The number of its rows that may be bad."""
    uneven: bool = False
    """Whether some of its rows lack columns that others have; those are bad. Otherwise the load is planned again
    without the columns."""
    only_ids: frozenset[str] | None = None
    """Only lines with these ids are quarantined; None: all."""
    recorded_ids: frozenset[str] | None = None
    """For a table with no key: only rows whose ids begin so are recorded already, and nothing is written while there
    are others. None: they are recorded with the load."""

    def check_kept(self, rows: Collection[BadRow]) -> None:
        """Raises RowsQuarantined if some of the rows must be recorded first."""
        if self.recorded_ids is not None and any(row.id[:ROW_DIGITS] not in self.recorded_ids for row in rows):
            raise RowsQuarantined("bad rows are recorded before the others are written", rows=tuple(rows))


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that cannot be decoded, or a row that the target refuses.

    `id` is the same wherever and whenever the row is met. `line` (from 1) and `offset` are its place in the file
    `path`; 0, -1 and "" if it is not known. `version` is the folder's. `commit_ts` is 0 if it is not known. `raw` is
    the line with its end, or `row` has the values by column (binary as bytes); the record in the progress has neither.
    `letter` is the path of its file below `dead-letters`. `identity` of a refused row serves to find its line: see
    `errors.RowRefused`.
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
        """The part of it that the progress keeps."""
        return replace(self, raw=b"", row=(), identity=None)

    @property
    def place(self) -> str:
        """``path:line``, as far as it is known."""
        return f"{self.path}:{self.line}" if self.path and self.line else self.path


def refused_row(
    reason: str, identity: int, put: bool, keyed: bool, commit_ts: int = 0, row: tuple[tuple[str, Any], ...] = ()
) -> BadRow:
    """Returns a row that the target refuses. For a table with a key the id is the key's: of two changes the later one
    counts."""
    name = f"{identity:016x}" if keyed else f"{identity:016x}-{'put' if put else 'gone'}"
    return BadRow(name, reason, commit_ts=commit_ts, row=row, identity=(identity, put))


def first_row_text(rows: Collection[BadRow]) -> str:
    """Returns a text about the first of some rows, for people."""
    row = min(rows, key=lambda row: (row.commit_ts or MAX_TSO, row.path, row.line))
    return f"{row.place}: {row.reason}" if row.path else row.reason


def too_many_error(most: int, last: BadRow) -> TooManyBadRows:
    """Returns the error of a table that has more bad rows than may be quarantined; `last` is one of them."""
    return TooManyBadRows(
        f"more than {most} of its rows are bad, which is what max-bad-rows allows; this is one: {last.reason}",
        hint="correct what the reason names; or raise max-bad-rows in [consumer] of the file of --config, then run"
        " again",
        path=last.path,
        line=last.line or None,
    )


BadRows = dict[TableName, dict[str, BadRow]]
"""By table, its bad rows by their ids."""


T = TypeVar("T")


def moved_by_table(
    rows: Mapping[TableName, dict[str, T]], moves: Mapping[TableName, Collection[TableName]]
) -> dict[TableName, dict[str, T]]:
    """Returns `rows`, or other things that tables lack, once those of each table in `moves` are missing in the tables
    that it maps to, which can be none. All moves are done at once."""
    stay = {table: own for table, own in rows.items() if table not in moves}
    for old, places in moves.items():
        for new in places if old in rows else ():
            stay[new] = stay.get(new, {}) | rows[old]
    return stay
