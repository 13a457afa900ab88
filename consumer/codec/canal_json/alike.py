"""Reads lines of canal-JSON as columns without a parser, if they are like a line that the parser has read.

TiCDC writes the rows of a table alike: what stands between the values is the same in all of them. A line of which this
is proven needs no parser. All others are left to the parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from consumer.codec.canal_json.rows import MAX_ES, CanalRows, NotRows, RowParser
from consumer.codec.canal_json.template import Fixed, FormPiece, Path, line_form
from consumer.codec.canal_json.walk import BlockLines, Walk
from consumer.codec.change_table import Ints
from consumer.model.load import LoadTarget
from consumer.model.times import LOGICAL_BITS

LEAST_LINES = 256
"""For fewer lines the parser is as fast."""
_LEAST_BYTES = 64
"""No row is as short: a block of such lines would have millions."""
_LEAST_GAIN = 3
"""A block is worth it if the parser is left with at most one line of this many: with 2 it cost more than it saved."""
_MOST_KINDS = 4
"""INSERT, UPDATE and DELETE, and one more."""
_Part = tuple[Ints, CanalRows]
"""Some rows of a block, with their numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Lines of one form. `shown` is the row of the line that the form was taken from: it has everything that is no
    value."""

    form: Sequence[FormPiece]
    shown: CanalRows

    @property
    def time(self) -> Path:
        """The path of the rows' time."""
        return ("_tidb", "commitTs") if self.shown.exact[0] else ("es",)


class AlikeLines:
    """Reads what `parser` reads, for one target. `taken` is how many lines needed no parser."""

    def __init__(self, target: LoadTarget, parser: RowParser) -> None:
        self._parser = parser
        self._names = [*(column.name for column in target.columns), *target.barred]
        self._key = [self._names[position] for position in target.key]
        self._kinds: list[_Kind] = []
        self._worth_it = True
        self.taken = 0

    def parse(self, text: bytes) -> CanalRows:
        """Returns what the parser returns for these lines. Raises ValueError if the parser does."""
        rows = self._parsed(text) if self._worth_it and text.endswith(b"\n") else None
        return self._parser.parse(text) if rows is None else rows

    def _parsed(self, text: bytes) -> CanalRows | None:
        count = text.count(b"\n")
        if not LEAST_LINES <= count <= len(text) // _LEAST_BYTES or (lines := BlockLines.of(text)) is None:
            return None
        parts = list(self._alike(lines))
        needs_parser = np.ones(count, np.bool_)
        for numbers, _ in parts:
            needs_parser[numbers] = False
        other_lines = np.flatnonzero(needs_parser)
        self._worth_it = _LEAST_GAIN * len(other_lines) <= count
        if not self._worth_it:
            return None
        if other_lines.size:
            rows = self._parser.parse(b"".join(lines.line(number) + b"\n" for number in other_lines.tolist()))
            if rows.count != len(other_lines):
                return None  # blank lines are no rows
            parts.append((other_lines, rows))
        self.taken += count - len(other_lines)
        return parts[0][1] if len(parts) == 1 else _together(parts)

    def _alike(self, lines: BlockLines) -> Iterator[_Part]:
        """Yields the rows of each kind of lines."""
        unread = lines.plain.copy()
        untried = list(self._kinds)
        while unread.any():
            numbers = np.flatnonzero(unread)
            kind = untried.pop(0) if untried else self._learned(lines.line(int(numbers[0])))
            if kind is None:
                return
            walk = Walk(lines, numbers, kind.form)
            if walk.rows.size:
                unread[walk.rows] = False
                yield walk.rows, self._rows(walk, kind, lines.ascii)
            else:  # the next block is like this one: other kinds come first
                self._kinds.remove(kind)
                self._kinds.append(kind)

    def _learned(self, line: bytes) -> _Kind | None:
        """Returns the kind of a line."""
        if len(self._kinds) == _MOST_KINDS or (form := line_form(line)) is None:
            return None
        try:
            shown = self._parser.parse(line + b"\n")
        except ValueError:
            return None
        kind = _Kind(form, shown)
        if not any(isinstance(piece, Fixed) and kind.time in piece.numbers for piece in form):
            return None
        self._kinds.append(kind)
        return kind

    def _rows(self, walk: Walk, kind: _Kind, ascii_only: bool) -> CanalRows:
        count, shown = len(walk.rows), kind.shown
        data = walk.texts([("data", name) for name in self._names])
        has_old = bool(shown.old_rows.size)
        old = [pa.array([], pa.large_string())] * len(self._key)
        if has_old:
            old = walk.texts([("old", name) for name in self._key])
        for texts in [] if ascii_only else [*data, *old]:
            texts.validate(full=True)
        nulls = pa.nulls(count, pa.large_string())
        types = [pa.repeat(type_texts[0], count) if type_texts[0].is_valid else nulls for type_texts in shown.types]
        exact = bool(shown.exact[0])
        return CanalRows(
            np.full(count, shown.update[0]),
            np.full(count, shown.delete[0]),
            walk.number(kind.time) if exact else _shifted(walk.number(kind.time)),
            np.full(count, exact),
            data,
            types,
            old,
            np.arange(count if has_old else 0),
        )


def _shifted(milliseconds: Ints) -> Ints:
    if np.any(milliseconds >= MAX_ES):
        raise NotRows("es")
    return milliseconds << LOGICAL_BITS


def _together(parts: Sequence[_Part]) -> CanalRows:
    """Joins the parts in the order of the lines."""
    order = np.argsort(np.concatenate([numbers for numbers, _ in parts]))
    old_rows = np.concatenate([numbers[rows.old_rows] for numbers, rows in parts])
    old_order = np.argsort(old_rows)

    def texts(columns: Sequence[Sequence[pa.Array]], order: Ints) -> list[pa.Array]:
        return [pa.concat_arrays(column).take(pa.array(order)) for column in zip(*columns, strict=True)]

    all_rows = [rows for _, rows in parts]
    return CanalRows(
        np.concatenate([rows.update for rows in all_rows])[order],
        np.concatenate([rows.delete for rows in all_rows])[order],
        np.concatenate([rows.ts for rows in all_rows])[order],
        np.concatenate([rows.exact for rows in all_rows])[order],
        texts([rows.data for rows in all_rows], order),
        texts([rows.types for rows in all_rows], order),
        texts([rows.old for rows in all_rows], old_order),
        old_rows[old_order],
    )
