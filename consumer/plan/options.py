"""What the settings say to a round: values."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.codec.protocol import Undecided
from consumer.model.load import Dialect
from consumer.model.progress import is_replay
from consumer.model.table_rules import Batches, TableRules
from consumer.plan.retention import NOT_KNOWN, Retention


@dataclass(frozen=True, slots=True)
class FilesKnown:
    """What the settings say of the files."""

    dialect: Dialect
    retention: Retention = NOT_KNOWN
    """What is known of TiCDC's clean-up."""
    undecided: tuple[Undecided, ...] = ()
    """Options that are missing."""
    date_order: str = ""
    """What orders the files of date folders where rows have no commit-ts: "time", "date", or "" if it is not set."""
    accept_key_loss: bool = False
    """The operator has accepted that the old keys of rows are missing where TiCDC does not split updates of keys."""
    accept_timestamp_key: bool = False


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """What the settings say to a round."""

    files: FilesKnown
    rules: TableRules
    batches: Batches
    max_wait: float = 60.0
    """For how many seconds a call to the target is retried."""
    late_after: float | None = None
    """How many seconds the slowest table may be behind before somebody is notified; None: nobody is."""
    syncpoints: int = 0
    """How many moments are kept at which all tables were complete, 0 for none."""
    name: str = "default"
    """The consumer's."""

    @property
    def replay(self) -> bool:
        """Whether it applies one range: none of its tables can be loaded from its CREATE TABLE on."""
        return is_replay(self.name)
