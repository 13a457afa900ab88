"""Finds tables whose features do not go together. Rules and changefeed show that before anything of the tables is
read."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.codec import protocol_of
from consumer.errors import CannotBeExact, Code, ConsumerError
from consumer.model.combinations import Feature, forbidden_combination
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.progress import Progress
from consumer.model.table_rules import TableRules
from consumer.plan.assembly import Assembly
from consumer.plan.options import RoundOptions


def cannot_begin(
    assembly: Assembly, progress: Progress, options: RoundOptions
) -> Iterator[tuple[TableName, ConsumerError]]:
    """Yields the tables that a round stops as it opens, each with its error: those whose files are wrong, and those
    whose rules do not go together."""
    rules, dialect = options.rules, options.files.dialect
    yield from assembly.errors(progress, rules.accept_gap)
    for table in filter(rules.wanted, assembly.tables):
        why = (
            forbidden_combination(_features(table, rules, dialect), protocol_of(dialect).commit_ts)
            if table.table
            else None
        )
        if why is not None:
            yield table, CannotBeExact(why.why, hint=why.hint, table=str(table), code=Code.RULES_CONFLICT)


def _features(table: TableName, rules: TableRules, dialect: Dialect) -> dict[Feature, str | bool]:
    mode, shaping = rules.naming.mode(table), rules.shaping_of(table)
    return {
        Feature.MERGE: mode is not None and mode.merges,
        Feature.MODE: str(mode) if mode is not None and mode.keeps_ended else "",
        Feature.FILTER: shaping is not None and bool(shaping.events or shaping.where),
        Feature.MASK: shaping is not None and bool(shaping.masks),
        Feature.NO_TIMES: dialect.timeless,
    }
