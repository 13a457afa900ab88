"""Reads the input and expected pairs of fixtures/ddl."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from consumer.ddl.definitions import statement_of
from consumer.ddl.indexes import index_changes, indexes_after
from consumer.ddl.resolve import StatementNames
from consumer.ddl.rewrite_mysql import FlavorName, RewriteContext, Rewritten, rewrite_statement
from consumer.model.actions import Action
from consumer.model.names import TableName
from consumer.model.table_definition import UNTOLD, Charset, TableIndexes

FOLDER = Path(__file__).parents[3] / "fixtures" / "ddl"


@dataclass(frozen=True)
class Written:
    """A statement as TiCDC wrote it."""

    type: int
    name: TableName
    query: str


def cases(file: str) -> list[dict[str, Any]]:
    return list(tomllib.loads((FOLDER / file).read_text())["case"])


def corpus() -> list[Written]:
    lines = (FOLDER / "corpus.sql").read_text().split("\n")[1:-1]
    written = []
    for head, query in zip(lines[::2], lines[1::2], strict=True):
        type_, database, table = json.loads(head.removeprefix("-- "))
        written.append(Written(type_, TableName(database, table), query))
    return written


def table_name(text: str) -> TableName:
    database, _, table = text.partition(".")
    return TableName(database, table)


def known_indexes(statements: list[str] | None) -> TableIndexes:
    """A table after the statements of a case, each with its number as its version; one that starts with - was not
    executed in the target."""
    known = UNTOLD
    for version, text in enumerate(statements or [], 1):
        known = indexes_after(
            known, index_changes(statement_of(text.removeprefix("-"))), version, skipped=text.startswith("-")
        )
    return known


def run(case: dict[str, Any], flavor: FlavorName) -> Rewritten:
    own = TableName(case.get("database", "d"), case.get("table", "t"))
    known = [table_name(text) for text in case.get("known", [])]
    planned = [table_name(text) for text in case.get("planned", [])]
    old = table_name(case["old"]) if "old" in case else None
    place = RewriteContext(
        flavor,
        StatementNames(known, own, old, planned),
        case.get("version", 1 << 18),
        case.get("collations"),
        known_indexes(case.get("before")),
        known_indexes(case.get("there")) if "there" in case else None,
        Charset(*case["charset"]) if "charset" in case else None,
        case.get("key_partitioned", False),
    )
    return rewrite_statement(statement_of(case["input"]), Action(case.get("action", 61)), place)
