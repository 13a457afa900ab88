"""The values that the settings give to a round."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.codec.protocol import Undecided
from consumer.model.load import Dialect
from consumer.model.progress import is_replay
from consumer.model.table_rules import Batches, TableRules
from consumer.plan.retention import NOT_KNOWN, Retention


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the settings say of the files."""

    dialect: Dialect
    retention: Retention = NOT_KNOWN
    """What is known of TiCDC's clean-up."""
    undecided: tuple[Undecided, ...] = ()
    """Options that are missing."""
    date_order: str = ""
    """What orders the files of date folders if rows have no commit-ts: "time", "date", or "" if it is not set."""
    accept_key_loss: bool = False
    """Whether the operator has accepted that the old keys of rows are missing if TiCDC does not split updates of
    keys."""
    accept_timestamp_key: bool = False


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """What the settings say to a round."""

    files: FileOptions
    rules: TableRules
    batches: Batches
    max_wait: float = 60.0
    """The seconds for which a call to the target is retried."""
    late_after: float | None = None
    """The lag of the slowest table, in seconds, from which on somebody is notified; None: nobody is."""
    syncpoints: int = 0
    """How many moments are kept at which all tables were complete, 0 for none."""
    name: str = "default"
    """The consumer's name."""

    @property
    def replay(self) -> bool:
        """Whether one range is replayed: none of its tables can be loaded from its CREATE TABLE on."""
        return is_replay(self.name)
