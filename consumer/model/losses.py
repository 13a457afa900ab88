"""Losses that the operator has accepted: what a table lacks, or may lack, so that it need not stop."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from consumer.errors import ConsumerError, located
from consumer.model.names import TableName


@dataclass(frozen=True, slots=True)
class Loss:
    """An accepted loss. `reason` is a sentence that names the files. `path` is the file or folder that shows it, "" for
    none. The rows have commit-ts above `after`, up to `upto`; 0: all later ones, too."""

    reason: str
    path: str
    after: int
    upto: int

    @classmethod
    def of(cls, error: ConsumerError, after: int, upto: int) -> Loss:
        """Returns what is lost if a table does not stop at `error`."""
        return cls(error.message, error.path, after, upto)

    @property
    def id(self) -> str:
        """The same whenever the loss is met."""
        return hashlib.sha256(f"{self.path}\0{self.reason}".encode()).hexdigest()[:32]

    def sentence(self) -> str:
        """Returns what is lost, with its place and its range."""
        rows = f"commit-ts above {self.after}" + (f" up to {self.upto}" if self.upto else "")
        return f"{located(self.reason, self.path)} (rows of {rows})"


Losses = dict[TableName, dict[str, Loss]]
"""By table, its losses by their ids."""
