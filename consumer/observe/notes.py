"""The notes of a run: each is a warning in the log, once."""

from __future__ import annotations

from consumer.model.events import Event, Note
from consumer.observe.logs import Log


class Notes:
    """`texts` are all notes so far, each once, in order."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, Note] = {}

    @property
    def texts(self) -> list[str]:
        return list(self._known)

    def tell(self, event: Event) -> None:
        if isinstance(event, Note) and event.text not in self._known:
            self._known[event.text] = event
            about = {} if event.table is None else {"table": str(event.table)}
            self._log.warning(event.text, kind=str(event.kind), **about, count=event.count)
