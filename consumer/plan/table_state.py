"""Where one table is in a round."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from consumer.errors import ConsumerError
from consumer.model.files import DataFile, Folder
from consumer.model.names import TableName
from consumer.plan.unread import Unread


@dataclass(slots=True)
class TableState:
    """Every row up to `position` is in the target, or was found not to exist. `put_off` are the paths of files that
    this round leaves unread. `settled` are folders of which a writer moved the table: what is unread there was read up
    to where the round began."""

    name: TableName
    position: int
    unread: list[Unread]
    round_bytes: int
    error: ConsumerError | None = None
    boundaries: set[int] = field(default_factory=set)
    put_off: set[str] = field(default_factory=set)
    settled: Collection[Folder] = ()

    def lost_rows(self, version: int) -> bool:
        """Whether files from before `version` were not read to their rows below it, though the table is past it."""
        unread = (entry for entry in self.unread if entry.file.folder.version < version)
        return any(entry.next_ts < version and entry.file.folder not in self.settled for entry in unread)

    def begin(self, version: int) -> None:
        """The table's rows begin again at `version`: older folders hold none of them."""
        self.unread = [entry for entry in self.unread if entry.file.folder.version >= version]

    def give_up(self, lost: Collection[DataFile]) -> None:
        """The table goes on, if it was stopped, and will never read `lost`."""
        gone = {file.path for file in lost}
        self.unread = [entry for entry in self.unread if entry.file.path not in gone]
        self.error = None
