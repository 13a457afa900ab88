"""The audit row of rows that took the target's defaults in columns that upstream's rows do not have."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.model.load import LoadOutcome
from consumer.model.progress import AuditRow


def completed(outcome: LoadOutcome, defaulted: int) -> Iterator[AuditRow]:
    """None where there are none."""
    if defaulted:
        target, window = outcome.task.target, outcome.task.window
        text = f"rows new in the target, with its defaults in: {', '.join(target.own)}"
        yield AuditRow("complete", target.table, window.after, window.end, puts=defaulted, statement=text)
