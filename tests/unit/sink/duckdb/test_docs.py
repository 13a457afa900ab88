"""The documented table of types is the one that is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from consumer.model.columns import Column, Family
from consumer.sink.columnar.table import duckdb_type

DOC = Path(__file__).parents[4] / "docs" / "duckdb.md"
ROWS = re.findall(
    r"^\| ([A-Z]+)( UNSIGNED)?(?:\((\d+),(\d+)\))? \| ([A-Z\[\]0-9(),]+) \|", DOC.read_text(encoding="utf-8"), re.M
)


@pytest.mark.parametrize(("type_", "unsigned", "length", "scale", "documented"), ROWS)
def test_types_are_as_documented(type_: str, unsigned: str, length: str, scale: str, documented: str) -> None:
    column = Column("c", type_, bool(unsigned), int(length) if length else None, int(scale) if scale else None)
    assert duckdb_type(column) == documented


def test_every_family_is_documented() -> None:
    assert {Column("c", row[0]).family for row in ROWS} == set(Family)
