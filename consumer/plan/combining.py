"""Tables whose features do not go together: rules and changefeed tell them, before anything of them is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from consumer.codec import protocol_of
from consumer.errors import CannotBeExact, Code, ConsumerError
from consumer.model.combinations import Feature, refused
from consumer.model.load import Dialect
from consumer.model.names import TableName
from consumer.model.table_rules import TableRules


def features_of(table: TableName, rules: TableRules, dialect: Dialect) -> dict[Feature, str]:
    """Those of a table, with their names."""
    found, mode, shaping = dict[Feature, str](), rules.naming.mode(table), rules.shaping_of(table)
    if mode is not None and mode.merges:
        found[Feature.MERGE] = ""
    elif mode is not None and mode.keeps_ended:
        found[Feature.MODE] = str(mode)
    if shaping is not None and (shaping.events or shaping.where):
        found[Feature.FILTER] = ""
    if shaping is not None and shaping.masks:
        found[Feature.MASK] = ""
    if dialect.timeless:
        found[Feature.NO_TIMES] = ""
    return found


def misfits(
    tables: Iterable[TableName], rules: TableRules, dialect: Dialect
) -> Iterator[tuple[TableName, ConsumerError]]:
    """The tables that cannot be as the rules have them, each with its error."""
    for table in tables:
        why = refused(features_of(table, rules, dialect), protocol_of(dialect).commit_ts) if table.table else None
        if why is not None:
            yield table, CannotBeExact(why.why, hint=why.hint, table=str(table), code=Code.RULES_CONFLICT)
