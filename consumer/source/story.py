"""The changes of one table in order, in this process: no Spark, a share at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from consumer.changes.conditions import compile_condition
from consumer.config.settings import Settings
from consumer.errors import BadConfig, TableMissing
from consumer.model.columns import Column, Family
from consumer.model.names import literal, quote
from consumer.model.texts import count_text
from consumer.source.columns import SEQ
from consumer.source.json_rows import NUMBERS
from consumer.source.options import story
from consumer.source.output import schema_of, shares
from consumer.source.planning import Plan, plan
from consumer.source.reading import batches

_HEX = re.compile("0x(?:[0-9a-fA-F]{2})+")


def ordered_changes(
    settings: Settings, table: str, key: Sequence[str], where: str, first: int, last: int | None
) -> tuple[Plan, Iterator[pa.Table]]:
    """The plan, and the changes in the order of their commit-ts, those of a transaction with the rows that went first.
    Raises as `plan_changes`."""
    found = plan_changes(settings, table, key, where, first, last)
    return found, _in_order(found)


def plan_changes(
    settings: Settings,
    table: str,
    key: Sequence[str],
    where: str,
    first: int,
    last: int | None = None,
    gap_hint: str = "",
) -> Plan:
    """The plan of the changes of a table. `key`: the values of a row's key, () for all rows. Raises BadConfig, and what
    `once` would stop the table for."""
    try:
        found = plan(story(settings, table, first, last, where), gap_hint)
    except TableMissing as missing:
        raise BadConfig(missing.sentence(), hint=missing.hint) from None
    (of_table,) = found.tables
    columns = of_table.target.columns
    own = _of_key([columns[at] for at in of_table.target.key], key) if key else ""
    given = {flag: text for flag, text in (("--where", where), ("--key", own)) if text}
    for flag, text in given.items():
        try:
            compile_condition(text, columns)
        except ValueError as problem:
            raise BadConfig(f"{flag} is refused: {problem}") from None
    text = " AND ".join(f"({one})" for one in given.values()) if len(given) > 1 else "".join(given.values())
    found = replace(found, asked=replace(found.asked, where=text))
    return replace(found, fields=tuple(schema_of(found).names))


def _in_order(found: Plan) -> Iterator[pa.Table]:
    for share in shares(found):
        rows = pa.Table.from_batches(list(batches([share], found.reader)), schema_of(found))
        if rows.num_rows:
            yield rows.sort_by(SEQ)


def _of_key(columns: Sequence[Column], values: Sequence[str]) -> str:
    """An expression that is TRUE of the row with this key. Raises BadConfig."""
    if not columns:
        raise BadConfig("--key: the table has no key", hint="name rows by --where")
    names = ", ".join(column.name for column in columns)
    if len(columns) != len(values):
        wanted, given = count_text(len(columns), "column"), count_text(len(values), "value is", "values are")
        raise BadConfig(f"--key: the key has {wanted} ({names}), and {given} given")
    return " AND ".join(f"{quote(c.name)} = {_literal(c, value)}" for c, value in zip(columns, values, strict=True))


def _literal(column: Column, value: str) -> str:
    """Texts are compared byte by byte: as the files have them."""
    if column.family in NUMBERS:
        try:
            float(value)
        except ValueError:
            raise BadConfig(f"--key: {value!r} is not a number, and {column.name} is one") from None
        return value
    if column.family is Family.BINARY and _HEX.fullmatch(value):
        return value
    if value and column.family in (Family.TEXT, Family.BINARY):
        return f"0x{value.encode(errors='surrogateescape').hex()}"
    by_bytes = " COLLATE utf8mb4_0900_bin" if column.family in (Family.TEXT, Family.ENUM) else ""
    return literal(value) + by_bytes
