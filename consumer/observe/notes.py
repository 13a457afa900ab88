"""The notes of a run: each is a warning in the log, once. A run of months keeps a bounded number of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from consumer.model.events import Event, Note, NoteKind
from consumer.model.names import TableName
from consumer.observe.logs import Log

_MOST = 10_000
_COUNTED = frozenset({NoteKind.LOST_TEXT, NoteKind.DOUBLED_TIME})
"""Notes that each load has about its own rows: their counts add up."""


@dataclass(slots=True)
class _Sum:
    """The last note of one kind and table, the sum of all its counts, and that sum when it was logged last."""

    last: Note
    total: int = 0
    logged: int = 0

    @property
    def text(self) -> str:
        more = f"; {self.total:,} such values in this run so far"
        return self.last.text + (more if self.total > self.last.count else "")


class Notes:
    """`texts` are the notes so far, each once. Notes whose counts add up become one for each kind and table, which is
    logged again when its sum has doubled."""

    def __init__(self, log: Log, most: int = _MOST) -> None:
        self._log, self._most = log, most
        self._known: dict[str, None] = {}
        self._sums: dict[tuple[NoteKind, TableName | None], _Sum] = {}

    @property
    def texts(self) -> list[str]:
        return [*self._known, *(one.text for one in self._sums.values())]

    def tell(self, event: Event) -> None:
        if isinstance(event, Note):
            (self._add if event.kind in _COUNTED else self._once)(event)

    def _once(self, note: Note) -> None:
        is_new = note.text not in self._known
        self._known.pop(note.text, None)
        self._known[note.text] = None  # the last ones that were reported stay
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        if is_new:
            self._warn(note)

    def _add(self, note: Note) -> None:
        one = self._sums.setdefault((note.kind, note.table), _Sum(note))
        one.last, one.total = note, one.total + note.count
        if one.total >= 2 * one.logged:
            one.logged = one.total
            self._warn(replace(note, text=one.text, count=one.total))

    def _warn(self, note: Note) -> None:
        about = {} if note.table is None else {"table": str(note.table)}
        self._log.warning(note.text, kind=str(note.kind), **about, count=note.count)
