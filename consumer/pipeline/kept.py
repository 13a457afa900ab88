"""Tables that another consumer of the same target keeps: what one does to them the other does not know."""

from __future__ import annotations

from consumer.errors import DdlRefused
from consumer.model.names import TableName
from consumer.ports import Sink


def kept_elsewhere(sink: Sink, table: TableName | None) -> DdlRefused | None:
    """Why this consumer must leave `table` alone; None where it need not."""
    other = sink.kept_elsewhere([table]).get(table) if table is not None else None
    if other is None:
        return None
    return DdlRefused(
        f"the consumer {other!r} of this target keeps {table}, and two must not write to it",
        hint="give this one another --downstream-uri, or leave the table out of one of the two with --tables",
        table=str(table),
    )
