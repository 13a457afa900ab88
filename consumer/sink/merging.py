"""What every target says of a table that upstream's tables are merged in."""

from __future__ import annotations

from consumer.errors import DdlRefused
from consumer.model.steps import ApplyDdl


def conflict(step: ApplyDdl, why: str) -> DdlRefused:
    """The error of a table that is not like those that it is to be merged with; without the statement's text."""
    return DdlRefused(
        f"{step.table} cannot be merged into {step.name}: {why}",
        hint=f"leave {step.table} out of the route or give it another target's name there, and run again; or leave it"
        " out with --tables",
    )


def rows_there(step: ApplyDdl, delete: str) -> DdlRefused:
    """The error of a new table of which rows are there; `delete` is the statement that removes them."""
    return DdlRefused(
        f"{step.name} of the target has rows of {step.table} already, from before its CREATE TABLE",
        hint=f"delete them by hand and run again: {delete}",
    )


def only_own_rows(step: ApplyDdl) -> str:
    """The note of a statement that removes a table upstream, or all of its rows."""
    return f"only the rows of {step.table} are removed from {step.name}"
