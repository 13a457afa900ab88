"""docs/types.md is what the type cases say, and they leave no type out."""

from __future__ import annotations

from pathlib import Path

from consumer.model.columns import Family
from tests.support.type_cases import FAMILIES
from tests.support.type_table import document

DOC = Path(__file__).parent.parent / "docs" / "types.md"
TYPES = {
    *("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "BIT", "YEAR", "FLOAT", "DOUBLE", "DECIMAL"),
    *("CHAR", "VARCHAR", "BINARY", "VARBINARY", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"),
    *("TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "DATE", "TIME", "DATETIME", "TIMESTAMP"),
    *("JSON", "ENUM", "SET", "VECTOR"),
}


def test_the_document_is_the_generated_one() -> None:
    assert DOC.read_text(encoding="utf-8") == document(), "run: python -m tests.support.type_table docs/types.md"


def test_every_type_has_a_case_and_every_case_a_name_of_its_own() -> None:
    columns = [case.column for cases in FAMILIES.values() for case in cases]
    assert {column.type for column in columns} == TYPES
    assert {column.family for column in columns} == set(Family)
    assert len({column.name for column in columns}) == len(columns)
